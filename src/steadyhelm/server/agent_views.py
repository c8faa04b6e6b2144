"""What the lists show of each agent, kept until the store says that the agent changed.

Every write is numbered in `changes` with its agent, in the same transaction. So a list reads only the agents
that changed since it was asked for last, however many runs and incidents there are.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from steadyhelm.forks import ForkSafeLock
from steadyhelm.server.queries.rows import IS_OPEN
from steadyhelm.server.records.common import RunRow
from steadyhelm.stores.changes import read_bounds, read_changes
from steadyhelm.stores.database import Connection
from steadyhelm.stores.sql_store import SQLStore

_CHANGES_READ: Final = 5000
_MOST_KEPT: Final = 200
_MOST_RUNS_KEPT: Final = 1000
_FOR_EVER: Final = float("inf")
_OPEN: Final = f"""
    SELECT severity, count(*) FROM incidents i INDEXED BY incidents_open_groups
    WHERE {IS_OPEN} AND i.agent = ? GROUP BY severity"""  # noqa: S608 - our own text

Kept = TypeVar("Kept")


class AgentView:
    """What is kept of one agent: by what was asked for, what was read, and until when it holds."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: dict[Any, tuple[Any, float]] = {}

    def keep(self, key: Any, now: float, read: Callable[[], tuple[Kept, float]]) -> Kept:
        """Return what is kept under a key; where there is nothing that still holds, read it."""
        found = self._kept.get(key)
        if found is None or now >= found[1]:
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            found = self._kept[key] = read()
        return found[0]


class AgentViews:
    """The views of all agents of a store.

    Args:
        store: The store.
    """

    def __init__(self, store: SQLStore) -> None:
        self._store = store
        self._lock = ForkSafeLock()
        self._views: dict[int, AgentView] = {}
        self._of_all = AgentView()
        self._over_changes = AgentView()
        self._runs: dict[int, dict[int, RunRow]] = {}
        self._latest = -1

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Yield a connection, after forgetting what changed. One thread at a time."""
        with self._store.reading() as connection, self.using(connection):
            yield connection

    @contextmanager
    def using(self, connection: Connection) -> Iterator[None]:
        """Do the same with a connection that this thread reads with already."""
        with self._lock:
            self._forget_changed(connection)
            yield

    def get(self, agent: int) -> AgentView:
        """Return the view of an agent, by its row id."""
        view = self._views.get(agent)
        if view is None:
            view = self._views[agent] = AgentView()
        return view

    def keep(self, key: Any, now: float, read: Callable[[], tuple[Kept, float]]) -> Kept:
        """Return what is kept of all agents together until any of them changes; else read it."""
        return self._of_all.keep(key, now, read)

    def keep_runs(
        self, runs: Sequence[tuple[int, int]], read: Callable[[list[int]], Iterable[RunRow]]
    ) -> list[RunRow]:
        """Return the rows of runs, given as run and agent; those that are not kept are read."""
        missing = [run for run, agent in runs if run not in self._runs.get(agent, ())]
        if missing:
            if sum(map(len, self._runs.values())) + len(missing) > _MOST_RUNS_KEPT:
                self._runs.clear()
                missing = [run for run, _ in runs]
            for row in read(missing):
                self._runs.setdefault(row.agent.key, {})[row.key] = row
        return [self._runs[agent][run] for run, agent in runs]

    def keep_over_changes(self, key: Any, now: float, read: Callable[[], tuple[Kept, float]]) -> Kept:
        """Return what is kept however much is written, for what may be older; else read it."""
        return self._over_changes.keep(key, now, read)

    def read_open(self, connection: Connection, agent: int) -> dict[int, int]:
        """Return how many incidents of an agent people still have to look at, by severity."""
        return self.get(agent).keep(
            "open", 0.0, lambda: (dict(connection.execute(_OPEN, (agent,)).fetchall()), _FOR_EVER)
        )

    def count_open(self, connection: Connection) -> dict[int, int]:
        """Return how many incidents of all agents people still have to look at, by severity."""
        return self.keep("open", 0.0, lambda: (self._sum_open(connection), _FOR_EVER))

    def _sum_open(self, connection: Connection) -> dict[int, int]:
        opened: Counter[int] = Counter()
        for (agent,) in connection.execute("SELECT id FROM agents").fetchall():
            for severity, count in self.read_open(connection, agent).items():
                opened[severity] += count
        return opened

    def _forget_changed(self, connection: Connection) -> None:
        # The number comes first: what is written while an agent is read is read again next time.
        _, latest = read_bounds(connection)
        if latest == self._latest:
            return
        changes = read_changes(connection, self._latest, _CHANGES_READ) if self._latest >= 0 else None
        if changes is None or len(changes) == _CHANGES_READ:
            self._views.clear()
            self._runs.clear()
        else:
            for agent in {it.agent for it in changes if it.agent is not None}:
                self._views.pop(agent, None)
                self._runs.pop(agent, None)
            latest = changes[-1].id if changes else self._latest
        self._of_all = AgentView()
        self._latest = latest
