"""The tool calls of one run that are under way, and the errors its steps have reported."""

from collections import deque
from typing import Any, Final

from msgspec import Struct

from steadyhelm.bounded import BoundedDict
from steadyhelm.engine.capture import to_id
from steadyhelm.engine.coercion import to_error_text
from steadyhelm.engine.live_runs import describe_outcome
from steadyhelm.events import NotRun
from steadyhelm.host_objects import is_a

CALLS_KEPT: Final = 1024
_ERRORS_KEPT: Final = 8
_CAUSES_FOLLOWED: Final = 8


class PendingCall(Struct):
    """A call under way: what was asked for, who reported it, when it began, and why it is not run."""

    name: str
    args: Any
    surface: str
    started_seq: int
    began_s: float
    not_run: NotRun | None = None


class CallBook:
    """The calls of one run: under way, or waiting for the user's answer.

    Where several surfaces of a framework see the same call, the first that reports it owns it.
    Ids are kept as texts of bounded length, whatever they are.
    Not safe for several threads: its owner holds a lock.
    """

    def __init__(self) -> None:
        self.under_way: BoundedDict[str, PendingCall] = BoundedDict(CALLS_KEPT)
        self._asked: BoundedDict[str, PendingCall] = BoundedDict(CALLS_KEPT)
        self._owners: BoundedDict[str, str] = BoundedDict(CALLS_KEPT)

    def claim(self, call_id: str, surface: str) -> bool:
        """Return whether this surface owns the call; the first one to claim a call owns it."""
        key = to_id(call_id)
        owner = self._owners.get(key)
        if owner is None:
            self._owners[key] = owner = surface
        return owner == surface

    def begin(self, call_id: str, call: PendingCall) -> list[tuple[str, PendingCall]]:
        """Add a call that is made now; return the oldest call if there were too many."""
        dropped = self.under_way.put(to_id(call_id), call)
        return [dropped] if dropped is not None else []

    def end(self, call_id: str, surface: str | None = None) -> PendingCall | None:
        """Remove and return a call that is over; None when it is unknown, or another surface's."""
        key = to_id(call_id)
        call = self.under_way.get(key)
        if call is None or (surface is not None and call.surface != surface):
            return None
        return self.under_way.pop(key)

    def begin_question(self, call_id: str, call: PendingCall) -> None:
        """Add a call the user is asked about."""
        self._asked[to_id(call_id)] = call

    def end_question(self, call_id: str) -> PendingCall | None:
        """Remove and return the call the user was asked about, if there is one."""
        return self._asked.pop(to_id(call_id), None)

    def mark_not_run(self, call_id: str, why: NotRun) -> None:
        """Let a call under way say why its tool is not called."""
        call = self.under_way.get(to_id(call_id))
        if call is not None:
            call.not_run = why

    def drop(self, call_id: str) -> None:
        """Forget a call that was not made."""
        self.under_way.pop(to_id(call_id), None)
        self._asked.pop(to_id(call_id), None)

    def take_all(self) -> list[tuple[str, PendingCall]]:
        """Remove and return every call under way."""
        calls = list(self.under_way.items())
        self.under_way.clear()
        return calls

    def find_earliest_seq(self) -> int | None:
        """Return how many events the agent had seen when it asked for the first call under way."""
        return min((call.started_seq for call in self.under_way.values()), default=None)


class ReportedErrors:
    """The latest errors that steps of a run have reported: what ends the run is often one of them."""

    def __init__(self) -> None:
        self._texts: deque[str | None] = deque(maxlen=_ERRORS_KEPT)

    def add(self, error: object) -> None:
        """Remember an error that a step reported."""
        self._texts.append(to_error_text(error))

    def is_failure(self, error: BaseException, control: tuple[type[BaseException], ...]) -> bool:
        """Return whether an agent failed by an error that neither itself nor by a cause was reported before.

        One that its framework steers itself by is no failure, nor is a run that is left early.
        """
        if describe_outcome(error) == "left early" or is_a(error, control):
            return False
        cause: BaseException | None = error
        for _ in range(_CAUSES_FOLLOWED):
            if cause is None:
                break
            if to_error_text(cause) in self._texts:
                return False
            cause = cause.__cause__ or cause.__context__
        return True
