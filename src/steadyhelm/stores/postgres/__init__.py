"""The store in a PostgreSQL database, which many processes on many machines may write to at once."""

from contextlib import AbstractContextManager, suppress

from steadyhelm.errors import MissingExtraError, NewerStoreError, StoreError

try:
    import psycopg  # noqa: F401 - asked for here, so that one place says what is missing
except ImportError as exc:
    raise MissingExtraError("PostgreSQL store", extra="postgres") from exc

from steadyhelm.logs import logger
from steadyhelm.stores.locations import DatabaseLocation
from steadyhelm.stores.postgres.connection import PostgresConnection
from steadyhelm.stores.postgres.connections import PostgresConnections
from steadyhelm.stores.postgres.errors import validate_url
from steadyhelm.stores.postgres.opening import prepare, require_current
from steadyhelm.stores.postgres.upkeep import PostgresUpkeep
from steadyhelm.stores.row_ids import RowIds
from steadyhelm.stores.sql_store import SQLStore


class PostgresStore(PostgresUpkeep, SQLStore):
    """A store in a schema of its own, `steadyhelm`, in a PostgreSQL database.

    Any thread may use it: one connection writes, readers share a few.
    It may be used before and after a fork, in both processes.

    Args:
        url: The address, `postgresql://user:password@host/database`. Tables are created when missing.
            Messages show it without the password.
        read_only: Neither create nor change anything.
        timeout_s: How long to wait for the server, or for another process that is in the way.
        may_be_away: Do not raise when the server cannot be reached, or refuses: whoever writes tries again,
            and the tables are created when that succeeds.
    """

    def __init__(
        self, url: str, *, read_only: bool = False, timeout_s: float = 5.0, may_be_away: bool = False
    ) -> None:
        self._row_ids = RowIds()
        self._connections = PostgresConnections(
            validate_url(url), read_only=read_only, timeout_s=timeout_s, on_rollback=self._row_ids.clear
        )
        if read_only:
            require_current(self._connections)
        else:
            with suppress(OSError):
                self.journal_path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._prepare(may_be_away=may_be_away)

    def _prepare(self, *, may_be_away: bool) -> None:
        try:
            prepare(self._connections)
        except NewerStoreError:
            raise
        except StoreError as exc:
            if not may_be_away:
                raise
            logger.warning("%s Steps wait in %s until then.", exc, self.journal_path.parent)
            self._connections.expect_no_tables()

    @property
    def location(self) -> DatabaseLocation:
        """Where the database is."""
        return DatabaseLocation(self._connections.url)

    def reading(self) -> AbstractContextManager[PostgresConnection]:
        """Return a connection that can only read; for queries that no role has."""
        return self._connections.reading()
