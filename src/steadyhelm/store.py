"""The contract of a store: what the engine and the sinks write, and what everybody reads back.

One process may have one writer; any number may read.
Everything between `transaction()`'s begin and end is kept together or not at all.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from steadyhelm.baselines import BaselineStats
from steadyhelm.decisions import Intervention, TaskProfile
from steadyhelm.events import RunSummary, TraceEvent
from steadyhelm.findings import DriftEvent, Kind, Severity
from steadyhelm.incidents import Incident, IncidentState, Mute, Review, Threshold
from steadyhelm.sink import Record, RecordedEvent

RunState = Literal["running", "suspended", "ended"]
DeliveryState = Literal["pending", "sent", "failed", "muted"]


class RunRow(Struct, frozen=True, kw_only=True):
    """One line of the list of runs, read from the run's own summary."""

    agent_id: str
    run_id: str
    goal: str = ""
    version: str = ""
    task_type: str = ""
    parent_run_id: str | None = None
    state: RunState = "running"
    outcome: str = ""
    started_at: float = 0.0
    last_at: float = 0.0
    events: int = 0
    tokens: int = 0
    tool_calls: int = 0
    llm_calls: int = 0
    errors: int = 0
    duration_ms: float = 0.0
    cost_usd: float = 0.0
    findings: int = 0
    incidents: int = 0
    peak: float = 0.0


class AgentRow(Struct, frozen=True, kw_only=True):
    """One agent, and how much is kept of it."""

    agent_id: str
    runs: int
    last_at: float
    open_incidents: int


class ToolRow(Struct, frozen=True, kw_only=True):
    """How often one run used one action, and at what cost."""

    action_name: str
    calls: int
    errors: int
    tokens: int
    duration_ms: float


class Delivery(Struct, frozen=True, kw_only=True):
    """One alert on its way to one channel. `delivery_id` stays the same however often it is sent."""

    delivery_id: str
    agent_id: str
    run_id: str
    incident_id: str
    detector: str
    severity: Severity
    reason: str
    channel: str
    body: bytes
    created_at: float
    state: DeliveryState = "pending"
    attempts: int = 0
    next_at: float = 0.0
    error: str = ""


class LastAlert(Struct, frozen=True, kw_only=True):
    """The latest alert for one agent and detector: what cooldown and digest are measured from."""

    at: float
    severity: Severity
    incident_id: str


class KeptIntervention(Struct, frozen=True, kw_only=True):
    """One answer to an incident, with what it was an answer to.

    `review` is what people said about the incident: an answer to a false alarm proves nothing.
    """

    incident_id: str
    agent_id: str
    run_id: str
    kind: Kind
    detector: str
    intervention: Intervention
    review: Review = ""


class Pruned(Struct, frozen=True, kw_only=True):
    """What retention took away."""

    payloads: int = 0
    runs: int = 0
    events: int = 0


class Store(ABC):
    """Keeps runs, events, findings, incidents, what was learnt, saved sessions and alerts on their way."""

    # --- writing: one thread ---------------------------------------------------------------------

    @abstractmethod
    def transaction(self) -> AbstractContextManager[None]:
        """Everything written inside is kept together or not at all."""

    @abstractmethod
    def write(self, records: Sequence[Record]) -> None:
        """Keep one batch; an event already kept under the same run and seq is left as it is."""

    @abstractmethod
    def save_baseline(self, baseline: BaselineStats, *, updated_at: float = 0.0) -> None:
        """Keep an agent's baseline for its version and task type."""

    @abstractmethod
    def save_profile(self, profile: TaskProfile) -> None:
        """Keep what tasks of one type take, in place of what was known."""

    @abstractmethod
    def add_tasks(self, profile: TaskProfile) -> None:
        """Add what these completed tasks took to what is known of their type."""

    @abstractmethod
    def enqueue(self, delivery: Delivery) -> None:
        """Put an alert on its way; one with the same id is left as it is."""

    # --- runs and events -------------------------------------------------------------------------

    @abstractmethod
    def agents(self) -> list[AgentRow]:
        """Every agent, the most recently active first."""

    @abstractmethod
    def runs(
        self, agent_id: str | None = None, *, limit: int = 50, before: float | None = None
    ) -> list[RunRow]:
        """Runs, newest first; `before` a start time pages on."""

    @abstractmethod
    def find_run(self, run_id: str, *, agent_id: str | None = None) -> RunRow:
        """The run with this id or unique prefix of one; raises NotFoundError."""

    @abstractmethod
    def run_tools(self, agent_id: str, run_id: str) -> list[ToolRow]:
        """What a run used, most used first."""

    @abstractmethod
    def run_events(self, agent_id: str, run_id: str) -> Iterator[RecordedEvent]:
        """A run's events in order, payloads as stored."""

    @abstractmethod
    def run_summaries(
        self, agent_id: str, *, version: str = "", task_type: str = "", limit: int = 50
    ) -> list[RunSummary]:
        """Ended, clean runs that may teach the baseline, oldest first; runs before a reset do not count."""

    # --- the seed's queries ----------------------------------------------------------------------

    @abstractmethod
    def get_traces(
        self,
        agent_id: str | None = None,
        run_id: str | None = None,
        since: float | None = None,
        limit: int = 100,
    ) -> list[TraceEvent]:
        """Events, newest first."""

    def get_run_traces(self, agent_id: str, run_id: str) -> list[TraceEvent]:
        """A run's events, oldest first."""
        return [recorded.event for recorded in self.run_events(agent_id, run_id)]

    @abstractmethod
    def get_recent_actions(self, agent_id: str, run_id: str, window: int = 20) -> list[str]:
        """The names of a run's last tool calls, oldest first."""

    def get_run_ids(self, agent_id: str, limit: int = 50) -> list[str]:
        """The ids of an agent's runs, newest first."""
        return [run.run_id for run in self.runs(agent_id, limit=limit)]

    @abstractmethod
    def get_run_stats(self, agent_id: str, run_id: str) -> dict[str, Any]:
        """event_count, total_tokens, tool_calls, llm_calls, start_time, end_time, total_duration_ms."""

    @abstractmethod
    def get_drift_events(
        self,
        agent_id: str | None = None,
        run_id: str | None = None,
        severity: Severity | None = None,
        since: float | None = None,
        limit: int = 100,
    ) -> list[DriftEvent]:
        """Findings, newest first; `severity` is the lowest that counts."""

    @abstractmethod
    def get_baseline(self, agent_id: str, version: str = "", task_type: str = "") -> BaselineStats | None:
        """An agent's baseline, or None when nothing was learnt yet."""

    def save_trace(self, event: TraceEvent) -> None:
        """Keep one event at once."""
        with self.transaction():
            self.write([RecordedEvent.of(event)])

    def save_drift(self, event: DriftEvent) -> None:
        """Keep one finding at once."""
        with self.transaction():
            self.write([event])

    # --- baselines -------------------------------------------------------------------------------

    @abstractmethod
    def baselines(self, agent_id: str | None = None) -> list[BaselineStats]:
        """Every baseline kept."""

    @abstractmethod
    def reset_baseline(self, agent_id: str, version: str = "", task_type: str = "") -> bool:
        """Forget a baseline and start learning anew from the next run; False when there was none."""

    # --- task profiles ---------------------------------------------------------------------------

    @abstractmethod
    def profiles(self, agent_id: str | None = None) -> list[TaskProfile]:
        """What tasks of each type take, by agent and type."""

    # --- incidents and what people say about them ------------------------------------------------

    @abstractmethod
    def incidents(
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
        """Incidents, newest first."""

    @abstractmethod
    def find_incident(self, incident_id: str) -> Incident:
        """The incident with this id or unique prefix of one; raises NotFoundError."""

    @abstractmethod
    def interventions(
        self, agent_id: str | None = None, *, since: float | None = None, limit: int = 1000
    ) -> list[KeptIntervention]:
        """What was said and done about incidents, newest first."""

    @abstractmethod
    def acknowledge(self, incident_id: str, *, at: float) -> None:
        """Somebody has seen it."""

    @abstractmethod
    def review(self, incident_id: str, verdict: Review) -> None:
        """Somebody says whether it was right; the empty verdict takes that back."""

    @abstractmethod
    def mute(self, mute: Mute) -> None:
        """No alerts of this detector for this agent until then; replaces an earlier mute."""

    @abstractmethod
    def unmute(self, agent_id: str, detector: str) -> bool:
        """Alerts again; False when it was not muted."""

    @abstractmethod
    def mutes(self, *, at: float) -> list[Mute]:
        """Mutes in force at that time."""

    @abstractmethod
    def thresholds(self, agent_id: str | None = None) -> list[Threshold]:
        """Moved thresholds in force, newest last."""

    @abstractmethod
    def save_threshold(self, threshold: Threshold) -> None:
        """Move a detector's threshold for an agent."""

    @abstractmethod
    def drop_threshold(self, incident_id: str) -> bool:
        """Undo the move that this incident caused; False when there was none."""

    # --- sessions put aside ----------------------------------------------------------------------

    @abstractmethod
    def take_state(self, agent_id: str, run_id: str) -> bytes | None:
        """The saved session of a run, or None."""

    # --- alerts on their way ---------------------------------------------------------------------

    @abstractmethod
    def last_alert(self, agent_id: str, detector: str) -> LastAlert | None:
        """The latest alert queued for this agent and detector."""

    @abstractmethod
    def claim_deliveries(self, *, now: float, lease_s: float, limit: int = 10) -> list[Delivery]:
        """Due alerts, which no other process will be given until the lease has run out."""

    @abstractmethod
    def settle_delivery(
        self, delivery_id: str, state: DeliveryState, *, next_at: float = 0.0, error: str = ""
    ) -> None:
        """Note how a delivery went; `pending` with a later `next_at` tries again."""

    @abstractmethod
    def deliveries(self, *, state: DeliveryState | None = None, limit: int = 50) -> list[Delivery]:
        """Alerts and how they fared, newest first."""

    # --- upkeep ----------------------------------------------------------------------------------

    @abstractmethod
    def losses(self) -> dict[str, int]:
        """Everything we did not keep or could not do, counted by reason."""

    @abstractmethod
    def delete_run(self, agent_id: str, run_id: str) -> int:
        """Remove a run and all that belongs to it; how many events went."""

    @abstractmethod
    def delete_agent(self, agent_id: str) -> int:
        """Remove an agent and all that belongs to it; how many runs went."""

    @abstractmethod
    def prune(self, *, payloads_before: float | None = None, runs_before: float | None = None) -> Pruned:
        """Remove what is older than retention allows: payloads first, whole runs later."""

    @abstractmethod
    def backup(self, path: Path) -> None:
        """Copy everything to a new file, while others go on writing; refuses to overwrite."""

    @abstractmethod
    def info(self) -> dict[str, Any]:
        """Where it is, its size, its schema, and how many rows each table has."""

    @abstractmethod
    def check(self) -> list[str]:
        """Faults found in the file itself; empty when it is sound."""

    @abstractmethod
    def close(self) -> None:
        """Let go of all connections."""
