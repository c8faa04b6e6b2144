"""One step of a coding agent's session: take the session up, show it the step, put it aside again.

All of it is one transaction, so hooks that run at the same time come one after the other, and a hook that
is killed has done nothing.
"""

import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import structs

from steadyhelm.declarations import parse_declarations
from steadyhelm.engine.capture import Capture
from steadyhelm.engine.health import Health
from steadyhelm.engine.sessions import Sessions
from steadyhelm.errors import NotFoundError
from steadyhelm.events import RunInfo
from steadyhelm.hooks.memory import HookMemory, joined, memory_in
from steadyhelm.hooks.session_step import Turn
from steadyhelm.parts import detector_factory, make_steering
from steadyhelm.recordings.hook_events.hook_step import NOTHING, HookAnswer, HookStep
from steadyhelm.redaction import Redactor
from steadyhelm.sink import Loss, SavedState
from steadyhelm.sinks.store import StoreSink

if TYPE_CHECKING:
    from steadyhelm.decisions import Verdict
    from steadyhelm.detector import Detector
    from steadyhelm.engine.session import Session
    from steadyhelm.recordings.hook_events.dialects import HookDialect
    from steadyhelm.settings import Settings
    from steadyhelm.store import Store

SUBAGENT: Final = "/subagent"
_LONGEST_GOAL: Final = 4000
_TIMES_TAKEN_UP: Final = 50
_LATE_S: Final = 5.0
"""How long after the agent told of it a step may be taken in for which nobody waits."""


class Parts(NamedTuple):
    """What does not change between two steps: worth keeping while a process lives."""

    settings: "Settings"
    make_detectors: "Callable[[], Collection[Detector]]"
    capture: Capture
    health: Health


def parts_for(settings: "Settings") -> Parts:
    """The parts that these settings call for; raises SettingsError when they make no sense."""
    health = Health()
    redactor = Redactor(key_words=settings.redaction_keys, patterns=settings.redaction_patterns)
    return Parts(settings, detector_factory(settings, health), Capture(redactor, settings.payloads), health)


class Watch:
    """Watches the sessions of one coding agent, a step at a time.

    Args:
        parts: What the settings call for.
        dialect: Which agent it is.
        store: Where its sessions are.
        clock: The time.
    """

    def __init__(
        self, parts: Parts, dialect: "HookDialect", store: "Store", clock: Callable[[], float] = time.time
    ) -> None:
        self._parts = parts
        self._dialect = dialect
        self._store = store
        self._clock = clock

    def take(self, step: HookStep, *, late: bool = False) -> HookAnswer:
        """Take one step in, and say what there is to say to it; when it is `late`, with the next one."""
        if step.kind == "other" or not step.session_id:
            return NOTHING
        with self._store.transaction():
            turn = self._begun(step, late=late)
            if turn is None or not turn.memory.is_new(step.once):
                return NOTHING if turn is None else self._kept(turn, NOTHING)
            answer = turn.take(step)
            return self._kept(turn, answer)

    def _kept(self, turn: "Turn", answer: HookAnswer) -> HookAnswer:
        now = self._clock()
        records = list(turn.records)
        if not turn.has_ended:
            run, state = turn.session.run, joined(turn.session.state(), turn.memory)
            records.append(SavedState(run.agent_id, run.run_id, state, now))
        fresh = self._parts.health.take_fresh().items()
        records.extend(Loss(reason, count, now) for reason, count in fresh)
        # Old records are removed by whoever has time for it, never while an agent waits.
        sink = StoreSink(
            self._store, calibration_runs=self._parts.settings.calibration_runs, clock=lambda: 0.0
        )
        sink.write(records)
        return answer

    def _begun(self, step: HookStep, *, late: bool) -> "Turn | None":
        """The session this step belongs to; a session that had ended goes on as a run of its own."""
        settings = self._parts.settings
        agent = self._dialect.agent + (SUBAGENT if step.part else "")
        sessions = Sessions(
            agent,
            make_detectors=lambda: list(self._parts.make_detectors()),
            store=self._store,
            health=self._parts.health,
            mode=settings.mode,
            calibration_runs=settings.calibration_runs,
            tools=parse_declarations(settings.tools),
            steering=make_steering(settings),
            clock=self._clock,
        )
        info = RunInfo(
            agent_id=agent,
            run_id=step.run_id,
            started_at=self._clock(),
            version=settings.version,
            parent_run_id=step.session_id if step.part else None,
        )
        can = self._dialect.can.get(step.kind, frozenset(("proceed", "guide")))
        for n in range(1, _TIMES_TAKEN_UP):
            info = structs.replace(info, run_id=step.run_id if n == 1 else f"{step.run_id}~{n}")
            state = self._store.take_state(agent, info.run_id)
            session = sessions.resume(info, state, can=can) if state is not None else None
            if session is not None and state is not None:
                return self._turn(session, memory_in(state), late=late)
            if not self._is_kept(agent, info.run_id):
                is_over = step.kind == "end" or (n > 1 and step.kind == "reply" and step.error is not None)
                return None if is_over else self._opened(sessions, info, step, can, late=late)
        return None

    def _turn(self, session: "Session", memory: HookMemory, *, late: bool) -> "Turn":
        speaks = frozenset() if late else self._dialect.speaks
        return Turn(session, memory, self._parts.capture, speaks, self._clock, late=late)

    def _opened(
        self, sessions: Sessions, info: RunInfo, step: HookStep, can: "Collection[Verdict]", *, late: bool
    ) -> "Turn":
        goal = self._parts.capture.text(step.text[:_LONGEST_GOAL]) if step.kind == "prompt" else ""
        session = sessions.begin(structs.replace(info, goal=goal), can=can)
        is_new_file = bool(step.part) and info.run_id == step.run_id
        since = 0.0 if is_new_file else info.started_at - (_LATE_S if late else 0.0)
        turn = self._turn(session, HookMemory(since=since), late=late)
        turn.records.append(session.run)
        return turn

    def _is_kept(self, agent: str, run_id: str) -> bool:
        try:
            return self._store.find_run(run_id, agent_id=agent).run_id == run_id
        except NotFoundError:
            return False
