"""Small statistics that many share: quantiles, thresholds, intervals, sums that notice a shift."""

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from steadyhelm.baselines import Cusum, Trend

# Chosen so that about one run in a thousand is a false alarm on skewed and two-humped spreads alike.
SLACK: Final = 0.5
CLIP: Final = 3.0
LEARNING_LIMIT: Final = 5.0
FROZEN_LIMIT: Final = 6.0
LEARNING_FROM: Final = 20
FROZEN_FROM: Final = 50
_SMALLEST_STD: Final = 0.05
_Z95: Final = 1.9599639845400536
"""How many standard deviations either side hold 95 of 100 values."""


class Shift(NamedTuple):
    """A trend after one more run, and which of its two sums crossed its limit."""

    trend: Trend
    learning: float
    frozen: float

    @property
    def alarmed(self) -> bool:
        """Whether either sum crossed its limit."""
        return self.learning >= LEARNING_LIMIT or self.frozen >= FROZEN_LIMIT


def quantile(ordered: Sequence[float], share: float) -> float:
    """The value below which this share of a sorted sequence lies, interpolated.

    >>> quantile([1.0, 2.0, 3.0, 4.0, 5.0], 0.5)
    3.0
    """
    if not ordered:
        return 0.0
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def conformal_threshold(ordered: Sequence[float], alpha: float) -> float | None:
    """The value below which a new, ordinary observation falls with probability at most `alpha`.

    None when there are too few observations for such a promise.

    >>> conformal_threshold([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9], 0.2)
    0.2
    """
    place = math.floor(alpha * (len(ordered) + 1))
    return ordered[place - 1] if place >= 1 else None


class Interval(NamedTuple):
    """Where 95 of 100 such samples would put a figure."""

    low: float
    high: float


def wilson(hits: int, of: int) -> Interval:
    """The Wilson interval of a share of independent cases, which does not collapse at 0 and 1.

    >>> [round(bound, 3) for bound in wilson(0, 40)]
    [0.0, 0.088]
    """
    share = hits / of
    middle = share + _Z95**2 / (2 * of)
    spread = _Z95 * math.sqrt(share * (1 - share) / of + _Z95**2 / (4 * of**2))
    scale = 1 + _Z95**2 / of
    low, high = max(0.0, (middle - spread) / scale), min(1.0, (middle + spread) / scale)
    return Interval(min(low, share), max(high, share))


def next_trend(trend: Trend, value: float) -> Shift:
    """Take one run's total into both sums; a sum that crosses its limit starts afresh."""
    x = math.log(max(value, 1.0))
    learning = _summed(trend.learning, x) if trend.learning.count >= LEARNING_FROM else 0.0
    frozen = _summed(trend.frozen, x) if trend.frozen.count >= FROZEN_FROM else 0.0
    rolling = _learnt(trend.learning, x, 0.0 if learning >= LEARNING_LIMIT else learning)
    if trend.frozen.count < FROZEN_FROM:
        reference = _learnt(trend.frozen, x, 0.0)
    else:
        kept = 0.0 if frozen >= FROZEN_LIMIT else frozen
        reference = Cusum(
            count=trend.frozen.count, mean=trend.frozen.mean, squares=trend.frozen.squares, total=kept
        )
    return Shift(Trend(learning=rolling, frozen=reference), learning, frozen)


def _summed(sums: Cusum, x: float) -> float:
    std = max(_SMALLEST_STD, math.sqrt(sums.squares / max(1, sums.count - 1)))
    z = max(-CLIP, min(CLIP, (x - sums.mean) / std))
    return max(0.0, sums.total + z - SLACK)


def _learnt(sums: Cusum, x: float, total: float) -> Cusum:
    count = sums.count + 1
    step = x - sums.mean
    mean = sums.mean + step / count
    return Cusum(count=count, mean=mean, squares=sums.squares + step * (x - mean), total=total)
