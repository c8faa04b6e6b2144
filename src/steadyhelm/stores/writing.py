"""Write batches of records: events first, then the totals of each run."""

import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import msgspec

from steadyhelm.errors import SteadyhelmError, StoreError
from steadyhelm.events import RunInfo, RunSummary
from steadyhelm.findings import DriftEvent
from steadyhelm.fingerprints import encode_canonical
from steadyhelm.incidents import Incident
from steadyhelm.sink import PinnedBaseline, Record, RunKey, SavedState, make_storable, to_unicode
from steadyhelm.store import Result, RunStore
from steadyhelm.stores.batch import Batch, BatchBuilder, RunTotals
from steadyhelm.stores.database import Connection, StorePart, note_changes
from steadyhelm.stores.spending import write_grants, write_spending
from steadyhelm.stores.sql import AGENT_ROW_ID, KINDS, RESPONSES, encode_evidence, name_response, to_bits

_ADD_FLAGS: Final = """
    UPDATE runs SET top_severity = max(top_severity, ?), kinds = kinds | ?, responses = responses | ?
    WHERE id = ?"""
_SET_EARLIER_START: Final = """
    UPDATE runs SET started_at = ? WHERE id = ? AND start_known = 0 AND (started_at > ? OR started_at = 0)"""
_START_RUN: Final = """
    UPDATE runs SET state = 'running', teaches = 0,
        goal = CASE WHEN :goal = '' THEN goal ELSE :goal END,
        version = CASE WHEN :version = '' THEN version ELSE :version END,
        task_type = CASE WHEN :task_type = '' THEN task_type ELSE :task_type END,
        parent_run_id = coalesce(:parent_run_id, parent_run_id),
        metadata_json = coalesce(:metadata_json, metadata_json),
        started_at = CASE WHEN :started_at > 0 AND start_known = 0 THEN :started_at ELSE started_at END,
        start_known = CASE WHEN start_known = 1 OR :started_at > 0 THEN 1 ELSE 0 END
    WHERE id = :run"""
_END_RUN: Final = """
    UPDATE runs SET state = 'ended', outcome = :outcome, had_incident = :had_incident, summary = :summary,
        version = CASE WHEN :version = '' THEN version ELSE :version END,
        task_type = CASE WHEN :task_type = '' THEN task_type ELSE :task_type END
    WHERE id = :run"""
_SAVE_STATE: Final = """
    INSERT INTO states VALUES (?, ?, ?) ON CONFLICT (run) DO UPDATE SET state = excluded.state,
        saved_at = excluded.saved_at"""
# Review and acknowledgement belong to people: the engine does not overwrite them.
_UPSERT_INCIDENT: Final = """
    INSERT INTO incidents (incident_id, agent, run, detector, kind, severity, peak, message, suggested_action,
        opened_at, opened_seq, last_at, last_seq, state, closed_at, findings, hard_limit, subject,
        repeats, pattern, evidence)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (incident_id) DO UPDATE SET severity = excluded.severity, peak = excluded.peak,
        message = excluded.message, suggested_action = excluded.suggested_action, last_at = excluded.last_at,
        last_seq = excluded.last_seq, state = excluded.state, closed_at = excluded.closed_at,
        findings = excluded.findings, hard_limit = excluded.hard_limit, subject = excluded.subject,
        repeats = excluded.repeats, pattern = excluded.pattern, evidence = excluded.evidence"""
UPDATE_INCIDENT_TOTALS: Final = """
    UPDATE runs SET
        incidents = (SELECT count(*) FROM incidents WHERE run = runs.id),
        peak = (SELECT coalesce(max(peak), 0) FROM incidents WHERE run = runs.id),
        teaches = CASE WHEN state = 'ended' AND summary IS NOT NULL AND excluded = 0
            AND (had_incident = 0 OR (EXISTS (SELECT 1 FROM incidents WHERE run = runs.id) AND NOT EXISTS
            (SELECT 1 FROM incidents WHERE run = runs.id AND review != 'false_alarm'))) THEN 1 ELSE 0 END
    WHERE id = ?"""
"""Count a run's incidents again, and decide whether a baseline may learn from the run."""
_ADD_LOSS: Final = """
    INSERT INTO losses VALUES (?, ?, ?, ?) ON CONFLICT (reason, token) DO UPDATE SET
        count = max(losses.count, excluded.count), last_at = max(losses.last_at, excluded.last_at)"""

_ADD_PINNED: Final = """
    INSERT INTO pinned_baselines (digest, content) VALUES (?, ?) ON CONFLICT DO NOTHING"""
# A run is compared with the same baseline to its end: the first one stays.
_PIN_BASELINE: Final = """
    UPDATE runs SET pinned = (SELECT id FROM pinned_baselines WHERE digest = ?), pinned_seq = ?
    WHERE id = ? AND pinned IS NULL"""

_EPOCHS_PER_QUERY: Final = (64, 8)
"""Few sizes, so that SQLite can cache the statements; most batches are of few runs."""
_FIND_RESERVED: Final = {
    size: f"SELECT epoch, run_id FROM runs WHERE epoch IN ({', '.join('?' * size)})"  # noqa: S608 - ours
    for size in _EPOCHS_PER_QUERY
}
_MARK_TAUGHT: Final = f"UPDATE runs SET taught = 1 WHERE taught = 0 AND run_id = ? AND agent = {AGENT_ROW_ID}"  # noqa: S608 - ours

_OUTDATED_ATTEMPTS: Final = 4
_RUN_WAS_DELETED: Final = "The run was deleted by another process while it was being written."


class _OutdatedError(StoreError):
    """Another process deleted or added rows, and the cached row ids are out of date."""


class _UnstorableValueError(SteadyhelmError, ValueError):
    """A record holds a value that fits no column: the record is at fault, not the store."""


class SQLWriter(StorePart, RunStore):
    """The part of a run store that writes."""

    def run_transaction(self, work: Callable[[], Result]) -> Result:
        """Return what a function returns that is called in a transaction, once or more often."""
        return self._connections.run(work)

    def lock_agents(self, agent_ids: Collection[str]) -> None:
        """Wait until no other transaction has locked one of these agents; until this one ends, none does."""
        self._connections.lock([to_unicode(agent_id) for agent_id in agent_ids])

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit everything written inside together, or nothing of it. Transactions may be nested."""
        with self._connections.transaction():
            yield

    def write(self, records: Sequence[Record]) -> None:
        """Store one batch. An event already stored under the same run and seq is left unchanged.

        A value that fits no column is replaced by the nearest one that does.
        """
        self._connections.run(lambda: self._write(records))

    def _write(self, records: Sequence[Record]) -> None:
        for _ in range(_OUTDATED_ATTEMPTS):
            try:
                self._try_write(records)
            except _OutdatedError:
                continue
            except _UnstorableValueError:
                records = [make_storable(record) for record in records]
                continue
            return
        self._try_write(records)

    def reserve_runs(self, runs: Sequence[RunKey]) -> dict[str, str]:
        """Return the id under which each run is stored, by epoch, after reserving it where it is new.

        A run whose id another run has gets a number behind it.
        """
        self._connections.require_database()
        known = self._find_reserved([run.epoch for run in runs])
        if len(known) < len(runs):
            missing = [run for run in runs if run.epoch not in known]
            known |= self._connections.run(lambda: self._reserve(missing))
        return known

    def _reserve(self, runs: Sequence[RunKey]) -> dict[str, str]:
        reserved: dict[str, str] = {}
        with self._connections.transaction() as connection:
            agent_ids = sorted({run.agent_id for run in runs})
            agents = {it: self._row_ids.get_agent(connection, to_unicode(it)) for it in agent_ids}
            for run in sorted(runs, key=lambda run: agents[run.agent_id]):
                if run.epoch not in reserved:
                    reserved[run.epoch] = self._row_ids.reserve_run(connection, run)
        return reserved

    def _find_reserved(self, epochs: Sequence[str]) -> dict[str, str]:
        found: dict[str, str] = {}
        most, few = _EPOCHS_PER_QUERY
        with self._connections.reading() as connection:
            for block in range(0, len(epochs), most):
                wanted = epochs[block : block + most]
                size = few if len(wanted) <= few else most
                values = [*wanted, *("",) * (size - len(wanted))]
                found.update(connection.execute(_FIND_RESERVED[size], values).fetchall())
        return found

    def mark_taught(self, agent_id: str, run_id: str) -> bool:
        """Remember that a run was learnt from. Returns False when it had been before."""
        with self._connections.transaction() as connection:
            changed = connection.execute(_MARK_TAUGHT, (to_unicode(run_id), to_unicode(agent_id)))
            return changed.rowcount > 0

    def _try_write(self, records: Sequence[Record]) -> None:
        with self._connections.transaction() as connection:
            try:
                connection.dialect.look_up(connection, self._row_ids, records)
                batch = BatchBuilder(connection, self._row_ids).build(records)
                _write_batch(connection, batch, self._row_ids.new_runs)
                for (agent_id, run_id), totals in batch.totals.items():
                    if totals.is_over:
                        self._row_ids.forget_run(agent_id, run_id)
            except connection.dialect.unstorable_errors as exc:
                raise _UnstorableValueError(f"A record could not be stored: {exc}.") from exc


def _write_batch(connection: Connection, batch: Batch, new_runs: dict[int, int]) -> None:
    # In one order everywhere, so that several writers never wait for each other in a circle.
    all_totals = sorted(batch.totals.values(), key=lambda totals: totals.run)
    # Rows of one run next to each other: SQLite then looks up the page once for all of them.
    batch.events.sort()
    if not connection.dialect.insert_events(connection, batch):
        raise _OutdatedError(_RUN_WAS_DELETED)
    connection.dialect.add_tool_totals(connection, _build_tool_rows(all_totals))
    rows = [_build_total_row(totals) for totals in all_totals]
    if rows and connection.dialect.add_run_totals(connection, rows) != len(rows):
        raise _OutdatedError(_RUN_WAS_DELETED)
    _update_times(connection, all_totals, new_runs)
    _write_points(connection, batch)
    write_spending(connection, batch)
    _write_other_records(connection, batch)
    note_changes(connection, [("run", totals.run, totals.cached.agent) for totals in batch.totals.values()])


def _write_points(connection: Connection, batch: Batch) -> None:
    if batch.points:
        connection.dialect.insert_rows(connection, "scores", batch.points)
        connection.dialect.set_scores(
            connection,
            [
                (totals.top_score, totals.last_score, totals.run)
                for totals in sorted(batch.totals.values(), key=lambda it: it.run)
                if totals.top_score is not None
            ],
        )
    if batch.limits:
        connection.dialect.insert_rows(connection, "limits", batch.limits)


def _build_tool_rows(all_totals: Iterable[RunTotals]) -> list[tuple[object, ...]]:
    return [
        (totals.run, name, tool.calls, tool.errors, tool.tokens, tool.duration_ms)
        for totals in all_totals
        for name, tool in sorted(totals.tools.items())
    ]


def _build_total_row(totals: RunTotals) -> tuple[object, ...]:
    return (
        *(len(totals.seqs), totals.tokens, totals.tool_calls, totals.llm_calls, totals.errors),
        *(
            totals.duration_ms,
            totals.cost_usd,
            totals.payloads,
            totals.repeated,
            totals.reply_bytes,
            totals.last_at,
            totals.is_resumed,
            totals.run,
        ),
    )


def _update_times(connection: Connection, all_totals: Iterable[RunTotals], new_runs: dict[int, int]) -> None:
    latest: dict[int, float] = {}
    for totals in all_totals:
        cached = totals.cached
        cached.last_seq = totals.last_seq
        latest[cached.agent] = max(latest.get(cached.agent, 0.0), totals.last_at)
        if totals.first_at < cached.started_at:
            cached.started_at = totals.first_at
            connection.execute(_SET_EARLIER_START, (totals.first_at, totals.run, totals.first_at))
    rows = [(at, new_runs.pop(agent, 0), agent) for agent, at in sorted(latest.items())]
    changed = connection.executemany(
        "UPDATE agents SET last_at = max(last_at, ?), runs = runs + ? WHERE id = ?", rows
    )
    if rows and changed.rowcount != len(rows):
        raise _OutdatedError(_RUN_WAS_DELETED)


def _write_other_records(connection: Connection, batch: Batch) -> None:
    changed_runs = {totals.run for totals, _ in batch.incidents.values()}
    findings: list[tuple[object, ...]] = []
    for totals in sorted(batch.totals.values(), key=lambda it: it.run):
        if totals.state_changes:
            _write_state_changes(connection, totals)
            changed_runs.add(totals.run)
        findings += [_build_finding_row(totals, finding) for finding in totals.findings]
    connection.dialect.insert_findings(connection, findings)
    if batch.incidents:
        rows = [_build_incident_row(totals, incident) for totals, incident in batch.incidents.values()]
        connection.executemany(_UPSERT_INCIDENT, rows)
        connection.executemany(_ADD_FLAGS, map(_build_flag_row, batch.incidents.values()))
    _pin_baselines(connection, batch.pinned)
    connection.executemany(UPDATE_INCIDENT_TOTALS, [(run,) for run in sorted(changed_runs)])
    connection.executemany(_ADD_LOSS, sorted(batch.losses))
    write_grants(connection, batch.grants)


def _build_flag_row(stored: tuple[RunTotals, Incident]) -> tuple[int, int, int, int]:
    totals, incident = stored
    responses = to_bits(map(name_response, incident.interventions), RESPONSES)
    return incident.severity.rank, to_bits([incident.kind], KINDS), responses, totals.run


def _pin_baselines(connection: Connection, pinned: Sequence[tuple[RunTotals, PinnedBaseline]]) -> None:
    """Store what runs are compared with, each distinct content once."""
    for totals, pin in sorted(pinned, key=lambda it: it[1].digest):
        known = connection.execute("SELECT 1 FROM pinned_baselines WHERE digest = ?", (pin.digest,))
        if known.fetchone() is None:
            row = (pin.digest, zlib.compress(pin.content, level=1))
            connection.execute(_ADD_PINNED, row)
        connection.execute(_PIN_BASELINE, (pin.digest, pin.seq, totals.run))


def _write_state_changes(connection: Connection, totals: RunTotals) -> None:
    """Start, suspend and end the run, in the order of the records."""
    run = totals.run
    for record in totals.state_changes:
        if isinstance(record, RunInfo):
            connection.execute(_START_RUN, _build_start_values(run, record))
            connection.execute("DELETE FROM states WHERE run = ?", (run,))
            if record.started_at > 0:
                totals.cached.started_at = record.started_at
        elif isinstance(record, SavedState):
            connection.execute("UPDATE runs SET state = 'suspended' WHERE id = ?", (run,))
            connection.execute(_SAVE_STATE, (run, record.state, record.timestamp))
            totals.cached.calls.forget()
        else:
            connection.execute(_END_RUN, _build_end_values(run, record))
            connection.execute("DELETE FROM states WHERE run = ?", (run,))
            connection.dialect.write_marks(connection, run)
            totals.cached.calls.forget()
    if totals.is_resumed:
        connection.execute("UPDATE runs SET state = 'running' WHERE id = ? AND state = 'suspended'", (run,))


def _build_start_values(run: int, info: RunInfo) -> dict[str, object]:
    return {
        "run": run,
        "goal": info.goal,
        "version": info.version,
        "task_type": info.task_type,
        "parent_run_id": info.parent_run_id,
        "metadata_json": encode_canonical(info.metadata) or None,
        "started_at": info.started_at,
    }


def _build_end_values(run: int, summary: RunSummary) -> dict[str, object]:
    return {
        "run": run,
        "outcome": summary.outcome,
        "had_incident": summary.had_incident,
        "summary": msgspec.msgpack.encode(summary),
        "version": summary.version,
        "task_type": summary.task_type,
    }


def _build_finding_row(totals: RunTotals, finding: DriftEvent) -> tuple[object, ...]:
    return (
        *(
            totals.cached.agent,
            totals.run,
            finding.timestamp,
            finding.severity.rank,
            finding.score,
            finding.detector,
        ),
        *(finding.kind, finding.event_id, finding.message, finding.suggested_action),
        encode_canonical(finding.context) or None,
    )


def _build_incident_row(totals: RunTotals, incident: Incident) -> tuple[object, ...]:
    return (
        *(incident.incident_id, totals.cached.agent, totals.run, incident.detector, incident.kind),
        *(incident.severity.rank, incident.peak, incident.message, incident.suggested_action),
        *(incident.opened_at, incident.opened_seq, incident.last_at, incident.last_seq, incident.state),
        *(incident.closed_at, incident.findings, incident.hard_limit, incident.subject, incident.repeats),
        incident.pattern,
        encode_evidence(incident),
    )
