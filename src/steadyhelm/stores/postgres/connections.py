"""Manage the connections to one PostgreSQL database: one writes, readers share a few."""

import contextlib
import os
import random
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import psycopg

from steadyhelm.errors import StoreError
from steadyhelm.fingerprints import hash_bytes
from steadyhelm.store import Result
from steadyhelm.stores.database import WriterTransactions
from steadyhelm.stores.locations import hide_password
from steadyhelm.stores.postgres.connection import PostgresConnection
from steadyhelm.stores.postgres.errors import ConflictError, ConnectionLostError, is_lost, translate_errors
from steadyhelm.stores.postgres.opening import (
    build_session_settings,
    connect_directly,
    connect_pooled,
    format_transaction_settings,
    prepare,
)
from steadyhelm.stores.postgres.translation import Array, register

_MOST_IDLE: Final = 4
_ATTEMPTS: Final = 8
_FIRST_PAUSE_S: Final = 0.01
_LOCK_AGENTS: Final = "SELECT pg_advisory_xact_lock(k) FROM unnest(%s::bigint[]) k"
_IDENTIFY: Final = """
    SELECT oid, to_regclass('runs')::oid::bigint FROM pg_database WHERE datname = current_database()"""

# A child must neither use nor close a connection that its parent still has.
_inherited_from_parent: list[Any] = []


class PostgresConnections(WriterTransactions[PostgresConnection]):
    """The connections to one database. PostgreSQL's errors are raised as StoreError.

    Args:
        url: The address, which may hold a password.
        read_only: Raise StoreError for every attempt to write.
        timeout_s: How long to wait for the server, or for a lock of another process.
        on_rollback: Called after each rollback.
    """

    def __init__(
        self, url: str, *, read_only: bool, timeout_s: float, on_rollback: Callable[[], None]
    ) -> None:
        self.url = url
        self.name = hide_password(url)
        self._read_only = read_only
        self._timeout_s = timeout_s
        self._on_rollback = on_rollback
        self._closed = False
        self._identity: tuple[Any, ...] | None = None
        self._lacks_tables = False
        self.pooled_settings = ""
        """What each transaction sets by itself, because the server is behind a pooler."""
        self.replacements = 0
        """How often the database was found deleted or replaced."""
        self._reset()
        _all_open.add(self)

    def _reset(self) -> None:
        self._reset_transactions()
        self._writer: PostgresConnection | None = None
        self._separate_writer: PostgresConnection | None = None
        self._idle: list[PostgresConnection] = []
        self._idle_lock = threading.Lock()
        self._local = threading.local()

    # --- opening ----------------------------------------------------------------------------------

    def connect(self, *, read_only: bool) -> "psycopg.Connection[Any]":
        """Return a new connection of the driver, in no transaction."""
        self._require_open()
        session = build_session_settings(self._timeout_s, read_only=read_only)
        with translate_errors(self.url):
            raw = None if self.pooled_settings else connect_directly(self.url, session, self._timeout_s)
            if raw is None:
                self.pooled_settings = format_transaction_settings(session)
                raw = connect_pooled(self.url, self._timeout_s)
        register(raw)
        return raw

    def open(self, *, read_only: bool) -> PostgresConnection:
        """Return a new connection, in no transaction."""
        return PostgresConnection(self.connect(read_only=read_only), self, read_only=read_only)

    @contextlib.contextmanager
    def use_own_connection(self, *, read_only: bool = False) -> Iterator[PostgresConnection]:
        """Yield a connection of its own, which ends afterwards with every lock it took.

        Behind a pooler all of it is one transaction.
        """
        connection = self.open(read_only=read_only)
        try:
            connection.begin_reading()
            yield connection
            if connection.in_transaction:
                connection.raw.execute("COMMIT")
        finally:
            connection.raw.close()

    def _require_open(self) -> None:
        if self._closed:
            raise StoreError(f"The store of {self.name} has been closed.")

    @contextlib.contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Raise PostgreSQL's errors as StoreError, and remember when a table is missing."""
        try:
            with translate_errors(self.url):
                yield
        except StoreError as exc:
            if isinstance(exc.__cause__, psycopg.errors.UndefinedTable):
                self._lacks_tables = True
            raise

    # --- reading ----------------------------------------------------------------------------------

    @contextlib.contextmanager
    def reading(self) -> Iterator[PostgresConnection]:
        """Yield a connection to read with. Inside this thread's transaction it sees what was written."""
        if self._is_inside and self._writer is not None:
            with translate_errors(self.url):
                yield self._writer
            return
        mine: PostgresConnection | None = getattr(self._local, "reader", None)
        if mine is not None:
            yield mine
            return
        self.require_database()
        reader = self._take_reader()
        idle = self._idle
        self._local.reader = reader
        try:
            with self._translate_errors():
                reader.begin_reading()
                yield reader
        finally:
            self._local.reader = None
            self._give_back(reader, idle)

    def _take_reader(self) -> PostgresConnection:
        self._require_open()
        with self._idle_lock:
            if self._idle:
                return self._idle.pop()
        return self.open(read_only=True)

    def _give_back(self, reader: PostgresConnection, idle: list[PostgresConnection]) -> None:
        with contextlib.suppress(psycopg.Error):
            reader.end_reading()
        with self._idle_lock:
            # After a fork the list is another one.
            if not self._closed and idle is self._idle and len(idle) < _MOST_IDLE and reader.is_usable():
                idle.append(reader)
                return
        if idle is self._idle:
            reader.raw.close()

    # --- writing ----------------------------------------------------------------------------------

    def run(self, work: Callable[[], Result]) -> Result:
        """Call a function in a transaction, again where another process or the network made it fail."""

        def in_transaction() -> Result:
            with self.transaction():
                return work()

        return self.retry(in_transaction, is_repeatable=True)

    def retry(self, work: Callable[[], Result], *, is_repeatable: bool) -> Result:
        """Call a function that is one transaction, again where another process or the network made it fail.

        One that is not repeatable is not called again after a lost connection: it may have been committed.
        Inside a transaction it is called once: only the whole of it can be tried again.
        """
        if self._is_inside:
            return work()
        pause_s = _FIRST_PAUSE_S
        for _ in range(_ATTEMPTS - 1):
            try:
                return work()
            except ConflictError as exc:
                if isinstance(exc, ConnectionLostError) and not is_repeatable:
                    raise
                # Two that were in each other's way must not come back at the same moment.
                time.sleep(pause_s * random.uniform(0.5, 1.5))  # noqa: S311 - no secret
                pause_s *= 2
        return work()

    def _commit(self, connection: PostgresConnection, statement: str) -> None:
        connection.raw.execute(statement)

    def _begin_nested(self) -> PostgresConnection:
        assert self._writer is not None
        self._writer.raw.execute("SAVEPOINT s")
        return self._writer

    def _iter_attempts(self) -> Iterator[bool]:
        """Yield once: the server itself waits for others."""
        yield True

    def _begin(self, *, is_last: bool) -> PostgresConnection:  # noqa: ARG002 - the contract
        """Begin a transaction, on a new connection where the old one is lost."""
        if self._read_only:
            raise StoreError(f"The database {self.name} was opened for reading only; nothing can be written.")
        self._require_open()
        if self._lacks_tables or self._find_begun() is not None:  # or one whose end was interrupted
            self._drop_writer()
        if self._writer is not None:
            try:
                self._writer.begin()
            except psycopg.Error as exc:
                if not is_lost(exc) and self._writer.is_usable():
                    raise
                self._drop_writer()
        if self._writer is None:
            self._writer = self._begin_on_new_writer()
        self._writer.changes_noted = 0
        return self._writer

    def _find_begun(self) -> PostgresConnection | None:
        return self._writer if self._writer is not None and self._writer.in_transaction else None

    def _begin_on_new_writer(self) -> PostgresConnection:
        """Begin a transaction on a new connection; create the tables where the database was replaced."""
        writer = self.open(read_only=False)
        try:
            writer.begin()
            found = tuple(writer.execute(_IDENTIFY).fetchone())
            is_replaced = self._identity not in (None, found)
            if is_replaced or self._lacks_tables:
                writer.raw.execute("ROLLBACK")
                prepare(self)
                writer.begin()
                found = tuple(writer.execute(_IDENTIFY).fetchone())
                self.replacements += is_replaced
        except BaseException:
            writer.raw.close()
            raise
        self._identity = found
        self._lacks_tables = False
        return writer

    def expect_no_tables(self) -> None:
        """Create the tables before the next transaction: they could not be created yet."""
        self._lacks_tables = True

    def _roll_back(self, connection: PostgresConnection, statement: str) -> None:
        self._on_rollback()
        try:
            connection.raw.execute(statement)
        except psycopg.Error:
            # It is lost, and with it the transaction. The error that led here says why.
            connection.raw.close()
            if self._depth == 1:
                self._writer = None
            return
        if self._depth > 1:
            connection.raw.execute("RELEASE s")

    def _drop_writer(self) -> None:
        writer, self._writer = self._writer, None
        self._on_rollback()
        if writer is not None:
            writer.raw.close()

    @contextlib.contextmanager
    def writing_separately(self) -> Iterator[PostgresConnection]:
        """Yield a second writing connection, whose statements are transactions of their own.

        Behind a pooler it is the one that writes: all its connections may be taken by others who wait for
        a second one too.
        """
        if self.pooled_settings and self._writer is not None:
            yield self._writer
            return
        if self._separate_writer is None or not self._separate_writer.is_usable():
            self._separate_writer = self.open(read_only=False)
        yield self._separate_writer

    def lock(self, agent_ids: Sequence[str]) -> None:
        """Wait until no other process is in a transaction that locked one of these agents."""
        keys = sorted({hash_bytes(b"agent " + it.encode("utf-8", "replace")) for it in agent_ids})
        if not self._is_inside or self._writer is None:
            raise StoreError("Agents can only be locked inside a transaction.")
        if keys:
            with translate_errors(self.url):
                self._writer.raw.execute(_LOCK_AGENTS, (Array(keys),))

    def require_database(self) -> None:
        """Create the tables where they were found missing; a lost server is noticed by the next statement."""
        if self._lacks_tables and not self._read_only:
            with self.transaction():
                pass  # beginning it is enough

    # --- the end, and forks -----------------------------------------------------------------------

    def close(self) -> None:
        """Close every connection, once each is idle."""
        with self._lock, self._idle_lock:
            self._closed = True
            for reader in self._idle:
                reader.raw.close()
            self._idle.clear()
            for writer in (self._writer, self._separate_writer):
                if writer is not None:
                    writer.raw.close()
            self._writer = self._separate_writer = None

    def after_fork(self) -> None:
        """Drop the parent's connections without closing them. Called in the child process."""
        _inherited_from_parent.extend([self._writer, self._separate_writer, *self._idle])
        self._reset()
        self._on_rollback()


_all_open: "weakref.WeakSet[PostgresConnections]" = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for connections in list(_all_open):
        connections.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
