"""The runs of one agent: takes their events from any thread, answers each with a decision, keeps all.

A guest in the agent's process: nothing here raises into it, blocks it, or changes its objects.
"""

import contextvars
import functools
import itertools
import os
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final
from zlib import crc32

from msgspec import structs

from steadyhelm.baselines import BaselineStats
from steadyhelm.budgets.adaptive_budget import AdaptiveBudget
from steadyhelm.checkpoint import CheckpointKeeper
from steadyhelm.decisions import PROCEED, UNDECIDED, Decision, Mode, Verdict
from steadyhelm.declarations import ToolDeclaration
from steadyhelm.detector import Detector
from steadyhelm.engine.capture import Capture
from steadyhelm.engine.coercion import to_count, to_error_text, to_number
from steadyhelm.engine.dispatch import Dispatch, FlushResult
from steadyhelm.engine.health import Health
from steadyhelm.engine.listeners import Listeners
from steadyhelm.engine.runs import LiveRun, LiveRuns, Run
from steadyhelm.engine.session import Observation
from steadyhelm.engine.sessions import Sessions
from steadyhelm.engine.steering import Steering
from steadyhelm.events import TOOL_CALL, RunInfo, TraceEvent, new_id
from steadyhelm.forks import call_after_fork
from steadyhelm.policy.response_levels import VERDICTS
from steadyhelm.sink import Record, RecordedEvent, SavedState
from steadyhelm.store import Store

Price = Callable[[Mapping[str, Any], float], float | None]

_LONGEST_NAME: Final = 200
_SUSPENDED_KEPT: Final = 100
_monitors: Final = itertools.count(1)


class Recorder:
    """Watches the runs of one agent: begins and ends them, takes their events, answers each.

    Args:
        agent_id: Whose runs these are.
        make_detectors: Gives fresh detectors for one run.
        dispatch: Where records go.
        capture: Turns what callers hand over into events.
        health: Where losses are counted.
        store: What is read back: baselines, moved thresholds, runs put aside; None to remember nothing.
        mode: Whether anything but watching is allowed.
        goal: The goal of runs that bring none.
        version: The agent's version; a new one learns its own baseline.
        calibration_runs: Clean runs until the baseline counts.
        tools: What is known about tools, by name.
        steering: Thresholds, weights, budget and words of the policy.
        keeper: Keeps checkpoints; None to keep none.
        price: Gives what a model call cost, from its metadata and its time; None to look nothing up.
        sample_rate: The share of runs that is watched.
        most_live: Live runs held in memory; the oldest is put aside when there are more.
        on_failure: What a step meets that we failed to judge: `open` lets it pass, `closed` refuses it.
    """

    def __init__(
        self,
        agent_id: str,
        *,
        make_detectors: Callable[[], Sequence[Detector]],
        dispatch: Dispatch,
        capture: Capture,
        health: Health,
        store: Store | None = None,
        mode: Mode = "observe",
        goal: str = "",
        version: str = "",
        calibration_runs: int = 30,
        tools: Mapping[str, ToolDeclaration] | None = None,
        steering: Steering | None = None,
        keeper: CheckpointKeeper | None = None,
        price: Price | None = None,
        sample_rate: float = 1.0,
        most_live: int = 10_000,
        disabled: bool = False,
        on_failure: str = "open",
        clock: Callable[[], float] = time.time,
        make_id: Callable[[], str] = new_id,
    ) -> None:
        self.agent_id = agent_id
        self.mode: Mode = mode
        self.store = store
        self.health = health
        self.disabled = disabled
        self._on_failure = on_failure
        self.keeper = keeper
        self._price = price
        self._dispatch = dispatch
        self._capture = capture
        self._goal = goal
        self._version = version
        self._sample_rate = sample_rate
        self._clock = clock
        self._make_id = make_id
        self._runs = LiveRuns(next(_monitors), most_live)
        self._sessions = Sessions(
            agent_id,
            make_detectors=make_detectors,
            store=store,
            health=health,
            mode=mode,
            calibration_runs=calibration_runs,
            tools=tools,
            steering=steering,
            clock=clock,
        )
        self._listeners = Listeners(health)
        self._suspended: deque[str] = deque(maxlen=_SUSPENDED_KEPT)
        call_after_fork(self)

    # --- runs ------------------------------------------------------------------------------------

    def start_run(
        self,
        run_id: str | None = None,
        goal: str | None = None,
        *,
        task_type: str = "",
        version: str | None = None,
        parent_run_id: str | None = None,
        metadata: dict[str, Any] | None = None,
        can: Collection[Verdict] = VERDICTS,
    ) -> str:
        """Begin a run, or go on with one put aside; gives its id.

        From here on, events recorded in this context belong to it.
        An id that was used before gets a number behind it: two runs are never mixed.
        `can` are the verdicts that whoever started it can carry out.
        """
        given = str(run_id)[:_LONGEST_NAME] if run_id is not None else None
        try:
            return self._start(
                given,
                goal=self._goal if goal is None else goal,
                task_type=task_type,
                version=self._version if version is None else version,
                parent_run_id=parent_run_id,
                metadata=metadata,
                can=can,
            )
        except Exception as exc:  # noqa: BLE001 - the agent must not notice
            self.health.swallowed("start_run", exc)
            return given or self._make_id()

    def end_run(self, run_id: str | None = None, *, outcome: str = "") -> None:
        """End a run, by default the current one: it is judged as a whole, and teaches the baseline."""
        try:
            self._end(run_id, outcome)
        except Exception as exc:  # noqa: BLE001 - the agent must not notice
            self.health.swallowed("end_run", exc)

    def run(self, goal: str | None = None, **options: Any) -> Run:
        """A run as a context manager, for `with` and `async with`; takes what `start_run` takes."""
        return Run(self, {"goal": goal, **options})

    def suspend(self, run_id: str | None = None) -> None:
        """Put a run aside; `start_run` with its id goes on with it, here or in another process."""
        try:
            self._put_aside(run_id or self._runs.current() or "")
        except Exception as exc:  # noqa: BLE001 - the agent must not notice
            self.health.swallowed("suspend", exc)

    def suspend_all(self) -> None:
        """Put every live run aside."""
        for run_id in self._runs:
            self.suspend(run_id)

    # --- events ----------------------------------------------------------------------------------

    def record_event(
        self,
        action_type: str,
        action_name: str,
        *,
        run_id: str | None = None,
        timestamp: float | None = None,
        event_id: str | None = None,
        token_count: int = 0,
        input_data: Any = None,
        output_data: Any = None,
        duration_ms: float = 0.0,
        metadata: dict[str, Any] | None = None,
        started_seq: int | None = None,
        call_id: str | None = None,
        parent_run_id: str | None = None,
        error: object = None,
        cost_usd: float | None = None,
    ) -> Decision:
        """Take in one step of the agent, and say what to do about it.

        Without a `run_id` it belongs to the current run of this context; where there is none, one begins.
        """
        if self.disabled:
            return PROCEED
        try:
            live = self._live_run(run_id, parent_run_id)
            if live is None:
                return PROCEED if run_id is not None and self._runs.has_ended(run_id) else UNDECIDED
            if not live.watched:
                return PROCEED
            with live.lock:
                session = live.session
                run = session.run
                seq = session.next_seq
                at = self._clock() if timestamp is None else to_number(timestamp)
                if cost_usd is None and self._price is not None and metadata:
                    cost_usd = self._price(metadata, at)
                recorded = self._capture(
                    agent_id=self.agent_id,
                    run_id=run.run_id,
                    action_type=action_type,
                    action_name=action_name if type(action_name) is str else str(action_name),
                    timestamp=at,
                    event_id=event_id or f"{run.run_id}.{seq}",
                    token_count=to_count(token_count),
                    input_data=input_data,
                    output_data=output_data,
                    duration_ms=duration_ms if type(duration_ms) is float else to_number(duration_ms),
                    metadata=metadata,
                    seq=seq,
                    started_seq=started_seq,
                    call_id=call_id,
                    parent_run_id=run.parent_run_id,
                    error=None if error is None else to_error_text(error),
                    cost_usd=None if cost_usd is None else to_number(cost_usd),
                )
                observation = session.observe(recorded.event)
                self._keep(recorded, observation)
            self._dispatch.acknowledge()
        except Exception as exc:  # noqa: BLE001 - the agent must not notice
            self.health.swallowed("record_event", exc)
            return UNDECIDED
        decision = observation.decision
        if decision.findings or decision.hooks:
            self._listeners.tell(decision)
        return decision

    # --- upkeep ---------------------------------------------------------------------------------

    def flush(self, timeout_s: float = 5.0) -> FlushResult:
        """Wait until everything recorded so far is written, or the time is up; the result says which."""
        return self._dispatch.flush(timeout_s)

    def close(self, timeout_s: float = 2.0) -> FlushResult:
        """Put live runs aside and write what is queued, within the time given."""
        self.suspend_all()
        return self._dispatch.close(timeout_s)

    def declare(self, tool: str, declaration: ToolDeclaration) -> None:
        """Say what is known about a tool, for runs that begin from now on."""
        self._sessions.tools[tool] = declaration

    def learnt(self, baseline: BaselineStats) -> None:
        """The store has a newer baseline of this agent."""
        self._sessions.learnt(baseline)

    # --- inside ----------------------------------------------------------------------------------

    def _start(
        self,
        given: str | None,
        *,
        goal: str,
        metadata: dict[str, Any] | None,
        can: Collection[Verdict],
        **fields: Any,
    ) -> str:
        if self.disabled:
            return given or self._make_id()
        info = RunInfo(
            agent_id=self.agent_id,
            run_id=given or "",
            goal=self._capture.text(goal),
            started_at=self._clock(),
            metadata=self._capture.plain(metadata) if metadata else None,
            **fields,
        )
        state = self._saved_state(info.run_id) if given is not None else None
        session = self._sessions.taken_up(info, state, can=can) if state is not None else None
        if session is None:
            info = structs.replace(info, run_id=self._free_id(given))
            is_watched = self._is_watched(info.run_id, info.parent_run_id)
            lent = self._lent(info.parent_run_id) if is_watched else None
            session = self._sessions.begin(info, can=can, budget=lent)
        elif (
            self.keeper is None
            or self.keeper.get_last_checkpoint(given or "", agent_id=self.agent_id) is None
        ):
            session.forget_checkpoints()
        info, run_id = session.run, session.run.run_id
        watched = self._is_watched(run_id, info.parent_run_id)
        live = LiveRun(session, watched=watched)
        crowded_out = self._runs.add(run_id, live)
        self._runs.enter(run_id)
        if watched:
            self._dispatch.put(info)
        if crowded_out is not None:
            self.health.count("live run put aside to make room")
            self._put_aside(crowded_out)
        return run_id

    def _is_watched(self, run_id: str, parent_run_id: str | None = None) -> bool:
        parent = self._runs.get(parent_run_id) if parent_run_id else None
        if parent is not None:
            return parent.watched  # a child without its parent would make no sense
        return crc32(run_id.encode("utf-8", "replace")) < self._sample_rate * 2**32

    def _lent(self, parent_run_id: str | None) -> AdaptiveBudget | None:
        """The part of a live parent's budget that is set aside for a run inside it."""
        parent = self._runs.get(parent_run_id) if parent_run_id else None
        if parent is None:
            return None
        with parent.lock:
            return parent.session.drift.reserve_for_child()

    def _give_back(self, live: LiveRun) -> None:
        parent_id, budget = live.session.run.parent_run_id, live.session.drift.budget
        parent = self._runs.get(parent_id) if parent_id else None
        if parent is not None and budget is not None:
            with parent.lock:
                parent.session.drift.return_reserve(budget)

    def _free_id(self, given: str | None) -> str:
        if given is None:
            return self._make_id()
        run_id, n = given, 1
        while self._runs.get(run_id) or self._runs.has_ended(run_id) or self._sessions.is_kept(run_id):
            n += 1
            run_id = f"{given}~{n}"
        if run_id != given:
            self.health.count("run id seen twice")
        return run_id

    def _saved_state(self, run_id: str) -> bytes | None:
        if self.store is None or self._runs.get(run_id) is not None:
            return None
        if run_id in self._suspended:
            self._suspended.remove(run_id)
            self._dispatch.flush(1.0)
        return self.store.take_state(self.agent_id, run_id)

    def _live_run(self, run_id: str | None, parent_run_id: str | None) -> LiveRun | None:
        run_id = run_id if run_id is not None else self._runs.current()
        live = self._runs.get(run_id) if run_id is not None else None
        if live is not None:
            return live
        if run_id is not None and self._runs.has_ended(run_id):
            self.health.count("event after the run's end")
            return None
        start = functools.partial(self.start_run, run_id, parent_run_id=parent_run_id)
        # Whoever names a run may be anywhere; only a run without a name becomes that of the context.
        return self._runs.get(start() if run_id is None else contextvars.copy_context().run(start))

    def _keep(self, recorded: RecordedEvent, observation: Observation) -> None:
        kept = self._capture.kept(recorded)
        if observation.decision.findings or observation.incidents:
            # The event goes in by itself: when the queue is full it may be dropped, its findings may not.
            self._dispatch.put(kept)
            self._dispatch.put(*observation.decision.findings, *observation.incidents)
        else:
            self._dispatch.put(kept)

    def _call(self, live: LiveRun, name: str, args: Any, started_seq: int | None) -> TraceEvent:
        """A call that has not been made, as it would be recorded."""
        session = live.session
        return self._capture(
            agent_id=self.agent_id,
            run_id=session.run.run_id,
            action_type=TOOL_CALL,
            action_name=name if type(name) is str else str(name),
            timestamp=self._clock(),
            event_id=f"{session.run.run_id}.{session.next_seq}",
            input_data=args,
            output_data=None,
            metadata=None,
            error=None,
            seq=session.next_seq,
            started_seq=started_seq,
        ).event

    def _end(self, run_id: str | None, outcome: str) -> None:
        if self.disabled:
            return
        run_id = run_id if run_id is not None else self._runs.current()
        live = self._runs.remove(run_id, ended=True) if run_id is not None else None
        if live is None or run_id is None:
            self.health.count("end of a run that is not live")
            return
        self._runs.leave(run_id)
        if not live.watched:
            return
        self._give_back(live)
        with live.lock:
            ending = live.session.end(at=self._clock(), outcome=outcome)
            records: list[Record] = [*ending.findings, *ending.incidents, ending.summary]
            self._dispatch.put(*records)
        self._dispatch.acknowledge()
        self._listeners.found(ending.findings)

    def _put_aside(self, run_id: str) -> None:
        live = self._runs.remove(run_id, ended=False)
        if live is None:
            return
        self._runs.leave(run_id)
        if live.watched:
            with live.lock:
                session = live.session
                saved = SavedState(self.agent_id, session.run.run_id, session.state(), self._clock())
                self._dispatch.put(saved)
                self._suspended.append(session.run.run_id)
            self._dispatch.acknowledge()

    def after_fork(self) -> None:
        """In a child process: new locks, a new writer, and every live run goes on as a run of its own."""
        self.health.after_fork()
        self._dispatch.after_fork()
        forget = getattr(self.store, "after_fork", None)
        if forget is not None:
            forget()
        self._listeners.after_fork()
        if self.keeper is not None:
            self.keeper.after_fork()
        pid = os.getpid()
        for run_id, live in self._runs.after_fork(pid):
            live.session.run = structs.replace(
                live.session.run, run_id=f"{run_id}.{pid}", parent_run_id=run_id
            )
            # Its checkpoints are kept under its parent's id.
            live.session.forget_checkpoints()
            if live.watched:
                self._dispatch.put(live.session.run)
            self.health.count("run continued in a forked process")
