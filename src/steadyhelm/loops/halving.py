"""Recognise attempts that search by halving: each goes at most half as far as the one before."""

import functools
import re
from typing import Final

from msgspec import Struct

_MAX_NUMBERS: Final = 20
_ARGUMENTS_CACHED: Final = 4
"""A failed call is an attempt at more than one thing: its error, and whatever fails in a row."""
_NUMBER: Final = re.compile(rb"\d{1,9}")


class Halving(Struct):
    """The numbers in the latest attempt, how far it went from the one before, and whether all halve so far.

    >>> search, ports = Halving(), Halving()
    >>> [search.record(b"--build %d" % number) for number in (400, 200, 100, 50)]
    [False, True, True, True]
    >>> [ports.record(b"--port %d" % number) for number in (3000, 3001, 3002)]
    [False, False, False]
    """

    numbers: tuple[int, ...] = ()
    gap: int = 0
    is_found: bool = False
    is_over: bool = False

    def record(self, arguments: bytes) -> bool:
        """Record the arguments of the next attempt, and return whether all so far search by halving."""
        before, self.numbers = self.numbers, _list_numbers(arguments)
        if before and not self.is_over:
            gap = _find_gap(before, self.numbers)
            self.is_over = gap > (self.gap + 1) // 2 if self.gap > 1 else gap < 2 or self.gap == 1  # noqa: PLR2004 - a step
            self.is_over |= gap == 0
            self.gap, self.is_found = gap, not self.is_over
        return self.is_found


@functools.lru_cache(maxsize=_ARGUMENTS_CACHED)
def _list_numbers(arguments: bytes) -> tuple[int, ...]:
    return tuple(map(int, _NUMBER.findall(arguments)[:_MAX_NUMBERS]))


def _find_gap(before: tuple[int, ...], now: tuple[int, ...]) -> int:
    """Return by how much the only number that differs does, 0 where it is not the only one."""
    gaps = [abs(one - other) for one, other in zip(before, now, strict=False) if one != other]
    return gaps[0] if len(gaps) == 1 and len(before) == len(now) else 0
