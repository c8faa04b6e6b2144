"""Read runs back: the list, one of them, and what it used."""

import sqlite3
from typing import Any, Final

import msgspec

from steadyhelm.errors import NotFoundError
from steadyhelm.store import AgentRow, RunRow, ToolRow
from steadyhelm.stores.conditions import Conditions, beginning_with, candidates, unicode

# CROSS JOIN keeps the order of the two tables: the list is read along its index, and stops at the limit.
_RUNS: Final = """
    SELECT a.agent_id, r.run_id, r.goal, r.version, r.task_type, r.parent_run_id, r.state, r.outcome,
        r.started_at, r.last_at, r.events, r.tokens, r.tool_calls, r.llm_calls, r.errors, r.duration_ms,
        r.cost_usd, r.findings, r.incidents, r.peak
    FROM runs r CROSS JOIN agents a ON a.id = r.agent"""
_FIELDS: Final = RunRow.__struct_fields__
_BY_AGENT: Final = "r.agent = (SELECT id FROM agents WHERE agent_id = ?)"


def _run_row(row: tuple[Any, ...]) -> RunRow:
    return RunRow(**dict(zip(_FIELDS, row, strict=True)))


def agents(connection: sqlite3.Connection) -> list[AgentRow]:
    """Every agent, the most recently active first."""
    query = (
        "SELECT agent, count(*) FROM incidents INDEXED BY incidents_open WHERE state = 'open' GROUP BY agent"
    )
    open_incidents: dict[int, int] = dict(connection.execute(query).fetchall())
    rows = connection.execute("SELECT id, agent_id, runs, last_at FROM agents ORDER BY last_at DESC, id DESC")
    return [
        AgentRow(agent_id=agent_id, runs=runs, last_at=last_at, open_incidents=open_incidents.get(number, 0))
        for number, agent_id, runs, last_at in rows
    ]


def runs(
    connection: sqlite3.Connection, agent_id: str | None, limit: int, before: float | None
) -> list[RunRow]:
    """Runs, newest first."""
    where = Conditions().add(_BY_AGENT, agent_id).add("r.started_at < ?", before)
    query = f"{_RUNS}{where} ORDER BY r.started_at DESC, r.id DESC LIMIT ?"
    return [_run_row(row) for row in connection.execute(query, (*where.values, limit))]


def find_run(connection: sqlite3.Connection, run_id: str, agent_id: str | None) -> RunRow:
    """The one run with this id, or with an id that begins so."""
    prefix = unicode(run_id)
    found = _with_id(connection, prefix, agent_id)
    if not found and prefix:
        count, first = _beginning_with(connection, prefix, agent_id)
        if count != 1:
            raise NotFoundError(candidates("run", prefix, count, first))
        found = _with_id(connection, first[0], agent_id)
    if not found:
        raise NotFoundError(candidates("run", prefix, 0, []))
    if len(found) > 1:
        names = ", ".join(run.agent_id for run in found[:5])
        raise NotFoundError(
            f"{len(found)} agents have a run {found[0].run_id!r}: {names}. Name the agent too."
        )
    return found[0]


def _with_id(connection: sqlite3.Connection, run_id: str, agent_id: str | None) -> list[RunRow]:
    where = Conditions().add("r.run_id = ?", run_id).add(_BY_AGENT, agent_id)
    return [_run_row(row) for row in connection.execute(f"{_RUNS}{where}", where.values)]


def _beginning_with(
    connection: sqlite3.Connection, prefix: str, agent_id: str | None
) -> tuple[int, list[str]]:
    if agent_id is None:
        return beginning_with(connection, "runs", "run_id", prefix)
    agent = connection.execute("SELECT id FROM agents WHERE agent_id = ?", (unicode(agent_id),)).fetchone()
    if agent is None:
        return 0, []
    return beginning_with(connection, "runs", "run_id", prefix, also=f"agent = {int(agent[0])}")


def run_number(connection: sqlite3.Connection, agent_id: str, run_id: str) -> int | None:
    """The number that stands for a run, or None when there is no such run."""
    row = connection.execute(
        "SELECT id FROM runs WHERE run_id = ? AND agent = (SELECT id FROM agents WHERE agent_id = ?)",
        (unicode(run_id), unicode(agent_id)),
    ).fetchone()
    return None if row is None else int(row[0])


def run_tools(connection: sqlite3.Connection, agent_id: str, run_id: str) -> list[ToolRow]:
    """What a run used, most used first."""
    rows = connection.execute(
        "SELECT n.name, t.calls, t.errors, t.tokens, t.duration_ms FROM run_tools t"
        " CROSS JOIN names n ON n.id = t.name WHERE t.run = ? ORDER BY t.calls DESC, n.name",
        (run_number(connection, agent_id, run_id),),
    )
    return [
        ToolRow(action_name=name, calls=calls, errors=errors, tokens=tokens, duration_ms=duration_ms)
        for name, calls, errors, tokens, duration_ms in rows
    ]


def run_metadata(connection: sqlite3.Connection, agent_id: str, run_id: str) -> dict[str, Any]:
    """What was said about a run when it was opened."""
    number = run_number(connection, agent_id, run_id)
    row = connection.execute("SELECT metadata_json FROM runs WHERE id = ?", (number,)).fetchone()
    if row is None or row[0] is None:
        return {}
    metadata: dict[str, Any] = msgspec.json.decode(row[0])
    return metadata


def run_stats(connection: sqlite3.Connection, agent_id: str, run_id: str) -> dict[str, Any]:
    """A run's sums under the names its users know; all zero for a run that is not there."""
    found = _with_id(connection, unicode(run_id), unicode(agent_id))
    run = found[0] if found else RunRow(agent_id=agent_id, run_id=run_id)
    return {
        "event_count": run.events,
        "total_tokens": run.tokens,
        "tool_calls": run.tool_calls,
        "llm_calls": run.llm_calls,
        "start_time": run.started_at,
        "end_time": run.last_at,
        "total_duration_ms": run.duration_ms,
    }


def take_state(connection: sqlite3.Connection, agent_id: str, run_id: str) -> bytes | None:
    """The saved session of a run, which is removed."""
    run = run_number(connection, agent_id, run_id)
    row = connection.execute("DELETE FROM states WHERE run = ? RETURNING state", (run,)).fetchone()
    return None if row is None else bytes(row[0])
