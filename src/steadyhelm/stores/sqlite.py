"""The store in one SQLite file: the default, with nothing to install and nothing to run.

Beside the parts that every store has, it is described, checked, copied and shrunk in its own way.
"""

import os
import sqlite3
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

from steadyhelm.errors import StoreError
from steadyhelm.journal.abandoned import describe_pending
from steadyhelm.logs import logger
from steadyhelm.stores.connections import SQLiteConnections
from steadyhelm.stores.locations import DatabaseLocation
from steadyhelm.stores.opening import (
    copy_database,
    may_pass,
    prepare,
    require_current,
    resolve_path,
    validate_synchronous,
)
from steadyhelm.stores.row_ids import RowIds
from steadyhelm.stores.sql_store import SQLStore
from steadyhelm.stores.tracked_connections import TrackedConnection
from steadyhelm.stores.upkeep import LARGE_TABLES, SQLRetention, SQLUpkeep, find_wrong_totals

_VACUUM_PAGES: Final = 1000
_WRONG_EVENT_TOTALS: Final = """
    SELECT r.run_id, r.events, coalesce(e.events, 0) FROM runs r LEFT JOIN (
        SELECT run, count(*) AS events, sum(tokens) AS tokens, sum(type = 0) AS tool_calls,
            sum(type = 1) AS llm_calls, sum(failed) AS errors, count(payload) AS payloads
        FROM events GROUP BY run) e ON e.run = r.id
    WHERE (r.events, r.tokens, r.tool_calls, r.llm_calls, r.errors, r.payloads) != (coalesce(e.events, 0),
        coalesce(e.tokens, 0), coalesce(e.tool_calls, 0), coalesce(e.llm_calls, 0), coalesce(e.errors, 0),
        coalesce(e.payloads, 0)) LIMIT 20"""
_COUNT_MISSING_PAYLOADS: Final = """
    SELECT count(*) FROM events WHERE payload IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM payloads WHERE id = events.payload)"""


class SQLiteUpkeep(SQLUpkeep, SQLRetention):
    """The part of upkeep that depends on SQLite."""

    _connections: SQLiteConnections

    @property
    def journal_path(self) -> Path:
        """Where records wait that could not be stored yet: beside the file."""
        return self._connections.path

    def get_version(self) -> tuple[int, int]:
        """Return a value that differs after anything was written, by this process or another.

        SQLite counts what others wrote anew in each connection, and each thread has its own: so that two
        counts are not taken for the same, the number of the connection is part of the value.
        """
        with self._connections.reading() as connection:
            return connection.number, _read_pragma(connection, "data_version")

    def backup(self, path: Path) -> None:
        """Copy everything to a new file while others go on writing. Raises when the file exists."""
        with self._connections.reading() as connection:
            copy_database(connection, resolve_path(path))

    def describe(self) -> dict[str, Any]:
        """Return the path, size and schema of the database, and the number of rows of each table.

        The large tables are not counted: their numbers come from the totals of the runs.
        """
        path = self._connections.path
        with self._connections.reading() as connection:
            rows = self.count_rows(connection)
            steps = connection.execute("SELECT name FROM migrations ORDER BY rowid").fetchall()
            pending = describe_pending(path)
            return {
                "path": str(path),
                "bytes": _measure_file(path),
                "pending_journals": len(pending),
                "pending_records": sum(journal.records for journal in pending),
                "log_bytes": _measure_file(path.with_name(path.name + "-wal")),
                "schema": steps[-1][0],
                "journal_mode": connection.execute("PRAGMA journal_mode").fetchone()[0],
                "free_bytes": _read_pragma(connection, "freelist_count")
                * _read_pragma(connection, "page_size"),
                "rows": rows,
                "rows_from_sums": list(LARGE_TABLES),
            }

    def check(self) -> list[str]:
        """Return the faults found in the database; empty when it is sound.

        Damaged pages come first, then rows that refer to missing rows, then totals that do not add up.
        """
        with self._connections.reading() as connection:
            try:
                faults = [str(it) for (it,) in connection.execute("PRAGMA quick_check(20)") if it != "ok"]
                return faults or _find_inconsistencies(connection)
            except sqlite3.DatabaseError as exc:
                return [f"it cannot be read: {exc}"]

    def _shrink(self) -> None:
        """Return free pages to the file system in small steps, each a transaction of its own."""
        left = -1
        while True:
            with self._connections.outside_transaction() as connection:
                (free,) = connection.execute("PRAGMA freelist_count").fetchone()
                # A file made without incremental vacuum keeps its size: its free pages are used again.
                if free in (0, left):
                    return
                left = free
                connection.execute(f"PRAGMA incremental_vacuum({_VACUUM_PAGES})").fetchall()


def _measure_file(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _read_pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


def _find_inconsistencies(connection: TrackedConnection) -> list[str]:
    broken: dict[tuple[str, str], int] = {}
    for table, _, parent, _ in connection.execute("PRAGMA foreign_key_check"):
        broken[table, parent] = broken.get((table, parent), 0) + 1
    faults = [
        f"{count} rows of {table} name a row of {parent} that is not there"
        for (table, parent), count in broken.items()
    ]
    (missing,) = connection.execute(_COUNT_MISSING_PAYLOADS).fetchone()
    if missing:
        faults.append(f"{missing} events name a payload that is not there")
    (orphaned,) = connection.execute(
        "SELECT (SELECT count(*) FROM payloads) - (SELECT count(payload) FROM events)"
    ).fetchone()
    if orphaned > 0:
        faults.append(f"{orphaned} payloads belong to no event")
    return faults + find_wrong_totals(connection, _WRONG_EVENT_TOTALS)


class SQLiteStore(SQLiteUpkeep, SQLStore):
    """A store in one SQLite file that only its owner may read.

    Any thread may use it: one connection writes, every thread that reads has its own.
    It may be used before and after a fork, in both processes.

    Args:
        path: The file. It and its folder are created when they are missing.
        read_only: Neither create nor change anything.
        synchronous: NORMAL may lose the last moments when the power fails (never when a process dies);
            FULL does not, and writes more slowly.
        timeout_s: How long to wait for another process that is writing.
        may_be_away: Do not raise when the disk is full, too many files are open or the disk reports an
            error: whoever writes tries again, and the file is created when that succeeds.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        read_only: bool = False,
        synchronous: str = "NORMAL",
        timeout_s: float = 5.0,
        may_be_away: bool = False,
    ) -> None:
        self.path = resolve_path(path)
        level = validate_synchronous(synchronous)
        if read_only:
            require_current(self.path)
        is_prepared = read_only or self._prepare(timeout_s, may_be_away=may_be_away)
        self._row_ids = RowIds()
        self._connections = SQLiteConnections(
            self.path,
            read_only=read_only,
            synchronous=level,
            timeout_s=timeout_s,
            on_rollback=self._row_ids.clear,
            is_prepared=is_prepared,
        )

    def _prepare(self, timeout_s: float, *, may_be_away: bool) -> bool:
        """Create or migrate the file; return False where that has to be tried again."""
        try:
            prepare(self.path, timeout_s=timeout_s)
        except StoreError as exc:
            if not may_be_away or not may_pass(self.path, exc):
                raise
            logger.warning("%s Steps wait until it can be opened.", exc)
            return False
        return True

    @property
    def location(self) -> DatabaseLocation:
        """Where the file is."""
        return DatabaseLocation(str(self.path))

    def reading(self) -> AbstractContextManager[TrackedConnection]:
        """Return a connection of this thread that can only read; for queries that no role has."""
        return self._connections.reading()
