"""Keep one batch: events first, then each run's sums, once per run."""

import functools
import itertools
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from steadyhelm.errors import StoreError
from steadyhelm.events import RunInfo, RunSummary
from steadyhelm.findings import DriftEvent
from steadyhelm.fingerprints import canonical
from steadyhelm.incidents import Incident
from steadyhelm.sink import Record, SavedState
from steadyhelm.stores.batch import Batch, Gathering, Tally
from steadyhelm.stores.connections import Connections
from steadyhelm.stores.keys import Keys
from steadyhelm.stores.mending import MISFITS, mended

_EVENTS: Final = "INSERT INTO events VALUES {rows} ON CONFLICT (run, seq) DO NOTHING"
_PAYLOADS: Final = "INSERT INTO payloads VALUES {rows}"
# SQLite hands the interpreter back after every statement, and a busy agent then keeps it for a while:
# a batch in a few statements is written hundreds of hand-overs sooner than one row at a time.
_BLOCKS: Final = (256, 64, 16, 4, 1)
_SUMS: Final = """
    UPDATE runs SET events = events + ?, tokens = tokens + ?, tool_calls = tool_calls + ?,
        llm_calls = llm_calls + ?, errors = errors + ?, duration_ms = duration_ms + ?,
        cost_usd = cost_usd + ?, payloads = payloads + ?, last_at = max(last_at, ?),
        state = CASE WHEN ? AND state = 'suspended' THEN 'running' ELSE state END
    WHERE id = ?"""
_TOOLS: Final = """
    INSERT INTO run_tools VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (run, name) DO UPDATE SET
        calls = calls + excluded.calls, errors = errors + excluded.errors, tokens = tokens + excluded.tokens,
        duration_ms = duration_ms + excluded.duration_ms"""
_EARLIER: Final = """
    UPDATE runs SET started_at = ? WHERE id = ? AND start_known = 0 AND (started_at > ? OR started_at = 0)"""
_OPENED: Final = """
    UPDATE runs SET state = 'running', teaches = 0,
        goal = CASE WHEN :goal = '' THEN goal ELSE :goal END,
        version = CASE WHEN :version = '' THEN version ELSE :version END,
        task_type = CASE WHEN :task_type = '' THEN task_type ELSE :task_type END,
        parent_run_id = coalesce(:parent_run_id, parent_run_id),
        metadata_json = coalesce(:metadata_json, metadata_json),
        started_at = CASE WHEN :started_at > 0 AND start_known = 0 THEN :started_at ELSE started_at END,
        start_known = start_known OR :started_at > 0
    WHERE id = :run"""
_ENDED: Final = """
    UPDATE runs SET state = 'ended', outcome = :outcome, had_incident = :had_incident, summary = :summary,
        version = CASE WHEN :version = '' THEN version ELSE :version END,
        task_type = CASE WHEN :task_type = '' THEN task_type ELSE :task_type END
    WHERE id = :run"""
_FINDINGS: Final = """
    INSERT INTO findings (agent, run, ts, severity, score, detector, kind, event_id, message,
        suggested_action, context_json)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (run, ts, event_id) DO NOTHING"""
# What people said about an incident is not the engine's to change.
_INCIDENTS: Final = """
    INSERT INTO incidents (incident_id, agent, run, detector, kind, severity, peak, message, suggested_action,
        opened_at, opened_seq, last_at, last_seq, state, closed_at, findings, hard_limit, evidence)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (incident_id) DO UPDATE SET severity = excluded.severity, peak = excluded.peak,
        message = excluded.message, suggested_action = excluded.suggested_action, last_at = excluded.last_at,
        last_seq = excluded.last_seq, state = excluded.state, closed_at = excluded.closed_at,
        findings = excluded.findings, hard_limit = excluded.hard_limit, evidence = excluded.evidence"""
JUDGED: Final = """
    UPDATE runs SET
        incidents = (SELECT count(*) FROM incidents WHERE run = runs.id),
        peak = (SELECT coalesce(max(peak), 0) FROM incidents WHERE run = runs.id),
        teaches = state = 'ended' AND summary IS NOT NULL AND (had_incident = 0 OR (
            EXISTS (SELECT 1 FROM incidents WHERE run = runs.id)
            AND NOT EXISTS (SELECT 1 FROM incidents WHERE run = runs.id AND review != 'false_alarm')))
    WHERE id = ?"""
"""A run's incidents counted, and whether a baseline may learn from it."""
_LOSSES: Final = """
    INSERT INTO losses VALUES (?, ?, ?) ON CONFLICT (reason) DO UPDATE SET count = count + excluded.count,
        last_at = max(last_at, excluded.last_at)"""


_OUTDATED: Final = "The run was deleted by another process while it was being written."


class _OutdatedError(StoreError):
    """Another process deleted or added rows, and the numbers remembered are no longer true."""


class _MisfitError(StoreError):
    """A record holds a value that no column takes."""


class Writer:
    """Keeps batches.

    Args:
        connections: Where to.
        keys: The numbers remembered between batches.
    """

    def __init__(self, connections: Connections, keys: Keys) -> None:
        self._connections = connections
        self._keys = keys

    def write(self, records: Sequence[Record]) -> None:
        """Keep one batch, whole; what cannot be kept as it is, is kept as nearly as possible."""
        with self._connections.transaction():
            try:
                self._try(records)
            except _OutdatedError:
                self._try(records)
            except _MisfitError:
                self._try([mended(record) for record in records])

    def _try(self, records: Sequence[Record]) -> None:
        with self._connections.transaction() as connection:
            try:
                _keep(connection, Gathering(connection, self._keys).batch(records))
            except MISFITS as exc:
                raise _MisfitError(f"A record could not be stored: {exc}.") from exc


def _keep(connection: sqlite3.Connection, batch: Batch) -> None:
    tallies = batch.tallies.values()
    # Rows of one run side by side: SQLite then finds the page once for all of them.
    batch.events.sort()
    if _insert(connection, _EVENTS, batch.events) != len(batch.events):
        raise _OutdatedError(_OUTDATED)
    _insert(connection, _PAYLOADS, batch.payloads)
    connection.executemany(_TOOLS, _tool_rows(tallies))
    if tallies and connection.executemany(_SUMS, [_sums(tally) for tally in tallies]).rowcount != len(
        tallies
    ):
        raise _OutdatedError(_OUTDATED)
    _keep_times(connection, tallies)
    _keep_rare(connection, batch)


def _insert(connection: sqlite3.Connection, sql: str, rows: Sequence[tuple[object, ...]]) -> int:
    """Insert rows in as few statements as possible; how many were new."""
    added = start = 0
    for block in _BLOCKS:
        while len(rows) - start >= block:
            piece = rows[start : start + block]
            flat = list(itertools.chain.from_iterable(piece))
            added += connection.execute(_for_rows(sql, len(piece[0]), block), flat).rowcount
            start += block
    return added


@functools.cache
def _for_rows(sql: str, columns: int, rows: int) -> str:
    """The statement for so many rows: one of a handful, and SQLite knows it again by its text."""
    row = f"({', '.join('?' * columns)})"
    return sql.format(rows=", ".join([row] * rows))


def _tool_rows(tallies: Iterable[Tally]) -> list[tuple[object, ...]]:
    return [
        (tally.run, name, tool.calls, tool.errors, tool.tokens, tool.duration_ms)
        for tally in tallies
        for name, tool in tally.tools.items()
    ]


def _sums(tally: Tally) -> tuple[object, ...]:
    return (
        *(len(tally.seqs), tally.tokens, tally.tool_calls, tally.llm_calls, tally.errors),
        *(tally.duration_ms, tally.cost_usd, tally.payloads, tally.last_at, tally.is_woken, tally.run),
    )


def _keep_times(connection: sqlite3.Connection, tallies: Iterable[Tally]) -> None:
    latest: dict[int, float] = {}
    for tally in tallies:
        key = tally.key
        key.last_seq = tally.last_seq
        latest[key.agent] = max(latest.get(key.agent, 0.0), tally.last_at)
        if tally.first_at < key.started_at:
            key.started_at = tally.first_at
            connection.execute(_EARLIER, (tally.first_at, tally.run, tally.first_at))
    rows = [(at, agent) for agent, at in latest.items()]
    changed = connection.executemany("UPDATE agents SET last_at = max(last_at, ?) WHERE id = ?", rows)
    if rows and changed.rowcount != len(rows):
        raise _OutdatedError(_OUTDATED)


def _keep_rare(connection: sqlite3.Connection, batch: Batch) -> None:
    judged = {tally.run for tally, _ in batch.incidents.values()}
    for tally in batch.tallies.values():
        if tally.turns:
            _keep_turns(connection, tally)
            judged.add(tally.run)
        if tally.findings:
            rows = [_finding(tally, finding) for finding in tally.findings]
            added = connection.executemany(_FINDINGS, rows).rowcount
            connection.execute("UPDATE runs SET findings = findings + ? WHERE id = ?", (added, tally.run))
    if batch.incidents:
        rows = [_incident(tally, incident) for tally, incident in batch.incidents.values()]
        connection.executemany(_INCIDENTS, rows)
    connection.executemany(JUDGED, [(run,) for run in judged])
    connection.executemany(_LOSSES, [(it.reason, it.count, it.timestamp) for it in batch.losses.values()])


def _keep_turns(connection: sqlite3.Connection, tally: Tally) -> None:
    """Open, put aside, end: in the order it happened."""
    run = tally.run
    for record in tally.turns:
        if isinstance(record, RunInfo):
            connection.execute(_OPENED, _opened(run, record))
            if record.started_at > 0:
                tally.key.started_at = record.started_at
        elif isinstance(record, SavedState):
            connection.execute("UPDATE runs SET state = 'suspended' WHERE id = ?", (run,))
            connection.execute("REPLACE INTO states VALUES (?, ?, ?)", (run, record.state, record.timestamp))
        else:
            connection.execute(_ENDED, _ended(run, record))
            connection.execute("DELETE FROM states WHERE run = ?", (run,))
    if tally.is_woken:
        connection.execute("UPDATE runs SET state = 'running' WHERE id = ? AND state = 'suspended'", (run,))


def _opened(run: int, info: RunInfo) -> dict[str, object]:
    return {
        "run": run,
        "goal": info.goal,
        "version": info.version,
        "task_type": info.task_type,
        "parent_run_id": info.parent_run_id,
        "metadata_json": canonical(info.metadata) or None,
        "started_at": info.started_at,
    }


def _ended(run: int, summary: RunSummary) -> dict[str, object]:
    return {
        "run": run,
        "outcome": summary.outcome,
        "had_incident": summary.had_incident,
        "summary": msgspec.msgpack.encode(summary),
        "version": summary.version,
        "task_type": summary.task_type,
    }


def _finding(tally: Tally, finding: DriftEvent) -> tuple[object, ...]:
    return (
        *(
            tally.key.agent,
            tally.run,
            finding.timestamp,
            finding.severity.rank,
            finding.score,
            finding.detector,
        ),
        *(finding.kind, finding.event_id, finding.message, finding.suggested_action),
        canonical(finding.context) or None,
    )


def _incident(tally: Tally, incident: Incident) -> tuple[object, ...]:
    return (
        *(incident.incident_id, tally.key.agent, tally.run, incident.detector, incident.kind),
        *(incident.severity.rank, incident.peak, incident.message, incident.suggested_action),
        *(incident.opened_at, incident.opened_seq, incident.last_at, incident.last_seq, incident.state),
        *(incident.closed_at, incident.findings, incident.hard_limit),
        msgspec.msgpack.encode((incident.event_ids, incident.interventions)),
    )
