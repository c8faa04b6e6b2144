"""Copy a SQLite store to an empty PostgreSQL database: all of it, or nothing, and check the copy.

Row ids stay as they are, but for those of runs: they begin with the week in which the run began, so that it
is in the partition of that week, and retention drops it with the others.
"""

# ruff: noqa: S608 - every piece of these queries is our own text

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, Final

from msgspec import Struct

from steadyhelm.errors import SettingsError, StoreError
from steadyhelm.fingerprints import hash_bytes
from steadyhelm.stores.locations import DatabaseLocation
from steadyhelm.stores.sql_store import SQLStore
from steadyhelm.stores.sqlite import SQLiteStore

_COPIED_AT_ONCE: Final = 5000
_RUNS_COMPARED: Final = 50
_TABLES: Final = (
    *("agents", "names", "pinned_baselines", "runs", "events", "payloads", "scores", "findings", "run_tools"),
    *("limits", "run_marks", "incidents", "mutes", "thresholds", "baselines", "states", "outbox", "losses"),
    *("task_profiles", "spending", "daily_grants", "declarations", "comments", "audit", "api_keys"),
)
"""All tables but two; rows refer to those of earlier tables. `changes` is for open pages, and `agent_days`
fills itself with the runs and the spending: it is compared all the same."""

_COMPARED_SUMS: Final = {
    "runs": ("events", "tokens", "findings", "incidents", "cost_usd"),
    "events": ("seq", "tokens", "duration_ms", "call_hash / 4294967296", "failed"),
    "findings": ("severity", "score", "ts"),
    "run_tools": ("calls", "errors", "tokens"),
    "spending": ("steps", "tokens", "cost_usd"),
    "agent_days": ("runs", "scored", "scores", "tokens", "cost_usd"),
    "outbox": ("attempts", "created_at"),
}
_ANY_RUNS: Final = "agent_days WHERE runs > 0"
"""The days of agents, without those whose runs were all deleted."""
_STEPS_OF_RUN: Final = (
    "SELECT e.seq, e.type, n.name, e.ts, e.tokens, e.duration_ms, e.cost_usd, e.call_hash, e.result_hash,"
    " p.input_json, p.output_json, p.metadata_json, p.error, p.call_id"
    " FROM events e JOIN names n ON n.id = e.name LEFT JOIN payloads p ON p.id = e.payload"
    " WHERE e.run = ? ORDER BY e.seq"
)
_FINDINGS_OF_RUN: Final = (
    "SELECT ts, severity, score, detector, kind, event_id, message FROM findings WHERE run = ? ORDER BY id"
)


class TableCopy(Struct, frozen=True, kw_only=True):
    """One table of a copy: its rows, and the sums of some of its columns, in both databases."""

    table: str
    rows: int
    copied: int
    sums_agree: bool

    @property
    def is_equal(self) -> bool:
        """Whether the copy has what the source has."""
        return self.rows == self.copied and self.sums_agree


class StoreCopy(Struct, frozen=True, kw_only=True):
    """What was copied, and how the copy compares."""

    source: str
    target: str
    tables: list[TableCopy]
    runs_compared: int
    runs_different: list[int]

    @property
    def is_equal(self) -> bool:
        """Whether no difference was found."""
        return not self.runs_different and all(it.is_equal for it in self.tables)


def copy_store(
    source: SQLStore, target: SQLStore, on_rows: Callable[[int], None] = lambda _: None
) -> StoreCopy:
    """Copy everything in one transaction, and compare the two.

    `on_rows` is called with the number of rows that were copied since the last call.
    Raises SettingsError unless a SQLite file is copied to a server, and StoreError when the target is not
    empty, or the copy differs: then nothing is kept in the target.
    """
    if not isinstance(source, SQLiteStore) or not target.location.is_server:
        raise SettingsError("db copy copies a SQLite file to a PostgreSQL database: name them in this order.")
    with _snapshot(source) as old, target._connections.transaction() as new:  # noqa: SLF001 - one package
        # Between two tables the source is read, which may take a while.
        new.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
        _require_empty(new, target.location)
        new_run = _make_partitions(old, new)
        for table in _TABLES:
            for count in _copy_table(old, new, table, new_run):
                on_rows(count)
        _raise_numbers(new)
        # What is counted at the end of a transaction is counted now.
        new.execute("SET CONSTRAINTS ALL IMMEDIATE")
        runs = _choose_runs(old, new_run)
        copied = StoreCopy(
            source=str(source.location),
            target=str(target.location),
            tables=[_compare_table(old, new, table) for table in (*_TABLES, "agent_days")],
            runs_compared=len(runs),
            runs_different=[
                run for run, copy in runs if _compute_digest(old, run) != _compute_digest(new, copy)
            ],
        )
        if not copied.is_equal:
            differing = [it.table for it in copied.tables if not it.is_equal]
            differing += [f"run {run}" for run in copied.runs_different]
            raise StoreError(f"The copy differs, and was not kept: {', '.join(differing[:10])}.")
    return copied


@contextmanager
def _snapshot(source: SQLStore) -> Iterator[Any]:
    """Yield a connection that sees the store as it is now, whatever agents write meanwhile."""
    with source.reading() as connection:
        connection.execute("BEGIN")
        try:
            yield connection
        finally:
            connection.execute("ROLLBACK")


def count_rows(store: SQLStore) -> int:
    """Return how many rows a copy of this store has to copy."""
    with store.reading() as connection:
        return sum(_count(connection, _name_rows(table)) for table in _TABLES)


def _require_empty(connection: Any, location: DatabaseLocation) -> None:
    if connection.execute("SELECT count(*) FROM agents").fetchone()[0]:
        raise StoreError(
            f"The database {location} holds runs already. Copy to an empty one: createdb makes it."
        )


def _make_partitions(old: Any, new: Any) -> str:
    """Make the partitions of all weeks in which a run began. Returns SQL for the new row id of a run `r`."""
    from steadyhelm.stores.postgres import partitions, schema  # noqa: PLC0415 - an extra

    bucket = partitions.format_bucket("r.started_at", partitions.read_bucket(new))
    for (number,) in old.execute(f"SELECT DISTINCT {bucket} FROM runs r").fetchall():
        for table in schema.PARTITIONED:
            partitions.make_partition(new, table, number)
    return f"({bucket} << {schema.BUCKET_BITS}) + r.id"


def _copy_table(old: Any, new: Any, table: str, new_run: str) -> Iterator[int]:
    columns = _list_columns(new, table)
    rows = iter(old.execute(_select_rows(table, columns, new_run)))
    while part := list(islice(rows, _COPIED_AT_ONCE)):
        new.copy(f"{table} ({', '.join(columns)})", part)
        yield len(part)


def _select_rows(table: str, columns: Sequence[str], new_run: str) -> str:
    """Return the query for the rows of a table as they are copied, with the new row ids of runs."""
    owner = {"runs": "r", "payloads": "p"}.get(table, table)
    names = {name: f"{owner}.{name}" for name in columns}
    if table == "runs":
        rows, names["id"] = "runs r", new_run
    elif "run" in names:
        event = "e" if table == "payloads" else table
        names |= {"run": new_run, **({"seq": "e.seq"} if table == "payloads" else {})}
        rows = f"{_name_rows(table)} JOIN runs r ON r.id = {event}.run"
    else:
        rows = table
    return f"SELECT {', '.join(names[name] for name in columns)} FROM {rows}"


def _name_rows(table: str) -> str:
    """Return where the rows of a table are in SQLite: a payload belongs to the event that has its number."""
    named = {"payloads": "payloads p JOIN events e ON e.payload = p.id", "agent_days": _ANY_RUNS}
    return named.get(table, table)


def _list_columns(connection: Any, table: str) -> list[str]:
    found = connection.execute(
        "SELECT column_name FROM information_schema.columns"
        " WHERE table_schema = current_schema() AND table_name = ? ORDER BY ordinal_position",
        (table,),
    )
    return [name for (name,) in found]


def _raise_numbers(connection: Any) -> None:
    """Let rows that are inserted from now on have higher numbers than those that were copied."""
    for table in _TABLES:
        if "id" in _list_columns(connection, table):
            name = "run_numbers" if table in ("runs", "findings") else None
            if name is None:
                name = connection.execute("SELECT pg_get_serial_sequence(?, 'id')", (table,)).fetchone()[0]
            # The row id of a run is its number behind that of a week.
            number = "id & 1099511627775" if table == "runs" else "id"
            connection.execute(
                f"SELECT setval(?, greatest(nextval(?), (SELECT coalesce(max({number}), 1) FROM {table})))",
                (name, name),
            )


# Compare the two.


def _count(connection: Any, rows: str) -> int:
    return int(connection.execute(f"SELECT count(*) FROM {rows}").fetchone()[0])


def _compare_table(old: Any, new: Any, table: str) -> TableCopy:
    columns = _COMPARED_SUMS.get(table, ())
    sums = [[_sum(connection, table, column) for column in columns] for connection in (old, new)]
    return TableCopy(
        table=table,
        rows=_count(old, _name_rows(table)),
        copied=_count(new, _ANY_RUNS if table == "agent_days" else table),
        sums_agree=all(_is_close(a, b) for a, b in zip(*sums, strict=True)),
    )


def _sum(connection: Any, table: str, column: str) -> float:
    return float(connection.execute(f"SELECT coalesce(sum({column}), 0) FROM {table}").fetchone()[0])


def _is_close(a: float, b: float) -> bool:
    """Return whether two sums are equal; sums of fractions depend on the order of the rows."""
    return abs(a - b) <= 1e-9 * max(1.0, abs(a), abs(b))


def _choose_runs(connection: Any, new_run: str) -> list[tuple[int, int]]:
    """Return the old and new row ids of some runs, those that are compared row by row."""
    runs = connection.execute(f"SELECT r.id, {new_run} FROM runs r ORDER BY r.id").fetchall()
    return random.Random(0).sample(runs, min(len(runs), _RUNS_COMPARED))  # noqa: S311 - reproducible


def _compute_digest(connection: Any, run: int) -> int:
    """Return a digest of the steps, payloads and findings of a run."""
    rows = [
        tuple(row) for query in (_STEPS_OF_RUN, _FINDINGS_OF_RUN) for row in connection.execute(query, (run,))
    ]
    return hash_bytes(repr(rows).encode("utf-8", "surrogatepass"))
