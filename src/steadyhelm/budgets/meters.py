"""One limit of a budget: how much of it is used, lent to children, and left."""

import math
from typing import Annotated, Final

from msgspec import Meta, Struct

from steadyhelm.budgets.amounts import MOST

STEPS_FOR_A_TREND: Final = 3
"""Two steps say nothing about how steps differ."""

# A product such as 90 * .7 must not lose a whole unit to the last bit of a float.
_LAST_BIT: Final = 1e-6

Units = Annotated[int, Meta(ge=0, le=MOST)]


class Meter(Struct, kw_only=True, omit_defaults=True):
    """What is counted of steps, tokens, money or time, in whole units. A limit of None is no limit.

    `mean` and `variance` are those of a step's use, over a window's worth of steps, where there is a limit;
    `average` is that of all steps, `lean` how their use went with their number.
    `between` is what was used since the last step, and counts as the next one's.
    `exhausted` stays once it is set: only an extension takes it back.
    """

    original: Units | None = None
    limit: Units | None = None
    used: Units = 0
    reserved: Units = 0
    between: Units = 0
    mean: float = 0.0
    variance: float = 0.0
    average: float = 0.0
    lean: float = 0.0
    exhausted: bool = False

    @classmethod
    def of(cls, limit: int | None) -> "Meter":
        """A fresh one; a limit of 0 is used up from the start."""
        return cls(original=limit, limit=limit, exhausted=limit == 0)

    @property
    def remaining(self) -> int | None:
        """What is left and not lent to anybody; never below 0."""
        if self.limit is None:
            return None
        left = self.limit - self.used - self.reserved
        return 0 if self.exhausted or left < 0 else left

    @property
    def share_used(self) -> float:
        """How much of the limit is used, 0 to 1; 0 without a limit."""
        if self.limit is None:
            return 0.0
        return min(1.0, self.used / self.limit) if self.limit else 1.0

    def spend(self, amount: int, weight: float, number: int) -> None:
        """Count one step's use; `weight` is how much it counts for the mean, `number` its place from 1."""
        if amount:
            self._use(amount)
        if self.limit is None:
            return
        taken = amount + self.between
        self.between = 0
        off = taken - self.mean
        if off:
            self.mean += weight * off
            self.variance = (1.0 - weight) * (self.variance + weight * off * off)
        elif self.variance:
            self.variance *= 1.0 - weight
        off = taken - self.average
        if off:
            # The sum of products a least-squares line needs, kept up one step at a time.
            self.lean += off * (number - 1) / 2.0
            self.average += off / number

    def spend_between(self, amount: int) -> None:
        """Count what is used between two steps, such as a model's reply."""
        if amount:
            self._use(amount)
            if self.limit is not None:
                self.between = min(MOST, self.between + amount)

    def _use(self, amount: int) -> None:
        self.used = min(MOST, self.used + amount)
        if self.limit is not None and self.used + self.reserved >= self.limit:
            self.exhausted = True

    def growth(self, steps: int) -> float:
        """By how much each step has taken more than the one before, over all of them; never below 0.

        A context grows, and every further call takes it along.
        """
        if self.lean <= 0.0 or steps < STEPS_FOR_A_TREND:
            return 0.0
        return 12.0 * self.lean / (steps * (steps * steps - 1.0))

    def landing_units(self, share: float) -> int:
        """What is kept for handing over in order: a share of the original, but no less than one step takes.

        Nothing without a limit, or when the share is 0.
        """
        if self.original is None or not share:
            return 0
        return math.ceil(max(self.original * share - _LAST_BIT, self.mean))

    def available(self, share: float) -> int | None:
        """What may be lent to a child: all that is left but the reserve for landing."""
        left = self.remaining
        return None if left is None else max(0, left - self.landing_units(share))

    def lend(self, amount: int) -> None:
        """Set aside what a child was given."""
        if self.limit is not None:
            self.reserved += amount

    def take_back(self, lent: int, used: int) -> None:
        """A child is done: what it used is spent, the rest is free again.

        What comes back never revives a limit that is used up.
        """
        self.used = min(MOST, self.used + used)
        if self.limit is not None:
            self.reserved -= lent
            self.exhausted = self.exhausted or self.used >= self.limit

    def scale(self, factor: float, *, ceiling_factor: float, landing_reserve: float) -> int:
        """Multiply the limit and say by how many units it changed.

        It never grows past its ceiling, and never shrinks below what is used, lent and kept for landing.
        """
        if self.limit is None or self.original is None:
            return 0
        before = self.limit
        wanted = math.floor(before * factor + _LAST_BIT)
        if factor > 1.0:
            ceiling = math.floor(self.original * ceiling_factor + _LAST_BIT)
            self.limit = max(before, min(wanted, ceiling))
        else:
            floor = self.used + self.reserved + self.landing_units(landing_reserve)
            self.limit = min(before, max(wanted, floor))
            self.exhausted = self.exhausted or self.used >= self.limit
        return self.limit - before

    def extend(self, amount: int) -> None:
        """Raise the limit by what an extension granted, and open it again if that leaves anything."""
        if self.limit is None or not amount:
            return
        self.limit += amount
        self.exhausted = self.used + self.reserved >= self.limit
