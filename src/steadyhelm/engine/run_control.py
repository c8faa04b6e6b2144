"""The runs of one agent: started, found, suspended and ended, with the parts that they share."""

import functools
import os
import time
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from msgspec import structs

from steadyhelm.budgets.limits import Budget
from steadyhelm.checkpoint import CheckpointKeeper
from steadyhelm.decisions import Mode, Verdict
from steadyhelm.declarations import ToolDeclaration
from steadyhelm.detector import Detector
from steadyhelm.engine.agent_knowledge import AgentKnowledge
from steadyhelm.engine.capture import Capture
from steadyhelm.engine.checkpointing import RunCheckpoints
from steadyhelm.engine.coercion import MAX_COUNT, to_verdicts
from steadyhelm.engine.daily_ledger import DailyLedger
from steadyhelm.engine.dispatch import Dispatch
from steadyhelm.engine.health import FlushResult, Health
from steadyhelm.engine.judge_calls import is_judging
from steadyhelm.engine.judge_worker import JudgeWorker
from steadyhelm.engine.live_runs import LiveRuns
from steadyhelm.engine.run_recorder import RunRecorder
from steadyhelm.engine.run_services import Price, RunServices
from steadyhelm.engine.run_starter import RunStarter
from steadyhelm.engine.session_factory import SessionFactory
from steadyhelm.engine.steering import Steering
from steadyhelm.events import new_id
from steadyhelm.forks import ReentrantEvent
from steadyhelm.host_objects import is_a
from steadyhelm.judging.questioner import Questioner
from steadyhelm.policy.response_levels import VERDICTS
from steadyhelm.store import Store

_UNKNOWN_VERDICTS: Final = (
    "verdicts that were not given as a set, list or tuple of texts: all of the run's hold"
)
_LOADING_S: Final = 0.05
"""How long the first wait for what is known about the agent takes at most."""


class RunControl:
    """Starts, finds, suspends and ends the runs of one agent.

    Args:
        agent_id: The agent.
        make_detectors: Returns fresh detectors for one run.
        dispatch: Receives the records.
        capture: Turns what callers pass into events.
        health: Counts losses.
        store: Has baselines, thresholds and suspended runs; None to remember nothing.
        mode: Whether anything but watching is allowed.
        goal: The goal of runs that have none.
        version: The agent's version; a new one learns its own baseline.
        calibration_runs: Clean runs until the baseline counts.
        tools: What is known about tools, by name.
        steering: Thresholds, weights, budget and texts of the policy.
        keeper: Keeps checkpoints; None to keep none.
        price: Returns the cost of a model call from its metadata and time; None to look up none.
        sample_rate: The share of runs that is recorded.
        most_live: Live runs held in memory; the oldest is suspended when there are more.
        on_failure: What happens to a step that could not be judged: `open` lets it pass, `closed` refuses it.
        judge: Answers the questions that runs raise; None raises none.
        clock: Returns the time.
        make_id: Returns an id for a run that has none.
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
        judge: JudgeWorker | None = None,
        clock: Callable[[], float] = time.time,
        make_id: Callable[[], str] = new_id,
    ) -> None:
        self.agent_id = agent_id = capture.name(agent_id)
        clock = clock if clock is time.time else functools.partial(_read_clock, clock)
        self.mode: Mode = mode
        self.store = store
        self.health = health
        self.disabled = disabled
        self.fails_closed = on_failure == "closed" and mode == "enforce"
        """Whether a step that could not be judged is refused."""
        self.dispatch = dispatch
        self.judge = judge
        self.goal = goal
        self.version = version
        daily = None if disabled else _make_ledger(agent_id, steering, dispatch, clock)
        self.knowledge = AgentKnowledge(
            agent_id,
            store if not disabled else None,
            calibration_runs=calibration_runs,
            uses_profiles=steering is not None and steering.uses_profiles,
            daily=daily,
        )
        self.sessions = SessionFactory(
            make_detectors=make_detectors,
            health=health,
            mode=mode,
            tools=tools,
            steering=steering,
            make_questioner=_prepare_questioner(capture, judge),
        )
        self.runs = LiveRuns(most_live)
        self.services = self._make_services(capture, clock, price, daily)
        self._set_inner_locks()
        self.checkpoints = RunCheckpoints(keeper, self.services, dispatch.run_on_writer)
        self._starter = self._make_starter(sample_rate, make_id)

    def _make_services(
        self, capture: Capture, clock: Callable[[], float], price: Price | None, daily: DailyLedger | None
    ) -> RunServices:
        return RunServices(
            self.agent_id,
            capture=capture,
            health=self.health,
            queue=self.dispatch,
            clock=clock,
            price=price,
            knowledge=self.knowledge,
            daily=daily,
            judge=self.judge,
        )

    def _make_starter(self, sample_rate: float, make_id: Callable[[], str]) -> RunStarter:
        return RunStarter(
            self.runs,
            self.sessions,
            self.services,
            start=self.start_run,
            dispatch=self.dispatch,
            store=self.store,
            knowledge=self.knowledge,
            checkpoints=self.checkpoints,
            sample_rate=sample_rate,
            make_id=make_id,
        )

    def load_knowledge(self) -> None:
        """Have what is known about the agent read and kept up to date; wait a moment for it."""
        if not self.knowledge.is_loaded:
            dispatch = self.dispatch
            dispatch.repeated_job = functools.partial(_keep_up_to_date, weakref.ref(self), dispatch)
            self._wait_for_writer(_LOADING_S)

    def start_run(
        self,
        run_id: str | None = None,
        goal: str | None = None,
        *,
        task_type: str = "",
        version: str | None = None,
        parent_run_id: str | None = None,
        metadata: dict[str, Any] | None = None,
        budget: Budget | None = None,
        can: Collection[Verdict] = VERDICTS,
    ) -> str:
        """Start a run, or resume a suspended one, and return its id. Raises nothing."""
        given = self.identify(run_id)
        try:
            recorder = self._starter.start(
                given,
                goal=self.goal if goal is None else goal,
                task_type=task_type,
                version=self.version if version is None else version,
                parent_run_id=parent_run_id,
                metadata=metadata,
                budget=budget,
                can=self.read_verdicts(can),
            )
        except BaseException as exc:  # noqa: BLE001 - the agent must not notice
            self.health.swallow("start_run", exc)
            return given or self._starter.make_id()
        return recorder.session.run.run_id

    def end_run(self, run_id: str | None = None, *, outcome: str = "") -> None:
        """End a run, by default the current one: it is judged as a whole, and its baseline learns from it."""
        try:
            run_id = self.identify(run_id) if run_id is not None else self.runs.find_current()
            if self._is_agents(run_id):
                return
            recorder = self.runs.remove(run_id, ended=True) if run_id is not None else None
            if recorder is None or run_id is None:
                self.health.count("end of a run that is not live")
                return
            self.runs.leave(run_id)
            if recorder.is_sampled:
                self._starter.return_budget_to_parent(recorder)
                recorder.end(outcome)
                self.checkpoints.end(recorder.session.run.run_id)
        except Exception as exc:  # noqa: BLE001 - the agent must not notice
            self.health.swallow("end_run", exc)

    def suspend(self, run_id: str | None = None) -> None:
        """Suspend a run; `start_run` with its id resumes it, here or in another process."""
        try:
            run_id = self.identify(run_id) or self.runs.find_current() or ""
            if not self._is_agents(run_id):
                self._starter.suspend(run_id)
        except Exception as exc:  # noqa: BLE001 - the agent must not notice
            self.health.swallow("suspend", exc)

    def _is_agents(self, run_id: str | None) -> bool:
        """Return whether a judge would act on a run of an agent; its own runs are not watched."""
        recorder = self.runs.get(run_id) if is_judging() and run_id is not None else None
        return recorder is not None and recorder.is_sampled

    def suspend_all(self) -> None:
        """Suspend every live run."""
        for run_id in self.runs:
            self.suspend(run_id)

    def make_id(self, run_id: object = None) -> str:
        """Return the id of a run as it is kept; a new one where the caller passed none."""
        return self.identify(run_id) or self._starter.make_id()

    def find_or_start(self, run_id: str | None, parent_run_id: object = None) -> RunRecorder | None:
        """Return the live run of that id, by default that of this context; start one where there is none.

        None where it could not be started, or is not recorded.
        """
        return self._starter.find_or_start(run_id, self.identify(parent_run_id))

    def find(self, run_id: str | None) -> RunRecorder | None:
        """Return a live run that is recorded, by default that of this context."""
        recorder = self.runs.get(self.identify(run_id) or self.runs.find_current() or "")
        return recorder if recorder is not None and recorder.is_sampled else None

    def identify(self, run_id: object) -> str | None:
        """Return the id of a run as it is kept, whatever the caller passed; None when it passed none."""
        return None if run_id is None else self.services.capture.identify(run_id)

    def read_verdicts(self, can: object) -> Collection[Verdict]:
        """Return what the caller can carry out; all verdicts where what it passed cannot be read."""
        if can is VERDICTS:
            return VERDICTS
        verdicts = to_verdicts(can)
        if verdicts is None:
            self.health.count(_UNKNOWN_VERDICTS)
            return VERDICTS
        return verdicts

    def is_lost(self, run_id: str | None) -> bool:
        """Return whether a run should be live and is not: it could not be started."""
        if run_id is None:
            return False
        return self.runs.get(run_id) is None and not self.runs.has_ended(run_id)

    def flush(self, timeout_s: float = 5.0) -> FlushResult:
        """Wait until everything recorded so far is written, or the time is up; the result says which."""
        deadline = time.monotonic() + timeout_s
        waiting = self._starter.wait_for_answers(timeout_s)
        for recorder in filter(None, map(self.runs.get, tuple(self.runs))):
            recorder.put_incidents()
        result = self.dispatch.flush(max(0.0, deadline - time.monotonic()))
        is_done = self._wait_for_writer(max(0.0, deadline - time.monotonic()))
        if waiting or not is_done:
            return structs.replace(result, complete=False, remaining=result.remaining + waiting)
        return result

    def close(self, timeout_s: float = 2.0) -> FlushResult:
        """Suspend live runs and write what is queued, within the time given."""
        deadline = time.monotonic() + timeout_s
        if self.judge is not None:
            self.judge.close()
        self._starter.wait_for_answers(timeout_s / 2)
        self._starter.give_up_waiting()
        # A thread that goes on recording would start a suspended run anew while it is being saved.
        self._starter.is_closing = True
        self.suspend_all()
        return self.dispatch.close(max(0.0, deadline - time.monotonic()))

    def after_fork(self) -> None:
        """Start afresh in a child process: a new queue and writer, and every live run a run of its own."""
        self.health.after_fork()
        self.dispatch.after_fork()
        if self.services.daily is not None:
            self.services.daily.after_fork()
        if self.judge is not None:
            self.judge.after_fork()
        self._set_inner_locks()
        self.services.listeners.after_fork()
        self._starter.after_fork()
        for part in (self.store, self.checkpoints.keeper):
            restart = getattr(part, "after_fork", None)
            if restart is not None:
                restart()
        self.runs.continue_in_child(os.getpid())

    def _refresh(self, *, with_incidents: bool = False) -> None:
        """Read what is known about the agent, and what runs wait for. Runs on the writer's thread."""
        self.knowledge.refresh(with_incidents=with_incidents)
        self._starter.answer_waiting()

    def _wait_for_writer(self, timeout_s: float) -> bool:
        """Wait until the writer has done the jobs it has, and has read what was written since."""
        done = ReentrantEvent()

        def job() -> None:
            self._refresh(with_incidents=True)
            done.set()

        return not self.dispatch.run_on_writer(job) or done.wait(timeout_s)

    def _set_inner_locks(self) -> None:
        self.services.inner_locks = (
            self.dispatch.lock,
            self.health.lock,
            self.runs.lock,
            self.knowledge.lock,
            *(() if self.services.daily is None else (self.services.daily.lock,)),
        )


def _prepare_questioner(capture: Capture, judge: JudgeWorker | None) -> Callable[[], Questioner] | None:
    """Return what makes the questioner of a run; None where no judge answers."""
    return None if judge is None else functools.partial(Questioner, capture.redact, judge.weight)


def _make_ledger(
    agent_id: str, steering: Steering | None, dispatch: Dispatch, clock: Callable[[], float]
) -> DailyLedger | None:
    """Return the ledger of what the agent spends in a day; None where no limit is set for a day."""
    limits = None if steering is None else steering.daily_limits
    if limits is None:
        return None
    daily = DailyLedger(agent_id, limits, clock)
    dispatch.on_written = daily.note_written
    return daily


def _read_clock(clock: Callable[[], float]) -> float:
    """Return the time of a host's own clock; that of the system where it returns what no column can hold."""
    moment = clock()
    return moment if is_a(moment, (int, float)) and abs(moment) <= MAX_COUNT else time.time()


def _keep_up_to_date(reference: "weakref.ref[RunControl]", dispatch: Dispatch) -> None:
    control = reference()
    if control is None:
        dispatch.repeated_job = None
    else:
        control._refresh()  # noqa: SLF001 - a function of this module
