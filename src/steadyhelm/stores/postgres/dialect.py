"""What PostgreSQL does in a way of its own: COPY, leases, and numbers that several writers can give out.

Several processes write at once. So that they wait for each other in one order and never in a circle, whatever
they insert or change is sorted, and new names are inserted in short transactions of their own.
"""

# ruff: noqa: S608 - every piece of these queries is our own text; what comes from outside is bound

import itertools
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from psycopg import errors

from steadyhelm.sink import Record
from steadyhelm.stores.batch import Batch
from steadyhelm.stores.postgres.errors import UNSTORABLE_ERRORS
from steadyhelm.stores.postgres.row_ids import find_unknown, look_up_agents, look_up_names, look_up_runs
from steadyhelm.stores.row_ids import RowIds

if TYPE_CHECKING:
    from steadyhelm.stores.changes import What
    from steadyhelm.stores.postgres.connections import PostgresConnection

_PAYLOAD: Final = 12
"""The place of a payload's number in the row of an event."""
_CHANGE_BITS: Final = 12
_MOST_CHANGES: Final = 1 << _CHANGE_BITS
_DELETED_EVERY_S: Final = 60.0
_FEW_ROWS: Final = 3
"""Up to how many rows a statement for each costs less than COPY."""

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
        rows = [(place, at, *it) for place, it in enumerate(changes[:free], connection.changes_noted)]
        connection.changes_noted += len(rows)
        if len(changes) > free and connection.changes_noted < _MOST_CHANGES:
            rows.append((connection.changes_noted, at, "settings", None, None))
            connection.changes_noted = _MOST_CHANGES
        marks = ", ".join(["(?, ?, ?, ?, ?)"] * len(rows))
        if rows:
            connection.execute(
                "INSERT INTO changes (id, at, what, run, agent)"
                f" SELECT (pg_current_xact_id()::text::bigint << {_CHANGE_BITS}) + v.place, v.at, v.what,"
                f" v.run::bigint, v.agent::bigint FROM (VALUES {marks}) v (place, at, what, run, agent)",
                list(itertools.chain.from_iterable(rows)),
            )
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


def _insert(connection: "PostgresConnection", table: str, rows: Sequence[tuple[object, ...]]) -> None:
    """Insert rows that are new; raises UniqueViolation where one is not."""
    if len(rows) > _FEW_ROWS:
        connection.copy(table, rows)
    else:
        for row in rows:
            connection.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)


DIALECT: Final = PostgresDialect()
