"""Read runs back: the list, one of them with its totals, its events and findings, and the newest of all."""

# ruff: noqa: S608 - every piece of these queries is our own text; what comes from outside is bound

import heapq
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgspec

from steadyhelm.errors import NotFoundError
from steadyhelm.events import ACTION_TYPES, TraceEvent
from steadyhelm.findings import DriftEvent, Severity
from steadyhelm.sink import RecordedEvent, to_unicode
from steadyhelm.store import JUDGE_ACCOUNT, RunStore
from steadyhelm.store_rows import StoredAgent, StoredRun, ToolRow
from steadyhelm.stores.batch import PLAIN_ERROR, TOOL_CODE
from steadyhelm.stores.database import Connection, StorePart, retry_if_rolled_back
from steadyhelm.stores.sql import (
    AGENT_ROW_ID,
    SEVERITIES,
    Conditions,
    decode_json,
    describe_ambiguous_id,
    find_by_prefix,
    select_agent_or_run,
)

# CROSS JOIN keeps the order of the two tables: the list is read along its index, and stops at the limit.
_SELECT_RUNS: Final = """
    SELECT a.agent_id, r.run_id, r.goal, r.version, r.task_type, r.parent_run_id, r.state, r.outcome,
        r.started_at, r.last_at, r.events, r.tokens, r.tool_calls, r.llm_calls, r.errors, r.duration_ms,
        r.cost_usd, r.findings, r.incidents, r.peak
    FROM runs r CROSS JOIN agents a ON a.id = r.agent"""
_FIELDS: Final = StoredRun.__struct_fields__
_BY_AGENT: Final = f"r.agent = {AGENT_ROW_ID}"
_SELECT_SUSPENDED: Final = (
    f"SELECT r.run_id FROM states s JOIN runs r ON r.id = s.run WHERE {_BY_AGENT}"
    " ORDER BY s.saved_at DESC LIMIT ?"
)
_EVENTS_PER_PAGE: Final = 200
"""Events read at once: a reader never holds a snapshot for longer than this takes."""
_SELECT_EVENTS: Final = """
    SELECT e.seq, e.type, n.name, e.ts, e.tokens, e.duration_ms, e.cost_usd, e.started_seq, e.call_hash,
        e.result_hash, e.failed, e.event_id, parent.name, other.name,
        p.input_json, p.output_json, p.metadata_json, p.error, p.call_id
    FROM events e CROSS JOIN names n ON n.id = e.name
        LEFT JOIN payloads p ON p.id = e.payload
        LEFT JOIN names parent ON parent.id = e.parent
        LEFT JOIN names other ON other.id = -e.type"""
_NEXT_EVENTS: Final = f"{_SELECT_EVENTS} WHERE e.run = ? AND e.seq > ? ORDER BY e.seq LIMIT ?"
_SELECT_ONE_EVENT: Final = f"{_SELECT_EVENTS} WHERE e.run = ? AND e.seq = ?"
_ACTIVE_RUNS: Final = """
    SELECT a.agent_id, r.run_id, r.id, r.last_at FROM runs r CROSS JOIN agents a ON a.id = r.agent"""
_LATEST_FIRST: Final = " ORDER BY r.last_at DESC, r.id DESC"
_EVENT_TIMES: Final = "SELECT seq, ts FROM events WHERE run = ? ORDER BY seq DESC LIMIT ?"
_SELECT_FINDINGS: Final = """
    SELECT a.agent_id, r.run_id, f.detector, f.kind, f.severity, f.score, f.message, f.suggested_action, f.ts,
        f.event_id, f.context_json
    FROM findings f CROSS JOIN runs r ON r.id = f.run CROSS JOIN agents a ON a.id = f.agent"""
_FIRST_RUNS: Final = 16
_MOST_RUNS: Final = 1024
"""Runs read at once: few at first, as most questions are answered by the latest ones."""
_BEFORE_FIRST_SEQ: Final = -(2**63)


class SQLRuns(StorePart, RunStore):
    """The part of a run store that reads runs."""

    def list_agents(self) -> list[StoredAgent]:
        """Return every agent, the most recently active first."""
        with self._connections.reading() as connection:
            open_incidents: dict[int, int] = dict(
                connection.execute(
                    "SELECT agent, count(*) FROM incidents INDEXED BY incidents_open WHERE state = 'open'"
                    " GROUP BY agent"
                ).fetchall()
            )
            rows = connection.execute(
                "SELECT id, agent_id, runs, last_at FROM agents WHERE agent_id != ?"
                " ORDER BY last_at DESC, id DESC",
                (JUDGE_ACCOUNT,),
            )
            return [
                StoredAgent(
                    agent_id=agent_id,
                    runs=runs,
                    last_at=last_at,
                    open_incidents=open_incidents.get(row_id, 0),
                )
                for row_id, agent_id, runs, last_at in rows
            ]

    def list_runs(
        self, agent_id: str | None = None, *, limit: int = 50, before: float | None = None
    ) -> list[StoredRun]:
        """Return runs, newest first. `before` is a start time: the last one of a page gets the next."""
        where = Conditions().add(_BY_AGENT, agent_id).add("r.started_at < ?", before)
        query = f"{_SELECT_RUNS}{where} ORDER BY r.started_at DESC, r.id DESC LIMIT ?"
        with self._connections.reading() as connection:
            return [_to_run_row(row) for row in connection.execute(query, (*where.values, limit))]

    def find_run(self, run_id: str, *, agent_id: str | None = None) -> StoredRun:
        """Return the run with this id, or whose id alone begins with it. Raises NotFoundError."""
        prefix = to_unicode(run_id)
        with self._connections.reading() as connection:
            found = _select_runs(connection, prefix, agent_id)
            if not found and prefix:
                count, first = _find_runs_by_prefix(connection, prefix, agent_id)
                if count != 1:
                    raise NotFoundError(describe_ambiguous_id("run", prefix, count, first))
                found = _select_runs(connection, first[0], agent_id)
        if not found:
            raise NotFoundError(describe_ambiguous_id("run", prefix, 0, []))
        if len(found) > 1:
            names = ", ".join(run.agent_id for run in found[:5])
            raise NotFoundError(
                f"{len(found)} agents have a run {found[0].run_id!r}: {names}. Name the agent too."
            )
        return found[0]

    def list_run_tools(self, agent_id: str, run_id: str) -> list[ToolRow]:
        """Return the tools a run called, most used first."""
        with self._connections.reading() as connection:
            rows = connection.execute(
                "SELECT n.name, t.calls, t.errors, t.tokens, t.duration_ms FROM run_tools t"
                " CROSS JOIN names n ON n.id = t.name WHERE t.run = ? ORDER BY t.calls DESC, n.name",
                (find_run_row_id(connection, agent_id, run_id),),
            )
            return [
                ToolRow(action_name=name, calls=calls, errors=errors, tokens=tokens, duration_ms=duration_ms)
                for name, calls, errors, tokens, duration_ms in rows
            ]

    def get_run_metadata(self, agent_id: str, run_id: str) -> dict[str, Any]:
        """Return the metadata a run was started with; empty when it had none."""
        with self._connections.reading() as connection:
            run = find_run_row_id(connection, agent_id, run_id)
            row = connection.execute("SELECT metadata_json FROM runs WHERE id = ?", (run,)).fetchone()
        if row is None or row[0] is None:
            return {}
        metadata: dict[str, Any] = msgspec.json.decode(row[0])
        return metadata

    def get_run_stats(self, agent_id: str, run_id: str) -> dict[str, Any]:
        """Return the totals of a run; all zero for a run that is not stored.

        The keys are event_count, total_tokens, tool_calls, llm_calls, start_time, end_time and
        total_duration_ms.
        """
        with self._connections.reading() as connection:
            found = _select_runs(connection, to_unicode(run_id), to_unicode(agent_id))
        run = found[0] if found else StoredRun(agent_id=agent_id, run_id=run_id)
        return {
            "event_count": run.events,
            "total_tokens": run.tokens,
            "tool_calls": run.tool_calls,
            "llm_calls": run.llm_calls,
            "start_time": run.started_at,
            "end_time": run.last_at,
            "total_duration_ms": run.duration_ms,
        }

    def list_suspended(self, agent_id: str, *, limit: int = 10_000) -> list[str]:
        """Return the ids of an agent's suspended runs, the most recently suspended first."""
        values = (to_unicode(agent_id), limit)
        with self._connections.reading() as connection:
            return [run_id for (run_id,) in connection.execute(_SELECT_SUSPENDED, values)]

    @retry_if_rolled_back
    def take_state(self, agent_id: str, run_id: str) -> bytes | None:
        """Remove and return the saved session of a run, or return None when there is none."""
        with self._connections.transaction() as connection:
            run = find_run_row_id(connection, agent_id, run_id)
            row = connection.execute("DELETE FROM states WHERE run = ? RETURNING state", (run,)).fetchone()
        return None if row is None else bytes(row[0])


def find_run_row_id(connection: Connection, agent_id: str, run_id: str) -> int | None:
    """Return the row id of a run, or None when there is no such run."""
    row = connection.execute(
        f"SELECT id FROM runs WHERE run_id = ? AND agent = {AGENT_ROW_ID}",
        (to_unicode(run_id), to_unicode(agent_id)),
    ).fetchone()
    return None if row is None else int(row[0])


def _to_run_row(row: tuple[Any, ...]) -> StoredRun:
    return StoredRun(**dict(zip(_FIELDS, row, strict=True)))


def _select_runs(connection: Connection, run_id: str, agent_id: str | None) -> list[StoredRun]:
    where = Conditions().add("r.run_id = ?", run_id).add(_BY_AGENT, agent_id)
    return [_to_run_row(row) for row in connection.execute(f"{_SELECT_RUNS}{where}", where.values)]


def _find_runs_by_prefix(connection: Connection, prefix: str, agent_id: str | None) -> tuple[int, list[str]]:
    if agent_id is None:
        return find_by_prefix(connection, "runs", "run_id", prefix)
    agent = connection.execute("SELECT id FROM agents WHERE agent_id = ?", (to_unicode(agent_id),)).fetchone()
    if agent is None:
        return 0, []
    return find_by_prefix(connection, "runs", "run_id", prefix, also=f"agent = {int(agent[0])}")


class _ActiveRun(NamedTuple):
    """A run, with the time of its last activity."""

    agent_id: str
    run_id: str
    row_id: int
    last_at: float


class SQLEvents(StorePart, RunStore):
    """The part of a run store that reads events and findings."""

    def iter_run_events(self, agent_id: str, run_id: str) -> Iterator[RecordedEvent]:
        """Yield a run's events in order, with their payloads as stored. Reads a page at a time."""
        with self._connections.reading() as connection:
            run = find_run_row_id(connection, agent_id, run_id)
        after = _BEFORE_FIRST_SEQ
        while run is not None:
            with self._connections.reading() as connection:
                rows = connection.execute(_NEXT_EVENTS, (run, after, _EVENTS_PER_PAGE))
                page = [_to_recorded_event(agent_id, run_id, row) for row in rows]
            yield from page
            if len(page) < _EVENTS_PER_PAGE:
                return
            after = page[-1].event.seq

    def get_traces(
        self,
        agent_id: str | None = None,
        run_id: str | None = None,
        since: float | None = None,
        limit: int = 100,
    ) -> list[TraceEvent]:
        """Return events, newest first.

        Events have no index by time. Runs are read in the order of their last activity, and those whose
        last activity is older than everything already found cannot add anything.
        """
        found: list[tuple[float, str, str, int, int]] = []
        with self._connections.reading() as connection:
            for run in _iter_runs_by_activity(connection, agent_id, run_id, since):
                if len(found) == limit and run.last_at < -found[-1][0]:
                    break
                times = connection.execute(_EVENT_TIMES, (run.row_id, limit)).fetchall()
                found += [
                    (-ts, run.agent_id, run.run_id, -seq, run.row_id)
                    for seq, ts in times
                    if since is None or ts >= since
                ]
                found.sort()
                del found[limit:]
            return [
                _to_recorded_event(
                    agent, run, connection.execute(_SELECT_ONE_EVENT, (row_id, -seq)).fetchone()
                ).event
                for _, agent, run, seq, row_id in found
            ]

    def get_recent_actions(self, agent_id: str, run_id: str, window: int = 20) -> list[str]:
        """Return the names of a run's last tool calls, oldest first."""
        with self._connections.reading() as connection:
            rows = connection.execute(
                "SELECT n.name FROM events e CROSS JOIN names n ON n.id = e.name"
                " WHERE e.run = ? AND e.type = ? ORDER BY e.seq DESC LIMIT ?",
                (find_run_row_id(connection, agent_id, run_id), TOOL_CODE, window),
            ).fetchall()
        return [name for (name,) in reversed(rows)]

    def get_drift_events(
        self,
        agent_id: str | None = None,
        run_id: str | None = None,
        severity: Severity | None = None,
        since: float | None = None,
        limit: int = 100,
    ) -> list[DriftEvent]:
        """Return findings, newest first. `severity` is the lowest one to return."""
        where = select_agent_or_run("f", agent_id, run_id).add("f.ts >= ?", since)
        where.add("f.severity >= ?", severity and severity.rank)
        query = f"{_SELECT_FINDINGS}{where} ORDER BY f.ts DESC, f.id DESC LIMIT ?"
        with self._connections.reading() as connection:
            return [_to_finding(row) for row in connection.execute(query, (*where.values, limit))]


def _iter_runs_by_activity(
    connection: Connection, agent_id: str | None, run_id: str | None, since: float | None
) -> Iterator[_ActiveRun]:
    """Yield runs, the one with the latest activity first. Rows are read only as they are consumed."""
    if run_id is not None:
        where = Conditions().add("r.run_id = ?", run_id)
        yield from _iter_runs(connection, where.add("a.agent_id = ?", agent_id).add("r.last_at >= ?", since))
        return
    # Each agent's runs come along its index in order, so all of them are merged and never sorted.
    where = Conditions().add("agent_id = ?", agent_id).add("last_at >= ?", since)
    agents = connection.execute(f"SELECT id FROM agents{where}", where.values).fetchall()
    by_agent = [
        _iter_runs(connection, Conditions().add("r.agent = ?", agent).add("r.last_at >= ?", since))
        for (agent,) in agents
    ]
    yield from heapq.merge(*by_agent, key=lambda run: -run.last_at)


def _iter_runs(connection: Connection, where: Conditions) -> Iterator[_ActiveRun]:
    """Yield runs by activity, a page at a time: some databases read to the end what is asked for."""
    limit, behind, values = _FIRST_RUNS, "", list(where.values)
    while True:
        query = f"{_ACTIVE_RUNS}{where}{behind}{_LATEST_FIRST} LIMIT {limit}"
        rows = connection.execute(query, values).fetchall()
        yield from map(_ActiveRun._make, rows)
        if len(rows) < limit:
            return
        behind = f"{' AND' if where.values else ' WHERE'} (r.last_at, r.id) < (?, ?)"
        values = [*where.values, rows[-1][3], rows[-1][2]]
        limit = min(2 * limit, _MOST_RUNS)


def _to_recorded_event(agent_id: str, run_id: str, row: tuple[Any, ...]) -> RecordedEvent:
    seq, code, name, ts, tokens, duration_ms, cost_usd, started_seq, call_hash, result_hash, failed = row[:11]
    event_id, parent, other, input_json, output_json, metadata_json, error, call_id = row[11:]
    metadata = decode_json(metadata_json)
    event = TraceEvent(
        agent_id=agent_id,
        run_id=run_id,
        action_type=other if code < 0 else ACTION_TYPES[code],
        action_name=name,
        timestamp=ts,
        event_id=f"{run_id}.{seq}" if event_id is None else event_id,
        token_count=tokens,
        input_data=decode_json(input_json),
        output_data=decode_json(output_json),
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


def _to_finding(row: tuple[Any, ...]) -> DriftEvent:
    agent_id, run_id, detector, kind, severity, score, message, suggested_action, ts, event_id, context = row
    evidence = decode_json(context)
    return DriftEvent(
        agent_id=agent_id,
        run_id=run_id,
        detector=detector,
        kind=kind,
        severity=SEVERITIES[severity],
        score=score,
        message=message,
        suggested_action=suggested_action,
        timestamp=ts,
        event_id=event_id,
        context=evidence if isinstance(evidence, dict) else {},
    )
