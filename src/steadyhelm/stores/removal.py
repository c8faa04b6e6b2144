"""Take away what is old or unwanted, a slice at a time, so that the one who writes never waits long."""

# ruff: noqa: S608 - every piece of these queries is our own text; what comes from outside is bound

import sqlite3
from collections.abc import Iterator
from typing import Final

from steadyhelm.store import Pruned
from steadyhelm.stores.batch import LLM_CODE, TOOL_CODE
from steadyhelm.stores.connections import Connections

SLICE: Final = 2000
"""Events per transaction."""

_PAGES_AT_ONCE: Final = 1000
_FIRST_EVENTS: Final = """
    SELECT seq, type, tokens, duration_ms, cost_usd, failed, payload FROM events
    WHERE run = ? ORDER BY seq LIMIT ?"""
_OLD_PAYLOADS: Final = """
    SELECT payload, run, seq FROM events
    WHERE run = ? AND seq > ? AND payload IS NOT NULL AND ts < ? ORDER BY seq LIMIT ?"""
_LESS: Final = """
    UPDATE runs SET events = events - ?, tokens = tokens - ?, tool_calls = tool_calls - ?,
        llm_calls = llm_calls - ?, errors = errors - ?, payloads = payloads - ?,
        duration_ms = duration_ms - ?, cost_usd = cost_usd - ?
    WHERE id = ?"""
_BELONGINGS: Final = ("run_tools", "findings", "incidents", "states")


def remove_run(connections: Connections, run: int) -> int:
    """Remove a run and all that belongs to it; how many events went."""
    events = 0
    while True:
        with connections.transaction() as connection:
            gone = _remove_first_events(connection, run)
            events += gone
            if gone < SLICE:
                _remove_the_rest(connection, run)
                return events


def _remove_first_events(connection: sqlite3.Connection, run: int) -> int:
    """Remove the run's next events and take them off its sums, so that the two agree after every slice."""
    rows = connection.execute(_FIRST_EVENTS, (run, SLICE)).fetchall()
    if not rows:
        return 0
    payloads = [(row[6],) for row in rows if row[6] is not None]
    connection.executemany("DELETE FROM payloads WHERE id = ?", payloads)
    connection.execute("DELETE FROM events WHERE run = ? AND seq <= ?", (run, rows[-1][0]))
    sums = (
        *(len(rows), sum(row[2] for row in rows), sum(row[1] == TOOL_CODE for row in rows)),
        *(sum(row[1] == LLM_CODE for row in rows), sum(row[5] for row in rows), len(payloads)),
        *(sum(row[3] for row in rows), sum(row[4] or 0.0 for row in rows)),
    )
    connection.execute(_LESS, (*sums, run))
    return len(rows)


def _remove_the_rest(connection: sqlite3.Connection, run: int) -> None:
    for table in _BELONGINGS:
        connection.execute(f"DELETE FROM {table} WHERE run = ?", (run,))
    connection.execute(
        "DELETE FROM outbox WHERE (agent_id, run_id) = (SELECT a.agent_id, r.run_id FROM runs r"
        " JOIN agents a ON a.id = r.agent WHERE r.id = ?)",
        (run,),
    )
    connection.execute(
        "UPDATE agents SET runs = runs - 1 WHERE id = (SELECT agent FROM runs WHERE id = ?)", (run,)
    )
    connection.execute("DELETE FROM runs WHERE id = ?", (run,))


def remove_agent(connections: Connections, agent_id: str) -> int:
    """Remove an agent and all that belongs to it; how many runs went."""
    removed = 0
    while True:
        with connections.transaction() as connection:
            rows = connection.execute(
                "SELECT id FROM runs WHERE agent = (SELECT id FROM agents WHERE agent_id = ?) LIMIT 100",
                (agent_id,),
            ).fetchall()
            if not rows:
                _remove_agent_itself(connection, agent_id)
                return removed
        for (run,) in rows:
            remove_run(connections, run)
        removed += len(rows)


def _remove_agent_itself(connection: sqlite3.Connection, agent_id: str) -> None:
    for table in ("mutes", "thresholds", "outbox"):
        connection.execute(f"DELETE FROM {table} WHERE agent_id = ?", (agent_id,))
    for table in ("baselines", "task_profiles"):
        connection.execute(
            f"DELETE FROM {table} WHERE agent = (SELECT id FROM agents WHERE agent_id = ?)", (agent_id,)
        )
    connection.execute("DELETE FROM agents WHERE agent_id = ?", (agent_id,))


def prune(connections: Connections, payloads_before: float | None, runs_before: float | None) -> Pruned:
    """Remove what is older than retention allows, and give the room back to the disk."""
    payloads = runs = events = 0
    if runs_before is not None:
        for run in _runs_started_before(connections, runs_before, "last_at < :before"):
            events += remove_run(connections, run)
            runs += 1
    if payloads_before is not None:
        for run in _runs_started_before(connections, payloads_before, "payloads > 0"):
            payloads += _remove_payloads(connections, run, payloads_before)
    _give_room_back(connections)
    return Pruned(payloads=payloads, runs=runs, events=events)


def _runs_started_before(connections: Connections, before: float, condition: str) -> Iterator[int]:
    """The runs that may hold something so old, read along the index a few at a time."""
    at, number = float("-inf"), 0
    query = (
        f"SELECT id, started_at FROM runs WHERE (started_at, id) > (:at, :number) AND started_at < :before"
        f" AND {condition} ORDER BY started_at, id LIMIT 100"
    )
    while True:
        with connections.reading() as connection:
            rows = connection.execute(query, {"at": at, "number": number, "before": before}).fetchall()
        if not rows:
            return
        for number, at in rows:  # noqa: B007 - where the last one stands is where the next page begins
            yield number


def _remove_payloads(connections: Connections, run: int, before: float) -> int:
    removed, after = 0, -(2**63)
    while True:
        with connections.transaction() as connection:
            rows = connection.execute(_OLD_PAYLOADS, (run, after, before, SLICE)).fetchall()
            connection.executemany("DELETE FROM payloads WHERE id = ?", [row[:1] for row in rows])
            connection.executemany(
                "UPDATE events SET payload = NULL WHERE run = ? AND seq = ?", [row[1:] for row in rows]
            )
            connection.execute("UPDATE runs SET payloads = payloads - ? WHERE id = ?", (len(rows), run))
        removed += len(rows)
        if len(rows) < SLICE:
            return removed
        after = rows[-1][2]


def _give_room_back(connections: Connections) -> None:
    """Shrink the file in small steps, each a transaction of its own."""
    left = -1
    while True:
        with connections.outside_transaction() as connection:
            (free,) = connection.execute("PRAGMA freelist_count").fetchone()
            # A file made without incremental vacuum keeps its size: its free pages are used again.
            if free in (0, left):
                return
            left = free
            connection.execute(f"PRAGMA incremental_vacuum({_PAGES_AT_ONCE})").fetchall()
