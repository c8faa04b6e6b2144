"""Write every batch to the store, with the baselines, task profiles and alerts that follow from it."""

import time
from collections.abc import Callable, Collection, Sequence
from typing import Final, NamedTuple

from msgspec import structs

from steadyhelm.baselines import BaselineStats
from steadyhelm.budgets.profiles import clean_task_name
from steadyhelm.calibration import CleanRuns, count_unusual_run, learn_flagged_goal, learn_run
from steadyhelm.decisions import TaskProfile
from steadyhelm.errors import NotFoundError
from steadyhelm.events import RunSummary
from steadyhelm.incidents import Incident
from steadyhelm.policy.alerting import AlertPolicy
from steadyhelm.policy.response_levels import is_unlike_earlier_runs
from steadyhelm.sink import Record, RunKey, StoringSink
from steadyhelm.store import Store

_MIN_RUNS_READ: Final = 50
_DAY_S: Final = 86_400
_SUCCESS_OUTCOMES: Final = frozenset(
    ("", "done", "ok", "success", "successful", "succeeded", "completed", "finished", "passed", "resolved")
)
"""The outcomes of a completed task; a run that ended without an outcome counts as one too."""

BaselineKey = tuple[str, str, str]
"""Agent, version and task type."""


class LearntBaseline(NamedTuple):
    """A baseline as the runs of a batch have changed it so far, and when the last of them ended."""

    baseline: BaselineStats
    updated_at: float


class StoreSink(StoringSink):
    """Commits a batch, the baselines learnt from its ended runs, and its alerts, in one transaction.

    An alert can therefore never be lost once its incident is stored, and neither a baseline nor a task
    profile learns from a run twice.

    Args:
        store: The store to write to.
        calibration_runs: Clean runs until a baseline is calibrated.
        policy: When an alert is due.
        channels: Names of the channels every alert is sent to.
        on_baseline: Called with each new baseline, after it is committed.
        on_alert: Called when alerts wait to be sent, after they are committed.
        payload_days: Days that arguments and results are stored; 0 for ever.
        run_days: Days that runs are stored; 0 for ever.
        clock: Returns the time, for retention alone.
    """

    name = "store"

    def __init__(
        self,
        store: Store,
        *,
        calibration_runs: int = 30,
        policy: AlertPolicy | None = None,
        channels: Collection[str] = (),
        on_baseline: Callable[[BaselineStats], None] | None = None,
        on_alert: Callable[[], None] | None = None,
        payload_days: float = 0.0,
        run_days: float = 0.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._calibration_runs = calibration_runs
        self._runs_read = max(_MIN_RUNS_READ, calibration_runs)
        self._policy = policy or AlertPolicy()
        self._channels = tuple(channels)
        self._on_baseline = on_baseline
        self._on_alert = on_alert
        self._payload_days = payload_days
        self._run_days = run_days
        self._clock = clock
        self._pruned_at = 0.0

    def write(self, records: Sequence[Record]) -> None:
        """Write one batch and what follows from it."""
        baselines, has_alerts = self._store.run_transaction(lambda: self._write(records))
        if self._on_baseline is not None:
            for baseline in baselines:
                self._on_baseline(baseline)
        if has_alerts and self._on_alert is not None:
            self._on_alert()
        self._prune_daily()

    def _write(self, records: Sequence[Record]) -> tuple[list[BaselineStats], bool]:
        """Write a batch and what follows from it. Returns the new baselines, and whether alerts wait."""
        baselines: list[BaselineStats] = []
        has_alerts = False
        # Baselines and alerts follow from what is stored: no other process may change it in the meantime.
        followed = [record for record in records if isinstance(record, (RunSummary, Incident))]
        self._store.lock_agents({record.agent_id for record in followed})
        news = self._select_news(followed) if self._channels else ()
        self._store.write(records)
        # Read and saved once for all runs that end in a batch: every one of them is stored by now.
        recent: dict[BaselineKey, CleanRuns] = {}
        learnt: dict[BaselineKey, LearntBaseline] = {}
        for record in followed:
            if isinstance(record, RunSummary):
                baselines += self._learn(record, recent, learnt)
            elif record in news:
                has_alerts = self._queue_alert(record) or has_alerts
        for baseline, updated_at in learnt.values():
            self._store.save_baseline(baseline, updated_at=updated_at)
        return baselines, has_alerts

    @property
    def path(self) -> str | None:
        """The path beside which records wait for the store; None when it has none."""
        path = getattr(self._store, "journal_path", None)
        return None if path is None else str(path)

    @property
    def replacements(self) -> int:
        """How often the database was found deleted or replaced."""
        return int(getattr(self._store, "replacements", 0))

    def reserve_runs(self, runs: Sequence[RunKey]) -> dict[str, str]:
        """Return the id under which each run is stored, by epoch."""
        return self._store.reserve_runs(runs)

    def _select_news(self, records: Sequence[Record]) -> list[Incident]:
        """Return the versions of incidents that are newer than what is stored: a batch may come twice."""
        return [record for record in records if isinstance(record, Incident) and self._is_news(record)]

    def _is_news(self, incident: Incident) -> bool:
        try:
            stored = self._store.find_incident(incident.incident_id)
        except NotFoundError:
            return True
        return _count_changes(incident) > _count_changes(stored)

    def close(self) -> None:
        """Close the store."""
        self._store.close()

    def _prune_daily(self) -> None:
        now = self._clock()
        if now - self._pruned_at < _DAY_S:
            return
        self._pruned_at = now
        self._store.prune(
            payloads_before=now - self._payload_days * _DAY_S if self._payload_days else None,
            runs_before=now - self._run_days * _DAY_S if self._run_days else None,
        )

    def _learn(
        self,
        run: RunSummary,
        recent: dict[BaselineKey, CleanRuns],
        learnt: dict[BaselineKey, LearntBaseline],
    ) -> list[BaselineStats]:
        """Return the baseline that this run changes, if any. It learns from each run once."""
        is_unusual = run.had_incident and self._is_only_unusual(run)
        if run.had_incident and not (run.goal_flagged or is_unusual):
            return []
        if not self._store.mark_taught(run.agent_id, run.run_id):
            return []
        if not run.had_incident:
            self._update_profile(run)
        key = (run.agent_id, run.version, run.task_type)
        before = learnt[key].baseline if key in learnt else self._get_baseline(*key)
        if run.had_incident:
            baseline = learn_flagged_goal(before, run)
            baseline = count_unusual_run(baseline) if is_unusual else baseline
        else:
            if key not in recent:
                recent[key] = self._read_recent(*key)
            baseline = learn_run(before, run, recent[key] if recent[key].runs else CleanRuns([run]))
        if baseline is before:
            return []
        learnt[key] = LearntBaseline(baseline, run.ended_at)
        return [baseline]

    def _is_only_unusual(self, run: RunSummary) -> bool:
        """Return whether the run's incidents say only that it differs from the agent's earlier runs."""
        incidents = self._store.list_incidents(run.agent_id, run.run_id)
        return bool(incidents) and all(map(is_unlike_earlier_runs, incidents))

    def _get_baseline(self, agent_id: str, version: str, task_type: str) -> BaselineStats:
        """Return the stored baseline, a new one where there is none."""
        return self._store.get_baseline(agent_id, version, task_type) or BaselineStats(
            agent_id=agent_id, version=version, task_type=task_type, required_runs=self._calibration_runs
        )

    def _read_recent(self, agent_id: str, version: str, task_type: str) -> CleanRuns:
        return CleanRuns(
            self._store.list_run_summaries(
                agent_id, version=version, task_type=task_type, limit=self._runs_read
            )
        )

    def _update_profile(self, run: RunSummary) -> None:
        """Add a completed task to the profile of its type."""
        task = to_completed_task(run)
        if task is not None:
            self._store.add_tasks(structs.replace(task, cost_usd=self._get_cost_usd(run)))

    def _get_cost_usd(self, run: RunSummary) -> float:
        try:
            return self._store.find_run(run.run_id, agent_id=run.agent_id).cost_usd
        except NotFoundError:
            return 0.0

    def _queue_alert(self, incident: Incident) -> bool:
        now = incident.last_at
        last = self._store.get_last_alert(incident.agent_id, incident.detector)
        reason = self._policy.decide(incident, last, now=now)
        if reason is None or (reason == "still" and self._is_settled(incident.incident_id)):
            return False
        unreported = 0
        if last is not None and reason == "opened":
            since = self._store.list_incidents(
                incident.agent_id,
                detector=incident.detector,
                severity=self._policy.min_severity,
                since=last.at,
            )
            unreported = len(
                {other.incident_id for other in since} - {incident.incident_id, last.incident_id}
            )
        alert = self._policy.build_alert(incident, reason, now=now, also=unreported)
        for channel in self._channels:
            self._store.enqueue(alert.to_delivery(channel))
        return True

    def _is_settled(self, incident_id: str) -> bool:
        """Return whether a person acknowledged the incident or marked it as a false alarm."""
        incident = self._store.find_incident(incident_id)
        return incident.acknowledged_at is not None or incident.review == "false_alarm"


def _count_changes(incident: Incident) -> tuple[int, int, int, bool]:
    """Return what only ever grows from one version of an incident to the next."""
    return incident.findings, incident.last_seq, len(incident.interventions), incident.state == "closed"


def to_completed_task(run: RunSummary) -> TaskProfile | None:
    """Return the run as one completed task of its type, or None when it is none or has no type.

    A clean run is a completed task when it has events and its outcome is empty or is, as a whole, one of
    the words for success: nothing is learnt from any other outcome.

    >>> run = RunSummary(agent_id="a", run_id="r", task_type="refund", events=9, tool_calls=4, outcome="Done")
    >>> to_completed_task(run).steps
    4
    >>> to_completed_task(structs.replace(run, outcome="resolved: no")) is None
    True
    """
    task_type = clean_task_name(run.task_type)
    if not task_type or run.had_incident or not run.events:
        return None
    if str(run.outcome).strip(" .!").casefold() not in _SUCCESS_OUTCOMES:
        return None
    return TaskProfile(
        agent_id=run.agent_id,
        task_type=task_type,
        tasks=1,
        steps=run.tool_calls,
        tokens=run.tokens,
        wall_s=run.duration_ms / 1000,
    )
