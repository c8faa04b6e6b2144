"""Keep a store in order: count what it holds, and delete what is old or unwanted."""

# ruff: noqa: S608 - every piece of these queries is our own text; what comes from outside is bound

import json
from collections.abc import Collection, Iterator
from typing import Final

from steadyhelm.journal.abandoned import delete_older, forget
from steadyhelm.sink import Loss, Record, RecordedEvent
from steadyhelm.store import Upkeep
from steadyhelm.store_rows import PruneCounts
from steadyhelm.stores.baselines import count_unreadable
from steadyhelm.stores.batch import LLM_CODE, TOOL_CODE
from steadyhelm.stores.database import (
    Connection,
    StorePart,
    note_changes,
    retry_if_rolled_back,
    retry_on_conflict,
)
from steadyhelm.stores.reading import find_run_row_id
from steadyhelm.stores.spending import delete_spending
from steadyhelm.stores.sql import AGENT_ROW_ID

_WRONG_FINDING_TOTALS: Final = """
    SELECT run_id, findings, n FROM (
        SELECT run_id, findings, (SELECT count(*) FROM findings WHERE run = runs.id) AS n FROM runs) counted
    WHERE findings != n LIMIT 20"""
_WRONG_DAYS: Final = """
    SELECT agent, day FROM (
        SELECT agent, day, runs AS n FROM agent_days
        UNION ALL SELECT agent, CASE WHEN started_at >= 0 AND started_at < 1e12
            THEN CAST(started_at / 86400.0 AS INTEGER) ELSE 0 END, -1 FROM runs
        UNION ALL SELECT agent, day, tokens FROM agent_days
        UNION ALL SELECT agent, quarter_hour / 96, -tokens FROM spending) counted
    GROUP BY agent, day HAVING sum(n) != 0 LIMIT 20"""
_RECORDED: Final = "recorded"
"""In place of a reason, with a count of 0: what the token names is not lost."""
_MARK_RECORDED: Final = "INSERT INTO losses VALUES (?, ?, 0, ?) ON CONFLICT DO NOTHING"
_FORGET_RECORDED: Final = """
    DELETE FROM losses WHERE reason = ? AND last_at < ? AND token NOT IN (SELECT value FROM json_each(?))"""
LARGE_TABLES: Final = ("events", "payloads", "findings", "incidents")
_SMALL_TABLES: Final = (
    "agents",
    "baselines",
    "task_profiles",
    "spending",
    "agent_days",
    "daily_grants",
    "mutes",
    "thresholds",
    "states",
    "pinned_baselines",
    "outbox",
    "losses",
    "declarations",
    "comments",
    "audit",
    "api_keys",
    "changes",
)


class SQLUpkeep(StorePart, Upkeep):
    """The part of upkeep that is the same in every database."""

    def get_losses(self) -> dict[str, int]:
        """Return how much was lost, by reason."""
        with self._connections.reading() as connection:
            return dict(
                connection.execute(
                    "SELECT reason, sum(count) FROM losses WHERE count > 0 GROUP BY reason ORDER BY reason"
                )
            )

    @retry_on_conflict
    def mark_recorded(
        self, token: str, at: float, *, kept: Collection[str] = (), before: float = 0.0
    ) -> None:
        """Mark what this token names as recorded; forget marks from `before`, except those `kept`."""
        with self._connections.transaction() as connection:
            connection.execute(_MARK_RECORDED, (_RECORDED, token, at))
            connection.execute(_FORGET_RECORDED, (_RECORDED, before, json.dumps(list(kept))))

    def is_accounted(self, token: str) -> bool:
        """Return whether what this token names was marked as recorded, or counted as lost."""
        with self._connections.reading() as connection:
            return connection.execute("SELECT 1 FROM losses WHERE token = ?", (token,)).fetchone() is not None

    def count_rows(self, connection: Connection) -> dict[str, int]:
        """Return the number of rows of each table. The large tables' come from the totals of the runs."""
        totals = connection.execute(
            "SELECT count(*), coalesce(sum(events), 0), coalesce(sum(payloads), 0),"
            " coalesce(sum(findings), 0), coalesce(sum(incidents), 0) FROM runs"
        ).fetchone()
        rows: dict[str, int] = dict(zip(("runs", *LARGE_TABLES), totals, strict=True))
        for table in _SMALL_TABLES:
            (rows[table],) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
        (rows["names"],) = connection.execute("SELECT coalesce(max(id), 0) FROM names").fetchone()
        return rows

    def after_fork(self) -> None:
        """Drop the parent's connections. Called in a child process; Python does so by itself."""
        self._connections.after_fork()

    def close(self) -> None:
        """Close all connections."""
        self._connections.close()


def find_wrong_totals(connection: Connection, wrong_event_totals: str) -> list[str]:
    """Return what cannot be read, and the runs whose totals are not those of their events and findings."""
    faults: list[str] = []
    if unreadable := count_unreadable(connection):
        faults.append(f"{unreadable} baselines or summaries of runs cannot be read")
    for what, query in (("events", wrong_event_totals), ("findings", _WRONG_FINDING_TOTALS)):
        for run_id, said, counted in connection.execute(query):
            faults.append(
                f"the sums of run {run_id!r} are not those of its {what} ({said} said, {counted} there)"
            )
    for agent, day in connection.execute(_WRONG_DAYS):
        faults.append(f"the sums of agent {agent} on day {day} are not those of its runs and spending")
    return faults


# Delete what is old or unwanted, in small transactions, so that the writing thread never waits long.

EVENTS_PER_TRANSACTION: Final = 2000

_RUNS_PER_PAGE: Final = 100
_FIRST_EVENTS: Final = """
    SELECT seq, type, tokens, duration_ms, cost_usd, failed FROM events
    WHERE run = ? ORDER BY seq LIMIT ?"""
_SUBTRACT_TOTALS: Final = """
    UPDATE runs SET events = events - ?, tokens = tokens - ?, tool_calls = tool_calls - ?,
        llm_calls = llm_calls - ?, errors = errors - ?, payloads = payloads - ?,
        duration_ms = duration_ms - ?, cost_usd = cost_usd - ?
    WHERE id = ?"""
DELETE_UNUSED_BASELINE: Final = """
    DELETE FROM pinned_baselines
    WHERE id = ? AND NOT EXISTS (SELECT 1 FROM runs WHERE pinned = pinned_baselines.id)"""
_TABLES_BY_RUN: Final = ("run_tools", "findings", "incidents", "states", "scores", "limits", "run_marks")


class SQLRetention(StorePart, Upkeep):
    """The part of upkeep that deletes."""

    def delete_run(self, agent_id: str, run_id: str) -> int:
        """Delete a run and everything that belongs to it. Returns the number of its events."""
        forget(self.journal_path, lambda record: _is_of_run(record, agent_id, run_id))
        with self._connections.reading() as connection:
            run = find_run_row_id(connection, agent_id, run_id)
        if run is None:
            return 0
        try:
            return self._delete_run_row(run)
        finally:
            self._row_ids.clear()

    def delete_agent(self, agent_id: str) -> int:
        """Delete an agent and everything that belongs to it. Returns the number of its runs."""
        forget(self.journal_path, lambda record: _is_of_agent(record, agent_id))
        deleted = 0
        try:
            while runs := self._list_runs_or_delete_agent(agent_id):
                for run in runs:
                    self._delete_run_row(run)
                deleted += len(runs)
            return deleted
        finally:
            self._row_ids.clear()

    @retry_on_conflict
    def _list_runs_or_delete_agent(self, agent_id: str) -> list[int]:
        """Return some of an agent's runs; when there are none, delete the agent."""
        query = f"SELECT id FROM runs WHERE agent = {AGENT_ROW_ID} LIMIT {_RUNS_PER_PAGE}"
        with self._connections.transaction() as connection:
            runs = [run for (run,) in connection.execute(query, (agent_id,))]
            if not runs:
                _delete_agent_rows(connection, agent_id)
        return runs

    def prune(self, *, payloads_before: float | None = None, runs_before: float | None = None) -> PruneCounts:
        """Delete payloads and whole runs that are older than these times, and shrink the file."""
        payloads = runs = events = 0
        try:
            if runs_before is not None:
                delete_older(self.journal_path, runs_before)
                for run in self._iter_runs_started_before(runs_before, "last_at < :before"):
                    events += self._delete_run_row(run)
                    runs += 1
                self._delete_spending(runs_before)
            if payloads_before is not None:
                for run in self._iter_runs_started_before(payloads_before, "payloads > 0"):
                    payloads += self._delete_payloads(run, payloads_before)
            self._shrink()
            return PruneCounts(payloads=payloads, runs=runs, events=events)
        finally:
            self._row_ids.clear()

    def _delete_run_row(self, run: int) -> int:
        events, deleted = 0, EVENTS_PER_TRANSACTION
        while deleted == EVENTS_PER_TRANSACTION:
            deleted = self._delete_part_of_run(run)
            events += deleted
        return events

    @retry_on_conflict
    def _delete_part_of_run(self, run: int) -> int:
        """Delete the run's first events, and the run with the last of them. Returns how many."""
        with self._connections.transaction() as connection:
            deleted = _delete_first_events(connection, run)
            if deleted < EVENTS_PER_TRANSACTION:
                _delete_rest_of_run(connection, run)
            return deleted

    def _iter_runs_started_before(self, before: float, condition: str) -> Iterator[int]:
        """Yield the runs that may hold something so old, read along the index a page at a time."""
        at, row_id = float("-inf"), 0
        query = (
            "SELECT id, started_at FROM runs WHERE (started_at, id) > (:at, :row_id)"
            f" AND started_at < :before AND {condition} ORDER BY started_at, id LIMIT {_RUNS_PER_PAGE}"
        )
        while True:
            with self._connections.reading() as connection:
                rows = connection.execute(query, {"at": at, "row_id": row_id, "before": before}).fetchall()
            if not rows:
                return
            for row_id, at in rows:  # noqa: B007 - the next page begins behind the last row
                yield row_id

    def _delete_payloads(self, run: int, before: float) -> int:
        deleted, after = 0, -(2**63)
        while True:
            seqs = self._delete_next_payloads(run, after, before)
            deleted += len(seqs)
            if len(seqs) < EVENTS_PER_TRANSACTION:
                return deleted
            after = seqs[-1]

    @retry_if_rolled_back
    def _delete_next_payloads(self, run: int, after: int, before: float) -> list[int]:
        with self._connections.transaction() as connection:
            seqs = connection.dialect.delete_old_payloads(
                connection, run, after, before, EVENTS_PER_TRANSACTION
            )
            connection.execute("UPDATE runs SET payloads = payloads - ? WHERE id = ?", (len(seqs), run))
        return seqs

    @retry_on_conflict
    def _delete_spending(self, before: float) -> None:
        with self._connections.transaction() as connection:
            delete_spending(connection, before)

    def _shrink(self) -> None:
        """Return what is free to the file system, where the database does not do so by itself."""


def _is_of_agent(record: Record, agent_id: str) -> bool:
    owner = record.event if isinstance(record, RecordedEvent) else record
    return not isinstance(owner, Loss) and owner.agent_id == agent_id


def _is_of_run(record: Record, agent_id: str, run_id: str) -> bool:
    owner = record.event if isinstance(record, RecordedEvent) else record
    return not isinstance(owner, Loss) and (owner.agent_id, owner.run_id) == (agent_id, run_id)


def _delete_first_events(connection: Connection, run: int) -> int:
    """Delete the run's first events and subtract them from its totals. Returns their number.

    The totals agree with the events after every transaction.
    """
    rows = connection.execute(_FIRST_EVENTS, (run, EVENTS_PER_TRANSACTION)).fetchall()
    if not rows:
        return 0
    payloads = connection.dialect.delete_first_payloads(connection, run, rows[-1][0])
    connection.execute("DELETE FROM events WHERE run = ? AND seq <= ?", (run, rows[-1][0]))
    totals = (
        *(len(rows), sum(row[2] for row in rows), sum(row[1] == TOOL_CODE for row in rows)),
        *(sum(row[1] == LLM_CODE for row in rows), sum(row[5] for row in rows), payloads),
        *(sum(row[3] for row in rows), sum(row[4] or 0.0 for row in rows)),
    )
    connection.execute(_SUBTRACT_TOTALS, (*totals, run))
    return len(rows)


def _delete_rest_of_run(connection: Connection, run: int) -> None:
    connection.execute(
        "DELETE FROM comments WHERE incident_id IN (SELECT incident_id FROM incidents WHERE run = ?)", (run,)
    )
    for table in _TABLES_BY_RUN:
        connection.execute(f"DELETE FROM {table} WHERE run = ?", (run,))
    connection.execute(
        "DELETE FROM outbox WHERE (agent_id, run_id) = (SELECT a.agent_id, r.run_id FROM runs r"
        " JOIN agents a ON a.id = r.agent WHERE r.id = ?)",
        (run,),
    )
    connection.execute(
        "UPDATE agents SET runs = runs - 1 WHERE id = (SELECT agent FROM runs WHERE id = ?)", (run,)
    )
    row = connection.execute("DELETE FROM runs WHERE id = ? RETURNING pinned, agent", (run,)).fetchone()
    if row is None:
        return
    note_changes(connection, [("agent", None, row[1])])
    if row[0] is not None:
        connection.execute(DELETE_UNUSED_BASELINE, row[:1])


def _delete_agent_rows(connection: Connection, agent_id: str) -> None:
    for table in ("mutes", "thresholds", "outbox"):
        connection.execute(f"DELETE FROM {table} WHERE agent_id = ?", (agent_id,))
    # The days come after what they are sums of.
    for table in ("baselines", "task_profiles", "spending", "daily_grants", "declarations", "agent_days"):
        connection.execute(f"DELETE FROM {table} WHERE agent = {AGENT_ROW_ID}", (agent_id,))
    connection.execute("DELETE FROM agents WHERE agent_id = ?", (agent_id,))
