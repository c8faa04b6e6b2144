"""When a budget will be used up, if its steps go on as they did."""

import math
from collections.abc import Mapping
from typing import Final, NamedTuple

from msgspec import Struct

from steadyhelm.budgets.amounts import LimitName
from steadyhelm.budgets.meters import STEPS_FOR_A_TREND, Meter

_EIGHT_IN_TEN: Final = 1.2816


class Forecast(Struct, frozen=True, kw_only=True):
    """How many more steps a budget is good for, and which limit will end it.

    `steps` takes a step for what the latest ones took, growing as steps have grown so far: a context gets
    longer, and every further call takes it along.
    `high` is for growth that stops here, `low` for growth that doubles, both widened by how much steps
    differ; together they hold the true number about eight times in ten.
    They are None until three steps were seen. All are None when nothing can be said.
    """

    steps: float | None = None
    low: float | None = None
    high: float | None = None
    limit: LimitName | None = None


class _Reach(NamedTuple):
    steps: float
    low: float
    high: float


def steps_left(left: int, mean: float, growth: float) -> float | None:
    """How many more steps this much is good for; None when steps do not touch it.

    >>> steps_left(1000, 100.0, 0.0), round(steps_left(1000, 100.0, 20.0), 2)
    (10.0, 6.18)
    """
    if not left:
        return 0.0
    if mean <= 0.0:
        return None
    if growth <= 0.0:
        return left / mean
    # The n for which n steps, each taking `growth` more than the one before, take all that is left.
    return 2.0 * left / (mean + math.sqrt(mean * mean + 2.0 * growth * left))


def forecast(meters: Mapping[LimitName, Meter], *, seen: int, window: int) -> Forecast:
    """The forecast over all limits: whichever is used up first ends the budget."""
    if not seen:
        return Forecast()
    counted = min(seen, window)
    reaches = {
        name: reach
        for name, meter in meters.items()
        if (reach := _reach(meter, meter.growth(seen), counted)) is not None
    }
    if not reaches:
        return Forecast()
    first = min(reaches, key=lambda name: reaches[name].steps)
    if seen < STEPS_FOR_A_TREND:
        return Forecast(steps=reaches[first].steps, limit=first)
    return Forecast(
        steps=reaches[first].steps,
        low=min(reach.low for reach in reaches.values()),
        high=min(reach.high for reach in reaches.values()),
        limit=first,
    )


def _reach(meter: Meter, growth: float, counted: int) -> _Reach | None:
    left = meter.remaining
    if left is None:
        return None
    steps = steps_left(left, meter.mean, growth)
    fewest, most = steps_left(left, meter.mean, 2.0 * growth), steps_left(left, meter.mean, 0.0)
    if steps is None or fewest is None or most is None:
        return None
    relative = meter.variance / (meter.mean * meter.mean) if meter.mean else 0.0
    return _Reach(
        steps,
        max(0.0, fewest - _EIGHT_IN_TEN * _deviation(relative, fewest, counted)),
        most + _EIGHT_IN_TEN * _deviation(relative, most, counted),
    )


def _deviation(relative: float, steps: float, counted: int) -> float:
    """How far so many steps may be off, when steps differ by this relative variance.

    That they differ matters less the more there are to go; that their mean was taken from few of them
    matters more. (The variance of a renewal count, and of the mean.)
    """
    return math.sqrt(relative * steps + relative * steps * steps / counted)
