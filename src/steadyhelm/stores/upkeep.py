"""Keep a SQLite store in order: describe, check, copy and close it, and delete what is old or unwanted."""

# ruff: noqa: S608 - every piece of these queries is our own text; what comes from outside is bound

import json
import sqlite3
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, Final

from steadyhelm.journal.abandoned import delete_older, describe_pending, forget
from steadyhelm.sink import Loss, Record, RecordedEvent
from steadyhelm.store import PruneCounts, Upkeep
from steadyhelm.stores.baselines import count_unreadable
from steadyhelm.stores.batch import LLM_CODE, TOOL_CODE
from steadyhelm.stores.connections import StorePart
from steadyhelm.stores.opening import copy_database, resolve_path
from steadyhelm.stores.runs import find_run_row_id
from steadyhelm.stores.spending import delete_spending
from steadyhelm.stores.sql import AGENT_ROW_ID

_WRONG_EVENT_TOTALS: Final = """
    SELECT r.run_id, r.events, coalesce(e.events, 0) FROM runs r LEFT JOIN (
        SELECT run, count(*) AS events, sum(tokens) AS tokens, sum(type = 0) AS tool_calls,
            sum(type = 1) AS llm_calls, sum(failed) AS errors, count(payload) AS payloads
        FROM events GROUP BY run) e ON e.run = r.id
    WHERE (r.events, r.tokens, r.tool_calls, r.llm_calls, r.errors, r.payloads) != (coalesce(e.events, 0),
        coalesce(e.tokens, 0), coalesce(e.tool_calls, 0), coalesce(e.llm_calls, 0), coalesce(e.errors, 0),
        coalesce(e.payloads, 0)) LIMIT 20"""
_WRONG_FINDING_TOTALS: Final = """
    SELECT run_id, findings, n FROM (
        SELECT run_id, findings, (SELECT count(*) FROM findings WHERE run = runs.id) AS n FROM runs)
    WHERE findings != n LIMIT 20"""
_COUNT_MISSING_PAYLOADS: Final = """
    SELECT count(*) FROM events WHERE payload IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM payloads WHERE id = events.payload)"""
_RECORDED: Final = "recorded"
"""In place of a reason, with a count of 0: what the token names is not lost."""
_FORGET_RECORDED: Final = """
    DELETE FROM losses WHERE reason = ? AND last_at < ? AND token NOT IN (SELECT value FROM json_each(?))"""
_SMALL_TABLES: Final = (
    "agents",
    "baselines",
    "task_profiles",
    "spending",
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


class SQLiteUpkeep(StorePart, Upkeep):
    """The part of upkeep that depends on SQLite."""

    def get_losses(self) -> dict[str, int]:
        """Return how much was lost, by reason."""
        with self._connections.reading() as connection:
            return dict(
                connection.execute(
                    "SELECT reason, sum(count) FROM losses WHERE count > 0 GROUP BY reason ORDER BY reason"
                )
            )

    def mark_recorded(
        self, token: str, at: float, *, kept: Collection[str] = (), before: float = 0.0
    ) -> None:
        """Mark what this token names as recorded; forget marks from `before`, except those `kept`."""
        with self._connections.transaction() as connection:
            connection.execute("INSERT OR IGNORE INTO losses VALUES (?, ?, 0, ?)", (_RECORDED, token, at))
            connection.execute(_FORGET_RECORDED, (_RECORDED, before, json.dumps(list(kept))))

    def is_accounted(self, token: str) -> bool:
        """Return whether what this token names was marked as recorded, or counted as lost."""
        with self._connections.reading() as connection:
            return connection.execute("SELECT 1 FROM losses WHERE token = ?", (token,)).fetchone() is not None

    def get_version(self) -> tuple[int, int]:
        """Return a value that differs after anything was written, by this process or another.

        SQLite counts what others wrote anew in each connection, and each thread has its own: so that two
        counts are not taken for the same, the number of the connection is part of the value.
        """
        with self._connections.reading() as connection:
            return connection.number, _read_pragma(connection, "data_version")

    def backup(self, path: Path) -> None:
        """Copy everything to a new file while others go on writing. Raises when the file exists."""
        with self._connections.reading() as connection:
            copy_database(connection, resolve_path(path))

    def describe(self) -> dict[str, Any]:
        """Return the path, size and schema of the database, and the number of rows of each table.

        The large tables are not counted: their numbers come from the totals of the runs.
        """
        path = self._connections.path
        names = ("runs", "events", "payloads", "findings", "incidents")
        with self._connections.reading() as connection:
            totals = connection.execute(
                "SELECT count(*), coalesce(sum(events), 0), coalesce(sum(payloads), 0),"
                " coalesce(sum(findings), 0), coalesce(sum(incidents), 0) FROM runs"
            ).fetchone()
            rows: dict[str, int] = dict(zip(names, totals, strict=True))
            for table in _SMALL_TABLES:
                (rows[table],) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
            (rows["names"],) = connection.execute("SELECT coalesce(max(id), 0) FROM names").fetchone()
            steps = connection.execute("SELECT name FROM migrations ORDER BY rowid").fetchall()
            pending = describe_pending(path)
            return {
                "path": str(path),
                "bytes": _measure_file(path),
                "pending_journals": len(pending),
                "pending_records": sum(journal.records for journal in pending),
                "log_bytes": _measure_file(path.with_name(path.name + "-wal")),
                "schema": steps[-1][0],
                "journal_mode": connection.execute("PRAGMA journal_mode").fetchone()[0],
                "free_bytes": _read_pragma(connection, "freelist_count")
                * _read_pragma(connection, "page_size"),
                "rows": rows,
                "rows_from_sums": list(names[1:]),
            }

    def check(self) -> list[str]:
        """Return the faults found in the database; empty when it is sound.

        Damaged pages come first, then rows that refer to missing rows, then totals that do not add up.
        """
        with self._connections.reading() as connection:
            try:
                faults = [str(it) for (it,) in connection.execute("PRAGMA quick_check(20)") if it != "ok"]
                return faults or _find_inconsistencies(connection)
            except sqlite3.DatabaseError as exc:
                return [f"it cannot be read: {exc}"]

    def after_fork(self) -> None:
        """Drop the parent's connections. Called in a child process; Python does so by itself."""
        self._connections.after_fork()

    def close(self) -> None:
        """Close all connections."""
        self._connections.close()


def _measure_file(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _read_pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


def _find_inconsistencies(connection: sqlite3.Connection) -> list[str]:
    broken: dict[tuple[str, str], int] = {}
    for table, _, parent, _ in connection.execute("PRAGMA foreign_key_check"):
        broken[table, parent] = broken.get((table, parent), 0) + 1
    faults = [
        f"{count} rows of {table} name a row of {parent} that is not there"
        for (table, parent), count in broken.items()
    ]
    (missing,) = connection.execute(_COUNT_MISSING_PAYLOADS).fetchone()
    if missing:
        faults.append(f"{missing} events name a payload that is not there")
    (orphaned,) = connection.execute(
        "SELECT (SELECT count(*) FROM payloads) - (SELECT count(payload) FROM events)"
    ).fetchone()
    if orphaned > 0:
        faults.append(f"{orphaned} payloads belong to no event")
    if unreadable := count_unreadable(connection):
        faults.append(f"{unreadable} baselines or summaries of runs cannot be read")
    for what, query in (("events", _WRONG_EVENT_TOTALS), ("findings", _WRONG_FINDING_TOTALS)):
        for run_id, said, counted in connection.execute(query):
            faults.append(
                f"the sums of run {run_id!r} are not those of its {what} ({said} said, {counted} there)"
            )
    return faults


# Delete what is old or unwanted, in small transactions, so that the writing thread never waits long.

EVENTS_PER_TRANSACTION: Final = 2000

_VACUUM_PAGES: Final = 1000
_RUNS_PER_PAGE: Final = 100
_FIRST_EVENTS: Final = """
    SELECT seq, type, tokens, duration_ms, cost_usd, failed, payload FROM events
    WHERE run = ? ORDER BY seq LIMIT ?"""
_OLD_PAYLOADS: Final = """
    SELECT payload, run, seq FROM events
    WHERE run = ? AND seq > ? AND payload IS NOT NULL AND ts < ? ORDER BY seq LIMIT ?"""
_SUBTRACT_TOTALS: Final = """
    UPDATE runs SET events = events - ?, tokens = tokens - ?, tool_calls = tool_calls - ?,
        llm_calls = llm_calls - ?, errors = errors - ?, payloads = payloads - ?,
        duration_ms = duration_ms - ?, cost_usd = cost_usd - ?
    WHERE id = ?"""
_DELETE_UNUSED_BASELINE: Final = """
    DELETE FROM pinned_baselines
    WHERE id = ? AND NOT EXISTS (SELECT 1 FROM runs WHERE pinned = pinned_baselines.id)"""
_TABLES_BY_RUN: Final = ("run_tools", "findings", "incidents", "states", "scores", "limits", "run_marks")


class SQLRetention(StorePart, Upkeep):
    """The part of upkeep that deletes."""

    def delete_run(self, agent_id: str, run_id: str) -> int:
        """Delete a run and everything that belongs to it. Returns the number of its events."""
        forget(self._connections.path, lambda record: _is_of_run(record, agent_id, run_id))
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
        forget(self._connections.path, lambda record: _is_of_agent(record, agent_id))
        query = f"SELECT id FROM runs WHERE agent = {AGENT_ROW_ID} LIMIT {_RUNS_PER_PAGE}"
        deleted = 0
        try:
            while True:
                with self._connections.transaction() as connection:
                    rows = connection.execute(query, (agent_id,)).fetchall()
                    if not rows:
                        _delete_agent_rows(connection, agent_id)
                        return deleted
                for (run,) in rows:
                    self._delete_run_row(run)
                deleted += len(rows)
        finally:
            self._row_ids.clear()

    def prune(self, *, payloads_before: float | None = None, runs_before: float | None = None) -> PruneCounts:
        """Delete payloads and whole runs that are older than these times, and shrink the file."""
        payloads = runs = events = 0
        try:
            if runs_before is not None:
                delete_older(self._connections.path, runs_before)
                for run in self._iter_runs_started_before(runs_before, "last_at < :before"):
                    events += self._delete_run_row(run)
                    runs += 1
                with self._connections.transaction() as connection:
                    delete_spending(connection, runs_before)
            if payloads_before is not None:
                for run in self._iter_runs_started_before(payloads_before, "payloads > 0"):
                    payloads += self._delete_payloads(run, payloads_before)
            self._shrink()
            return PruneCounts(payloads=payloads, runs=runs, events=events)
        finally:
            self._row_ids.clear()

    def _delete_run_row(self, run: int) -> int:
        events = 0
        while True:
            with self._connections.transaction() as connection:
                deleted = _delete_first_events(connection, run)
                events += deleted
                if deleted < EVENTS_PER_TRANSACTION:
                    _delete_rest_of_run(connection, run)
                    return events

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
            with self._connections.transaction() as connection:
                values = (run, after, before, EVENTS_PER_TRANSACTION)
                rows = connection.execute(_OLD_PAYLOADS, values).fetchall()
                connection.executemany("DELETE FROM payloads WHERE id = ?", [row[:1] for row in rows])
                connection.executemany(
                    "UPDATE events SET payload = NULL WHERE run = ? AND seq = ?", [row[1:] for row in rows]
                )
                connection.execute("UPDATE runs SET payloads = payloads - ? WHERE id = ?", (len(rows), run))
            deleted += len(rows)
            if len(rows) < EVENTS_PER_TRANSACTION:
                return deleted
            after = rows[-1][2]

    def _shrink(self) -> None:
        """Return free pages to the file system in small steps, each a transaction of its own."""
        left = -1
        while True:
            with self._connections.outside_transaction() as connection:
                (free,) = connection.execute("PRAGMA freelist_count").fetchone()
                # A file made without incremental vacuum keeps its size: its free pages are used again.
                if free in (0, left):
                    return
                left = free
                connection.execute(f"PRAGMA incremental_vacuum({_VACUUM_PAGES})").fetchall()


def _is_of_agent(record: Record, agent_id: str) -> bool:
    owner = record.event if isinstance(record, RecordedEvent) else record
    return not isinstance(owner, Loss) and owner.agent_id == agent_id


def _is_of_run(record: Record, agent_id: str, run_id: str) -> bool:
    owner = record.event if isinstance(record, RecordedEvent) else record
    return not isinstance(owner, Loss) and (owner.agent_id, owner.run_id) == (agent_id, run_id)


def _delete_first_events(connection: sqlite3.Connection, run: int) -> int:
    """Delete the run's first events and subtract them from its totals. Returns their number.

    The totals agree with the events after every transaction.
    """
    rows = connection.execute(_FIRST_EVENTS, (run, EVENTS_PER_TRANSACTION)).fetchall()
    if not rows:
        return 0
    payloads = [(row[6],) for row in rows if row[6] is not None]
    connection.executemany("DELETE FROM payloads WHERE id = ?", payloads)
    connection.execute("DELETE FROM events WHERE run = ? AND seq <= ?", (run, rows[-1][0]))
    totals = (
        *(len(rows), sum(row[2] for row in rows), sum(row[1] == TOOL_CODE for row in rows)),
        *(sum(row[1] == LLM_CODE for row in rows), sum(row[5] for row in rows), len(payloads)),
        *(sum(row[3] for row in rows), sum(row[4] or 0.0 for row in rows)),
    )
    connection.execute(_SUBTRACT_TOTALS, (*totals, run))
    return len(rows)


def _delete_rest_of_run(connection: sqlite3.Connection, run: int) -> None:
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
    row = connection.execute("DELETE FROM runs WHERE id = ? RETURNING pinned", (run,)).fetchone()
    if row is not None and row[0] is not None:
        connection.execute(_DELETE_UNUSED_BASELINE, row)


def _delete_agent_rows(connection: sqlite3.Connection, agent_id: str) -> None:
    for table in ("mutes", "thresholds", "outbox"):
        connection.execute(f"DELETE FROM {table} WHERE agent_id = ?", (agent_id,))
    for table in ("baselines", "task_profiles", "spending", "daily_grants", "declarations"):
        connection.execute(f"DELETE FROM {table} WHERE agent = {AGENT_ROW_ID}", (agent_id,))
    connection.execute("DELETE FROM agents WHERE agent_id = ?", (agent_id,))
