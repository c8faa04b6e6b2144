"""One limit of a budget: its units, and how much of it is used, reserved for child budgets, and left.

Money and time are counted in whole small units, so that a sum never depends on the order of its parts.
"""

import math
from typing import Annotated, Any, Final, Literal

from msgspec import Meta, Struct

LimitName = Literal["steps", "tokens", "cost_usd", "wall_s"]
LIMITS: Final[tuple[LimitName, ...]] = ("steps", "tokens", "cost_usd", "wall_s")
UNITS: Final[dict[LimitName, int]] = {
    "steps": 1,
    "tokens": 1,
    "cost_usd": 1_000_000_000,
    "wall_s": 1_000_000,
}
"""How many whole units one of each is: a dollar is counted in billionths, a second in millionths."""

MAX_UNITS: Final = 10**17
"""Nothing is counted beyond this many units: it still fits the format of saved states."""
MAX_LIMIT: Final = 10**15
"""The most units a limit may start with."""


def to_units(value: Any, per_one: int) -> int | None:
    """Return a number of 0 or more in whole units, None for anything else.

    >>> to_units(1500, 1), to_units(0.25, 1_000_000), to_units(-1, 1), to_units(float("nan"), 1)
    (1500, 250000, None, None)
    """
    if type(value) is int:
        return min(value * per_one, MAX_UNITS) if value >= 0 else None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    # Written so that NaN, which is neither above nor below anything, is rejected.
    if not 0 <= value < math.inf:
        return None
    units = min(value * per_one, MAX_UNITS)
    return round(units) if isinstance(units, float) else units


def to_progress(value: Any) -> float | None:
    """Return the progress of a step, -1 to 1; None when it is unknown or not a number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if not -math.inf < value < math.inf:
        return None
    return float(min(1, max(-1, value)))


def to_text(text: Any, max_chars: int) -> str:
    """Return text that can be stored: cut, and without halves of surrogate pairs; empty for anything else."""
    if not isinstance(text, str):
        return ""
    return text[:max_chars].encode("utf-8", "replace").decode("utf-8")


MIN_TREND_STEPS: Final = 3
"""With fewer steps nothing is known about how steps differ."""

# A product such as 90 * .7 must not lose a whole unit to the last bit of a float.
_FLOAT_TOLERANCE: Final = 1e-6

Units = Annotated[int, Meta(ge=0, le=MAX_UNITS)]


class Meter(Struct, kw_only=True, omit_defaults=True):
    """The count of steps, tokens, money or time, in whole units. A limit of None is no limit.

    `mean` and `variance` are those of the use per step, over a window of steps, where there is a limit;
    `average` is the mean over all steps, `lean` the sum of products for the trend of their use.
    `between` is what was used since the last step, and counts for the next one.
    `exhausted` stays set once it is: only an extension resets it. `granted` is the sum of all extensions.
    """

    original: Units | None = None
    limit: Units | None = None
    granted: Units = 0
    used: Units = 0
    reserved: Units = 0
    between: Units = 0
    mean: float = 0.0
    variance: float = 0.0
    average: float = 0.0
    lean: float = 0.0
    exhausted: bool = False

    @classmethod
    def with_limit(cls, limit: int | None) -> "Meter":
        """Return a new meter; a limit of 0 is used up from the start."""
        return cls(original=limit, limit=limit, exhausted=limit == 0)

    @property
    def remaining(self) -> int | None:
        """What is left and not reserved; never below 0."""
        if self.limit is None:
            return None
        left = self.limit - self.used - self.reserved
        return 0 if self.exhausted or left < 0 else left

    @property
    def share_used(self) -> float:
        """The share of the limit that is used, 0 to 1; 0 without a limit."""
        if self.limit is None:
            return 0.0
        return min(1.0, self.used / self.limit) if self.limit else 1.0

    def spend(self, amount: int, weight: float, number: int) -> None:
        """Count the use of one step; `weight` is its weight in the mean, `number` its place from 1."""
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
            # The sum of products of a least-squares line, updated one step at a time.
            self.lean += off * (number - 1) / 2.0
            self.average += off / number

    def spend_between(self, amount: int) -> None:
        """Count what is used between two steps, such as a model's reply."""
        if amount:
            self._use(amount)
            if self.limit is not None:
                self.between = min(MAX_UNITS, self.between + amount)

    def _use(self, amount: int) -> None:
        self.used = min(MAX_UNITS, self.used + amount)
        if self.limit is not None and self.used + self.reserved >= self.limit:
            self.exhausted = True

    def estimate_growth_per_step(self, steps: int) -> float:
        """Return by how much each step used more than the one before, over all steps; never below 0.

        A context grows, and every further call sends it again.
        """
        if self.lean <= 0.0 or steps < MIN_TREND_STEPS:
            return 0.0
        return 12.0 * self.lean / (steps * (steps * steps - 1.0))

    def reserve_for_landing(self, share: float) -> int:
        """Return what is kept for finishing in order: a share of the original, at least the use of one step.

        0 without a limit, or when the share is 0.
        """
        if self.original is None or not share:
            return 0
        return math.ceil(max(self.original * share - _FLOAT_TOLERANCE, self.mean))

    def compute_available(self, share: float) -> int | None:
        """Return what may be reserved for a child: all that is left except the landing reserve."""
        left = self.remaining
        return None if left is None else max(0, left - self.reserve_for_landing(share))

    def reserve(self, amount: int) -> None:
        """Reserve what a child was given."""
        if self.limit is not None:
            self.reserved += amount

    def release(self, reserved: int, used: int) -> None:
        """Release what was reserved for a child that has ended, and count what it used.

        A limit that is used up stays so.
        """
        self.used = min(MAX_UNITS, self.used + used)
        if self.limit is not None:
            self.reserved -= reserved
            self.exhausted = self.exhausted or self.used >= self.limit

    def scale(self, factor: float, *, ceiling_factor: float, landing_reserve: float) -> int:
        """Multiply the limit, and return by how many units it changed.

        It never grows past its ceiling, and never shrinks below what is used, reserved and kept for landing.
        """
        if self.limit is None or self.original is None:
            return 0
        before = self.limit
        wanted = math.floor(before * factor + _FLOAT_TOLERANCE)
        if factor > 1.0:
            ceiling = math.floor(self.original * ceiling_factor + _FLOAT_TOLERANCE) + self.granted
            self.limit = max(before, min(wanted, ceiling))
        else:
            floor = self.used + self.reserved + self.reserve_for_landing(landing_reserve)
            self.limit = min(before, max(wanted, floor))
            self.exhausted = self.exhausted or self.used >= self.limit
        return self.limit - before

    def extend(self, amount: int) -> None:
        """Raise the limit by what was granted, and reset `exhausted` if anything is left then."""
        if self.limit is None or not amount:
            return
        self.limit += amount
        self.granted = min(MAX_UNITS, self.granted + amount)
        self.exhausted = self.used + self.reserved >= self.limit
