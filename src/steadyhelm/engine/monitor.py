"""Many runs of one agent: what a host calls.

A guest in the agent's process: nothing here raises into it, blocks it, or changes its objects.
"""

import functools
import os
import threading
import time
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

from msgspec import structs

from steadyhelm.baselines import BaselineStats
from steadyhelm.budgets.limits import Budget
from steadyhelm.checkpoint import Checkpoint, CheckpointKeeper, FileContent
from steadyhelm.decisions import (
    PROCEED,
    UNDECIDED,
    BudgetDecision,
    BudgetState,
    DailyBudgetState,
    Decision,
    Hook,
    Mode,
    Verdict,
)
from steadyhelm.declarations import ToolDeclaration
from steadyhelm.detector import Detector
from steadyhelm.engine.agent_knowledge import AgentKnowledge
from steadyhelm.engine.capture import Capture
from steadyhelm.engine.checkpointing import RunCheckpoints
from steadyhelm.engine.daily_ledger import DailyLedger
from steadyhelm.engine.dispatch import Dispatch, FlushResult
from steadyhelm.engine.health import Health
from steadyhelm.engine.judge_worker import JudgeWorker
from steadyhelm.engine.listeners import Callback, HookCallback, IncidentCallback
from steadyhelm.engine.live_runs import LiveRuns, Run
from steadyhelm.engine.run_recorder import RunRecorder
from steadyhelm.engine.run_services import Price, RunServices
from steadyhelm.engine.run_starter import RunStarter
from steadyhelm.engine.sessions import Sessions
from steadyhelm.engine.steering import Steering
from steadyhelm.errors import RunStopped
from steadyhelm.events import (
    BUDGET_GRANTED,
    CALL_REFUSED,
    EXTENSION_REQUESTED,
    NEW_GOAL,
    NOT_CARRIED_OUT,
    PLAN,
    PROGRESS,
    STATE_TRANSITION,
    RunInfo,
    new_id,
)
from steadyhelm.findings import DriftEvent, Severity
from steadyhelm.forks import call_after_fork
from steadyhelm.incidents import Incident
from steadyhelm.judging.questioner import Questioner
from steadyhelm.policy.response_levels import VERDICTS
from steadyhelm.store import Store

_LOADING_S: Final = 0.05
"""How long the constructor waits for what is known about the agent."""
_NO_BUDGET: Final = BudgetDecision(approved=False, reason="The run has no budget.")


class Monitor:
    """Watches and steers the runs of one agent. `steadyhelm.DriftMonitor` chooses its parts for you.

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
        self.mode: Mode = mode
        self.store = store
        self.health = health
        self.disabled = disabled
        self.fails_closed = on_failure == "closed" and mode == "enforce"
        """Whether a step that could not be judged is refused."""
        self._dispatch = dispatch
        self._judge = judge
        self._goal = goal
        self._version = version
        limits = None if steering is None or disabled else steering.daily_limits
        daily = None if limits is None else DailyLedger(agent_id, limits, clock)
        if daily is not None:
            dispatch.on_written = daily.note_written
        self._knowledge = knowledge = AgentKnowledge(
            agent_id,
            store if not disabled else None,
            calibration_runs=calibration_runs,
            uses_profiles=steering is not None and steering.uses_profiles,
            daily=daily,
        )
        self._sessions = Sessions(
            make_detectors=make_detectors,
            health=health,
            mode=mode,
            tools=tools,
            steering=steering,
            make_questioner=None
            if judge is None
            else functools.partial(Questioner, capture.redact, judge.weight),
        )
        self.runs = LiveRuns(most_live)
        self._services = services = RunServices(
            agent_id,
            capture=capture,
            health=health,
            queue=dispatch,
            clock=clock,
            price=price,
            knowledge=knowledge,
            daily=daily,
            judge=judge,
        )
        self._set_inner_locks()
        self._checkpoints = RunCheckpoints(keeper, services, dispatch.run_on_writer)
        self._starter = RunStarter(
            self.runs,
            self._sessions,
            services,
            start=self.start_run,
            dispatch=dispatch,
            store=store,
            knowledge=knowledge,
            checkpoints=self._checkpoints,
            sample_rate=sample_rate,
            make_id=make_id,
        )
        call_after_fork(self)
        if not knowledge.is_loaded:
            dispatch.repeated_job = functools.partial(_keep_up_to_date, weakref.ref(self), dispatch)
            self._wait_for_writer(_LOADING_S)

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
        budget: Budget | None = None,
        can: Collection[Verdict] = VERDICTS,
    ) -> str:
        """Start a run, or resume a suspended one, and return its id.

        From here on, events recorded in this context belong to it.
        An id that was used before gets a number behind it: two runs are never mixed.
        `budget` holds limits of this run: they take the place of those in the settings.
        `can` are the verdicts the caller can carry out.
        """
        given = self._identify(run_id)
        if self.disabled:
            return given or self._starter.make_id()
        try:
            recorder = self._starter.start(
                given,
                goal=self._goal if goal is None else goal,
                task_type=task_type,
                version=self._version if version is None else version,
                parent_run_id=parent_run_id,
                metadata=metadata,
                budget=budget,
                can=can,
            )
        except BaseException as exc:  # noqa: BLE001 - the agent must not notice
            self.health.swallow("start_run", exc)
            return given or self._starter.make_id()
        return recorder.session.run.run_id

    def end_run(self, run_id: str | None = None, *, outcome: str = "") -> None:
        """End a run, by default the current one: it is judged as a whole, and its baseline learns from it."""
        if self.disabled:
            return
        try:
            run_id = self._identify(run_id) if run_id is not None else self.runs.find_current()
            recorder = self.runs.remove(run_id, ended=True) if run_id is not None else None
            if recorder is None or run_id is None:
                self.health.count("end of a run that is not live")
                return
            self.runs.leave(run_id)
            if recorder.is_sampled:
                self._starter.return_budget(recorder)
                recorder.end(outcome)
                self._checkpoints.release(recorder.session.run.run_id)
        except Exception as exc:  # noqa: BLE001 - the agent must not notice
            self.health.swallow("end_run", exc)

    def run(self, goal: str | None = None, **options: Any) -> Run:
        """Return a run as a context manager, for `with` and `async with`; takes what `start_run` takes."""
        return Run(self, {"goal": goal, **options})

    def suspend(self, run_id: str | None = None) -> None:
        """Suspend a run; `start_run` with its id resumes it, here or in another process."""
        try:
            self._starter.suspend(self._identify(run_id) or self.runs.find_current() or "")
        except Exception as exc:  # noqa: BLE001 - the agent must not notice
            self.health.swallow("suspend", exc)

    def suspend_all(self) -> None:
        """Suspend every live run."""
        for run_id in self.runs:
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
        can: Collection[Verdict] = VERDICTS,
    ) -> Decision:
        """Record one step of the agent, and return the decision about it.

        Without a `run_id` it belongs to the current run of this context; where there is none, one starts.
        `can` are the verdicts you can carry out at this step, where these are fewer than the run's.
        """
        if self.disabled:
            return PROCEED
        try:
            run_id = self._identify(run_id)
            recorder = self._starter.find_or_start(run_id, self._identify(parent_run_id))
            if recorder is None:
                return PROCEED if run_id is not None and self.runs.has_ended(run_id) else UNDECIDED
            return recorder.record(
                action_type,
                action_name,
                timestamp=timestamp,
                event_id=event_id,
                token_count=token_count,
                input_data=input_data,
                output_data=output_data,
                duration_ms=duration_ms,
                metadata=metadata,
                started_seq=started_seq,
                call_id=call_id,
                error=error,
                cost_usd=cost_usd,
                can=can,
            )
        except Exception as exc:  # noqa: BLE001 - the agent must not notice
            self.health.swallow("record_event", exc)
            return UNDECIDED

    def before_tool(
        self,
        name: str,
        args: Any = None,
        *,
        run_id: str | None = None,
        started_seq: int | None = None,
        rolls_back: bool = False,
    ) -> Decision:
        """Return the decision for a call that has not been made yet: proceed, guide, deny or ask.

        `started_seq` is how many events the agent had seen when it asked for the call, where that is known.
        With `rolls_back` you return to the last checkpoint where that is called for: then it is rollback.
        Records nothing.
        """
        run_id = self._identify(run_id)
        recorder = self._find(run_id)
        if recorder is None:
            return UNDECIDED if self._is_lost(run_id) else PROCEED
        try:
            return recorder.foresee(name, args, started_seq=started_seq, rolls_back=rolls_back)
        except Exception as exc:  # noqa: BLE001 - the agent must not notice
            self.health.swallow("before_tool", exc)
            return UNDECIDED

    def call_refused(
        self,
        name: str,
        *,
        reason: str = "",
        decision: Decision | None = None,
        call_id: str | None = None,
        run_id: str | None = None,
    ) -> Decision:
        """Report that a call was refused, as `before_tool` asked with this decision: it is not progress.

        The refusal is stored and judged like guidance. It is lifted after any other call, or when the user
        sends a message.
        """
        refusal: dict[str, Any] = {"tool": name, "reason": reason}
        if type(decision) is Decision:
            why = decision.guidance if type(reason) is str and not reason else reason
            refusal = {"tool": name, "reason": why, "action": decision.action.value}
        return self._report(CALL_REFUSED, refusal, run_id=run_id, call_id=call_id)

    def not_carried_out(self, reason: str, *, run_id: str | None = None) -> Decision:
        """Report that the latest decision could not be carried out: then it is not judged either."""
        return self._report(NOT_CARRIED_OUT, {"reason": reason}, run_id=run_id)

    def progress(self, value: float, *, stuck: float | None = None, run_id: str | None = None) -> Decision:
        """Report how far the task is, and how stuck it is, both 0 to 1, for instance by a `GoalTree`.

        What is reported counts more than what is inferred from the steps.
        """
        return self._report(PROGRESS, {"value": value, "stuck": stuck}, run_id=run_id)

    def new_goal(self, goal: str, *, run_id: str | None = None) -> Decision:
        """Report that the run has another task from now on: its steps are compared with that alone.

        For hosts that know it. Without it, another task is recognised by the words of the user's messages.
        """
        return self.record_event(STATE_TRANSITION, NEW_GOAL, input_data={"text": goal}, run_id=run_id)

    def plan(self, steps: Any, *, run_id: str | None = None) -> Decision:
        """Report the plan of a run: a list of steps, as texts or with a `status`, or a text with a list.

        Guidance names the current step from then on, and what is done. It replaces the plan before; without
        one, the plan is read from the agent's plan tool and from its replies.
        """
        return self.record_event(STATE_TRANSITION, PLAN, input_data={"plan": steps}, run_id=run_id)

    # --- budgets ---------------------------------------------------------------------------------

    def budget(self, run_id: str | None = None) -> BudgetState | None:
        """Return what a run may still spend; None when it has no budget."""
        recorder = self._find(run_id)
        if recorder is None:
            return None
        with recorder.lock:
            return recorder.session.drift.budget.get_status()

    def daily_budget(self) -> DailyBudgetState | None:
        """Return what the agent has spent today over all its runs, and what it may; None without a limit.

        It is in memory: what other processes spend is known about a second later.
        """
        daily = self._services.daily
        return None if daily is None else daily.get_state()

    def request_extension(
        self,
        justification: str,
        *,
        steps: int = 0,
        tokens: int = 0,
        cost_usd: float = 0.0,
        wall_s: float = 0.0,
        daily_steps: int = 0,
        daily_tokens: int = 0,
        daily_cost_usd: float = 0.0,
        run_id: str | None = None,
    ) -> BudgetDecision:
        """Ask for a little more than the budget allows; the rules decide, and the decision is stored.

        What is granted of the daily budget holds for all runs of the agent until the day ends.
        """
        asked = {"steps": steps, "tokens": tokens, "cost_usd": cost_usd, "wall_s": wall_s}
        asked |= _name_daily(daily_steps, daily_tokens, daily_cost_usd)
        return self._extend_budget(EXTENSION_REQUESTED, {"justification": justification, **asked}, run_id)

    def grant(
        self,
        reason: str,
        *,
        steps: int = 0,
        tokens: int = 0,
        cost_usd: float = 0.0,
        wall_s: float = 0.0,
        daily_steps: int = 0,
        daily_tokens: int = 0,
        daily_cost_usd: float = 0.0,
        run_id: str | None = None,
    ) -> BudgetDecision:
        """Add to the budget of a run because the user says so: no rule applies.

        What is added to the daily budget holds for all runs of the agent until the day ends.
        """
        given = {"steps": steps, "tokens": tokens, "cost_usd": cost_usd, "wall_s": wall_s}
        given |= _name_daily(daily_steps, daily_tokens, daily_cost_usd)
        return self._extend_budget(BUDGET_GRANTED, {"reason": reason, **given}, run_id)

    # --- checkpoints -----------------------------------------------------------------------------

    @property
    def keeper(self) -> CheckpointKeeper | None:
        """What keeps checkpoints; None to keep none."""
        return self._checkpoints.keeper

    @keeper.setter
    def keeper(self, keeper: CheckpointKeeper | None) -> None:
        self._checkpoints.keeper = keeper

    def checkpoint(
        self,
        *,
        turn: int | None = None,
        conversation_history: Sequence[Any] = (),
        goal_tree: dict[str, Any] | None = None,
        state_files: dict[str, FileContent] | None = None,
        file_modes: dict[str, int] | None = None,
        label: str = "",
        run_id: str | None = None,
    ) -> Checkpoint | None:
        """Save the state of a run, to return to; None when nothing keeps checkpoints or it failed.

        Our own memory of the run goes with it. One taken while something is wrong is never returned to.
        None is taken, and counted, while the saved state of the run was not read yet; `flush` waits for that.
        """
        return self._checkpoints.take(
            self._find(run_id),
            turn=turn,
            conversation_history=conversation_history,
            goal_tree=goal_tree,
            state_files=state_files,
            file_modes=file_modes,
            label=label,
        )

    def get_last_checkpoint(self, run_id: str | None = None) -> Checkpoint | None:
        """Return the checkpoint a run would go back to: the newest from before anything went wrong."""
        return self._checkpoints.find_last(self._find(run_id))

    def roll_back(self, run_id: str | None = None) -> Checkpoint | None:
        """Go back to the last good checkpoint and return it, for the caller to restore its own part from.

        What was spent stays spent, and incidents stay known; None when there is no checkpoint to return to.
        """
        return self._checkpoints.roll_back(self._find(run_id))

    def list_written_files(self, since: Checkpoint | None = None, *, run_id: str | None = None) -> list[str]:
        """Return the paths that tool calls of a run have written, for `restore_files` to remove new ones.

        Only calls that name a path and a content count, from the run's first checkpoint on; with `since`,
        those whose first write came after that checkpoint. At most 500 are kept.
        """
        return self._checkpoints.list_written_files(self._find(run_id), since)

    # --- for adapters ----------------------------------------------------------------------------

    @property
    def current_run(self) -> str | None:
        """The run that the code now executing belongs to."""
        return self.runs.find_current()

    def within(self, run_id: str) -> AbstractContextManager[None]:
        """Return a context manager: code in its block belongs to that run, which neither starts nor ends."""
        return self.runs.activate(self._identify(run_id) or "")

    def count_events(self, run_id: str) -> int:
        """Return how many events of a live run were recorded so far."""
        recorder = self.runs.get(self._identify(run_id) or "")
        return recorder.next_seq if recorder is not None else 0

    def stop_before_next(self, stop: RunStopped) -> None:
        """Let the run's next step raise a stop that cannot be raised now; see `waiting_stop`."""
        recorder = self.runs.get(stop.run_id)
        if recorder is not None:
            recorder.stop = stop

    def waiting_stop(self) -> RunStopped | None:
        """Return the stop that waits for the current run's next step."""
        recorder = self.runs.get(self.runs.find_current() or "")
        return recorder.stop if recorder is not None else None

    # --- callbacks -------------------------------------------------------------------------------

    def on_drift(self, callback: Callback, *, min_severity: str = "MED") -> Callback:
        """Call this with every finding of at least that severity, before `record_event` returns.

        It runs on the agent's own thread: keep it short. What it raises is counted, and the agent continues.
        """
        self._services.listeners.add(callback, Severity(min_severity))
        return callback

    def on_decision(self, callback: HookCallback) -> HookCallback:
        """Call this with every decision that calls for more than going on, before `record_event` returns.

        It runs where `on_drift` runs, and is told what is to be done: `verdict`, `guidance`, `findings`.
        """
        self._services.listeners.add_for_decisions(callback)
        return callback

    def on_incident(self, callback: IncidentCallback) -> IncidentCallback:
        """Call this with every incident that opens, gets worse or closes, where `on_drift` runs too."""
        self._services.listeners.add_for_incidents(callback)
        return callback

    def on_response(self, hook: Hook, callback: HookCallback) -> HookCallback:
        """Call this with the decision that asks to `force_checkpoint` or to `switch_model`."""
        self._services.listeners.add_hook(hook, callback)
        return callback

    def guidance(self, run_id: str | None = None) -> str:
        """Return the guidance for a run's next request to its model, each once; empty when there is none.

        What is returned counts as delivered, and its outcome is judged from then on.
        """
        recorder = self.runs.get(self._identify(run_id) or self.runs.find_current() or "")
        try:
            return recorder.take_guidance().guidance if recorder is not None else ""
        except Exception as exc:  # noqa: BLE001 - the agent must not notice
            self.health.swallow("guidance", exc)
            return ""

    @property
    def has_decision_callback(self) -> bool:
        """Whether a callback of `on_decision` receives every decision."""
        return self._services.listeners.has_decision_callback

    # --- what is known ---------------------------------------------------------------------------

    def get_recent_alerts(
        self, hours: float = 24, limit: int = 50, *, min_severity: str = "MED"
    ) -> list[Incident]:
        """Return the incidents of the agent in the last hours, the one with the latest finding first.

        They are in memory, at most the latest 200; those of other processes are among them a few seconds
        after they were stored, or after a `flush`. `get_findings` returns every finding.
        """
        since = self._services.clock() - hours * 3600
        return self._knowledge.list_incidents(since=since, severity=Severity(min_severity), limit=limit)

    def get_findings(
        self, hours: float = 24, limit: int = 100, *, min_severity: str = "LOW"
    ) -> list[DriftEvent]:
        """Return the findings of the agent in the last hours, newest first, as they are stored.

        It waits until everything recorded so far is written, and may raise StoreError.
        """
        if self.store is None:
            return []
        self.flush()
        since = self._services.clock() - hours * 3600
        return self.store.get_drift_events(
            self.agent_id, severity=Severity(min_severity), since=since, limit=limit
        )

    def get_baseline(self, *, version: str | None = None, task_type: str = "") -> BaselineStats:
        """Return what is normal for this agent, as far as it is learnt."""
        return self._knowledge.get_baseline(self._version if version is None else version, task_type)

    def status(self) -> dict[str, Any]:
        """Return what the monitor has learnt, what it cannot check, and what it lost."""
        info = RunInfo(agent_id=self.agent_id, run_id="", goal=self._goal, version=self._version)
        reference = self._knowledge.get_reference(self._version, "")
        session = self._sessions.begin(info, reference)
        unknown = {} if reference is not None else {"baseline": "it was not read from the database yet"}
        return {
            "agent_id": self.agent_id,
            "mode": self.mode,
            "disabled": self.disabled,
            "baseline": self.get_baseline().progress,
            "not_checked": {**session.not_checked, **unknown},
            "live_runs": len(self.runs),
            "queued": self._dispatch.waiting,
            "losses": self.health.totals(),
        }

    def not_checked(self, run_id: str | None = None) -> dict[str, str]:
        """Return the detectors that could not look in this run, with their reasons."""
        recorder = self.runs.get(self._identify(run_id) or self.runs.find_current() or "")
        return recorder.not_checked if recorder is not None else {}

    # --- upkeep ----------------------------------------------------------------------------------

    def flush(self, timeout_s: float = 5.0) -> FlushResult:
        """Wait until everything recorded so far is written, or the time is up; the result says which."""
        deadline = time.monotonic() + timeout_s
        waiting = self._starter.wait_for_answers(timeout_s)
        for recorder in filter(None, map(self.runs.get, tuple(self.runs))):
            recorder.put_incidents()
        result = self._dispatch.flush(max(0.0, deadline - time.monotonic()))
        is_done = self._wait_for_writer(max(0.0, deadline - time.monotonic()))
        if waiting or not is_done:
            return structs.replace(result, complete=False, remaining=result.remaining + waiting)
        return result

    def close(self, timeout_s: float = 2.0) -> FlushResult:
        """Suspend live runs and write what is queued, within the time given."""
        deadline = time.monotonic() + timeout_s
        if self._judge is not None:
            self._judge.close()
        self._starter.wait_for_answers(timeout_s / 2)
        self._starter.give_up_waiting()
        self.suspend_all()
        return self._dispatch.close(max(0.0, deadline - time.monotonic()))

    def declare(self, tool: str, declaration: ToolDeclaration) -> None:
        """Declare what is known about a tool, for runs that start from now on."""
        self._sessions.tools[tool] = declaration

    def use_baseline(self, baseline: BaselineStats) -> None:
        """Use a newer baseline of this agent."""
        self._knowledge.use_baseline(baseline)

    def after_fork(self) -> None:
        """Start afresh in a child process: a new queue and writer, and every live run a run of its own."""
        self.health.after_fork()
        self._dispatch.after_fork()
        if self._services.daily is not None:
            self._services.daily.after_fork()
        if self._judge is not None:
            self._judge.after_fork()
        self._set_inner_locks()
        self._services.listeners.after_fork()
        self._starter.after_fork()
        for part in (self.store, self.keeper):
            restart = getattr(part, "after_fork", None)
            if restart is not None:
                restart()
        self.runs.continue_in_child(os.getpid())

    # --- inside ----------------------------------------------------------------------------------

    def _refresh(self, *, with_incidents: bool = False) -> None:
        """Read what is known about the agent, and what runs wait for. Runs on the writer's thread."""
        self._knowledge.refresh(with_incidents=with_incidents)
        self._starter.answer_waiting()

    def _wait_for_writer(self, timeout_s: float) -> bool:
        """Wait until the writer has done the jobs it has, and has read what was written since."""
        done = threading.Event()

        def job() -> None:
            self._refresh(with_incidents=True)
            done.set()

        return not self._dispatch.run_on_writer(job) or done.wait(timeout_s)

    def _set_inner_locks(self) -> None:
        self._services.inner_locks = (
            self._dispatch.lock,
            self.health.lock,
            self.runs.lock,
            self._knowledge.lock,
            *(() if self._services.daily is None else (self._services.daily.lock,)),
        )

    def _identify(self, run_id: object) -> str | None:
        """Return the id of a run as it is kept, whatever the caller passed; None when it passed none."""
        return None if run_id is None else self._services.capture.identify(run_id)

    def _find(self, run_id: str | None) -> RunRecorder | None:
        """Return a live run that is recorded, by default that of this context."""
        if self.disabled:
            return None
        recorder = self.runs.get(self._identify(run_id) or self.runs.find_current() or "")
        return recorder if recorder is not None and recorder.is_sampled else None

    def _is_lost(self, run_id: str | None) -> bool:
        """Return whether a run should be live and is not: it could not be started."""
        if self.disabled or run_id is None:
            return False
        return self.runs.get(run_id) is None and not self.runs.has_ended(run_id)

    def _extend_budget(self, name: str, metadata: dict[str, Any], run_id: str | None) -> BudgetDecision:
        recorder = self._find(run_id)
        try:
            return _NO_BUDGET if recorder is None else recorder.extend_budget(name, metadata) or _NO_BUDGET
        except Exception as exc:  # noqa: BLE001 - the agent must not notice
            self.health.swallow("record_event", exc)
            return _NO_BUDGET

    def _report(
        self, name: str, metadata: dict[str, Any], *, run_id: str | None, call_id: str | None = None
    ) -> Decision:
        if self.disabled:
            return PROCEED
        try:
            run_id = self._identify(run_id)
            recorder = self._starter.find_or_start(run_id)
            if recorder is None:
                return PROCEED if run_id is not None and self.runs.has_ended(run_id) else UNDECIDED
            return recorder.report(name, metadata, call_id=call_id)
        except Exception as exc:  # noqa: BLE001 - the agent must not notice
            self.health.swallow("record_event", exc)
            return UNDECIDED


def _name_daily(steps: int, tokens: int, cost_usd: float) -> dict[str, float]:
    """Return the amounts of a day that are asked for, by name."""
    amounts = {"daily_steps": steps, "daily_tokens": tokens, "daily_cost_usd": cost_usd}
    return {name: amount for name, amount in amounts.items() if amount}


def _keep_up_to_date(reference: "weakref.ref[Monitor]", dispatch: Dispatch) -> None:
    monitor = reference()
    if monitor is None:
        dispatch.repeated_job = None
    else:
        monitor._refresh()  # noqa: SLF001 - a function of this module
