"""The tool calls of one run that are on their way, and who tells of them."""

from collections import OrderedDict
from typing import Any, Final

from msgspec import Struct

from steadyhelm.forks import ForkSafeLock

_KEPT: Final = 1024


class PendingCall(Struct):
    """A call on its way: what was asked for, who told of it, and when it was asked for."""

    name: str
    args: Any
    surface: str
    started_seq: int
    began_s: float


class CallBook:
    """Where several surfaces see the same call, the first that tells of it owns it."""

    def __init__(self) -> None:
        self._lock = ForkSafeLock()
        self._open: OrderedDict[str, PendingCall] = OrderedDict()
        self._asked: OrderedDict[str, PendingCall] = OrderedDict()
        self._owners: OrderedDict[str, str] = OrderedDict()

    def owned(self, call_id: str, surface: str) -> bool:
        """Whether it is this surface that tells of the call; from the first one on it is."""
        with self._lock:
            owner = self._owners.setdefault(call_id, surface)
            if len(self._owners) > _KEPT:
                self._owners.popitem(last=False)
        return owner == surface

    def open(self, call_id: str, call: PendingCall) -> list[tuple[str, PendingCall]]:
        """The call is made; gives calls that nobody will hear of any more: there are too many."""
        with self._lock:
            self._open[call_id] = call
            return [self._open.popitem(last=False)] if len(self._open) > _KEPT else []

    def ask(self, call_id: str, call: PendingCall) -> None:
        """The user is asked about the call."""
        with self._lock:
            self._asked[call_id] = call
            if len(self._asked) > _KEPT:
                self._asked.popitem(last=False)

    def pop_asked(self, call_id: str) -> PendingCall | None:
        """The user has answered; gives the call they were asked about, if there was one."""
        with self._lock:
            return self._asked.pop(call_id, None)

    def end(self, call_id: str, surface: str | None = None) -> PendingCall | None:
        """The call is over, told by the surface it was told by before, or by whichever."""
        with self._lock:
            call = self._open.get(call_id)
            if call is None or (surface is not None and call.surface != surface):
                return None
            return self._open.pop(call_id)

    def drop(self, call_id: str) -> None:
        """The call was not made after all."""
        with self._lock:
            self._open.pop(call_id, None)
            self._asked.pop(call_id, None)

    def take_all(self) -> list[tuple[str, PendingCall]]:
        """Every call that is still on its way: nobody waits for them any more."""
        with self._lock:
            calls, self._open = list(self._open.items()), OrderedDict()
        return calls

    def earliest_seq(self) -> int | None:
        """How many events the agent had seen when it asked for the first of those on their way."""
        with self._lock:
            return min((call.started_seq for call in self._open.values()), default=None)
