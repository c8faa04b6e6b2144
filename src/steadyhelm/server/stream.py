"""The live stream: changes are read once, encoded once, and the same bytes go to every stream."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Collection, Sequence
from typing import Final

import anyio
import anyio.to_thread
import msgspec

from steadyhelm.errors import StoreError
from steadyhelm.forks import ForkSafeLock
from steadyhelm.logs import logger
from steadyhelm.server.agent_views import AgentViews
from steadyhelm.server.queries.inbox import count_open
from steadyhelm.server.queries.rows import RUNS, read_runs
from steadyhelm.server.records.common import RunRow
from steadyhelm.server.records.settings import Change, Reset
from steadyhelm.stores.database import Connection, StoredChange, read_bounds, read_changes
from steadyhelm.stores.sql_store import SQLStore

HEARTBEAT_S: Final = 15.0
MOST_STREAMS: Final = 200
_POLL_S: Final = 0.2
_AFTER_ERROR_S: Final = 2.0
_CHANGES_READ: Final = 2000
_RUNS_SENT: Final = 100
_KEPT: Final = 100
_HEARTBEAT: Final = b": still here\n\n"


class Streams:
    """Follows the changes of a store, for as long as somebody listens.

    Args:
        store: The store.
        views: What is kept of its agents.
    """

    def __init__(self, store: SQLStore, views: AgentViews) -> None:
        self._store = store
        self._views = views
        self._listeners: dict[object, anyio.Event] = {}
        self._latest = -1
        self._latest_lock = ForkSafeLock()
        # The latest events: a stream sends those behind the number it has reached.
        self._sent: deque[tuple[int, bytes]] = deque(maxlen=_KEPT)
        self._stopped = False
        self._wake: anyio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def count(self) -> int:
        """Return how many streams are open."""
        return len(self._listeners)

    async def follow(self) -> None:
        """Read changes until it is cancelled; nothing is read while nobody listens."""
        self._loop = asyncio.get_running_loop()
        while True:
            if not self._listeners:
                self._wake = anyio.Event()
                self._latest = -1
                await self._wake.wait()
            try:
                if await anyio.to_thread.run_sync(self._read):
                    self._notify()
                await anyio.sleep(_POLL_S)
            except StoreError as exc:
                logger.debug("changes could not be read", exc_info=exc)
                await anyio.sleep(_AFTER_ERROR_S)

    def stop(self) -> None:
        """End every stream."""
        self._stopped = True
        self._notify()

    def stop_soon(self) -> None:
        """End every stream when the event loop gets to it. For signal handlers."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self.stop)

    async def listen(self, last_event_id: int | None) -> AsyncGenerator[bytes, None]:
        """Yield the events of one stream: from the one behind this number on, else from now on."""
        me = object()
        self._listeners[me] = anyio.Event()
        if self._wake is not None:
            self._wake.set()
        try:
            reached, first = await anyio.to_thread.run_sync(self._begin, last_event_id)
            yield first
            while not self._stopped:
                for number, event in tuple(self._sent):
                    if number > reached:
                        reached = number
                        yield event
                arrived = self._listeners[me]
                with anyio.move_on_after(HEARTBEAT_S) as waited:
                    await arrived.wait()
                if waited.cancelled_caught:
                    yield _HEARTBEAT
                elif self._sent and self._sent[0][0] > reached and len(self._sent) == _KEPT:
                    # It was too slow: what it missed is read again, as after a lost connection.
                    reached, again = await anyio.to_thread.run_sync(self._begin, reached)
                    yield again
        finally:
            del self._listeners[me]

    def _notify(self) -> None:
        for me, arrived in list(self._listeners.items()):
            self._listeners[me] = anyio.Event()
            arrived.set()

    def _begin(self, last_event_id: int | None) -> tuple[int, bytes]:
        """Return the number a stream begins behind, and its first event."""
        with self._latest_lock, self._store.reading() as connection:
            _, latest = read_bounds(connection)
            # The reader begins where the first stream does: it may come to its turn later.
            if self._latest < 0:
                self._latest = latest
            if last_event_id is None:
                return latest, self._encode_start("hello", latest, connection)
            missed = read_changes(connection, last_event_id, _CHANGES_READ)
            if missed is None or len(missed) == _CHANGES_READ:
                return latest, self._encode_start("reset", latest, connection)
            if not missed:
                return last_event_id, self._encode_start("hello", last_event_id, connection)
        return missed[-1].id, self._describe(missed)

    def _read(self) -> bool:
        """Read what is new; return whether anything is. Runs in a thread."""
        with self._latest_lock:
            with self._store.reading() as connection:
                _, latest = read_bounds(connection)
                if self._latest < 0:
                    self._latest = latest
                if latest == self._latest:
                    return False
                changes = read_changes(connection, self._latest, _CHANGES_READ)
                reset = self._encode_start("reset", latest, connection) if changes is None else b""
            if changes is None:
                self._latest = latest
                event = reset
            elif changes:
                self._latest = changes[-1].id
                event = self._describe(changes)
            else:
                return False
            self._sent.append((self._latest, event))
            return True

    def _describe(self, changes: list[StoredChange]) -> bytes:
        """Return changes as one event, with the rows of the runs they concern."""
        latest = changes[-1].id
        runs = list(dict.fromkeys(it.run for it in reversed(changes) if it.what == "run" and it.run))
        with self._store.reading() as connection:
            rows = _read_in_order(connection, runs[:_RUNS_SENT]) if runs else []
            opened = self._count_open(connection)
        change = Change(
            id=latest,
            at=changes[-1].at,
            runs=rows,
            incidents=_list_agents(changes, "incidents", {it.agent.key for it in rows if it.incidents}),
            agents=_list_agents(changes, "agent"),
            settings=any(it.what == "settings" for it in changes),
            open_incidents=opened,
        )
        return _encode("change", latest, change)

    def _encode_start(self, event: str, number: int, connection: Connection) -> bytes:
        opened = self._count_open(connection)
        return _encode(event, number, Reset(id=number, at=time.time(), open_incidents=opened))

    def _count_open(self, connection: Connection) -> int:
        with self._views.reading_with(connection):
            return count_open(self._views, connection, time.time()).total()


def _list_agents(changes: list[StoredChange], what: str, others: Collection[int] = ()) -> list[int]:
    return sorted({it.agent for it in changes if it.what == what and it.agent is not None}.union(others))


def _encode(event: str, number: int, content: Change | Reset) -> bytes:
    # JSON has no line break outside of strings, and none inside that is not escaped.
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (number, event.encode(), msgspec.json.encode(content))


def _read_in_order(connection: Connection, runs: Sequence[int]) -> list[RunRow]:
    """Return the rows of these runs, in the order of their keys here."""
    marks = ", ".join(map(str, runs))
    rows = read_runs(connection, f"{RUNS.format(index='')} WHERE r.id IN ({marks})", ())
    order = {run: place for place, run in enumerate(runs)}
    return sorted(rows, key=lambda it: order[it.key])
