"""What PostgreSQL does in a way of its own: COPY, leases, and numbers that several writers can give out.

Several processes write at once. So that they wait for each other in one order and never in a circle, whatever
they insert or change is sorted, and new names are inserted in short transactions of their own.
"""

# ruff: noqa: S608 - every piece of these queries is our own text; what comes from outside is bound

import itertools
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
from psycopg import errors

from steadyhelm.sink import Record
from steadyhelm.stores.batch import Batch
from steadyhelm.stores.postgres.errors import UNSTORABLE_ERRORS
from steadyhelm.stores.postgres.row_ids import find_unknown, look_up_agents, look_up_names, look_up_runs
from steadyhelm.stores.row_ids import RowIds

if TYPE_CHECKING:
    from steadyhelm.stores.database import What
    from steadyhelm.stores.postgres.connection import PostgresConnection

_PAYLOAD: Final = 12
"""The place of a payload's number in the row of an event."""
_CHANGE_BITS: Final = 12
_MOST_CHANGES: Final = 1 << _CHANGE_BITS
_DELETED_EVERY_S: Final = 60.0
_FEW_ROWS: Final = 3
"""Up to how many rows a statement for each costs less than COPY."""

_ADD_TOOL_TOTALS: Final = """
    INSERT INTO run_tools
    SELECT (v->>0)::bigint, (v->>1)::bigint, (v->>2)::bigint, (v->>3)::bigint, (v->>4)::bigint,
        (v->>5)::float8
    FROM json_array_elements(?::json) v ON CONFLICT (run, name) DO UPDATE SET
        calls = run_tools.calls + excluded.calls, errors = run_tools.errors + excluded.errors,
        tokens = run_tools.tokens + excluded.tokens,
        duration_ms = run_tools.duration_ms + excluded.duration_ms"""
# The rows are locked in their order first: an update that joins has an order of its own.
_ADD_RUN_TOTALS: Final = """
    WITH v AS MATERIALIZED (SELECT value AS v, (value->>12)::bigint AS run FROM json_array_elements(?::json)),
    locked AS MATERIALIZED (SELECT id FROM runs WHERE id IN (SELECT run FROM v) ORDER BY id FOR UPDATE)
    UPDATE runs SET events = events + (v->>0)::bigint, tokens = tokens + (v->>1)::bigint,
        tool_calls = tool_calls + (v->>2)::bigint, llm_calls = llm_calls + (v->>3)::bigint,
        errors = errors + (v->>4)::bigint, duration_ms = duration_ms + (v->>5)::float8,
        cost_usd = cost_usd + (v->>6)::float8, payloads = payloads + (v->>7)::bigint,
        repeated = repeated + (v->>8)::bigint, reply_bytes = reply_bytes + (v->>9)::bigint,
        last_at = max(last_at, (v->>10)::float8),
        state = CASE WHEN (v->>11)::boolean AND state = 'suspended' THEN 'running' ELSE state END
    FROM v JOIN locked ON locked.id = v.run WHERE runs.id = v.run"""
_SET_SCORES: Final = """
    UPDATE runs SET top_score = max(top_score, (v->>0)::float8), last_score = (v->>1)::float8
    FROM json_array_elements(?::json) v WHERE runs.id = (v->>2)::bigint"""

_WRITE_MARKS: Final = """
    INSERT INTO run_marks SELECT :run, s.step,
        (SELECT score FROM scores WHERE run = :run AND seq < s.step ORDER BY seq DESC LIMIT 1),
        e.tokens, e.cost
    FROM (SELECT 1::bigint << g AS step FROM generate_series(0, 62) g
            WHERE 1::bigint << g <= (SELECT max(seq) + 1 FROM events WHERE run = :run)) s,
        LATERAL (SELECT coalesce(sum(tokens), 0) AS tokens, coalesce(sum(cost_usd), 0) AS cost
            FROM events WHERE run = :run AND seq >= 0 AND seq < s.step) e
    ON CONFLICT (run, step) DO UPDATE SET
        score = excluded.score, tokens = excluded.tokens, cost_usd = excluded.cost_usd"""
_INSERT_FINDINGS: Final = """
    INSERT INTO findings (agent, run, ts, severity, score, detector, kind, event_id, message,
        suggested_action, context_json)
    VALUES {rows} ON CONFLICT (run, ts, event_id) DO NOTHING RETURNING run"""
_ADD_FINDINGS: Final = """
    UPDATE runs SET findings = findings + (v->>1)::bigint FROM json_array_elements(?::json) v
    WHERE runs.id = (v->>0)::bigint"""
_FINDINGS_PER_STATEMENT: Final = (32, 8, 1)
_INSERT_CHANGES: Final = f"""
    INSERT INTO changes (id, at, what, run, agent)
    SELECT (pg_current_xact_id()::text::bigint << {_CHANGE_BITS}) + (v->>0)::bigint, (v->>1)::float8, v->>2,
        (v->>3)::bigint, (v->>4)::bigint
    FROM json_array_elements(?::json) v"""

# A number may be read once every transaction with a smaller one has ended: nothing can come before it then.
_READABLE: Final = f"(pg_snapshot_xmin(pg_current_snapshot())::text::bigint << {_CHANGE_BITS})"


class PostgresDialect:
    """What PostgreSQL does in a way of its own."""

    unstorable_errors = UNSTORABLE_ERRORS

    def __init__(self) -> None:
        self._changes_deleted_at = 0.0

    # --- row ids ----------------------------------------------------------------------------------

    def look_up(self, connection: "PostgresConnection", row_ids: RowIds, records: Sequence[Record]) -> None:
        """Read and insert the agents, runs and names of a batch that are not cached, sorted."""
        names, runs = find_unknown(row_ids, records)
        if names:
            look_up_names(connection, row_ids, sorted(names))
        if runs:
            look_up_agents(connection, row_ids, sorted({agent_id for agent_id, _ in runs}))
            look_up_runs(connection, row_ids, runs)

    # --- events and payloads ----------------------------------------------------------------------

    def get_next_payload_id(self, connection: "PostgresConnection") -> int:  # noqa: ARG002 - the contract
        """Return 0: a payload's number is only its place in the batch."""
        return 0

    def insert_events(self, connection: "PostgresConnection", batch: Batch) -> bool:
        """Insert the events and payloads of a batch. Returns False when an event was there already."""
        payloads = batch.payloads
        events = [(*row[:_PAYLOAD], *row[_PAYLOAD + 1 :]) for row in batch.events]
        kept = [
            (row[0], row[1], *payloads[row[_PAYLOAD]][1:])
            for row in batch.events
            if row[_PAYLOAD] is not None
        ]
        try:
            _insert(connection, "events", events)
            _insert(connection, "payloads", kept)
        except errors.UniqueViolation:
            return False
        return True

    def insert_rows(
        self, connection: "PostgresConnection", table: str, rows: Sequence[tuple[object, ...]]
    ) -> None:
        """Insert rows of a run by seq. They come with their events, which are new."""
        _insert(connection, table, rows)

    # Rows as one JSON text: a statement for each would cost ten times as much, here and in the server.

    def add_tool_totals(self, connection: "PostgresConnection", rows: Sequence[tuple[object, ...]]) -> None:
        """Add to the totals of tools of runs: run, name, calls, errors, tokens, duration."""
        if rows:
            connection.execute(_ADD_TOOL_TOTALS, (_encode(rows),))

    def add_run_totals(self, connection: "PostgresConnection", rows: Sequence[tuple[object, ...]]) -> int:
        """Add to the totals of runs, the run last. Returns how many of the runs are there."""
        return connection.execute(_ADD_RUN_TOTALS, (_encode(rows),)).rowcount

    def set_scores(self, connection: "PostgresConnection", rows: Sequence[tuple[object, ...]]) -> None:
        """Set the top score, if it is one, and the last score of runs, the run last."""
        if rows:
            connection.execute(_SET_SCORES, (_encode(rows),))

    def insert_findings(self, connection: "PostgresConnection", rows: Sequence[tuple[object, ...]]) -> None:
        """Insert findings, the run second, and add to the totals of their runs how many were new."""
        new: Counter[int] = Counter()
        start = 0
        for block in _FINDINGS_PER_STATEMENT:
            while len(rows) - start >= block:
                piece = rows[start : start + block]
                marks = ", ".join([f"({', '.join('?' * len(piece[0]))})"] * block)
                found = connection.execute(
                    _INSERT_FINDINGS.format(rows=marks), list(itertools.chain.from_iterable(piece))
                )
                new.update(run for (run,) in found)
                start += block
        if new:
            connection.execute(_ADD_FINDINGS, (_encode(sorted(new.items())),))

    def write_marks(self, connection: "PostgresConnection", run: int) -> None:
        """Store what an ended run had reached at steps 1, 2, 4, 8 and so on."""
        connection.execute(_WRITE_MARKS, {"run": run})

    def delete_first_payloads(self, connection: "PostgresConnection", run: int, last: int) -> int:
        """Delete the payloads of a run's events up to one; the events follow. Returns how many."""
        return connection.execute("DELETE FROM payloads WHERE run = ? AND seq <= ?", (run, last)).rowcount

    def delete_old_payloads(
        self, connection: "PostgresConnection", run: int, after: int, before: float, limit: int
    ) -> list[int]:
        """Delete the next payloads of a run's events from before a time. Returns the seqs, in order."""
        rows = connection.execute(
            "DELETE FROM payloads WHERE run = :run AND seq IN (SELECT e.seq FROM events e"
            " JOIN payloads p ON p.id = e.payload WHERE e.run = :run AND e.seq > :after AND e.ts < :before"
            " ORDER BY e.seq LIMIT :limit) RETURNING seq",
            {"run": run, "after": after, "before": before, "limit": limit},
        ).fetchall()
        return sorted(seq for (seq,) in rows)

    def iterate(self, connection: "PostgresConnection", sql: str, values: Sequence[Any]) -> Iterator[Any]:
        """Yield the rows of a query, read a page at a time as they were when it began."""
        return connection.iterate(sql, values)

    # --- changes ----------------------------------------------------------------------------------

    def insert_changes(
        self,
        connection: "PostgresConnection",
        at: float,
        changes: "Sequence[tuple[What, int | None, int | None]]",
    ) -> bool:
        """Insert changes, numbered by the transaction that makes them and their place therein.

        A transaction that changes more than can be numbered ends its list with a change of everything.
        """
        free = _MOST_CHANGES - 1 - connection.changes_noted
        rows: list[tuple[object, ...]] = [
            (place, at, *it) for place, it in enumerate(changes[:free], connection.changes_noted)
        ]
        connection.changes_noted += len(rows)
        if len(changes) > free and connection.changes_noted < _MOST_CHANGES:
            rows.append((connection.changes_noted, at, "settings", None, None))
            connection.changes_noted = _MOST_CHANGES
        if rows:
            connection.execute(_INSERT_CHANGES, (_encode(rows),))
        now = time.monotonic()
        is_due = now - self._changes_deleted_at > _DELETED_EVERY_S
        if is_due:
            self._changes_deleted_at = now
        return is_due

    def delete_changes(self, connection: "PostgresConnection", before: float) -> None:
        """Delete the changes from before a time, but for the last of them, which says where the rest begins.

        Rows that another process is deleting are left to it.
        """
        connection.execute(
            "DELETE FROM changes WHERE id IN (SELECT id FROM changes WHERE id <"
            f" (SELECT max(id) FROM changes WHERE at < ? AND id < {_READABLE})"
            " ORDER BY id FOR UPDATE SKIP LOCKED)",
            (before,),
        )

    def read_bounds(self, connection: "PostgresConnection") -> tuple[int, int]:
        """Return the numbers of the oldest change that is kept, and of the latest that may be read."""
        oldest, latest = connection.execute(
            f"SELECT min(id) + 1, max(id) FROM changes WHERE id < {_READABLE}"
        ).fetchone()
        return oldest, latest

    # --- alerts -----------------------------------------------------------------------------------

    def claim(
        self, connection: "PostgresConnection", columns: str, now: float, lease_s: float, limit: int
    ) -> list[Any]:
        """Lease alerts that are due and that nobody else is claiming; return their rows, the id first."""
        return connection.execute(
            "UPDATE outbox SET next_at = ?, attempts = attempts + 1 WHERE id IN (SELECT id FROM outbox"
            " WHERE state = 'pending' AND next_at <= ? ORDER BY next_at, id LIMIT ? FOR UPDATE SKIP LOCKED)"
            f" RETURNING id, {columns}",
            (now + lease_s, now, limit),
        ).fetchall()

    def read_clock(self, connection: "PostgresConnection") -> float:
        """Return the server's time: those of the machines that share it differ."""
        (now,) = connection.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()
        return float(now)


def _encode(rows: Sequence[tuple[object, ...]]) -> str:
    return msgspec.json.encode(rows).decode()


def _insert(connection: "PostgresConnection", table: str, rows: Sequence[tuple[object, ...]]) -> None:
    """Insert rows that are new; raises UniqueViolation where one is not."""
    if len(rows) > _FEW_ROWS:
        connection.copy(table, rows)
    else:
        for row in rows:
            connection.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)


DIALECT: Final = PostgresDialect()
