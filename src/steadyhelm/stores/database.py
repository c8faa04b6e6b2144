"""What the parts of a store need of a database: connections, transactions, what it does in its own way.

The parts write SQL that both databases understand: SQLite as it is, PostgreSQL after a translation of
notation alone (see `postgres.translation`). Whatever differs in more than notation is a method of `Dialect`.

Every change is numbered inside the transaction that makes it, and live updates are read from there. The
numbers become readable in their order, without gaps that are filled later.
"""

import contextlib
import functools
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Final, Generic, Literal, ParamSpec, Protocol, TypeVar

from msgspec import Struct

from steadyhelm.sink import Record
from steadyhelm.store import Result

if TYPE_CHECKING:
    from steadyhelm.stores.batch import Batch
    from steadyhelm.stores.row_ids import RowIds

Arguments = ParamSpec("Arguments")
Part = TypeVar("Part", bound="StorePart")
What = Literal["run", "incidents", "agent", "settings"]
KEPT_S: Final = 3600.0


class Cursor(Protocol):
    """The result of a statement."""

    @property
    def rowcount(self) -> int:
        """How many rows the statement changed."""

    def fetchone(self) -> Any:
        """Return the next row, None behind the last one."""

    def fetchall(self) -> list[Any]:
        """Return all rows that are left."""

    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """A connection to a database."""

    @property
    def dialect(self) -> "Dialect":
        """What this database does in a way of its own."""

    def execute(self, sql: str, values: Sequence[Any] | Mapping[str, Any] = ..., /) -> Cursor:
        """Run a statement; `?` or `:name` stands for a value."""

    def executemany(self, sql: str, rows: Iterable[Any], /) -> Cursor:
        """Run a statement for each row."""


class Dialect(Protocol):
    """What a database does in a way of its own."""

    @property
    def unstorable_errors(self) -> tuple[type[BaseException], ...]:
        """What is raised for a value that fits no column, such as text that is not Unicode."""

    def look_up(self, connection: Any, row_ids: "RowIds", records: Sequence[Record]) -> None:
        """Read and insert the agents, runs and names of a batch, where one by one would not do."""

    def get_next_payload_id(self, connection: Any) -> int:
        """Return the number of the first payload of a batch."""

    def insert_events(self, connection: Any, batch: "Batch") -> bool:
        """Insert the events and payloads of a batch. Returns False when an event was there already."""

    def insert_rows(self, connection: Any, table: str, rows: Sequence[tuple[object, ...]]) -> None:
        """Insert rows of a run by seq; those that are there already are left unchanged."""

    def add_tool_totals(self, connection: Any, rows: Sequence[tuple[object, ...]]) -> None:
        """Add to the totals of tools of runs: run, name, calls, errors, tokens, duration."""

    def add_run_totals(self, connection: Any, rows: Sequence[tuple[object, ...]]) -> int:
        """Add to the totals of runs, the run last. Returns how many of the runs are there."""

    def set_scores(self, connection: Any, rows: Sequence[tuple[object, ...]]) -> None:
        """Set the top score, if it is one, and the last score of runs, the run last."""

    def insert_findings(self, connection: Any, rows: Sequence[tuple[object, ...]]) -> None:
        """Insert findings, the run second, and add to the totals of their runs how many were new."""

    def write_marks(self, connection: Any, run: int) -> None:
        """Store what an ended run had reached at steps 1, 2, 4, 8 and so on."""

    def delete_first_payloads(self, connection: Any, run: int, last: int) -> int:
        """Delete the payloads of a run's events up to one; the events follow. Returns how many."""

    def delete_old_payloads(
        self, connection: Any, run: int, after: int, before: float, limit: int
    ) -> list[int]:
        """Delete the next payloads of a run's events from before a time. Returns the seqs, in order."""

    def iterate(self, connection: Any, sql: str, values: Sequence[Any]) -> Iterator[Any]:
        """Yield the rows of a query of which not all may be needed, without reading them all first."""

    def read_clock(self, connection: Any) -> float:
        """Return the time by the clock that all processes share."""

    def insert_changes(
        self, connection: Any, at: float, changes: Sequence[tuple["What", int | None, int | None]]
    ) -> bool:
        """Insert numbered changes. Returns whether it is time to delete old ones."""

    def delete_changes(self, connection: Any, before: float) -> None:
        """Delete the changes from before a time."""

    def read_bounds(self, connection: Any) -> tuple[int, int]:
        """Return the numbers of the oldest change that is kept, and of the latest that may be read."""

    def claim(self, connection: Any, columns: str, now: float, lease_s: float, limit: int) -> list[Any]:
        """Lease alerts that are due and return their rows, the id first."""


class Connections(Protocol):
    """All connections to one database."""

    replacements: int

    def reading(self) -> AbstractContextManager[Connection]:
        """Return a connection to read with. Inside this thread's transaction it sees what was written."""

    def transaction(self) -> AbstractContextManager[Connection]:
        """Return the writing connection, and commit at the end or roll back. A nested one is a savepoint."""

    def run(self, work: Callable[[], Result]) -> Result:
        """Call a function in a transaction, again where another process made the first one fail."""

    def retry(self, work: Callable[[], Result], *, is_repeatable: bool) -> Result:
        """Call a function that is one transaction, again where another process made it fail.

        One that is not repeatable is not called again when its transaction may have been committed.
        """

    def lock(self, agent_ids: Sequence[str]) -> None:
        """Wait until no other process is in a transaction that locked one of these agents."""

    def require_database(self) -> None:
        """Make sure that what is written arrives: the database may have been replaced."""

    def after_fork(self) -> None:
        """Drop the parent's connections. Called in the child process."""

    def close(self) -> None:
        """Close every connection."""


def retry_on_conflict(
    method: Callable[Concatenate[Part, Arguments], Result],
) -> Callable[Concatenate[Part, Arguments], Result]:
    """Let a method that is one transaction, and harmless when done twice, be tried again after a conflict."""

    @functools.wraps(method)
    def call(self: Part, /, *args: Arguments.args, **options: Arguments.kwargs) -> Result:
        return self._connections.retry(lambda: method(self, *args, **options), is_repeatable=True)

    return call


def retry_if_rolled_back(
    method: Callable[Concatenate[Part, Arguments], Result],
) -> Callable[Concatenate[Part, Arguments], Result]:
    """Let a method that is one transaction be tried again after a conflict that undid it for certain."""

    @functools.wraps(method)
    def call(self: Part, /, *args: Arguments.args, **options: Arguments.kwargs) -> Result:
        return self._connections.retry(lambda: method(self, *args, **options), is_repeatable=False)

    return call


class StorePart:
    """What every part of a store shares: the connections to the database and the cache of row ids."""

    _connections: Connections
    _row_ids: "RowIds"

    @property
    def journal_path(self) -> Path:
        """Where records wait that could not be stored yet: in files whose names begin with this one."""
        raise NotImplementedError


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
        # A signal handler may raise anywhere: only a `with` never leaves a lock taken.
        with self._translate_errors():
            if self._is_inside:
                with self._lock:
                    yield from self._hold(self._begin_nested, "RELEASE s", "ROLLBACK TO s")
                return
            for is_last in self._iter_attempts():
                with self._lock:
                    if (
                        yield from self._hold(
                            functools.partial(self._begin, is_last=is_last), "COMMIT", "ROLLBACK"
                        )
                    ):
                        return

    def _hold(self, begin: Callable[[], C | None], commit: str, rollback: str) -> Generator[C, None, bool]:
        """Begin, yield the connection once and end the transaction; return whether it could begin."""
        lock, depth, owner = self._lock, self._depth, self._owner
        connection: C | None = None
        try:
            connection = begin()
            if connection is None:
                return False
            self._depth, self._owner = depth + 1, threading.get_ident()
            yield connection
            # After a fork inside, the transaction is the parent's to end.
            if lock is self._lock:
                self._commit(connection, commit)
        except BaseException:
            begun = self._find_begun() if connection is None and not depth else connection
            if lock is self._lock and begun is not None:
                self._roll_back(begun, rollback)
            raise
        finally:
            if lock is self._lock:
                self._depth, self._owner = depth, owner
        return True

    @abstractmethod
    def _translate_errors(self) -> AbstractContextManager[None]:
        """Return a context manager that raises errors of the database as StoreError."""

    @abstractmethod
    def _iter_attempts(self) -> Iterator[bool]:
        """Yield before each attempt to begin whether it is the last one. No lock is held meanwhile."""

    @abstractmethod
    def _begin(self, *, is_last: bool) -> C | None:
        """Begin a transaction; return None if another process is in one, unless this is the last attempt."""

    @abstractmethod
    def _begin_nested(self) -> C:
        """Begin a transaction inside that of this thread."""

    @abstractmethod
    def _find_begun(self) -> C | None:
        """Return the connection with a transaction that began, although its caller does not know of it."""

    @abstractmethod
    def _commit(self, connection: C, statement: str) -> None:
        """End a transaction, or one inside it, with this statement."""

    @abstractmethod
    def _roll_back(self, connection: C, statement: str) -> None:
        """Undo a transaction, or one inside it, with this statement."""


class StoredChange(Struct, frozen=True):
    """One change: of a run, of an agent's incidents or baselines, or of settings and keys."""

    id: int
    at: float
    what: What
    run: int | None
    agent: int | None


def note_changes(connection: Connection, changes: Sequence[tuple[What, int | None, int | None]]) -> None:
    """Note what the transaction changes: of which run and agent, by row id. Old ones are deleted."""
    if not changes:
        return
    now = time.time()
    if connection.dialect.insert_changes(connection, now, changes):
        connection.dialect.delete_changes(connection, now - KEPT_S)


def read_changes(connection: Connection, after: int, limit: int) -> list[StoredChange] | None:
    """Return the changes behind a number, oldest first; None when some of them are not known any more."""
    oldest, latest = read_bounds(connection)
    if after > latest or after < oldest - 1:
        return None
    rows = connection.execute(
        "SELECT id, at, what, run, agent FROM changes WHERE id > ? AND id <= ? ORDER BY id LIMIT ?",
        (after, latest, limit),
    )
    return [StoredChange(*row) for row in rows]


def read_bounds(connection: Connection) -> tuple[int, int]:
    """Return the numbers of the oldest change that is kept, and of the latest that may be read."""
    return connection.dialect.read_bounds(connection)
