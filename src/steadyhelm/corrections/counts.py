"""Counts as they come from others: whatever is no count is none."""

import math
from typing import Final

_MOST: Final = 1e6


def number_of(value: object) -> float:
    """A count between zero and a million.

    >>> number_of(float("nan")), number_of(-3), number_of(True), number_of("7"), number_of(7)
    (0.0, 0.0, 0.0, 0.0, 7.0)
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    return float(min(value, _MOST)) if value > 0 else 0.0


def count_of(value: object) -> float:
    """A count as the logarithm of how much there is, since the tenth matters less than the first."""
    return math.log1p(number_of(value))
