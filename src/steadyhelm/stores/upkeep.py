"""Describe, check, copy and close a SQLite store."""

# ruff: noqa: S608 - every piece of these queries is our own text; what comes from outside is bound

import sqlite3
from pathlib import Path
from typing import Any, Final

from steadyhelm.store import Upkeep
from steadyhelm.stores.baselines import count_unreadable
from steadyhelm.stores.connections import StorePart
from steadyhelm.stores.opening import copy_database, resolve_path

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
_SMALL_TABLES: Final = (
    "agents",
    "baselines",
    "task_profiles",
    "mutes",
    "thresholds",
    "states",
    "outbox",
    "losses",
)


class SQLiteUpkeep(StorePart, Upkeep):
    """The part of upkeep that depends on SQLite."""

    def get_losses(self) -> dict[str, int]:
        """Return how much was lost, by reason."""
        with self._connections.reading() as connection:
            return dict(connection.execute("SELECT reason, count FROM losses ORDER BY reason").fetchall())

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
            return {
                "path": str(path),
                "bytes": _measure_file(path),
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
