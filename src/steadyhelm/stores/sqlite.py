"""The store in one SQLite file: the default, with nothing to install and nothing to run."""

import os
from contextlib import AbstractContextManager

from steadyhelm.stores.connections import SQLiteConnections
from steadyhelm.stores.locations import DatabaseLocation
from steadyhelm.stores.opening import prepare, require_current, resolve_path, validate_synchronous
from steadyhelm.stores.row_ids import RowIds
from steadyhelm.stores.sql_store import SQLStore
from steadyhelm.stores.sqlite_upkeep import SQLiteUpkeep
from steadyhelm.stores.tracked_connections import TrackedConnection


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
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        read_only: bool = False,
        synchronous: str = "NORMAL",
        timeout_s: float = 5.0,
    ) -> None:
        self.path = resolve_path(path)
        level = validate_synchronous(synchronous)
        if read_only:
            require_current(self.path)
        else:
            prepare(self.path, timeout_s=timeout_s)
        self._row_ids = RowIds()
        self._connections = SQLiteConnections(
            self.path,
            read_only=read_only,
            synchronous=level,
            timeout_s=timeout_s,
            on_rollback=self._row_ids.clear,
        )

    @property
    def location(self) -> DatabaseLocation:
        """Where the file is."""
        return DatabaseLocation(str(self.path))

    def reading(self) -> AbstractContextManager[TrackedConnection]:
        """Return a connection of this thread that can only read; for queries that no role has."""
        return self._connections.reading()
