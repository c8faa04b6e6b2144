"""Many runs of one agent: takes events from any thread, answers each with a decision, keeps everything.

A guest in the agent's process: nothing here raises into it, blocks it, or changes its objects.
"""

import itertools
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from zlib import crc32

from msgspec import structs

from holdfast.baselines import BaselineStats
from holdfast.decisions import PROCEED, Decision, Mode
from holdfast.declarations import ToolDeclaration
from holdfast.detector import Detector
from holdfast.engine.capture import Capture
from holdfast.engine.dispatch import Dispatch, FlushResult
from holdfast.engine.health import Health
from holdfast.engine.runs import LiveRun, LiveRuns, Run
from holdfast.engine.session import Observation, Session
from holdfast.engine.sessions import Sessions
from holdfast.events import RunInfo, new_id
from holdfast.findings import DriftEvent, Severity
from holdfast.sink import Record, RecordedEvent, SavedState
from holdfast.store import Store

Callback = Callable[[DriftEvent], object]

_LONGEST_NAME: Final = 200
_SUSPENDED_KEPT: Final = 100
_monitors: Final = itertools.count(1)


class Monitor:
    """Watches the runs of one agent. Built from parts; `holdfast.DriftMonitor` chooses them for you.

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
        sample_rate: The share of runs that is watched.
        most_live: Live runs held in memory; the oldest is put aside when there are more.
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
        sample_rate: float = 1.0,
        most_live: int = 10_000,
        disabled: bool = False,
        clock: Callable[[], float] = time.time,
        make_id: Callable[[], str] = new_id,
    ) -> None:
        self.agent_id = agent_id
        self.mode: Mode = mode
        self.store = store
        self.health = health
        self.disabled = disabled
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
            clock=clock,
        )
        self._callbacks: list[tuple[Callback, Severity]] = []
        self._notifying = threading.local()
        self._suspended: deque[str] = deque(maxlen=_SUSPENDED_KEPT)
        _watch_forks(self)

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
    ) -> str:
        """Begin a run, or go on with one put aside; gives its id.

        From here on, events recorded in this context belong to it.
        An id that was used before gets a number behind it: two runs are never mixed.
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
            if live is None or not live.watched:
                return PROCEED
            with live.lock:
                session = live.session
                run = session.run
                seq = session.next_seq
                recorded = self._capture(
                    agent_id=self.agent_id,
                    run_id=run.run_id,
                    action_type=action_type,
                    action_name=action_name if type(action_name) is str else str(action_name),
                    timestamp=self._clock() if timestamp is None else _number(timestamp),
                    event_id=event_id or f"{run.run_id}.{seq}",
                    token_count=_whole(token_count),
                    input_data=input_data,
                    output_data=output_data,
                    duration_ms=duration_ms if type(duration_ms) is float else _number(duration_ms),
                    metadata=metadata,
                    seq=seq,
                    started_seq=started_seq,
                    call_id=call_id,
                    parent_run_id=run.parent_run_id,
                    error=None if error is None or error is False else _error_text(error),
                    cost_usd=cost_usd,
                )
                observation = session.observe(recorded.event)
                self._keep(recorded, observation)
            self._dispatch.acknowledge()
        except Exception as exc:  # noqa: BLE001 - the agent must not notice
            self.health.swallowed("record_event", exc)
            return PROCEED
        decision = observation.decision
        if decision.findings and self._callbacks:
            self._notify(decision.findings)
        return decision

    def on_drift(self, callback: Callback, *, min_severity: str = "MED") -> Callback:
        """Call this with every finding of at least that severity, before `record_event` returns.

        It runs on the agent's own thread: keep it short; what it raises is counted, and the agent goes on.
        """
        self._callbacks.append((callback, Severity(min_severity)))
        return callback

    # --- what is known ---------------------------------------------------------------------------

    def get_recent_alerts(
        self, hours: float = 24, limit: int = 50, *, min_severity: str = "MED"
    ) -> list[DriftEvent]:
        """The findings of the last hours, newest first."""
        if self.store is None:
            return []
        self.flush()
        since = self._clock() - hours * 3600
        least = Severity(min_severity)
        return self.store.get_drift_events(self.agent_id, severity=least, since=since, limit=limit)

    def get_baseline(self, *, version: str | None = None, task_type: str = "") -> BaselineStats:
        """What is normal for this agent, as far as it is learnt."""
        return self._sessions.baseline(self._version if version is None else version, task_type)

    def status(self) -> dict[str, Any]:
        """How the monitor is doing: what it has learnt, what it cannot check, what it lost."""
        session = self._sessions.begin(
            RunInfo(agent_id=self.agent_id, run_id="", goal=self._goal, version=self._version)
        )
        return {
            "agent_id": self.agent_id,
            "mode": self.mode,
            "disabled": self.disabled,
            "baseline": session.baseline.progress,
            "not_checked": session.not_checked,
            "live_runs": len(self._runs),
            "queued": self._dispatch.waiting,
            "losses": self.health.totals(),
        }

    def not_checked(self, run_id: str | None = None) -> dict[str, str]:
        """The detectors that could not look in this run, and why."""
        live = self._runs.get(run_id or self._runs.current() or "")
        return live.session.not_checked if live is not None else {}

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
        session = self._taken_up(info) if given is not None else None
        if session is None:
            info = structs.replace(info, run_id=self._free_id(given))
            session = self._sessions.begin(info)
        info, run_id = session.run, session.run.run_id
        watched = crc32(run_id.encode("utf-8", "replace")) < self._sample_rate * 2**32
        live = LiveRun(session, watched=watched)
        crowded_out = self._runs.add(run_id, live)
        self._runs.enter(run_id)
        if watched:
            self._dispatch.put(info)
        if crowded_out is not None:
            self.health.count("live run put aside to make room")
            self._put_aside(crowded_out)
        return run_id

    def _taken_up(self, info: RunInfo) -> Session | None:
        """The session of a run that was put aside, as it stood; None when there is none that can be read."""
        state = self._saved_state(info.run_id)
        if state is None or self.store is None:
            return None
        kept = self.store.find_run(info.run_id, agent_id=self.agent_id)
        info = structs.replace(info, goal=info.goal or kept.goal, started_at=kept.started_at)
        session = self._sessions.begin(info, state)
        # Without its memory it would number its events from the start again, over those already kept.
        return session if session.next_seq or not kept.events else None

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
        return self._runs.get(self.start_run(run_id, parent_run_id=parent_run_id))

    def _keep(self, recorded: RecordedEvent, observation: Observation) -> None:
        kept = self._capture.kept(recorded)
        if observation.decision.findings or observation.incidents:
            # The event goes in by itself: when the queue is full it may be dropped, its findings may not.
            self._dispatch.put(kept)
            self._dispatch.put(*observation.decision.findings, *observation.incidents)
        else:
            self._dispatch.put(kept)

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
        with live.lock:
            ending = live.session.end(at=self._clock(), outcome=outcome)
            records: list[Record] = [*ending.findings, *ending.incidents, ending.summary]
            self._dispatch.put(*records)
        self._dispatch.acknowledge()
        if ending.findings and self._callbacks:
            self._notify(ending.findings)

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

    def _notify(self, findings: Sequence[DriftEvent]) -> None:
        if getattr(self._notifying, "now", False):
            return  # a callback that records events of its own must not call itself without end
        self._notifying.now = True
        try:
            for finding in findings:
                for callback, least in self._callbacks:
                    if finding.severity.rank >= least.rank:
                        self._call(callback, finding)
        finally:
            self._notifying.now = False

    def _call(self, callback: Callback, finding: DriftEvent) -> None:
        try:
            callback(finding)
        except Exception as exc:  # noqa: BLE001 - the agent must not notice
            self.health.swallowed("on_drift callback", exc)

    def after_fork(self) -> None:
        """In a child process: new locks, a new writer, and every live run goes on as a run of its own."""
        self.health.after_fork()
        self._dispatch.after_fork()
        forget = getattr(self.store, "after_fork", None)
        if forget is not None:
            forget()
        self._notifying = threading.local()
        pid = os.getpid()
        for run_id, live in self._runs.after_fork(pid):
            live.session.run = structs.replace(
                live.session.run, run_id=f"{run_id}.{pid}", parent_run_id=run_id
            )
            if live.watched:
                self._dispatch.put(live.session.run)
            self.health.count("run continued in a forked process")


def _watch_forks(monitor: Monitor) -> None:
    reference = weakref.ref(monitor)

    def in_child() -> None:
        alive = reference()
        if alive is not None:
            alive.after_fork()

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=in_child)


def _number(value: Any) -> float:
    """A number from whatever a caller took for one; 0 when it is none."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return 0.0
    return number if 0.0 <= number < float("inf") else 0.0


def _whole(value: Any) -> int:
    return value if type(value) is int and value >= 0 else int(_number(value))


def _error_text(error: object) -> str:
    if isinstance(error, str):
        return error or "error"
    if isinstance(error, BaseException):
        try:
            return f"{type(error).__name__}: {error}"
        except Exception:  # noqa: BLE001 - an exception's own words may fail too
            return type(error).__name__
    return "error" if error is True else str(error)
