"""Where runs, findings and incidents are stored: one module per database, behind the roles in `store.py`.

Each role is one class over `StorePart`, which holds the connections and the cached row ids; `SQLiteStore`
inherits them all. Another database brings its own connections and its own upkeep, and uses the other roles.
"""

import os
from typing import TYPE_CHECKING

from steadyhelm.stores.locations import DatabaseLocation

if TYPE_CHECKING:
    from steadyhelm.stores.sql_store import SQLStore


def open_store(
    where: str | os.PathLike[str] | DatabaseLocation,
    *,
    read_only: bool = False,
    synchronous: str = "NORMAL",
    timeout_s: float = 5.0,
    may_be_away: bool = False,
) -> "SQLStore":
    """Return the store at a location: a SQLite file, or a database of PostgreSQL.

    `synchronous` is for a file: a server has a setting of its own. A database that `may_be_away` need not
    answer yet, or may be on a disk that is full at the moment: what is written waits for it.
    Raises StoreError, or SettingsError, with what to do when it cannot be used.
    """
    location = where if isinstance(where, DatabaseLocation) else DatabaseLocation(os.fspath(where))
    if location.is_server:
        from steadyhelm.stores.postgres import PostgresStore  # noqa: PLC0415 - an extra

        return PostgresStore(
            location.where, read_only=read_only, timeout_s=timeout_s, may_be_away=may_be_away
        )
    from steadyhelm.stores.sqlite import SQLiteStore  # noqa: PLC0415 - only the one that is used

    return SQLiteStore(
        location.path,
        read_only=read_only,
        synchronous=synchronous,
        timeout_s=timeout_s,
        may_be_away=may_be_away,
    )
