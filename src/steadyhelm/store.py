"""The contract of a store, by role: runs, baselines, incidents, the outbox of alerts, and upkeep.

Take the role you need as a parameter; `Store` is all of them, and what a database implements.
One process may have one writer; any number of processes may read, and write.
"""

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from steadyhelm.baselines import BaselineStats
from steadyhelm.decisions import TaskProfile
from steadyhelm.events import RunSummary, TraceEvent
from steadyhelm.findings import DriftEvent, Severity
from steadyhelm.incidents import Incident, IncidentState, Mute, Review, Threshold
from steadyhelm.people import PeopleStore
from steadyhelm.sink import PinnedBaseline, Record, RecordedEvent, RunKey
from steadyhelm.store_rows import (
    AgentSpending,
    Delivery,
    DeliveryState,
    LastAlert,
    PruneCounts,
    StoredAgent,
    StoredIntervention,
    StoredRun,
    ToolRow,
)

Result = TypeVar("Result")
JUDGE_ACCOUNT: Final = "steadyhelm judge"
"""The name under which is stored what judges have used. It stands beside the names of agents, and is none."""


class RunStore(Protocol):
    """Runs with their events, findings and saved sessions."""

    @abstractmethod
    def transaction(self) -> AbstractContextManager[None]:
        """Commit everything written inside together, or nothing of it. Transactions may be nested."""

    @abstractmethod
    def run_transaction(self, work: Callable[[], Result]) -> Result:
        """Return what a function returns that is called in a transaction.

        It is called again where another process, or a lost connection, made the transaction fail: what it
        does besides writing to the store must be harmless when done twice.
        """

    @abstractmethod
    def lock_agents(self, agent_ids: Collection[str]) -> None:
        """Wait until no other transaction has locked one of these agents; until this one ends, none does.

        Lock whatever is read in order to be changed, and before anything is written.
        """

    @abstractmethod
    def write(self, records: Sequence[Record]) -> None:
        """Store one batch. An event already stored under the same run and seq is left unchanged."""

    def save_trace(self, event: TraceEvent) -> None:
        """Store one event and commit it."""
        with self.transaction():
            self.write([RecordedEvent.of(event)])

    def save_drift(self, event: DriftEvent) -> None:
        """Store one finding and commit it."""
        with self.transaction():
            self.write([event])

    @abstractmethod
    def list_agents(self) -> list[StoredAgent]:
        """Return every agent, the most recently active first."""

    @abstractmethod
    def list_runs(
        self, agent_id: str | None = None, *, limit: int = 50, before: float | None = None
    ) -> list[StoredRun]:
        """Return runs, newest first. `before` is a start time: the last one of a page gets the next."""

    @abstractmethod
    def find_run(self, run_id: str, *, agent_id: str | None = None) -> StoredRun:
        """Return the run with this id, or whose id alone begins with it. Raises NotFoundError."""

    @abstractmethod
    def list_run_tools(self, agent_id: str, run_id: str) -> list[ToolRow]:
        """Return the tools a run called, most used first."""

    @abstractmethod
    def get_run_metadata(self, agent_id: str, run_id: str) -> dict[str, Any]:
        """Return the metadata a run was started with; empty when it had none."""

    @abstractmethod
    def iter_run_events(self, agent_id: str, run_id: str) -> Iterator[RecordedEvent]:
        """Yield a run's events in order, with their payloads as stored."""

    @abstractmethod
    def get_traces(
        self,
        agent_id: str | None = None,
        run_id: str | None = None,
        since: float | None = None,
        limit: int = 100,
    ) -> list[TraceEvent]:
        """Return events, newest first."""

    def get_run_traces(self, agent_id: str, run_id: str) -> list[TraceEvent]:
        """Return a run's events, oldest first."""
        return [recorded.event for recorded in self.iter_run_events(agent_id, run_id)]

    @abstractmethod
    def get_recent_actions(self, agent_id: str, run_id: str, window: int = 20) -> list[str]:
        """Return the names of a run's last tool calls, oldest first."""

    def get_run_ids(self, agent_id: str, limit: int = 50) -> list[str]:
        """Return the ids of an agent's runs, newest first."""
        return [run.run_id for run in self.list_runs(agent_id, limit=limit)]

    @abstractmethod
    def get_run_stats(self, agent_id: str, run_id: str) -> dict[str, Any]:
        """Return the totals of a run; all zero for a run that is not stored.

        The keys are event_count, total_tokens, tool_calls, llm_calls, start_time, end_time and
        total_duration_ms.
        """

    @abstractmethod
    def get_drift_events(
        self,
        agent_id: str | None = None,
        run_id: str | None = None,
        severity: Severity | None = None,
        since: float | None = None,
        limit: int = 100,
    ) -> list[DriftEvent]:
        """Return findings, newest first. `severity` is the lowest one to return."""

    @abstractmethod
    def reserve_runs(self, runs: Sequence[RunKey]) -> dict[str, str]:
        """Return the id of each stored run, by epoch; a new one is stored under an id no other run has."""

    @abstractmethod
    def mark_taught(self, agent_id: str, run_id: str) -> bool:
        """Remember that a run was learnt from. Returns False when it had been before."""

    @abstractmethod
    def list_suspended(self, agent_id: str, *, limit: int = 10_000) -> list[str]:
        """Return the ids of an agent's suspended runs, the most recently suspended first."""

    @abstractmethod
    def take_state(self, agent_id: str, run_id: str) -> bytes | None:
        """Remove and return the saved session of a run, or return None when there is none."""


class BaselineStore(Protocol):
    """Baselines of agents and profiles of task types, with the runs they are learnt from."""

    @abstractmethod
    def get_baseline(self, agent_id: str, version: str = "", task_type: str = "") -> BaselineStats | None:
        """Return an agent's baseline, or None when nothing was learnt yet."""

    @abstractmethod
    def list_baselines(self, agent_id: str | None = None) -> list[BaselineStats]:
        """Return every stored baseline, by agent, version and task type."""

    @abstractmethod
    def save_baseline(self, baseline: BaselineStats, *, updated_at: float = 0.0) -> None:
        """Store an agent's baseline for its version and task type, replacing the one before it."""

    @abstractmethod
    def reset_baseline(self, agent_id: str, version: str = "", task_type: str = "") -> bool:
        """Delete a baseline and learn a new one from the next run on. Returns whether there was one."""

    @abstractmethod
    def list_run_summaries(
        self, agent_id: str, *, version: str = "", task_type: str = "", limit: int = 50
    ) -> list[RunSummary]:
        """Return the newest ended, clean runs that a baseline may learn from, oldest first.

        Runs before the last reset of the baseline are left out.
        """

    @abstractmethod
    def get_pinned_baseline(self, agent_id: str, run_id: str) -> PinnedBaseline | None:
        """Return what a run is compared with, and from which event on; None when nothing was pinned."""

    @abstractmethod
    def list_profiles(self, agent_id: str | None = None) -> list[TaskProfile]:
        """Return the profile of each task type, by agent and type."""

    @abstractmethod
    def save_profile(self, profile: TaskProfile) -> None:
        """Store the profile of a task type, replacing the one before it."""

    @abstractmethod
    def add_tasks(self, profile: TaskProfile) -> None:
        """Add the totals of these completed tasks to the profile of their type."""


class SpendingStore(Protocol):
    """What agents spend, over all their runs: summed as events are stored."""

    @abstractmethod
    def list_spending(
        self, *, since: float, until: float, agent_id: str | None = None
    ) -> list[AgentSpending]:
        """Return what each agent spent or was granted from one time to another, by agent.

        Times are whole quarters of an hour. What deleted runs spent stays counted.
        """


class IncidentStore(Protocol):
    """Incidents, and people's responses to them: acknowledgements, reviews, mutes and thresholds."""

    @abstractmethod
    def list_incidents(
        self,
        agent_id: str | None = None,
        run_id: str | None = None,
        *,
        state: IncidentState | None = None,
        detector: str | None = None,
        severity: Severity | None = None,
        since: float | None = None,
        limit: int = 50,
    ) -> list[Incident]:
        """Return incidents, the one with the latest finding first.

        `severity` is the lowest one to return; incidents whose latest finding is before `since` are left out.
        """

    @abstractmethod
    def find_incident(self, incident_id: str) -> Incident:
        """Return the incident with this id, or whose id alone begins with it. Raises NotFoundError."""

    @abstractmethod
    def list_interventions(
        self, agent_id: str | None = None, *, since: float | None = None, limit: int = 1000
    ) -> list[StoredIntervention]:
        """Return interventions, newest first."""

    @abstractmethod
    def acknowledge(self, incident_id: str, *, at: float | None, by: str = "") -> None:
        """Mark an incident as seen by a person; without a time, as not seen."""

    @abstractmethod
    def review(self, incident_id: str, verdict: Review, *, at: float | None = None, by: str = "") -> None:
        """Store whether an incident was right or a false alarm. An empty verdict removes the review."""

    @abstractmethod
    def mute(self, mute: Mute) -> None:
        """Send no alerts of a detector for an agent until a time, replacing an earlier mute."""

    @abstractmethod
    def unmute(self, agent_id: str, detector: str) -> bool:
        """Send alerts again. Returns whether the detector was muted."""

    @abstractmethod
    def list_mutes(self, *, at: float) -> list[Mute]:
        """Return the mutes in force at a time."""

    @abstractmethod
    def list_thresholds(self, agent_id: str | None = None) -> list[Threshold]:
        """Return the changed thresholds in force, newest last."""

    @abstractmethod
    def save_threshold(self, threshold: Threshold) -> None:
        """Store a changed threshold of a detector for an agent; one per incident."""

    @abstractmethod
    def drop_threshold(self, incident_id: str) -> bool:
        """Undo the change of threshold that an incident caused. Returns whether there was one."""


class Outbox(Protocol):
    """Alerts that wait to be sent, and how sending them went."""

    @abstractmethod
    def enqueue(self, delivery: Delivery) -> None:
        """Queue an alert. One with the same id is left unchanged."""

    @abstractmethod
    def get_last_alert(self, agent_id: str, detector: str) -> LastAlert | None:
        """Return the latest alert queued for an agent and detector, whatever its state."""

    @abstractmethod
    def claim_deliveries(
        self, *, lease_s: float, now: float | None = None, limit: int = 10
    ) -> list[Delivery]:
        """Return due alerts and lease them: no other process gets them until the lease has expired.

        Without a time, the clock that all processes of the store share says what is due.
        """

    @abstractmethod
    def settle_delivery(
        self,
        delivery_id: str,
        state: DeliveryState,
        *,
        attempts: int | None = None,
        next_at: float = 0.0,
        error: str = "",
    ) -> bool:
        """Record the result of an attempt. `pending` with a later `next_at` schedules another one.

        Changes nothing and returns False when `attempts` is not the number of the latest attempt: the lease
        expired in the meantime, and another process has it.
        """

    @abstractmethod
    def list_deliveries(self, *, state: DeliveryState | None = None, limit: int = 50) -> list[Delivery]:
        """Return alerts with their state, newest first."""


class Upkeep(Protocol):
    """Deletion, retention, backup and checks of what is stored."""

    @abstractmethod
    def get_version(self) -> object:
        """Return a value that differs after anything was written, by this process or another.

        Values of different threads can be compared: they may differ although nothing was written, never the
        other way around.
        """

    @abstractmethod
    def get_losses(self) -> dict[str, int]:
        """Return how much was lost, by reason."""

    @abstractmethod
    def mark_recorded(
        self, token: str, at: float, *, kept: Collection[str] = (), before: float = 0.0
    ) -> None:
        """Mark what this token names as recorded; forget marks from `before`, except those `kept`."""

    @abstractmethod
    def is_accounted(self, token: str) -> bool:
        """Return whether what this token names was marked as recorded, or counted as lost."""

    @abstractmethod
    def delete_run(self, agent_id: str, run_id: str) -> int:
        """Delete a run and everything that belongs to it. Returns the number of its events."""

    @abstractmethod
    def delete_agent(self, agent_id: str) -> int:
        """Delete an agent and everything that belongs to it. Returns the number of its runs."""

    @abstractmethod
    def prune(self, *, payloads_before: float | None = None, runs_before: float | None = None) -> PruneCounts:
        """Delete payloads and whole runs that are older than these times."""

    @abstractmethod
    def backup(self, path: Path) -> None:
        """Copy everything to a new file while others go on writing. Raises when the file exists."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return the path, size and schema of the database, and the number of rows of each table."""

    @abstractmethod
    def check(self) -> list[str]:
        """Return the faults found in the database; empty when it is sound."""

    @abstractmethod
    def close(self) -> None:
        """Close all connections."""


class Store(RunStore, BaselineStore, SpendingStore, IncidentStore, Outbox, PeopleStore, Upkeep, Protocol):
    """Everything Steadyhelm stores: all roles on one database, written in one transaction."""
