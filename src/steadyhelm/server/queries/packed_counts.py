"""Count how often many conditions hold with few sums: sums are most of what a long run's columns cost."""

from collections.abc import Sequence
from typing import Final

_BITS: Final = 63


class PackedCounts:
    """Counts of conditions, several in one integer.

    Args:
        exclusive: Conditions of which at most one holds for a row: the first that does is counted.
        flags: Conditions that are counted each on its own.
        most: How many rows are counted at most.

    >>> counts = PackedCounts(["type = 1"], ["failed"], most=3)
    >>> counts.sums
    ['sum((CASE WHEN type = 1 THEN 1 ELSE 0 END) + (CASE WHEN failed THEN 4 ELSE 0 END))']
    >>> counts.unpack([2 + 3 * 4])
    [2, 3]
    """

    def __init__(self, exclusive: Sequence[str], flags: Sequence[str], most: int) -> None:
        self._width = max(1, most.bit_length())
        self._each = _BITS // self._width
        self._count = len(exclusive) + len(flags)
        self.sums: list[str] = []
        for start in range(0, self._count, self._each):
            place = range(start, min(start + self._each, self._count))
            ones = {at: 1 << self._width * (at - start) for at in place}
            cases = [f"WHEN {exclusive[at]} THEN {ones[at]}" for at in place if at < len(exclusive)]
            terms = [f"(CASE {' '.join(cases)} ELSE 0 END)"] if cases else []
            terms += [
                f"(CASE WHEN {flags[at - len(exclusive)]} THEN {ones[at]} ELSE 0 END)"
                for at in place
                if at >= len(exclusive)
            ]
            self.sums.append(f"sum({' + '.join(terms)})")

    def unpack(self, values: Sequence[int]) -> list[int]:
        """Return the counts of one row of sums, in the order of the conditions."""
        mask = (1 << self._width) - 1
        return [
            values[at // self._each] >> self._width * (at % self._each) & mask for at in range(self._count)
        ]
