"""Read events and findings back: those of one run, and the newest over many runs."""

# ruff: noqa: S608 - every piece of these queries is our own text; what comes from outside is bound

import heapq
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from steadyhelm.events import ACTION_TYPES, TraceEvent
from steadyhelm.findings import DriftEvent, Severity
from steadyhelm.sink import RecordedEvent
from steadyhelm.store import RunStore
from steadyhelm.stores.batch import PLAIN_ERROR, TOOL_CODE
from steadyhelm.stores.database import Connection, StorePart
from steadyhelm.stores.runs import find_run_row_id
from steadyhelm.stores.sql import SEVERITIES, Conditions, decode_json, select_agent_or_run

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
