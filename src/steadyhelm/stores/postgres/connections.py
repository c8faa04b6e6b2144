"""Manage the connections to one PostgreSQL database: one writes, readers share a few."""

import contextlib
import os
import random
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import psycopg
from psycopg.conninfo import conninfo_to_dict

from steadyhelm.errors import StoreError
from steadyhelm.fingerprints import hash_bytes
from steadyhelm.store import Result
from steadyhelm.stores.database import Cursor
from steadyhelm.stores.locations import hide_password
from steadyhelm.stores.postgres.dialect import DIALECT, PostgresDialect
from steadyhelm.stores.postgres.errors import ConflictError, is_lost, translate_errors
from steadyhelm.stores.postgres.schema import SCHEMA
from steadyhelm.stores.postgres.translation import register, translate
from steadyhelm.stores.transactions import WriterTransactions

_MOST_IDLE: Final = 4
_ATTEMPTS: Final = 8
_FIRST_PAUSE_S: Final = 0.01
_LOCK_AGENTS: Final = "SELECT pg_advisory_xact_lock(k) FROM unnest(%s::bigint[]) k"
_SILENCE_S: Final = 30
"""How long a network may be silent, or a frozen client hold its locks, until the connection is lost."""


# A child must neither use nor close a connection that its parent still has.
_inherited_from_parent: list[Any] = []


class PostgresConnection:
    """A connection that takes the statements and values of the store's parts."""

    dialect: PostgresDialect = DIALECT

    def __init__(
        self, raw: "psycopg.Connection[Any]", connections: "PostgresConnections", *, reopens: bool = False
    ) -> None:
        self.raw = raw
        self.connections = connections
        self._reopens = reopens
        self.changes_noted = 0
        """How many changes the transaction has noted so far."""

    def execute(self, sql: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> Cursor:
        """Run a statement; `?` or `:name` stands for a value."""
        try:
            return self.raw.execute(translate(sql), values)
        except psycopg.Error as exc:
            if not self._reopens or not is_lost(exc):
                raise
        # The server may have been started anew. Each statement is a transaction of its own: nothing is lost.
        self.raw.close()
        self.raw = self.connections.connect(read_only=True)
        return self.raw.execute(translate(sql), values)

    def executemany(self, sql: str, rows: Iterable[Any]) -> Cursor:
        """Run a statement for each row."""
        cursor = self.raw.cursor()
        cursor.executemany(translate(sql), rows)
        return cursor

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
        self._reset()
        _all_open.add(self)

    def _reset(self) -> None:
        self._reset_transactions()
        self._writer: PostgresConnection | None = None
        self._aside: PostgresConnection | None = None
        self._idle: list[PostgresConnection] = []
        self._idle_lock = threading.Lock()
        self._local = threading.local()

    # --- opening ----------------------------------------------------------------------------------

    def connect(self, *, read_only: bool) -> "psycopg.Connection[Any]":
        """Return a new connection of the driver, in no transaction."""
        self._require_open()
        with translate_errors(self.url):
            raw = psycopg.connect(self.url, autocommit=True, **self._build_options(read_only=read_only))
        register(raw)
        return raw

    def open(self, *, read_only: bool) -> PostgresConnection:
        """Return a new connection, in no transaction."""
        return PostgresConnection(self.connect(read_only=read_only), self)

    @contextlib.contextmanager
    def use_own_connection(self, *, read_only: bool = False) -> Iterator[PostgresConnection]:
        """Yield a connection of its own, which ends afterwards with every lock it took."""
        connection = self.open(read_only=read_only)
        try:
            yield connection
        finally:
            connection.raw.close()

    def _build_options(self, *, read_only: bool) -> dict[str, Any]:
        """Return what the address leaves open."""
        given = conninfo_to_dict(self.url)
        wait_ms = max(1, int(self._timeout_s * 1000))
        session = {
            "search_path": SCHEMA,
            "lock_timeout": wait_ms,
            "idle_in_transaction_session_timeout": _SILENCE_S * 1000,
            "default_transaction_read_only": "on" if read_only else "off",
            # Statements are short and come often: planning them for every core costs more than it gains.
            "jit": "off",
        }
        chosen = str(given.get("options") or "")
        options = " ".join(f"-c {name}={value}" for name, value in session.items() if name not in chosen)
        network = {
            "connect_timeout": max(2, round(self._timeout_s)),
            "keepalives_idle": _SILENCE_S,
            "tcp_user_timeout": _SILENCE_S * 1000,
            "application_name": "steadyhelm",
            "client_encoding": "UTF8",
        }
        left = {name: value for name, value in network.items() if name not in given}
        return {**left, "options": f"{options} {chosen}".strip()}

    def _require_open(self) -> None:
        if self._closed:
            raise StoreError(f"The store of {self.name} has been closed.")

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
        reader = self._take_reader()
        idle = self._idle
        self._local.reader = reader
        try:
            with translate_errors(self.url):
                yield reader
        finally:
            self._local.reader = None
            self._give_back(reader, idle)

    def _take_reader(self) -> PostgresConnection:
        self._require_open()
        with self._idle_lock:
            if self._idle:
                return self._idle.pop()
        return PostgresConnection(self.connect(read_only=True), self, reopens=True)

    def _give_back(self, reader: PostgresConnection, idle: list[PostgresConnection]) -> None:
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

        return self.retry(in_transaction)

    def retry(self, work: Callable[[], Result]) -> Result:
        """Call a function that is one transaction, again where another process or the network made it fail.

        Inside a transaction it is called once: only the whole of it can be tried again.
        """
        if self._is_inside:
            return work()
        pause_s = _FIRST_PAUSE_S
        for _ in range(_ATTEMPTS - 1):
            try:
                return work()
            except ConflictError:
                # Two that were in each other's way must not come back at the same moment.
                time.sleep(pause_s * random.uniform(0.5, 1.5))  # noqa: S311 - no secret
                pause_s *= 2
        return work()

    def _translate_errors(self) -> contextlib.AbstractContextManager[None]:
        return translate_errors(self.url)

    def _commit(self, connection: PostgresConnection, statement: str) -> None:
        connection.raw.execute(statement)

    def _begin_nested(self) -> PostgresConnection:
        assert self._writer is not None
        self._writer.raw.execute("SAVEPOINT s")
        self._lock.acquire()
        return self._writer

    def _begin(self) -> PostgresConnection:
        """Begin a transaction, on a new connection where the old one is lost, and take the lock."""
        if self._read_only:
            raise StoreError(f"The database {self.name} was opened for reading only; nothing can be written.")
        lock = self._lock
        lock.acquire()
        try:
            self._require_open()
            if self._writer is not None:
                try:
                    self._writer.raw.execute("BEGIN")
                except psycopg.Error as exc:
                    if not is_lost(exc) and self._writer.is_usable():
                        raise
                    self._drop_writer()
            if self._writer is None:
                self._writer = self.open(read_only=False)
                self._writer.raw.execute("BEGIN")
            self._writer.changes_noted = 0
        except BaseException:
            lock.release()
            raise
        return self._writer

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
    def aside(self) -> Iterator[PostgresConnection]:
        """Yield a second writing connection, whose statements are transactions of their own."""
        if self._aside is None or not self._aside.is_usable():
            self._aside = self.open(read_only=False)
        yield self._aside

    def lock(self, agent_ids: Sequence[str]) -> None:
        """Wait until no other process is in a transaction that locked one of these agents."""
        keys = sorted({hash_bytes(b"agent " + it.encode("utf-8", "replace")) for it in agent_ids})
        if not self._is_inside or self._writer is None:
            raise StoreError("Agents can only be locked inside a transaction.")
        if keys:
            with translate_errors(self.url):
                self._writer.raw.execute(_LOCK_AGENTS, (keys,))

    def require_database(self) -> None:
        """Do nothing: a lost server is noticed by the next statement."""

    # --- the end, and forks -----------------------------------------------------------------------

    def close(self) -> None:
        """Close every connection, once each is idle."""
        with self._lock, self._idle_lock:
            self._closed = True
            for reader in self._idle:
                reader.raw.close()
            self._idle.clear()
            for writer in (self._writer, self._aside):
                if writer is not None:
                    writer.raw.close()
            self._writer = self._aside = None

    def after_fork(self) -> None:
        """Drop the parent's connections without closing them. Called in the child process."""
        _inherited_from_parent.extend([self._writer, self._aside, *self._idle])
        self._reset()
        self._on_rollback()


_all_open: "weakref.WeakSet[PostgresConnections]" = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for connections in list(_all_open):
        connections.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
