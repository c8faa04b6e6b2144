"""Manage the connections to one SQLite file: one writes, each reading thread has its own."""

import contextlib
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from steadyhelm.errors import StoreError
from steadyhelm.store import Result
from steadyhelm.stores.database import WriterTransactions
from steadyhelm.stores.opening import (
    Synchronous,
    is_busy,
    open_for_reading,
    open_for_writing,
    prepare,
    translate_errors,
)
from steadyhelm.stores.tracked_connections import FileIdentity, TrackedConnection, identify

_FORK_TIMEOUT_S: Final = 0.05
"""How long a fork waits until no connection is in use; a child that is forked earlier cannot use the file."""
_FIRST_PAUSE_S: Final = 0.001
_LONGEST_PAUSE_S: Final = 0.025


class _Reader:
    """One thread's connection; it is closed when the thread ends."""

    def __init__(self) -> None:
        self.connection: TrackedConnection | None = None
        self.file: FileIdentity | None = None
        self.in_use = threading.Lock()

    def close(self) -> None:
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.close()

    def __del__(self) -> None:
        self.close()


class SQLiteConnections(WriterTransactions[TrackedConnection]):
    """The connections to one file. SQLite's errors are raised as StoreError.

    Args:
        path: The file.
        read_only: Raise StoreError for every attempt to write.
        synchronous: NORMAL may lose the last commits when the power fails, FULL does not.
        timeout_s: How long to wait for another process that is writing.
        on_rollback: Called after each rollback.
        is_prepared: Whether the file is there with every migration; if not, that is seen to before its use.
    """

    def __init__(
        self,
        path: Path,
        *,
        read_only: bool,
        synchronous: Synchronous,
        timeout_s: float,
        on_rollback: Callable[[], None],
        is_prepared: bool = True,
    ) -> None:
        self.path = path
        self.replacements = 0
        """How often the file was found deleted or replaced by another."""
        self._read_only = read_only
        self._synchronous: Synchronous = synchronous
        self._timeout_s = timeout_s
        self._on_rollback = on_rollback
        self._closed = False
        self._is_prepared = is_prepared
        self._pid = os.getpid()
        self._reset()
        _all_open.add(self)

    def _reset(self) -> None:
        self._reset_transactions()
        self._file = identify(self.path)
        self._writer: TrackedConnection | None = None
        self._local = threading.local()
        self._readers: weakref.WeakSet[_Reader] = weakref.WeakSet()
        self._readers_lock = threading.Lock()
        self._held: dict[int, list[list[Callable[[], None]]]] = {}

    @contextlib.contextmanager
    def reading(self) -> Iterator[TrackedConnection]:
        """Yield a connection to read with. Inside this thread's transaction it sees what was written."""
        if self._is_inside and self._writer is not None:
            with translate_errors(self.path):
                yield self._writer
            return
        _let_forks_pass()
        if not self._is_prepared:
            self.require_database()
        reader = self._get_reader()
        with translate_errors(self.path), reader.in_use:
            if reader.file != identify(self.path):
                reader.close()
            if reader.connection is None:
                self._require_open()
                reader.file = identify(self.path)
                reader.connection = open_for_reading(self.path, timeout_s=self._timeout_s)
            yield reader.connection

    def _get_reader(self) -> _Reader:
        self._require_open()
        reader: _Reader | None = getattr(self._local, "reader", None)
        if reader is None:
            reader = self._local.reader = _Reader()
            with self._readers_lock:
                self._readers.add(reader)
        return reader

    def run(self, work: Callable[[], Result]) -> Result:
        """Call a function in a transaction. Nobody else can make it fail: one process writes at a time."""
        with self.transaction():
            return work()

    def retry(self, work: Callable[[], Result], *, is_repeatable: bool) -> Result:  # noqa: ARG002 - the contract
        """Call a function. Nobody else can make it fail: one process writes at a time."""
        return work()

    def lock(self, agent_ids: Sequence[str]) -> None:
        """Do nothing: one process writes at a time."""

    def _translate_errors(self) -> contextlib.AbstractContextManager[None]:
        return translate_errors(self.path)

    def _commit(self, connection: TrackedConnection, statement: str) -> None:
        self._require_transaction(connection)
        connection.execute(statement)

    def _begin_nested(self) -> TrackedConnection:
        connection = self._get_writer()
        self._require_transaction(connection)
        connection.execute("SAVEPOINT s")
        return connection

    def _iter_attempts(self) -> Iterator[bool]:
        """Yield before each attempt to begin whether it is the last one.

        While it waits no lock is held and no call of SQLite is under way, so that the host can fork.
        """
        deadline, pause_s = time.monotonic() + self._timeout_s, _FIRST_PAUSE_S
        while True:
            _let_forks_pass()
            yield time.monotonic() >= deadline
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _begin(self, *, is_last: bool) -> TrackedConnection | None:
        try:
            connection = self._get_writer()
            if connection.in_transaction:  # one whose end was interrupted
                connection.execute("ROLLBACK")
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as exc:
            if is_last or not is_busy(exc):
                raise
            return None
        return connection

    def _find_begun(self) -> TrackedConnection | None:
        return self._writer if self._writer is not None and self._writer.in_transaction else None

    def _roll_back(self, connection: TrackedConnection, statement: str) -> None:
        self._on_rollback()
        if not connection.in_transaction:  # a full disk makes SQLite roll back by itself
            return
        if self._depth <= 1:
            connection.execute(statement)
            return
        with contextlib.suppress(sqlite3.OperationalError):  # it was released when a signal came
            connection.execute(statement)
            connection.execute("RELEASE s")

    def _require_transaction(self, connection: sqlite3.Connection) -> None:
        if not connection.in_transaction:
            raise StoreError(f"The database {self.path} rolled back what was being written after an error.")

    def _get_writer(self) -> TrackedConnection:
        self._require_open()
        if self._read_only:
            raise StoreError(f"The database {self.path} was opened for reading only; nothing can be written.")
        if self._writer is None or (not self._depth and self._file != identify(self.path)):
            self._open_writer()
        assert self._writer is not None
        return self._writer

    def require_database(self) -> None:
        """Open or create the file again if it was deleted or replaced."""
        with self._lock, translate_errors(self.path):
            self._get_writer()

    def _open_writer(self) -> None:
        """Open the file, or open it again: one that was deleted or replaced would be written in vain."""
        writer, self._writer = self._writer, None
        before = self._file
        if writer is not None:
            self._on_rollback()
            with contextlib.suppress(sqlite3.Error):
                writer.close()
        is_replaced = before is not None and before != identify(self.path)
        if is_replaced or not self._is_prepared:
            prepare(self.path, timeout_s=self._timeout_s)
            self._is_prepared = True
            self.replacements += is_replaced
        self._file = identify(self.path)
        self._writer = open_for_writing(self.path, synchronous=self._synchronous, timeout_s=self._timeout_s)

    def _require_open(self) -> None:
        if self._closed:
            raise StoreError(f"The store of {self.path} has been closed.")

    @contextlib.contextmanager
    def outside_transaction(self) -> Iterator[sqlite3.Connection]:
        """Yield the writing connection for statements that cannot be part of a transaction."""
        with self._lock, translate_errors(self.path):
            connection = self._get_writer()
            if self._depth:
                raise StoreError("This cannot be done in the middle of a transaction.")
            connection.execute(f"PRAGMA busy_timeout = {int(self._timeout_s * 1000)}")
            try:
                yield connection
            finally:
                connection.execute("PRAGMA busy_timeout = 0")

    def close(self) -> None:
        """Close every connection, those of other threads too, once each is idle."""
        with self._lock, self._readers_lock:
            self._closed = True
            for reader in list(self._readers):
                with reader.in_use:
                    reader.close()
            writer, self._writer = self._writer, None
            if writer is not None:
                with translate_errors(self.path):
                    writer.close()

    def before_fork(self, deadline: float) -> None:
        """Close the connections that are idle before the deadline; parent and child then open their own."""
        # By thread: several threads may fork at once, and each releases what it took itself.
        held: list[Callable[[], None]] = []
        self._held.setdefault(threading.get_ident(), []).append(held)

        def take(lock: Any) -> bool:
            is_taken: bool = lock.acquire(timeout=max(0.0, deadline - time.monotonic()))
            if is_taken:
                held.append(lock.release)
            return is_taken

        readers = list(self._readers) if take(self._readers_lock) else []
        idle = [reader for reader in readers if take(reader.in_use)]
        if take(self._lock) and not self._depth and self._writer is not None:
            _close_quickly(self._writer, self.path)
            self._writer = None
        for reader in idle:
            reader.close()

    def after_fork_in_parent(self) -> None:
        """Release the locks that `before_fork` took. Connections are opened again when needed."""
        taken = self._held.get(threading.get_ident())
        for release in reversed(taken.pop() if taken else []):
            release()

    def after_fork(self) -> None:
        """Drop the parent's connections, which a child cannot close. Called in the child process."""
        if self._pid == os.getpid():
            return
        self._pid = os.getpid()
        for reader in list(self._readers):
            reader.close()
        if self._writer is not None:
            self._writer.close()
        self._reset()
        self._on_rollback()


_all_open: "weakref.WeakSet[SQLiteConnections]" = weakref.WeakSet()


_forking: Final[list[int]] = []


def _let_forks_pass() -> None:
    """Wait a moment while a thread is about to fork: it waits for connections to be idle."""
    until = time.monotonic() + _FORK_TIMEOUT_S
    while _forking and time.monotonic() < until:
        time.sleep(_FIRST_PAUSE_S)


def _close_quickly(writer: sqlite3.Connection, path: Path) -> None:
    """Close a connection. The last one would copy the log into the database, unless it may only read."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(sqlite3.Error, StoreError):
            reader = stack.enter_context(contextlib.closing(open_for_reading(path, timeout_s=0.0)))
            reader.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
        writer.close()


def _before_fork() -> None:
    _forking.append(threading.get_ident())
    deadline = time.monotonic() + _FORK_TIMEOUT_S
    for connections in list(_all_open):
        connections.before_fork(deadline)


def _after_fork_in_parent() -> None:
    for connections in list(_all_open):
        connections.after_fork_in_parent()
    _forking.remove(threading.get_ident())


def _after_fork_in_child() -> None:
    _forking.clear()
    for connections in list(_all_open):
        connections.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child
    )
