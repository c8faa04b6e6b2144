"""Keep every batch in the store, and with it what follows from it: baselines, task profiles and alerts."""

import time
from collections.abc import Callable, Collection, Sequence
from typing import Final

from msgspec import structs

from steadyhelm.baselines import BaselineStats
from steadyhelm.budgets.profiles import clean_task_name
from steadyhelm.calibration import calibrate
from steadyhelm.decisions import TaskProfile
from steadyhelm.errors import NotFoundError
from steadyhelm.events import RunSummary
from steadyhelm.incidents import Incident
from steadyhelm.policy.alerting import AlertPolicy
from steadyhelm.sink import Record, Sink
from steadyhelm.store import Store

_LEARNT_FROM: Final = 50
_DAY_S: Final = 86_400
_COMPLETED: Final = frozenset(
    ("", "done", "ok", "success", "successful", "succeeded", "completed", "finished", "passed", "resolved")
)
"""The outcomes that say a task was completed; a run that ended without a word of trouble is one too."""


class StoreSink(Sink):
    """Commits a batch, what its ended runs teach, and the alerts it calls for, in one transaction.

    An alert can therefore never be lost once its incident is kept, and neither a baseline nor a task
    profile learns a run twice.

    Args:
        store: Where it is kept.
        calibration_runs: Clean runs until a baseline counts.
        policy: When an alert is due.
        channels: Names of the channels every alert goes to.
        on_baseline: Told each new baseline, after it is committed.
        on_alert: Told when alerts wait to be sent, after they are committed.
        payload_days: Days that arguments and results are kept; 0 for ever.
        run_days: Days that runs are kept; 0 for ever.
        clock: The time, for retention alone.
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
        self._learnt_from = max(_LEARNT_FROM, calibration_runs)
        self._policy = policy or AlertPolicy()
        self._channels = tuple(channels)
        self._on_baseline = on_baseline
        self._on_alert = on_alert
        self._payload_days = payload_days
        self._run_days = run_days
        self._clock = clock
        self._pruned_at = 0.0

    def write(self, records: Sequence[Record]) -> None:
        """Keep one batch and what follows from it."""
        learnt: list[BaselineStats] = []
        alerted = False
        with self._store.transaction():
            self._store.write(records)
            for record in records:
                if isinstance(record, RunSummary) and not record.had_incident:
                    learnt.append(self._learn(record))
                    self._profile(record)
                elif isinstance(record, Incident) and self._channels:
                    alerted = self._alert(record) or alerted
        if self._on_baseline is not None:
            for baseline in learnt:
                self._on_baseline(baseline)
        if alerted and self._on_alert is not None:
            self._on_alert()
        self._prune_daily()

    def close(self) -> None:
        """Let go of the store."""
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

    def _learn(self, run: RunSummary) -> BaselineStats:
        before = self._store.get_baseline(run.agent_id, run.version, run.task_type) or BaselineStats(
            agent_id=run.agent_id,
            version=run.version,
            task_type=run.task_type,
            required_runs=self._calibration_runs,
        )
        recent = self._store.list_run_summaries(
            run.agent_id, version=run.version, task_type=run.task_type, limit=self._learnt_from
        )
        baseline = calibrate(before, run, recent or [run])
        self._store.save_baseline(baseline, updated_at=run.ended_at)
        return baseline

    def _profile(self, run: RunSummary) -> None:
        """A completed task teaches what tasks of its type take."""
        task = completed_task(run)
        if task is not None:
            self._store.add_tasks(structs.replace(task, cost_usd=self._cost_of(run)))

    def _cost_of(self, run: RunSummary) -> float:
        try:
            return self._store.find_run(run.run_id, agent_id=run.agent_id).cost_usd
        except NotFoundError:
            return 0.0

    def _alert(self, incident: Incident) -> bool:
        now = incident.last_at
        last = self._store.get_last_alert(incident.agent_id, incident.detector)
        reason = self._policy.decide(incident, last, now=now)
        if reason is None or (reason == "still" and self._is_settled(incident.incident_id)):
            return False
        untold = 0
        if last is not None and reason == "opened":
            since = self._store.list_incidents(
                incident.agent_id,
                detector=incident.detector,
                severity=self._policy.min_severity,
                since=last.at,
            )
            untold = len({other.incident_id for other in since} - {incident.incident_id, last.incident_id})
        alert = self._policy.build_alert(incident, reason, now=now, also=untold)
        for channel in self._channels:
            self._store.enqueue(alert.to_delivery(channel))
        return True

    def _is_settled(self, incident_id: str) -> bool:
        """Whether somebody has seen it, or called it a false alarm: then it is not told again."""
        kept = self._store.find_incident(incident_id)
        return kept.acknowledged_at is not None or kept.review == "false_alarm"


def completed_task(run: RunSummary) -> TaskProfile | None:
    """The run as one completed task of its type; None when it is none, or nobody said of which type.

    A clean run is a completed task when something happened in it and its outcome is empty or is, as a
    whole, one of the words for success: what is not plainly success teaches nothing.

    >>> run = RunSummary(agent_id="a", run_id="r", task_type="refund", events=9, tool_calls=4, outcome="Done")
    >>> completed_task(run).steps
    4
    >>> completed_task(structs.replace(run, outcome="resolved: no")) is None
    True
    """
    task_type = clean_task_name(run.task_type)
    if not task_type or run.had_incident or not run.events:
        return None
    if str(run.outcome).strip(" .!").casefold() not in _COMPLETED:
        return None
    return TaskProfile(
        agent_id=run.agent_id,
        task_type=task_type,
        tasks=1,
        steps=run.tool_calls,
        tokens=run.tokens,
        wall_s=run.duration_ms / 1000,
    )
