"""Shared statistics: quantiles, thresholds, intervals, and cumulative sums that notice a shift."""

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from msgspec import structs

from steadyhelm.baselines import Cusum, Trend

# Chosen so that about one run in a thousand is a false alarm, on skewed and on two-peaked spreads.
CUSUM_SLACK: Final = 0.5
CUSUM_MAX_Z: Final = 3.0
LEARNING_LIMIT: Final = 5.0
FROZEN_LIMIT: Final = 6.0
_NEXT_ALARM: Final = 4.0
_MAX_RAISES: Final = 3
"""The frozen reference never changes, so a lasting rise is reported less and less often: each time the sum
takes as many times as much, so often."""
LEARNING_MIN_RUNS: Final = 20
FROZEN_MIN_RUNS: Final = 50
_MIN_STD: Final = 0.05
_TAIL_FROM, _TAIL_TO = 0.75, 0.95
_Z95: Final = 1.9599639845400536
"""The number of standard deviations on either side that hold 95 % of values."""


class Shift(NamedTuple):
    """A trend after one more run, and its two sums as shares of their limits."""

    trend: Trend
    learning: float
    frozen: float

    @property
    def is_alarm(self) -> bool:
        """Whether either sum crossed its limit."""
        return self.learning >= 1.0 or self.frozen >= 1.0


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return the value below which this share of a sorted sequence lies, interpolated; 0 for an empty one.

    >>> quantile([1.0, 2.0, 3.0, 4.0, 5.0], 0.5)
    3.0
    """
    if not ordered:
        return 0.0
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def measure_rarity(ordered: Sequence[float], value: float, limit: float, *, min_scale: float) -> float:
    """Return how many times ten rarer than values at the limit values as high as this one are.

    Beyond the limit there is little to count: the tail of the sorted values is taken to fall as it does
    before it, but not faster than `min_scale` allows.

    >>> round(measure_rarity([n / 100 for n in range(101)], 1.3, 0.95, min_scale=0.02), 2)
    1.22
    """
    spread = quantile(ordered, _TAIL_TO) - quantile(ordered, _TAIL_FROM)
    scale = max(min_scale, spread / math.log((1 - _TAIL_FROM) / (1 - _TAIL_TO)))
    return (value - limit) / scale / math.log(10)


def conformal_threshold(ordered: Sequence[float], alpha: float) -> float | None:
    """Return the value below which a new, ordinary observation falls with probability at most `alpha`.

    None when there are too few observations for that.

    >>> conformal_threshold([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9], 0.2)
    0.2
    """
    place = math.floor(alpha * (len(ordered) + 1))
    return ordered[place - 1] if place >= 1 else None


class Interval(NamedTuple):
    """A 95 % confidence interval."""

    low: float
    high: float


def wilson_interval(hits: int, of: int) -> Interval:
    """Return the Wilson interval of a share of independent cases, which does not collapse at 0 and 1.

    >>> [round(bound, 3) for bound in wilson_interval(0, 40)]
    [0.0, 0.088]
    """
    share = hits / of
    middle = share + _Z95**2 / (2 * of)
    spread = _Z95 * math.sqrt(share * (1 - share) / of + _Z95**2 / (4 * of**2))
    scale = 1 + _Z95**2 / of
    low, high = max(0.0, (middle - spread) / scale), min(1.0, (middle + spread) / scale)
    return Interval(min(low, share), max(high, share))


def next_trend(trend: Trend, value: float) -> Shift:
    """Add one run's total to both sums; a sum that crosses its limit starts again at 0.

    With it the learning reference starts again, since the runs from here on are the new normal; the frozen
    one stays, and its next limit is higher.
    """
    x = math.log(max(value, 1.0))
    learning, frozen = trend.learning, trend.frozen
    learning_share = frozen_share = 0.0
    if learning.count >= LEARNING_MIN_RUNS:
        total = _next_sum(learning, x)
        learning_share = total / LEARNING_LIMIT
        has_crossed = learning_share >= 1.0
        learning = (
            Cusum(alarms=learning.alarms + 1) if has_crossed else structs.replace(learning, total=total)
        )
    if frozen.count >= FROZEN_MIN_RUNS:
        total = _next_sum(frozen, x)
        frozen_share = total / get_frozen_limit(frozen)
        has_crossed = frozen_share >= 1.0
        frozen = structs.replace(
            frozen, total=0.0 if has_crossed else total, alarms=frozen.alarms + has_crossed
        )
    else:
        frozen = _update_moments(frozen, x)
    return Shift(Trend(learning=_update_moments(learning, x), frozen=frozen), learning_share, frozen_share)


def may_alarm_next(trend: Trend) -> bool:
    """Return whether one more run can make one of the sums cross its limit.

    >>> may_alarm_next(Trend()), may_alarm_next(Trend(learning=Cusum(count=40, total=2.5)))
    (False, True)
    """
    highest_step = CUSUM_MAX_Z - CUSUM_SLACK
    learning, frozen = trend.learning, trend.frozen
    is_near = learning.count >= LEARNING_MIN_RUNS and learning.total + highest_step >= LEARNING_LIMIT
    return is_near or (
        frozen.count >= FROZEN_MIN_RUNS and frozen.total + highest_step >= get_frozen_limit(frozen)
    )


def get_frozen_limit(frozen: Cusum) -> float:
    """Return what the sum against the frozen reference must reach for its next alarm."""
    return FROZEN_LIMIT * _NEXT_ALARM ** min(frozen.alarms, _MAX_RAISES)


def _next_sum(sums: Cusum, x: float) -> float:
    std = max(_MIN_STD, math.sqrt(sums.squares / max(1, sums.count - 1)))
    z = max(-CUSUM_MAX_Z, min(CUSUM_MAX_Z, (x - sums.mean) / std))
    return max(0.0, sums.total + z - CUSUM_SLACK)


def _update_moments(sums: Cusum, x: float) -> Cusum:
    count = sums.count + 1
    step = x - sums.mean
    mean = sums.mean + step / count
    return structs.replace(sums, count=count, mean=mean, squares=sums.squares + step * (x - mean))
