"""Forecast when a budget will be used up."""

import math
from collections.abc import Mapping
from typing import Final, NamedTuple

from msgspec import Struct

from steadyhelm.budgets.amounts import LimitName
from steadyhelm.budgets.meters import MIN_TREND_STEPS, Meter

_Z_80_PERCENT: Final = 1.2816


class Forecast(Struct, frozen=True, kw_only=True):
    """How many more steps a budget allows, and which limit will be used up first.

    `steps` assumes that a step uses what the latest ones used, growing as steps have grown so far: a context
    gets longer, and every further call sends it again.
    `high` assumes that growth stops here, `low` that it doubles, both widened by how much steps differ; the
    true number lies between them about eight times in ten.
    They are None until three steps were counted. All are None when nothing is known.
    """

    steps: float | None = None
    low: float | None = None
    high: float | None = None
    limit: LimitName | None = None


class _StepRange(NamedTuple):
    steps: float
    low: float
    high: float


def count_steps_left(left: int, mean: float, growth: float) -> float | None:
    """Return how many more steps this amount allows; None when steps do not use any of it.

    >>> count_steps_left(1000, 100.0, 0.0), round(count_steps_left(1000, 100.0, 20.0), 2)
    (10.0, 6.18)
    """
    if not left:
        return 0.0
    if mean <= 0.0:
        return None
    if growth <= 0.0:
        return left / mean
    # The n for which n steps, each using `growth` more than the one before, use all that is left.
    return 2.0 * left / (mean + math.sqrt(mean * mean + 2.0 * growth * left))


def forecast_steps(meters: Mapping[LimitName, Meter], *, seen: int, window: int) -> Forecast:
    """Return the forecast over all limits: the first one used up ends the budget."""
    if not seen:
        return Forecast()
    counted = min(seen, window)
    ranges = {
        name: range_
        for name, meter in meters.items()
        if (range_ := _forecast_limit(meter, meter.growth_per_step(seen), counted)) is not None
    }
    if not ranges:
        return Forecast()
    first = min(ranges, key=lambda name: ranges[name].steps)
    if seen < MIN_TREND_STEPS:
        return Forecast(steps=ranges[first].steps, limit=first)
    return Forecast(
        steps=ranges[first].steps,
        low=min(range_.low for range_ in ranges.values()),
        high=min(range_.high for range_ in ranges.values()),
        limit=first,
    )


def _forecast_limit(meter: Meter, growth: float, counted: int) -> _StepRange | None:
    left = meter.remaining
    if left is None:
        return None
    steps = count_steps_left(left, meter.mean, growth)
    fewest, most = count_steps_left(left, meter.mean, 2.0 * growth), count_steps_left(left, meter.mean, 0.0)
    if steps is None or fewest is None or most is None:
        return None
    relative = meter.variance / (meter.mean * meter.mean) if meter.mean else 0.0
    return _StepRange(
        steps,
        max(0.0, fewest - _Z_80_PERCENT * _deviation(relative, fewest, counted)),
        most + _Z_80_PERCENT * _deviation(relative, most, counted),
    )


def _deviation(relative: float, steps: float, counted: int) -> float:
    """Return the standard deviation of a number of steps, when steps differ by this relative variance.

    It is the variance of a renewal count, plus that of a mean taken from `counted` steps.
    """
    return math.sqrt(relative * steps + relative * steps * steps / counted)
