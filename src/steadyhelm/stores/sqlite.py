"""The store in one SQLite file: the default, with nothing to install and nothing to run."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from steadyhelm.baselines import BaselineStats
from steadyhelm.decisions import TaskProfile
from steadyhelm.errors import StoreError
from steadyhelm.events import RunSummary, TraceEvent
from steadyhelm.findings import DriftEvent, Severity
from steadyhelm.incidents import Incident, IncidentState, Mute, Review, Threshold
from steadyhelm.sink import Record, RecordedEvent
from steadyhelm.store import (
    AgentRow,
    Delivery,
    DeliveryState,
    KeptIntervention,
    LastAlert,
    Pruned,
    RunRow,
    Store,
    ToolRow,
)
from steadyhelm.stores import judgements, learning, outbox, profiles, removal, runs, timeline, upkeep
from steadyhelm.stores.connections import Connections
from steadyhelm.stores.keys import Keys
from steadyhelm.stores.opening import checked_path, checked_synchronous, copy_to, prepare, require_ours
from steadyhelm.stores.schema import MIGRATIONS
from steadyhelm.stores.writing import Writer


class SQLiteStore(Store):
    """Keeps everything in one SQLite file that only its owner may read.

    Any thread may use it: one connection writes, every thread that reads has its own.
    It looks after itself when the process forks.

    Args:
        path: The file; it and its folder are made when they are not there.
        read_only: Look, and create or change nothing.
        synchronous: NORMAL may lose the last moments when the power fails (never when a process dies);
            FULL does not, and writes more slowly.
        timeout_s: How long to wait for another process that is writing.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        read_only: bool = False,
        synchronous: str = "NORMAL",
        timeout_s: float = 5.0,
    ) -> None:
        self.path = checked_path(path)
        level = checked_synchronous(synchronous)
        if read_only:
            _require_current(self.path)
        else:
            prepare(self.path, timeout_s=timeout_s)
        self._keys = Keys()
        self._connections = Connections(
            self.path,
            read_only=read_only,
            synchronous=level,
            timeout_s=timeout_s,
            on_rollback=self._keys.forget,
        )
        self._writer = Writer(self._connections, self._keys)

    # --- writing ---------------------------------------------------------------------------------

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Everything written inside is kept together or not at all; one inside another joins it."""
        with self._connections.transaction():
            yield

    def write(self, records: Sequence[Record]) -> None:
        """Keep one batch; an event already kept under the same run and seq is left as it is."""
        self._writer.write(records)

    def save_baseline(self, baseline: BaselineStats, *, updated_at: float = 0.0) -> None:
        """Keep an agent's baseline for its version and task type."""
        with self._connections.transaction() as connection:
            learning.save_baseline(connection, self._keys, baseline, updated_at)

    def save_profile(self, profile: TaskProfile) -> None:
        """Keep what tasks of one type take, in place of what was known."""
        with self._connections.transaction() as connection:
            profiles.save_profile(connection, self._keys, profile)

    def add_tasks(self, profile: TaskProfile) -> None:
        """Add what these completed tasks took to what is known of their type."""
        with self._connections.transaction() as connection:
            profiles.add_tasks(connection, self._keys, profile)

    def enqueue(self, delivery: Delivery) -> None:
        """Put an alert on its way; one with the same id is left as it is."""
        with self._connections.transaction() as connection:
            outbox.enqueue(connection, delivery)

    # --- runs and events -------------------------------------------------------------------------

    def agents(self) -> list[AgentRow]:
        """Every agent, the most recently active first."""
        with self._connections.reading() as connection:
            return runs.agents(connection)

    def runs(
        self, agent_id: str | None = None, *, limit: int = 50, before: float | None = None
    ) -> list[RunRow]:
        """Runs, newest first; `before` a start time pages on."""
        with self._connections.reading() as connection:
            return runs.runs(connection, agent_id, limit, before)

    def find_run(self, run_id: str, *, agent_id: str | None = None) -> RunRow:
        """The run with this id or unique prefix of one; raises NotFoundError."""
        with self._connections.reading() as connection:
            return runs.find_run(connection, run_id, agent_id)

    def run_tools(self, agent_id: str, run_id: str) -> list[ToolRow]:
        """The tools a run called, most used first."""
        with self._connections.reading() as connection:
            return runs.run_tools(connection, agent_id, run_id)

    def run_metadata(self, agent_id: str, run_id: str) -> dict[str, Any]:
        """What was said about a run when it was opened; empty when nothing was."""
        with self._connections.reading() as connection:
            return runs.run_metadata(connection, agent_id, run_id)

    def run_events(self, agent_id: str, run_id: str) -> Iterator[RecordedEvent]:
        """A run's events in order, payloads as stored; read a page at a time."""
        with self._connections.reading() as connection:
            run = runs.run_number(connection, agent_id, run_id)
        after: int | None = None
        while run is not None:
            with self._connections.reading() as connection:
                page = timeline.page(connection, agent_id, run_id, run, after)
            yield from page
            if len(page) < timeline.PAGE:
                return
            after = page[-1].event.seq

    def run_summaries(
        self, agent_id: str, *, version: str = "", task_type: str = "", limit: int = 50
    ) -> list[RunSummary]:
        """Ended, clean runs that may teach the baseline, oldest first; runs before a reset do not count."""
        with self._connections.reading() as connection:
            return learning.run_summaries(connection, agent_id, version, task_type, limit)

    # --- the seed's queries ----------------------------------------------------------------------

    def get_traces(
        self,
        agent_id: str | None = None,
        run_id: str | None = None,
        since: float | None = None,
        limit: int = 100,
    ) -> list[TraceEvent]:
        """Events, newest first."""
        with self._connections.reading() as connection:
            return timeline.newest(connection, agent_id, run_id, since, limit)

    def get_recent_actions(self, agent_id: str, run_id: str, window: int = 20) -> list[str]:
        """The names of a run's last tool calls, oldest first."""
        with self._connections.reading() as connection:
            run = runs.run_number(connection, agent_id, run_id)
            return [] if run is None else timeline.recent_actions(connection, run, window)

    def get_run_stats(self, agent_id: str, run_id: str) -> dict[str, Any]:
        """event_count, total_tokens, tool_calls, llm_calls, start_time, end_time, total_duration_ms."""
        with self._connections.reading() as connection:
            return runs.run_stats(connection, agent_id, run_id)

    def get_drift_events(
        self,
        agent_id: str | None = None,
        run_id: str | None = None,
        severity: Severity | None = None,
        since: float | None = None,
        limit: int = 100,
    ) -> list[DriftEvent]:
        """Findings, newest first; `severity` is the lowest that counts."""
        with self._connections.reading() as connection:
            return judgements.drift_events(connection, agent_id, run_id, severity, since, limit)

    def get_baseline(self, agent_id: str, version: str = "", task_type: str = "") -> BaselineStats | None:
        """An agent's baseline, or None when nothing was learnt yet."""
        with self._connections.reading() as connection:
            return learning.get_baseline(connection, agent_id, version, task_type)

    # --- baselines -------------------------------------------------------------------------------

    def baselines(self, agent_id: str | None = None) -> list[BaselineStats]:
        """Every baseline kept."""
        with self._connections.reading() as connection:
            return learning.baselines(connection, agent_id)

    def reset_baseline(self, agent_id: str, version: str = "", task_type: str = "") -> bool:
        """Forget a baseline and start learning anew from the next run; False when there was none."""
        with self._connections.transaction() as connection:
            return learning.reset_baseline(connection, agent_id, version, task_type)

    # --- task profiles ---------------------------------------------------------------------------

    def profiles(self, agent_id: str | None = None) -> list[TaskProfile]:
        """What tasks of each type take, by agent and type."""
        with self._connections.reading() as connection:
            return profiles.profiles(connection, agent_id)

    # --- incidents and what people say about them ------------------------------------------------

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
        """Incidents, the one with the latest finding first; `since` leaves out what was over before."""
        with self._connections.reading() as connection:
            return judgements.incidents(connection, agent_id, run_id, state, detector, severity, since, limit)

    def find_incident(self, incident_id: str) -> Incident:
        """The incident with this id or unique prefix of one; raises NotFoundError."""
        with self._connections.reading() as connection:
            return judgements.find_incident(connection, incident_id)

    def interventions(
        self, agent_id: str | None = None, *, since: float | None = None, limit: int = 1000
    ) -> list[KeptIntervention]:
        """What was said and done about incidents, newest first."""
        with self._connections.reading() as connection:
            return judgements.interventions(connection, agent_id, since, limit)

    def acknowledge(self, incident_id: str, *, at: float) -> None:
        """Somebody has seen it."""
        with self._connections.transaction() as connection:
            judgements.acknowledge(connection, incident_id, at)

    def review(self, incident_id: str, verdict: Review) -> None:
        """Somebody says whether it was right; the empty verdict takes that back."""
        with self._connections.transaction() as connection:
            judgements.review(connection, incident_id, verdict)

    def mute(self, mute: Mute) -> None:
        """No alerts of this detector for this agent until then; replaces an earlier mute."""
        with self._connections.transaction() as connection:
            judgements.mute(connection, mute)

    def unmute(self, agent_id: str, detector: str) -> bool:
        """Alerts again; False when it was not muted."""
        with self._connections.transaction() as connection:
            return judgements.unmute(connection, agent_id, detector)

    def mutes(self, *, at: float) -> list[Mute]:
        """Mutes in force at that time."""
        with self._connections.reading() as connection:
            return judgements.mutes(connection, at)

    def thresholds(self, agent_id: str | None = None) -> list[Threshold]:
        """Moved thresholds in force, newest last."""
        with self._connections.reading() as connection:
            return judgements.thresholds(connection, agent_id)

    def save_threshold(self, threshold: Threshold) -> None:
        """Move a detector's threshold for an agent."""
        with self._connections.transaction() as connection:
            judgements.save_threshold(connection, threshold)

    def drop_threshold(self, incident_id: str) -> bool:
        """Undo the move that this incident caused; False when there was none."""
        with self._connections.transaction() as connection:
            return judgements.drop_threshold(connection, incident_id)

    # --- sessions put aside ----------------------------------------------------------------------

    def take_state(self, agent_id: str, run_id: str) -> bytes | None:
        """The saved session of a run, or None; whoever asks next gets None."""
        with self._connections.transaction() as connection:
            return runs.take_state(connection, agent_id, run_id)

    # --- alerts on their way ---------------------------------------------------------------------

    def last_alert(self, agent_id: str, detector: str) -> LastAlert | None:
        """The latest alert queued for this agent and detector."""
        with self._connections.reading() as connection:
            return outbox.last_alert(connection, agent_id, detector)

    def claim_deliveries(self, *, now: float, lease_s: float, limit: int = 10) -> list[Delivery]:
        """Due alerts, which no other process will be given until the lease has run out."""
        with self._connections.reading() as connection:
            if not outbox.is_any_due(connection, now):
                return []
        with self._connections.transaction() as connection:
            return outbox.claim(connection, now, lease_s, limit)

    def settle_delivery(
        self, delivery_id: str, state: DeliveryState, *, next_at: float = 0.0, error: str = ""
    ) -> None:
        """Note how a delivery went; `pending` with a later `next_at` tries again."""
        with self._connections.transaction() as connection:
            outbox.settle(connection, delivery_id, state, next_at, error)

    def deliveries(self, *, state: DeliveryState | None = None, limit: int = 50) -> list[Delivery]:
        """Alerts and how they fared, newest first."""
        with self._connections.reading() as connection:
            return outbox.deliveries(connection, state, limit)

    # --- upkeep ----------------------------------------------------------------------------------

    def losses(self) -> dict[str, int]:
        """Everything we did not keep or could not do, counted by reason."""
        with self._connections.reading() as connection:
            return dict(connection.execute("SELECT reason, count FROM losses ORDER BY reason").fetchall())

    def delete_run(self, agent_id: str, run_id: str) -> int:
        """Remove a run and all that belongs to it; how many events went."""
        with self._connections.reading() as connection:
            run = runs.run_number(connection, agent_id, run_id)
        if run is None:
            return 0
        try:
            return removal.remove_run(self._connections, run)
        finally:
            self._keys.forget()

    def delete_agent(self, agent_id: str) -> int:
        """Remove an agent and all that belongs to it; how many runs went."""
        try:
            return removal.remove_agent(self._connections, agent_id)
        finally:
            self._keys.forget()

    def prune(self, *, payloads_before: float | None = None, runs_before: float | None = None) -> Pruned:
        """Remove what is older than retention allows: payloads first, whole runs later."""
        try:
            return removal.prune(self._connections, payloads_before, runs_before)
        finally:
            self._keys.forget()

    def backup(self, path: Path) -> None:
        """Copy everything to a new file, while others go on writing; refuses to overwrite."""
        with self._connections.reading() as connection:
            copy_to(connection, checked_path(path))

    def info(self) -> dict[str, Any]:
        """Where it is, its size, its schema, and how many rows each table has."""
        with self._connections.reading() as connection:
            return upkeep.info(connection, self.path)

    def check(self) -> list[str]:
        """Faults found in the file itself; empty when it is sound."""
        with self._connections.reading() as connection:
            return upkeep.check(connection)

    def after_fork(self) -> None:
        """In a child process: leave the parent's connections alone. Python calls this by itself."""
        self._connections.after_fork()

    def close(self) -> None:
        """Let go of all connections."""
        self._connections.close()


def _require_current(path: Path) -> None:
    if not path.exists():
        raise StoreError(
            f"There is no database at {path}. Run an agent with Steadyhelm first, or check db_path."
        )
    applied = require_ours(path)
    if not applied:
        raise StoreError(f"The database {path} is empty: nothing has been written to it yet.")
    missing = [step.name for step in MIGRATIONS if step.name not in applied]
    if missing:
        raise StoreError(
            f"The database {path} was written by an older Steadyhelm and lacks the step {missing[0]!r}. "
            "`steadyhelm db migrate` makes a backup and brings it up to date; so does opening it for writing."
        )
