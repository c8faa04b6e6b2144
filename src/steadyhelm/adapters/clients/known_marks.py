"""The marks of requests that were seen, so that of the next one only what is new is looked at.

A host keeps its messages and adds to them: where a request begins with the very objects of one before it, its
marks begin with the same. The first and the last of them are looked at again, since a host may write into
a message that it has sent.
"""

import operator
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from steadyhelm.adapters.clients.items import chain

_KEPT: Final = 64
_LOOKED_BACK: Final = 24
_LOOKED_AT_AGAIN: Final = 4


class _Seen(NamedTuple):
    """The messages of a request, kept so that no other object can be taken for one of them."""

    items: list[Any]
    marks: list[int]


class KnownMarks:
    """The marks of the latest requests of one client, by their last message."""

    def __init__(self) -> None:
        self._seen: OrderedDict[int, _Seen] = OrderedDict()

    def of(self, items: Sequence[Any]) -> list[int]:
        """The marks of a request, the same as `chain` gives."""
        before = self._before(items)
        if before is None:
            marks = chain(items)
        else:
            known = len(before.items) - _LOOKED_AT_AGAIN
            marks = before.marks[:known]
            marks += chain(items[known:], marks[-1])
        if len(items) > 2 * _LOOKED_AT_AGAIN:
            self._seen[id(items[-1])] = _Seen(list(items), marks)
            if len(self._seen) > _KEPT:
                self._seen.popitem(last=False)
        return marks

    def forget(self, items: Sequence[Any], length: int) -> None:
        """A conversation has come to its end with this request: its messages are not ours to keep."""
        if 0 < length <= len(items):
            self._seen.pop(id(items[length - 1]), None)

    def _before(self, items: Sequence[Any]) -> _Seen | None:
        for place in range(len(items) - 1, max(-1, len(items) - 1 - _LOOKED_BACK), -1):
            seen = self._seen.get(id(items[place]))
            if seen is None or len(seen.items) != place + 1:
                continue
            if not all(map(operator.is_, seen.items, items)):
                continue
            if chain(items[:_LOOKED_AT_AGAIN]) != seen.marks[:_LOOKED_AT_AGAIN]:
                continue
            del self._seen[id(items[place])]
            return seen
        return None
