"""Keep a PostgreSQL database in order: describe and check it, and drop the partitions of old weeks."""

# ruff: noqa: S608 - every piece of these queries is our own text; what comes from outside is bound

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from steadyhelm.errors import StoreError
from steadyhelm.journal.abandoned import describe_pending
from steadyhelm.store_rows import PruneCounts
from steadyhelm.stores.database import note_changes, retry_on_conflict
from steadyhelm.stores.locations import DatabaseLocation
from steadyhelm.stores.postgres.connection import PostgresConnection
from steadyhelm.stores.postgres.connections import PostgresConnections
from steadyhelm.stores.postgres.errors import translate_errors
from steadyhelm.stores.postgres.partitions import (
    drop_partition,
    find_range,
    list_buckets,
    make_partitions,
    read_bucket,
)
from steadyhelm.stores.postgres.schema import PARTITIONED
from steadyhelm.stores.upkeep import (
    DELETE_UNUSED_BASELINE,
    LARGE_TABLES,
    SQLRetention,
    SQLUpkeep,
    find_wrong_totals,
)

_PRUNE_LOCK: Final = 0x53544461
"""One process at a time deletes what is old."""

_WRONG_EVENT_TOTALS: Final = """
    SELECT r.run_id, r.events, coalesce(e.events, 0) FROM runs r LEFT JOIN (
        SELECT run, count(*) AS events, sum(tokens) AS tokens, count(*) FILTER (WHERE type = 0) AS tool_calls,
            count(*) FILTER (WHERE type = 1) AS llm_calls, sum(failed) AS errors
        FROM events GROUP BY run) e ON e.run = r.id
    LEFT JOIN (SELECT run, count(*) AS payloads FROM payloads GROUP BY run) p ON p.run = r.id
    WHERE (r.events, r.tokens, r.tool_calls, r.llm_calls, r.errors, r.payloads) != (coalesce(e.events, 0),
        coalesce(e.tokens, 0), coalesce(e.tool_calls, 0), coalesce(e.llm_calls, 0), coalesce(e.errors, 0),
        coalesce(p.payloads, 0)) LIMIT 20"""
_COUNT_ORPHANED_PAYLOADS: Final = """
    SELECT count(*) FROM payloads p
    WHERE NOT EXISTS (SELECT 1 FROM events e WHERE e.run = p.run AND e.seq = p.seq)"""
# What the database does not check by itself: the rows of a table that name one that is not there.
_REFERENCES: Final = (
    *((table, "run", "runs") for table in (*PARTITIONED, "run_tools", "limits", "run_marks")),
    ("events", "name", "names"),
    ("run_tools", "name", "names"),
)
_IN_BUCKET: Final = "id >= :first AND id < :end"
_DELETE_COMMENTS: Final = """
    DELETE FROM comments WHERE incident_id IN
        (SELECT incident_id FROM incidents WHERE run >= :first AND run < :end)"""
_DELETE_ALERTS: Final = """
    DELETE FROM outbox o USING runs r, agents a
    WHERE r.id >= :first AND r.id < :end AND a.id = r.agent AND o.agent_id = a.agent_id
        AND o.run_id = r.run_id"""


class PostgresUpkeep(SQLUpkeep, SQLRetention):
    """The part of upkeep that depends on PostgreSQL."""

    _connections: PostgresConnections

    @property
    def journal_path(self) -> Path:
        """Where records wait that could not be stored yet: in Steadyhelm's own folder."""
        return DatabaseLocation(self._connections.url).journal_path

    def get_version(self) -> str:
        """Return a value that differs after anything was written, by this process or another.

        It is what the database would let a reader see now: the transactions that have ended.
        """
        with self._connections.reading() as connection:
            return str(connection.execute("SELECT pg_current_snapshot()::text").fetchone()[0])

    def backup(self, path: Path) -> None:
        """Raise StoreError: PostgreSQL comes with a program for that."""
        raise StoreError(
            f"A PostgreSQL database is copied with its own program: "
            f"pg_dump --format=custom --file={str(path)!r} {self._connections.name!r}"
        )

    def describe(self) -> dict[str, Any]:
        """Return the address, size and schema of the database, and the number of rows of each table."""
        with self._connections.reading() as connection:
            rows = self.count_rows(connection)
            (size,) = connection.execute(
                "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0) FROM pg_class c"
                " WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'm')"
            ).fetchone()
            (step,) = connection.execute("SELECT name FROM migrations ORDER BY id DESC LIMIT 1").fetchone()
            (version,) = connection.execute("SHOW server_version").fetchone()
            partitions = sorted(list_buckets(connection, "events"))
        pending = describe_pending(self.journal_path)
        return {
            "path": self._connections.name,
            "bytes": size,
            "pending_journals": len(pending),
            "pending_records": sum(journal.records for journal in pending),
            "schema": step,
            "server": f"PostgreSQL {version}",
            "partitions": len(partitions),
            "rows": rows,
            "rows_from_sums": list(LARGE_TABLES),
        }

    def check(self) -> list[str]:
        """Return the faults found in the database; empty when it is sound.

        Rows that refer to missing rows come first, then totals that do not add up.
        """
        with self._connections.reading() as connection:
            faults = []
            for table, column, parent in _REFERENCES:
                (count,) = connection.execute(
                    f"SELECT count(*) FROM {table} t WHERE NOT EXISTS"
                    f" (SELECT 1 FROM {parent} o WHERE o.id = t.{column})"
                ).fetchone()
                if count:
                    faults.append(f"{count} rows of {table} name a row of {parent} that is not there")
            (orphaned,) = connection.execute(_COUNT_ORPHANED_PAYLOADS).fetchone()
            if orphaned:
                faults.append(f"{orphaned} payloads belong to no event")
            return faults + find_wrong_totals(connection, _WRONG_EVENT_TOTALS)

    def prune(self, *, payloads_before: float | None = None, runs_before: float | None = None) -> PruneCounts:
        """Delete payloads and whole runs that are older than these times.

        Weeks that are old as a whole are dropped. Nothing is done while another process does it.
        Behind a pooler, which keeps no lock between two transactions, rows are deleted one by one instead.
        """
        if self._connections.pooled_settings:
            return super().prune(payloads_before=payloads_before, runs_before=runs_before)
        with translate_errors(self._connections.url), self._connections.use_own_connection() as keeper:
            (is_alone,) = keeper.execute("SELECT pg_try_advisory_lock(?)", (_PRUNE_LOCK,)).fetchone()
            if not is_alone:
                return PruneCounts()
            make_partitions(keeper)
            runs = events = payloads = 0
            if runs_before is not None:
                runs, events = self._drop_runs(keeper, runs_before)
            if payloads_before is not None:
                payloads = _drop_payloads(keeper, payloads_before)
            rest = super().prune(payloads_before=payloads_before, runs_before=runs_before)
        return PruneCounts(
            payloads=payloads + rest.payloads, runs=runs + rest.runs, events=events + rest.events
        )

    def _drop_runs(self, keeper: PostgresConnection, before: float) -> tuple[int, int]:
        """Delete all runs of the weeks that are old as a whole. Returns the numbers of runs and events."""
        runs = events = 0
        for bucket in _iter_past_buckets(keeper, "events"):
            found = self._delete_runs_of(bucket, before)
            self._row_ids.clear()
            if found is not None:
                runs, events = runs + found[0], events + found[1]
                for table in PARTITIONED:
                    drop_partition(keeper, table, bucket)
        return runs, events

    @retry_on_conflict
    def _delete_runs_of(self, bucket: int, before: float) -> tuple[int, int] | None:
        with self._connections.transaction() as connection:
            return _delete_runs_of(connection, bucket, before)


def _iter_past_buckets(connection: PostgresConnection, table: str) -> Iterator[int]:
    now = read_bucket(connection)
    yield from sorted(bucket for bucket in list_buckets(connection, table) if bucket < now)


def _delete_runs_of(connection: PostgresConnection, bucket: int, before: float) -> tuple[int, int] | None:
    """Delete the runs of a week, and what belongs to them elsewhere; None when one of them is not old."""
    first, end = find_range(bucket)
    values = {"first": first, "end": end}
    rows = connection.execute(
        f"SELECT agent, events, pinned, started_at, last_at FROM runs WHERE {_IN_BUCKET}"
        " ORDER BY id FOR UPDATE",
        values,
    ).fetchall()
    if any(max(row[3], row[4]) >= before for row in rows):
        return None
    connection.execute(_DELETE_COMMENTS, values)
    connection.execute(_DELETE_ALERTS, values)
    for table in ("run_tools", "incidents", "states", "limits", "run_marks"):
        connection.execute(f"DELETE FROM {table} WHERE run >= :first AND run < :end", values)
    for table in PARTITIONED:
        connection.execute(f"DELETE FROM {table}_other WHERE run >= :first AND run < :end", values)
    agents = sorted(Counter(row[0] for row in rows).items())
    connection.executemany(
        "UPDATE agents SET runs = runs - ? WHERE id = ?", [(count, agent) for agent, count in agents]
    )
    connection.execute(f"DELETE FROM runs WHERE {_IN_BUCKET}", values)
    note_changes(connection, [("agent", None, agent) for agent, _ in agents])
    pinned = sorted({row[2] for row in rows if row[2] is not None})
    connection.executemany(DELETE_UNUSED_BASELINE, [(it,) for it in pinned])
    return len(rows), sum(row[1] for row in rows)


def _drop_payloads(keeper: PostgresConnection, before: float) -> int:
    """Drop the payloads of the weeks whose events are all old. Returns how many there were."""
    payloads = 0
    for bucket in _iter_past_buckets(keeper, "payloads"):
        first, end = find_range(bucket)
        values = {"first": first, "end": end, "before": before}
        count, latest = keeper.execute(
            f"SELECT coalesce(sum(payloads), 0), max(last_at) FROM runs WHERE {_IN_BUCKET}", values
        ).fetchone()
        if latest is not None and latest >= before:
            continue
        if drop_partition(keeper, "payloads", bucket):
            payloads += count
            with keeper.raw.transaction():
                keeper.execute("DELETE FROM payloads_other WHERE run >= :first AND run < :end", values)
                keeper.execute(f"UPDATE runs SET payloads = 0 WHERE {_IN_BUCKET}", values)
    return payloads
