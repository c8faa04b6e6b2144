"""Read events back: a run's own, and the newest over many runs."""

# ruff: noqa: S608 - every piece of these queries is our own text; what comes from outside is bound

import heapq
import sqlite3
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgspec

from steadyhelm.events import ACTION_TYPES, TraceEvent
from steadyhelm.sink import RecordedEvent
from steadyhelm.stores.batch import PLAIN_ERROR, TOOL_CODE
from steadyhelm.stores.conditions import Conditions

PAGE: Final = 200
"""Events read at once: a reader never holds a snapshot for longer than this takes."""

_EVENTS: Final = """
    SELECT e.seq, e.type, n.name, e.ts, e.tokens, e.duration_ms, e.cost_usd, e.started_seq, e.call_hash,
        e.result_hash, e.failed, e.event_id, parent.name, other.name,
        p.input_json, p.output_json, p.metadata_json, p.error, p.call_id
    FROM events e CROSS JOIN names n ON n.id = e.name
        LEFT JOIN payloads p ON p.id = e.payload
        LEFT JOIN names parent ON parent.id = e.parent
        LEFT JOIN names other ON other.id = -e.type"""
_AFTER: Final = f"{_EVENTS} WHERE e.run = ? AND e.seq > ? ORDER BY e.seq LIMIT ?"
_ONE: Final = f"{_EVENTS} WHERE e.run = ? AND e.seq = ?"
_ACTIVE: Final = """
    SELECT a.agent_id, r.run_id, r.id, r.last_at FROM runs r CROSS JOIN agents a ON a.id = r.agent"""
_LATEST_FIRST: Final = " ORDER BY r.last_at DESC, r.id DESC"
_TIMES: Final = "SELECT seq, ts FROM events WHERE run = ? ORDER BY seq DESC LIMIT ?"
_BEFORE_ANY: Final = -(2**63)


class _Active(NamedTuple):
    """A run, and when something last happened in it."""

    agent_id: str
    run_id: str
    number: int
    last_at: float


def page(
    connection: sqlite3.Connection, agent_id: str, run_id: str, run: int, after: int | None
) -> list[RecordedEvent]:
    """A run's next events behind a place; from its beginning when that is None."""
    rows = connection.execute(_AFTER, (run, _BEFORE_ANY if after is None else after, PAGE))
    return [_recorded(agent_id, run_id, row) for row in rows]


def newest(
    connection: sqlite3.Connection, agent_id: str | None, run_id: str | None, since: float | None, limit: int
) -> list[TraceEvent]:
    """The newest events, newest first.

    Events have no index by time. Runs are looked at in the order of their last activity, and those whose
    last activity is older than everything already found cannot add anything.
    """
    found: list[tuple[float, str, str, int, int]] = []
    for run in _runs_by_activity(connection, agent_id, run_id, since):
        if len(found) == limit and run.last_at < -found[-1][0]:
            break
        times = connection.execute(_TIMES, (run.number, limit)).fetchall()
        found += [
            (-ts, run.agent_id, run.run_id, -seq, run.number)
            for seq, ts in times
            if since is None or ts >= since
        ]
        found.sort()
        del found[limit:]
    return [
        _recorded(agent, run, connection.execute(_ONE, (number, -seq)).fetchone()).event
        for _, agent, run, seq, number in found
    ]


def _runs_by_activity(
    connection: sqlite3.Connection, agent_id: str | None, run_id: str | None, since: float | None
) -> Iterator[_Active]:
    """Runs, the one with the latest activity first; those that nobody asks for are not read."""
    if run_id is not None:
        where = Conditions().add("r.run_id = ?", run_id)
        where.add("a.agent_id = ?", agent_id).add("r.last_at >= ?", since)
        yield from map(_Active._make, connection.execute(f"{_ACTIVE}{where}{_LATEST_FIRST}", where.values))
        return
    # Each agent's runs come along its index in order, and so the whole is a merge and never a sort.
    where = Conditions().add("agent_id = ?", agent_id).add("last_at >= ?", since)
    agents = connection.execute(f"SELECT id FROM agents{where}", where.values).fetchall()
    walks = [_runs_of(connection, agent, since) for (agent,) in agents]
    yield from heapq.merge(*walks, key=lambda run: -run.last_at)


def _runs_of(connection: sqlite3.Connection, agent: int, since: float | None) -> Iterator[_Active]:
    where = Conditions().add("r.agent = ?", agent).add("r.last_at >= ?", since)
    yield from map(_Active._make, connection.execute(f"{_ACTIVE}{where}{_LATEST_FIRST}", where.values))


def recent_actions(connection: sqlite3.Connection, run: int, window: int) -> list[str]:
    """The names of a run's last tool calls, oldest first."""
    rows = connection.execute(
        "SELECT n.name FROM events e CROSS JOIN names n ON n.id = e.name"
        " WHERE e.run = ? AND e.type = ? ORDER BY e.seq DESC LIMIT ?",
        (run, TOOL_CODE, window),
    ).fetchall()
    return [name for (name,) in reversed(rows)]


def _recorded(agent_id: str, run_id: str, row: tuple[Any, ...]) -> RecordedEvent:
    seq, code, name, ts, tokens, duration_ms, cost_usd, started_seq, call_hash, result_hash, failed = row[:11]
    event_id, parent, other, input_json, output_json, metadata_json, error, call_id = row[11:]
    metadata = decoded(metadata_json)
    event = TraceEvent(
        agent_id=agent_id,
        run_id=run_id,
        action_type=other if code < 0 else ACTION_TYPES[code],
        action_name=name,
        timestamp=ts,
        event_id=f"{run_id}.{seq}" if event_id is None else event_id,
        token_count=tokens,
        input_data=decoded(input_json),
        output_data=decoded(output_json),
        duration_ms=duration_ms,
        metadata=metadata if isinstance(metadata, dict) else None,
        seq=seq,
        started_seq=started_seq,
        call_id=call_id,
        parent_run_id=parent,
        error=(PLAIN_ERROR if error is None else error) if failed else None,
        cost_usd=cost_usd,
        call_hash=call_hash,
        result_hash=result_hash,
    )
    return RecordedEvent(event, input_json, output_json, metadata_json)


def decoded(encoded: bytes | None) -> Any:
    """Stored JSON as data; what is no JSON is given as the text it is."""
    if not encoded:
        return None
    try:
        return msgspec.json.decode(encoded)
    except (ValueError, RecursionError):
        return encoded.decode("utf-8", "replace")
