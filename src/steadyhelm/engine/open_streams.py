"""Know the generators of a run that are not read to their end: when it ends, each of them is recorded."""

import itertools
from collections.abc import Callable
from contextlib import suppress

Record = Callable[[], None]


class OpenStreams:
    """The generators that have begun, by run, each with the function that records it as left early.

    A host may keep one that it has left, or an event loop may close it only after the run.

    >>> streams, recorded = OpenStreams(), []
    >>> number = streams.add("run", lambda: recorded.append("left"))
    >>> streams.record_left("run"), streams.remove("run", number), recorded
    (None, False, ['left'])
    """

    def __init__(self) -> None:
        self._by_run: dict[str, dict[int, Record]] = {}
        self._numbers = itertools.count()

    def add(self, run_id: str | None, record: Record) -> int:
        """Add a generator that begins in a run; return the number to remove it by."""
        number = next(self._numbers)
        if run_id is not None:
            self._by_run.setdefault(run_id, {})[number] = record
        return number

    def remove(self, run_id: str | None, number: int) -> bool:
        """Remove a generator that has ended; return whether it is not recorded yet."""
        if run_id is None:
            return True
        streams = self._by_run.get(run_id)
        if streams is None or streams.pop(number, None) is None:
            return False
        if not streams:
            with suppress(KeyError):  # its run has just ended
                del self._by_run[run_id]
        return True

    def record_left(self, run_id: str | None) -> None:
        """Record the generators of a run that is about to end, and forget them."""
        streams = self._by_run.pop(run_id, {}) if run_id is not None else {}
        while streams:
            _, record = streams.popitem()
            record()
