"""Transactions on the one writing connection of a process: the thread that is in one may nest others."""

import contextlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Generic, TypeVar

C = TypeVar("C")


class WriterTransactions(ABC, Generic[C]):
    """Begins and ends transactions; one inside another is a savepoint. One thread at a time is in one."""

    _lock: threading.RLock
    _depth: int
    _owner: int

    def _reset_transactions(self) -> None:
        """Start with no transaction, also in a forked process."""
        self._lock = threading.RLock()
        self._depth = 0
        self._owner = 0

    @property
    def _is_inside(self) -> bool:
        """Whether this thread is in a transaction."""
        return self._owner == threading.get_ident()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[C]:
        """Yield the writing connection, and commit at the end or roll back. A nested one is a savepoint."""
        with self._translate_errors():
            if self._is_inside:
                connection, commit, rollback = self._begin_nested(), "RELEASE s", "ROLLBACK TO s"
            else:
                connection, commit, rollback = self._begin(), "COMMIT", "ROLLBACK"
            lock = self._lock
            self._depth += 1
            self._owner = threading.get_ident()
            try:
                yield connection
                # After a fork inside, the transaction is the parent's to end.
                if lock is self._lock:
                    self._commit(connection, commit)
            except BaseException:
                if lock is self._lock:
                    self._roll_back(connection, rollback)
                raise
            finally:
                if lock is self._lock:
                    self._depth -= 1
                    self._owner = threading.get_ident() if self._depth else 0
                    lock.release()

    @abstractmethod
    def _translate_errors(self) -> AbstractContextManager[None]:
        """Return a context manager that raises errors of the database as StoreError."""

    @abstractmethod
    def _begin(self) -> C:
        """Begin a transaction, and take the lock."""

    @abstractmethod
    def _begin_nested(self) -> C:
        """Begin a transaction inside that of this thread, and take the lock once more."""

    @abstractmethod
    def _commit(self, connection: C, statement: str) -> None:
        """End a transaction, or one inside it, with this statement."""

    @abstractmethod
    def _roll_back(self, connection: C, statement: str) -> None:
        """Undo a transaction, or one inside it, with this statement."""
