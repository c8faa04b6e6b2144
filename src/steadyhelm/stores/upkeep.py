"""What a store says about itself, and whether it is sound."""

# ruff: noqa: S608 - every piece of these queries is our own text; what comes from outside is bound

import sqlite3
from pathlib import Path
from typing import Any, Final

from steadyhelm.stores.learning import unreadable

_SUMS_DIFFER: Final = """
    SELECT r.run_id, r.events, coalesce(e.events, 0) FROM runs r LEFT JOIN (
        SELECT run, count(*) AS events, sum(tokens) AS tokens, sum(type = 0) AS tool_calls,
            sum(type = 1) AS llm_calls, sum(failed) AS errors, count(payload) AS payloads
        FROM events GROUP BY run) e ON e.run = r.id
    WHERE (r.events, r.tokens, r.tool_calls, r.llm_calls, r.errors, r.payloads) != (coalesce(e.events, 0),
        coalesce(e.tokens, 0), coalesce(e.tool_calls, 0), coalesce(e.llm_calls, 0), coalesce(e.errors, 0),
        coalesce(e.payloads, 0)) LIMIT 20"""
_FINDINGS_DIFFER: Final = """
    SELECT run_id, findings, n FROM (
        SELECT run_id, findings, (SELECT count(*) FROM findings WHERE run = runs.id) AS n FROM runs)
    WHERE findings != n LIMIT 20"""
_PAYLOADS_LOST: Final = """
    SELECT count(*) FROM events WHERE payload IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM payloads WHERE id = events.payload)"""
_COUNTED: Final = (
    "agents",
    "baselines",
    "task_profiles",
    "mutes",
    "thresholds",
    "states",
    "outbox",
    "losses",
)


def info(connection: sqlite3.Connection, path: Path) -> dict[str, Any]:
    """Where it is, how large, which schema, how many rows.

    The large tables are not counted: their numbers come from the sums that the runs keep.
    """
    rows: dict[str, int] = {}
    names = ("runs", "events", "payloads", "findings", "incidents")
    sums = connection.execute(
        "SELECT count(*), coalesce(sum(events), 0), coalesce(sum(payloads), 0), coalesce(sum(findings), 0),"
        " coalesce(sum(incidents), 0) FROM runs"
    ).fetchone()
    rows.update(zip(names, sums, strict=True))
    for table in _COUNTED:
        (rows[table],) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
    (rows["names"],) = connection.execute("SELECT coalesce(max(id), 0) FROM names").fetchone()
    steps = connection.execute("SELECT name FROM migrations ORDER BY rowid").fetchall()
    return {
        "path": str(path),
        "bytes": _size(path),
        "log_bytes": _size(path.with_name(path.name + "-wal")),
        "schema": steps[-1][0],
        "journal_mode": connection.execute("PRAGMA journal_mode").fetchone()[0],
        "free_bytes": _pragma(connection, "freelist_count") * _pragma(connection, "page_size"),
        "rows": rows,
        "rows_from_sums": list(names[1:]),
    }


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


def check(connection: sqlite3.Connection) -> list[str]:
    """Faults in the file: damaged pages first, then rows that lead nowhere, then sums that do not add up."""
    try:
        faults = [str(fault) for (fault,) in connection.execute("PRAGMA quick_check(20)") if fault != "ok"]
        return faults or _disagreements(connection)
    except sqlite3.DatabaseError as exc:
        return [f"it cannot be read: {exc}"]


def _disagreements(connection: sqlite3.Connection) -> list[str]:
    strays: dict[tuple[str, str], int] = {}
    for table, _, parent, _ in connection.execute("PRAGMA foreign_key_check"):
        strays[table, parent] = strays.get((table, parent), 0) + 1
    faults = [
        f"{count} rows of {table} name a row of {parent} that is not there"
        for (table, parent), count in strays.items()
    ]
    (lost,) = connection.execute(_PAYLOADS_LOST).fetchone()
    if lost:
        faults.append(f"{lost} events name a payload that is not there")
    (kept,) = connection.execute(
        "SELECT (SELECT count(*) FROM payloads) - (SELECT count(payload) FROM events)"
    ).fetchone()
    if kept > 0:
        faults.append(f"{kept} payloads belong to no event")
    if strange := unreadable(connection):
        faults.append(f"{strange} baselines or summaries of runs cannot be read")
    for what, query in (("events", _SUMS_DIFFER), ("findings", _FINDINGS_DIFFER)):
        for run_id, said, counted in connection.execute(query):
            faults.append(
                f"the sums of run {run_id!r} are not those of its {what} ({said} said, {counted} there)"
            )
    return faults
