"""Many runs of one agent: what a host calls.

A guest in the agent's process: nothing here raises into it, blocks it, or changes its objects.
"""

import os
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Self

from steadyhelm.baselines import BaselineStats
from steadyhelm.budgets.limits import Budget
from steadyhelm.checkpoint import Checkpoint, CheckpointKeeper, FileContent
from steadyhelm.decisions import Hook, Verdict
from steadyhelm.declarations import ToolDeclaration
from steadyhelm.engine.coercion import to_timeout
from steadyhelm.engine.health import FlushResult
from steadyhelm.engine.listeners import Callback, HookCallback, IncidentCallback
from steadyhelm.engine.live_runs import OpenStreams, Run
from steadyhelm.engine.run_control import RunControl
from steadyhelm.engine.run_reports import RunReports
from steadyhelm.errors import RunStopped, SettingsError
from steadyhelm.events import RunInfo
from steadyhelm.findings import DriftEvent, Severity
from steadyhelm.forks import call_after_fork
from steadyhelm.incidents import Incident
from steadyhelm.policy.response_levels import VERDICTS


class Monitor(RunReports):
    """Watches and steers the runs of one agent. `steadyhelm.DriftMonitor` chooses its parts for you.

    Args:
        control: The runs of the agent, and what they share.
    """

    def __init__(self, control: RunControl) -> None:
        super().__init__(control)
        self.store = control.store
        self._dispatch = control.dispatch
        self._judge = control.judge
        self._knowledge = control.knowledge
        self._services = control.services
        self._checkpoints = control.checkpoints
        self.open_streams = OpenStreams()
        call_after_fork(self)
        control.load_knowledge()

    def __deepcopy__(self, _memo: dict[int, Any]) -> Self:
        # A host copies its agent, and the copy is watched too.
        return self

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.agent_id!r}, mode {self.mode}>"

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
        if self.disabled:
            return self._control.make_id(run_id)
        try:
            return self._control.start_run(
                run_id,
                goal,
                task_type=task_type,
                version=version,
                parent_run_id=parent_run_id,
                metadata=metadata,
                budget=budget,
                can=can,
            )
        except (
            RecursionError
        ):  # the host is near the end of its stack: a call to count it would raise as well
            self.health.out_of_stack += 1
            return run_id if type(run_id) is str else os.urandom(6).hex()

    def end_run(self, run_id: str | None = None, *, outcome: str = "") -> None:
        """End a run, by default the current one: it is judged as a whole, and its baseline learns from it."""
        if self.disabled:
            return
        try:
            self.open_streams.record_left(self.current_run if run_id is None else run_id)
            self._control.end_run(run_id, outcome=outcome)
        except RecursionError:
            self.health.out_of_stack += 1

    def run(self, goal: str | None = None, **options: Any) -> Run:
        """Return a run as a context manager, for `with` and `async with`; takes what `start_run` takes."""
        return Run(self, {"goal": goal, **options})

    def suspend(self, run_id: str | None = None) -> None:
        """Suspend a run; `start_run` with its id resumes it, here or in another process."""
        try:
            self._control.suspend(run_id)
        except RecursionError:
            self.health.out_of_stack += 1

    def suspend_all(self) -> None:
        """Suspend every live run."""
        self._control.suspend_all()

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
        try:
            return self._checkpoints.take(
                self._find(run_id),
                turn=turn,
                conversation_history=conversation_history,
                goal_tree=goal_tree,
                state_files=state_files,
                file_modes=file_modes,
                label=label,
            )
        except RecursionError:
            self.health.out_of_stack += 1
            return None

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
        return self.runs.activate(self._control.identify(run_id) or "")

    def count_events(self, run_id: str) -> int:
        """Return how many events of a live run were recorded so far."""
        recorder = self.runs.get(self._control.identify(run_id) or "")
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
        self._services.listeners.add(callback, _read_severity(min_severity))
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
        return self._knowledge.list_incidents(since=since, severity=_read_severity(min_severity), limit=limit)

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
            self.agent_id, severity=_read_severity(min_severity), since=since, limit=limit
        )

    def get_baseline(self, *, version: str | None = None, task_type: str = "") -> BaselineStats:
        """Return what is normal for this agent, as far as it is learnt."""
        return self._knowledge.get_baseline(self._control.version if version is None else version, task_type)

    def status(self) -> dict[str, Any]:
        """Return what the monitor has learnt, what it cannot check, and what it lost."""
        info = RunInfo(
            agent_id=self.agent_id, run_id="", goal=self._control.goal, version=self._control.version
        )
        reference = self._knowledge.get_reference(self._control.version, "")
        session = self._control.sessions.begin(info, reference)
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
        recorder = self.runs.get(self._control.identify(run_id) or self.runs.find_current() or "")
        return recorder.not_checked if recorder is not None else {}

    # --- upkeep ----------------------------------------------------------------------------------

    def flush(self, timeout_s: float = 5.0) -> FlushResult:
        """Wait until everything recorded so far is written, or the time is up; the result says which."""
        return self._control.flush(to_timeout(timeout_s))

    def close(self, timeout_s: float = 2.0) -> FlushResult:
        """Suspend live runs and write what is queued, within the time given."""
        return self._control.close(to_timeout(timeout_s))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def declare(self, tool: str, declaration: ToolDeclaration) -> None:
        """Declare what is known about a tool, for runs that start from now on."""
        if not isinstance(declaration, ToolDeclaration):
            raise SettingsError(
                f'A declaration must be a ToolDeclaration, such as ToolDeclaration(kind="poll"), '
                f"got {declaration!r}."
            )
        self._control.sessions.tools[tool] = declaration

    def use_baseline(self, baseline: BaselineStats) -> None:
        """Use a newer baseline of this agent."""
        self._knowledge.use_baseline(baseline)

    def after_fork(self) -> None:
        """Start afresh in a child process: a new queue and writer, and every live run a run of its own."""
        self._control.after_fork()


def _read_severity(name: str) -> Severity:
    """Return the severity of that name; raises SettingsError when there is none."""
    try:
        return Severity(name)
    except ValueError:
        raise SettingsError(f"min_severity must be one of {', '.join(Severity)}, got {name!r}.") from None
