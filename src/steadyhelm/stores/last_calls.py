"""Find the last identical call of a run: the same tool with the same arguments."""

from typing import Final

from steadyhelm.events import TraceEvent
from steadyhelm.stores.database import Connection

_MOST_CALLS: Final = 20_000
_LOOKED_BACK: Final = 5000
_HASH_BITS: Final = 64
_HASH_MASK: Final = (1 << _HASH_BITS) - 1
_LAST_SAME: Final = f"""
    SELECT seq, result_hash FROM events
    WHERE run = ? AND seq < ? AND seq >= ? - {_LOOKED_BACK} AND call_hash = ? ORDER BY seq DESC LIMIT 1"""  # noqa: S608 - ours

LastSame = tuple[int, int | None]
"""The place of the last identical call, and whether its result was the same; None where one is not known."""


class LastCalls:
    """The place and result of the latest call of each kind in one run, while this process writes it.

    `is_complete` says that it has seen the run from its beginning: else a call may be stored already.
    """

    __slots__ = ("_latest", "is_complete")

    def __init__(self, *, is_complete: bool) -> None:
        self.is_complete = is_complete
        # One number a call, its place above its result: a pair would take twice the memory.
        self._latest: dict[int, int] = {}

    def add(self, call_hash: int, result_hash: int, seq: int) -> LastSame | None:
        """Note a call; return the last identical one, None for none."""
        latest = self._latest
        before = latest.get(call_hash)
        result = result_hash & _HASH_MASK
        latest[call_hash] = seq << _HASH_BITS | result
        if before is None:
            if len(latest) > _MOST_CALLS:
                self.forget(_MOST_CALLS // 2)
            return None
        return before >> _HASH_BITS, _compare(before & _HASH_MASK, result)

    def forget(self, count: int | None = None) -> None:
        """Forget the calls that were noted first; all of them unless a number is given."""
        self.is_complete = False
        for oldest in list(self._latest)[:count]:
            del self._latest[oldest]


def find_last_same(connection: Connection, run: int, event: TraceEvent) -> LastSame | None:
    """Return the last identical call among the latest stored steps, None for none."""
    seq = event.seq
    row = connection.execute(_LAST_SAME, (run, seq, seq, event.call_hash)).fetchone()
    return None if row is None else (row[0], _compare(row[1] & _HASH_MASK, event.result_hash & _HASH_MASK))


def _compare(before: int, now: int) -> int | None:
    return int(before == now) if before and now else None
