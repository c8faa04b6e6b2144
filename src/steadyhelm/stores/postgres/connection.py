"""One connection to a PostgreSQL database, with the statements and values of the store's parts."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import psycopg

from steadyhelm.stores.database import Cursor
from steadyhelm.stores.postgres.dialect import DIALECT, PostgresDialect
from steadyhelm.stores.postgres.errors import is_lost
from steadyhelm.stores.postgres.translation import translate

if TYPE_CHECKING:
    from steadyhelm.stores.postgres.connections import PostgresConnections

_ROWS_PER_PAGE: Final = 200


class PostgresConnection:
    """A connection that takes the statements and values of the store's parts."""

    dialect: PostgresDialect = DIALECT

    def __init__(
        self, raw: "psycopg.Connection[Any]", connections: "PostgresConnections", *, read_only: bool = False
    ) -> None:
        self.raw = raw
        self.connections = connections
        self._read_only = read_only
        self.changes_noted = 0
        """How many changes the transaction has noted so far."""

    def execute(self, sql: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> Cursor:
        """Run a statement; `?` or `:name` stands for a value."""
        try:
            return self.raw.execute(translate(sql), values)
        except psycopg.Error as exc:
            if not self._read_only or not is_lost(exc):
                raise
        # The server may have been started anew. Nothing was written: nothing is lost.
        self.raw.close()
        self.raw = self.connections.connect(read_only=True)
        self.begin_reading()
        return self.raw.execute(translate(sql), values)

    def begin(self) -> None:
        """Begin a transaction. Behind a pooler it sets what others set once for a connection."""
        begin = "BEGIN READ ONLY" if self._read_only else "BEGIN"
        self.raw.execute(f"{begin}; {self.connections.pooled_settings}")

    def begin_reading(self) -> None:
        """Begin a transaction where one is needed to read: behind a pooler."""
        if self.connections.pooled_settings:
            self.begin()

    def end_reading(self) -> None:
        """End what `begin_reading` began. Nothing was written, so how it ends is not important."""
        if not self.raw.closed and self.raw.info.transaction_status is not psycopg.pq.TransactionStatus.IDLE:
            self.raw.execute("ROLLBACK")

    def executemany(self, sql: str, rows: Iterable[Any]) -> Cursor:
        """Run a statement for each row."""
        cursor = self.raw.cursor()
        cursor.executemany(translate(sql), rows)
        return cursor

    def iterate(self, sql: str, values: Sequence[Any]) -> Iterator[Any]:
        """Yield the rows of a query, read a page at a time: the server keeps the rest."""
        with self.raw.transaction(), self.raw.cursor(name="rows") as cursor:
            cursor.itersize = _ROWS_PER_PAGE
            yield from cursor.execute(translate(sql), values)

    def copy(self, target: str, rows: Iterable[tuple[object, ...]]) -> None:
        """Insert rows by COPY: the quickest way in."""
        with self.raw.cursor().copy(f"COPY {target} FROM STDIN") as copy:
            write = copy.write_row
            for row in rows:
                write(row)

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open and has not failed."""
        return self.raw.info.transaction_status is psycopg.pq.TransactionStatus.INTRANS

    def is_usable(self) -> bool:
        """Return whether nothing is known against the connection."""
        return not self.raw.closed and not self.raw.broken
