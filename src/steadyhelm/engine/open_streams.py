"""Know the generators of a run that are not read to their end: when it ends, each of them is recorded."""

import itertools
from collections.abc import Callable

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
        # One table for all runs: a table of each could be removed while another thread adds to it.
        self._records: dict[tuple[str, int], Record] = {}
        self._numbers = itertools.count()

    def add(self, run_id: str | None, record: Record) -> int:
        """Add a generator that begins in a run; return the number to remove it by."""
        number = next(self._numbers)
        if run_id is not None:
            self._records[run_id, number] = record
        return number

    def remove(self, run_id: str | None, number: int) -> bool:
        """Remove a generator that has ended; return whether it is not recorded yet."""
        return run_id is None or self._records.pop((run_id, number), None) is not None

    def record_left(self, run_id: str | None) -> None:
        """Record the generators of a run that are still open; called when it ends."""
        for key in [key for key in list(self._records) if key[0] == run_id]:
            record = self._records.pop(key, None)
            if record is not None:
                record()
