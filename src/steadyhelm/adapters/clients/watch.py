"""Everything one monitor sees through clients of one kind: a conversation may go through several of them."""

import atexit
import weakref
from collections import OrderedDict, deque
from typing import Any, Final

from steadyhelm.adapter import Capabilities
from steadyhelm.adapters.clients.conversations import Conversations
from steadyhelm.adapters.clients.dialect import Dialect
from steadyhelm.adapters.clients.exchanges import Exchange
from steadyhelm.adapters.clients.origins import Through
from steadyhelm.boundary.driver import Ask, Boundary
from steadyhelm.engine.monitor import Monitor

CAN: Final[Capabilities] = {"before_model": ("guide", "rollback", "stop")}
"""A host makes its calls itself: they are seen, and cannot be refused from here."""

_WAITING_KEPT: Final = 1000
_WATCHES_KEPT: Final = 64
_KEPT_AS: Final = "_client_watches"


class ClientWatch:
    """Watches requests to models.

    Args:
        monitor: Who watches.
        source: The adapter's name.
        ask: Puts a question to the user.
    """

    def __init__(self, monitor: Monitor, source: str, ask: Ask | None = None) -> None:
        self.monitor = monitor
        self.boundary = Boundary(monitor, source, CAN, ask=ask, encloses=False)
        self.conversations = Conversations()
        self._waiting: OrderedDict[str, Exchange] = OrderedDict()
        self._dropped: deque[Exchange] = deque()
        self._gone: deque[int] = deque()

    def open(self, dialect: Dialect, arguments: dict[str, Any], through: Through) -> Exchange:
        """A request is about to be made: the exchange says what with, or that it shall not be."""
        self._catch_up()
        return Exchange(self, dialect, arguments, through)

    def wait_for(self, reply_id: str, exchange: Exchange) -> None:
        """A reply will be fetched later."""
        self._waiting[reply_id] = exchange
        if len(self._waiting) > _WAITING_KEPT:
            self._waiting.popitem(last=False)[1].leave()

    def awaited(self, reply_id: object) -> Exchange | None:
        """The exchange whose reply that is, if it was still to come."""
        return self._waiting.get(reply_id) if isinstance(reply_id, str) else None

    def has_come(self, reply_id: str) -> None:
        """A reply was fetched."""
        self._waiting.pop(reply_id, None)

    def dropped(self, exchange: Exchange) -> None:
        """Nobody will read the rest of a reply; said wherever garbage is collected, so it is only noted."""
        self._dropped.append(exchange)

    def gone(self, origin: int) -> None:
        """A client and all its copies are gone; that too is only noted."""
        self._gone.append(origin)

    def closed(self, origin: int) -> None:
        """A client is closed, and its copies with it: what failed or was left will not be tried again."""
        self._gone.append(origin)
        self._catch_up()

    def end(self, through: Through | None = None) -> None:
        """Nothing more will be seen, or not through that client."""
        self._catch_up()
        for conversation in self.conversations.all():
            if through is None or conversation.through == through.number:
                conversation.end()

    def _catch_up(self) -> None:
        """What was only noted is told now; replies first, for they hold on to where they come from."""
        with self.boundary.guard("what was dropped"):
            while self._dropped:
                self._dropped.popleft().leave()
            origins = {self._gone.popleft() for _ in range(len(self._gone))}
            for conversation in self.conversations.all() if origins else ():
                if conversation.origin in origins:
                    conversation.let_go()


def watch_of(monitor: Monitor, source: str, ask: Ask | None) -> ClientWatch:
    """What watches such clients for this monitor: a conversation may go on in another client."""
    # The watch keeps its monitor, so the monitor must be what keeps it.
    known = vars(monitor).get(_KEPT_AS)
    if known is None:
        known = vars(monitor)[_KEPT_AS] = OrderedDict()
        atexit.register(_end_all, weakref.ref(monitor))
    key = (source, id(ask))
    watch = known.get(key)
    if watch is None:
        watch = known[key] = ClientWatch(monitor, source, ask)
        if len(known) > _WATCHES_KEPT:
            known.popitem(last=False)[1].end()
    return watch


def _end_all(reference: "weakref.ref[Monitor]") -> None:
    """Runs that are still open end before their monitor closes."""
    monitor = reference()
    for watch in vars(monitor)[_KEPT_AS].values() if monitor is not None else ():
        watch.end()
