"""Resume a coding agent's session for one step, record the step, and save the session again.

All of it is one transaction, so hooks that run at the same time come one after the other, and a hook that
is killed has done nothing.
"""

import time
from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import structs

from steadyhelm.bounded import BoundedDict
from steadyhelm.components import make_detector_factory, make_redactor, make_steering, make_store_sink
from steadyhelm.declarations import parse_declarations
from steadyhelm.engine.agent_knowledge import Reference, StoredKnowledge, take_suspended
from steadyhelm.engine.capture import Capture
from steadyhelm.engine.daily_ledger import DailyLedger
from steadyhelm.engine.health import Health
from steadyhelm.engine.run_recorder import RunRecorder
from steadyhelm.engine.run_services import RunServices
from steadyhelm.engine.session import Session
from steadyhelm.engine.session_factory import SessionFactory
from steadyhelm.errors import NotFoundError, SteadyhelmError
from steadyhelm.events import RunInfo
from steadyhelm.hooks.background import HookAlerts, HookJudging
from steadyhelm.hooks.request import Deadline
from steadyhelm.hooks.session_step import HookMemory, SessionStep, read_memory
from steadyhelm.judging.questioner import Questioner
from steadyhelm.recordings.hook_events.hook_step import NOTHING, HookAnswer, HookStep
from steadyhelm.recordings.hook_events.transcript_usage import TranscriptPart, read_transcript
from steadyhelm.sink import Record, SavedState

if TYPE_CHECKING:
    from steadyhelm.decisions import Verdict
    from steadyhelm.detector import Detector
    from steadyhelm.recordings.hook_events.dialects import HookDialect
    from steadyhelm.settings import Settings
    from steadyhelm.store import Store

_GOAL_CHARS: Final = 4000
MAX_RUNS_PER_SESSION: Final = 1000
_POSITIONS_KEPT: Final = 256
_WITHOUT_TOKENS: Final = frozenset({"before_tool", "prompt", "notice"})
_LATE_S: Final = 5.0
"""How long after it happened a late step may be recorded."""
_MARK_KEPT_S: Final = 60.0
"""The note of an event that came longer ago is removed, or was listed."""


class TooManyRunsError(SteadyhelmError):
    """A session has as many runs as are looked through."""


class HookParts(NamedTuple):
    """What does not change between two steps: worth keeping while a process lives."""

    settings: "Settings"
    make_detectors: "Callable[[], Collection[Detector]]"
    capture: Capture
    health: Health
    read_to: BoundedDict[str, int]
    """How far the transcripts of runs were read by this process: where to begin reading, before the store is
    opened. What counts is the position in the session's memory."""
    alerts: HookAlerts
    judging: HookJudging


def build_hook_parts(settings: "Settings") -> HookParts:
    """Return the parts for these settings; raises SettingsError when they make no sense."""
    health = Health()
    redactor = make_redactor(settings)
    capture = Capture(redactor, settings.payloads)
    positions: BoundedDict[str, int] = BoundedDict(_POSITIONS_KEPT)
    make_detectors = make_detector_factory(settings, health)
    alerts, judging = HookAlerts(settings, health), HookJudging(settings, health)
    return HookParts(settings, make_detectors, capture, health, positions, alerts, judging)


class RecordList:
    """The records of one step, kept until they are written in the same transaction."""

    is_durable = False

    def __init__(self) -> None:
        self.records: list[Record] = []

    def put(self, epoch: str, *records: Record) -> bool:  # noqa: ARG002 - a hook's run has no other writer
        """Add records."""
        self.records.extend(records)
        return True

    def acknowledge(self) -> bool:
        """Return at once: the caller writes the records."""
        return True


class HookSessions:
    """The sessions of one coding agent, watched a step at a time.

    Args:
        parts: The parts for the settings.
        dialect: The coding agent.
        store: Has its sessions.
        clock: Returns the time.
    """

    def __init__(
        self, parts: HookParts, dialect: "HookDialect", store: "Store", clock: Callable[[], float] = time.time
    ) -> None:
        self._parts = parts
        self._dialect = dialect
        self._store = store
        self._clock = clock

    def handle(
        self,
        step: HookStep,
        *,
        late: bool = False,
        token: str = "",
        noted: Collection[str] = (),
        deadline: Deadline | None = None,
    ) -> HookAnswer:
        """Record one step and return the answer to it; when it is `late`, the answer comes with the next.

        `token` identifies the step: one that comes twice, or was counted as lost, is not recorded.
        `noted` are the tokens of steps that may come again. Raises TimeoutError and records nothing when the
        store was not free before the deadline, and TooManyRunsError for a session resumed too often.
        """
        if step.kind == "other" or not step.session_id:
            return NOTHING
        transcript = self._read_transcript(step)
        with self._store.transaction():
            if deadline is not None:
                deadline.require_time()
            if token and not self._mark_recorded(token, noted):
                return NOTHING
            opened = self._open(step, late=late)
            if opened is None:
                return NOTHING
            recorder, memory, queue = opened
            self._record_verdicts(recorder)
            speaks = frozenset() if late else self._dialect.speaks
            session = SessionStep(
                recorder, memory, self._parts.capture, speaks, transcript=transcript, late=late
            )
            answer = session.handle(step) if memory.note_once(step.once) else NOTHING
            if not session.has_ended:
                run = recorder.session.run
                queue.put(run.epoch, SavedState(run.agent_id, run.run_id, session.save(), self._clock()))
            self._write(queue.records)
        self._remember_position(step, memory, has_ended=session.has_ended)
        return answer

    def _record_verdicts(self, recorder: RunRecorder) -> None:
        """Record what a judge has answered since the event before."""
        run = recorder.session.run
        for report in self._parts.judging.take_answers(run.agent_id, run.run_id):
            recorder.record_judged(report)

    def _mark_recorded(self, token: str, noted: Collection[str]) -> bool:
        """Mark a step as recorded, in the transaction that records it; return whether it was not before."""
        if self._store.is_accounted(token):
            return False
        now = self._clock()
        self._store.mark_recorded(token, now, kept=noted, before=now - _MARK_KEPT_S)
        return True

    def _read_transcript(self, step: HookStep) -> TranscriptPart | None:
        """Read what is new in the transcript. Called before the transaction: a disk may take any time."""
        if not step.transcript or step.kind in _WITHOUT_TOKENS:
            return None
        return read_transcript(step.transcript, self._parts.read_to.get(_get_transcript_key(step), 0))

    def _remember_position(self, step: HookStep, memory: HookMemory, *, has_ended: bool) -> None:
        if has_ended or not step.transcript:
            self._parts.read_to.pop(_get_transcript_key(step), None)
        else:
            self._parts.read_to[_get_transcript_key(step)] = memory.read_to

    def _write(self, records: list[Record]) -> None:
        losses = self._parts.health.list_losses(self._clock())
        # Old records are removed elsewhere, never while an agent waits.
        alerts = self._parts.alerts
        sink = make_store_sink(
            self._parts.settings, self._store, on_alert=alerts.note_due_alert, clock=lambda: 0.0
        )
        sink.write([*records, *losses])
        self._parts.health.mark_stored(losses)

    def _open(self, step: HookStep, *, late: bool) -> tuple[RunRecorder, HookMemory, RecordList] | None:
        """Return the run this step belongs to; a session that has ended continues as another run."""
        settings, capture = self._parts.settings, self._parts.capture
        agent = capture.name(step.get_agent(self._dialect.agent))
        sessions = self._make_sessions()
        known = StoredKnowledge(
            agent,
            self._store,
            calibration_runs=settings.calibration_runs,
            uses_profiles=settings.budget_from_profiles,
        )
        info = RunInfo(
            agent_id=agent,
            run_id=step.run_id,
            started_at=self._clock(),
            version=capture.name(settings.version),
            parent_run_id=step.session_id if step.part else None,
        )
        # Guidance that this step cannot carry comes with a later one; after the end there is none.
        later: frozenset[Verdict] = frozenset(("proceed",) if step.kind == "end" else ("proceed", "guide"))
        can = self._dialect.can.get(step.kind, later)
        for n in range(1, MAX_RUNS_PER_SESSION + 1):
            info = structs.replace(info, run_id=step.run_id if n == 1 else f"{step.run_id}~{n}")
            resumed = self._resume(sessions, info, known, can)
            if resumed is not None:
                return resumed
            if not self._is_stored(agent, info.run_id):
                is_over = step.kind == "end" or (n > 1 and step.kind == "reply" and step.error is not None)
                reference = known.get_reference(info.version, info.task_type)
                return None if is_over else self._start(sessions, info, reference, step, can, late=late)
        raise TooManyRunsError(f"A session was resumed more than {MAX_RUNS_PER_SESSION} times.")

    def _make_sessions(self) -> SessionFactory:
        settings = self._parts.settings
        return SessionFactory(
            make_detectors=lambda: list(self._parts.make_detectors()),
            health=self._parts.health,
            mode=settings.mode,
            tools=parse_declarations(settings.tools),
            steering=make_steering(settings),
            make_questioner=partial(Questioner, self._parts.capture.redact, settings.judging_weight)
            if self._parts.judging.is_on
            else None,
        )

    def _resume(
        self, sessions: SessionFactory, info: RunInfo, known: StoredKnowledge, can: "Collection[Verdict]"
    ) -> tuple[RunRecorder, HookMemory, RecordList] | None:
        suspended = take_suspended(self._store, info.agent_id, info.run_id)
        if suspended is None:
            return None
        task_type = info.task_type or suspended.run.task_type
        reference = suspended.reference or known.get_reference(info.version, task_type)
        session = sessions.resume(info, suspended, reference, can=can)
        if session is None:
            return None
        recorder, queue = self._make_recorder(session, reference)
        return recorder, read_memory(suspended.state), queue

    def _is_stored(self, agent: str, run_id: str) -> bool:
        """Return whether the store has a run of exactly this id."""
        try:
            return self._store.find_run(run_id, agent_id=agent).run_id == run_id
        except NotFoundError:
            return False

    def _start(
        self,
        sessions: SessionFactory,
        info: RunInfo,
        reference: Reference,
        step: HookStep,
        can: "Collection[Verdict]",
        *,
        late: bool,
    ) -> tuple[RunRecorder, HookMemory, RecordList]:
        goal = self._parts.capture.text(step.text[:_GOAL_CHARS]) if step.kind == "prompt" else ""
        session = sessions.begin(structs.replace(info, goal=goal), reference, can=can)
        recorder, queue = self._make_recorder(session, reference)
        recorder.announce(pin=True)
        is_new_file = bool(step.part) and info.run_id == step.run_id
        since = 0.0 if is_new_file else info.started_at - (_LATE_S if late else 0.0)
        return recorder, HookMemory(since=since), queue

    def _make_recorder(self, session: Session, reference: Reference) -> tuple[RunRecorder, RecordList]:
        queue = RecordList()
        services = RunServices(
            session.run.agent_id,
            capture=self._parts.capture,
            health=self._parts.health,
            queue=queue,
            clock=lambda: max(self._clock(), session.last_at),
            daily=self._read_daily(session.run.agent_id),
            judge=self._parts.judging if self._parts.judging.is_on else None,
        )
        return RunRecorder(session, services, reference=reference), queue

    def _read_daily(self, agent: str) -> DailyLedger | None:
        """Return what the agent has spent today, if there is a limit for a day."""
        limits = make_steering(self._parts.settings).daily_limits
        if limits is None:
            return None
        daily = DailyLedger(agent, limits, self._clock)
        daily.read(self._store)
        return daily


def _get_transcript_key(step: HookStep) -> str:
    return f"{step.run_id}\0{step.transcript}"
