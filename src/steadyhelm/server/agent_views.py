"""What the lists show of each agent, kept until the store says that the agent changed.

Every write is numbered in `changes` with its agent, in the same transaction. So a list reads only the agents
that changed since it was asked for last, however many runs and incidents there are.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from steadyhelm.forks import ForkSafeLock
from steadyhelm.incidents import Mute
from steadyhelm.server.records.common import RunRow
from steadyhelm.stores.database import Connection, read_bounds, read_changes
from steadyhelm.stores.incidents import read_mutes
from steadyhelm.stores.sql_store import SQLStore

_CHANGES_READ: Final = 5000
_MOST_KEPT: Final = 200
_MOST_RUNS_KEPT: Final = 1000
_FOR_EVER: Final = float("inf")

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
        with self._store.reading() as connection, self.reading_with(connection):
            yield connection

    @contextmanager
    def reading_with(self, connection: Connection) -> Iterator[None]:
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

    def read_names(self, connection: Connection) -> dict[int, str]:
        """Return the names of all agents, by row id."""
        query = "SELECT id, agent_id FROM agents"
        return self.keep("names", 0.0, lambda: (dict(connection.execute(query).fetchall()), _FOR_EVER))

    def read_mutes(self, connection: Connection, now: float) -> dict[str, tuple[Mute, ...]]:
        """Return the mutes in force, by the name of the agent."""

        def read() -> tuple[dict[str, tuple[Mute, ...]], float]:
            mutes: dict[str, tuple[Mute, ...]] = {}
            found = read_mutes(connection, at=now)
            for mute in found:
                mutes[mute.agent_id] = (*mutes.get(mute.agent_id, ()), mute)
            return mutes, min((it.until for it in found), default=_FOR_EVER)

        return self.keep("mutes", now, read)

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
