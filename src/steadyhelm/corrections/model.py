"""A learnt model small enough to be applied by hand: weights by name, a sum, a share for each class."""

import math
from collections.abc import Mapping

from msgspec import Struct

from steadyhelm.corrections.terms import weighed


class LinearModel(Struct, frozen=True, kw_only=True):
    """Weights of named numbers and of words, one for each of `classes`, all held against `base`.

    A term's row has its rarity first, then its weights.
    """

    base: str
    classes: tuple[str, ...]
    intercepts: tuple[float, ...]
    numbers: dict[str, tuple[float, ...]]
    terms: dict[str, tuple[float, ...]] = {}

    def shares(
        self, numbers: Mapping[str, float], terms: Mapping[str, int] | None = None
    ) -> dict[str, float]:
        """How probable each class is; the shares sum to one.

        >>> model = LinearModel(base="no", classes=("yes",), intercepts=(0.0,), numbers={"loud": (2.0,)})
        >>> model.shares({"loud": 0.0})
        {'no': 0.5, 'yes': 0.5}
        """
        sums = list(self.intercepts)
        for row, value in self._rows(numbers, terms or {}):
            for place, weight in enumerate(row):
                sums[place] += weight * value
        highest = max(0.0, *sums)
        parts = [math.exp(-highest), *(math.exp(one - highest) for one in sums)]
        whole = sum(parts)
        return {name: part / whole for name, part in zip((self.base, *self.classes), parts, strict=True)}

    def weight(self, name: str, towards: str) -> float:
        """What one unit of a number adds to the log-odds of a class against the base."""
        row = self.numbers.get(name)
        return row[self.classes.index(towards)] if row else 0.0

    def pull(self, terms: Mapping[str, int], towards: str) -> dict[str, float]:
        """What each known word adds to the log-odds of a class against the base."""
        place = 1 + self.classes.index(towards)
        return {term: self.terms[term][place] * value for term, value in self._weighed(terms).items()}

    def _rows(
        self, numbers: Mapping[str, float], terms: Mapping[str, int]
    ) -> list[tuple[tuple[float, ...], float]]:
        rows = [(row, numbers[name]) for name, row in self.numbers.items() if numbers.get(name)]
        return rows + [(self.terms[term][1:], value) for term, value in self._weighed(terms).items()]

    def _weighed(self, terms: Mapping[str, int]) -> dict[str, float]:
        return weighed(terms, {term: self.terms[term][0] for term in terms if term in self.terms})
