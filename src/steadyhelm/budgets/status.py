"""The status of a budget: what is used and left, when it will be used up, what could not be checked."""

import math
from collections.abc import Mapping
from typing import Final, NamedTuple

from msgspec import Struct

from steadyhelm.budgets.adjustments import judge_window, measure_velocity
from steadyhelm.budgets.memory import BudgetMemory
from steadyhelm.budgets.meters import MIN_TREND_STEPS, UNITS, LimitName, Meter
from steadyhelm.decisions import BudgetState

_UNITS_PER_USD: Final = UNITS["cost_usd"]
_UNITS_PER_SECOND: Final = UNITS["wall_s"]
_MEASURE_NAMES: Final[dict[LimitName, str]] = {
    "tokens": "how many tokens",
    "cost_usd": "how much money",
    "wall_s": "how much time",
}


class LimitStatus(NamedTuple):
    """The state of all limits together."""

    exhausted_by: tuple[LimitName, ...]
    landing: bool
    steps_to_exhaustion: float | None


def build_status(memory: BudgetMemory) -> BudgetState:
    """Return the state of a budget as one record."""
    steps, tokens, cost, wall = memory.steps, memory.tokens, memory.cost_usd, memory.wall_s
    speed, limits = measure_velocity(memory.deltas), check_limits(memory)
    return BudgetState(
        steps_used=steps.used,
        steps_limit=steps.limit,
        steps_reserved=steps.reserved,
        steps_remaining=steps.remaining,
        tokens_used=tokens.used,
        tokens_limit=tokens.limit,
        tokens_reserved=tokens.reserved,
        tokens_remaining=tokens.remaining,
        cost_used_usd=cost.used / _UNITS_PER_USD,
        cost_limit_usd=_to_whole(cost.limit, _UNITS_PER_USD),
        cost_reserved_usd=cost.reserved / _UNITS_PER_USD,
        cost_remaining_usd=_to_whole(cost.remaining, _UNITS_PER_USD),
        wall_used_s=wall.used / _UNITS_PER_SECOND,
        wall_limit_s=_to_whole(wall.limit, _UNITS_PER_SECOND),
        wall_remaining_s=_to_whole(wall.remaining, _UNITS_PER_SECOND),
        progress=memory.progress,
        velocity=speed,
        pace=measure_pace(memory),
        adjustment_factor=1.0 if limits.exhausted_by else judge_window(memory).factor,
        exhausted_by=limits.exhausted_by,
        landing=limits.landing,
        steps_to_exhaustion=limits.steps_to_exhaustion,
    )


def measure_pace(memory: BudgetMemory) -> float | None:
    """Return the progress minus the largest share of any limit used, -1 to 1; None while it is unknown."""
    if memory.progress is None:
        return None
    share = 0.0
    for meter in (memory.steps, memory.tokens, memory.cost_usd, memory.wall_s):
        if meter.limit is not None:
            share = max(share, meter.share_used)
    return memory.progress - share


def check_limits(memory: BudgetMemory) -> LimitStatus:
    """Return the state of the limits that are set, by the one closest to its end."""
    reserve = memory.rules.landing_reserve
    exhausted: tuple[LimitName, ...] = ()
    landing, fewest = False, None
    for name, meter in memory.meters().items():
        left = meter.remaining
        if left is None:
            continue
        if meter.exhausted:
            exhausted += (name,)
        # What is only reserved may come back: it is no reason to land.
        landing = landing or (reserve > 0.0 and left + meter.reserved <= meter.reserve_for_landing(reserve))
        steps = count_steps_left(left, meter.mean, meter.estimate_growth_per_step(memory.seen))
        if steps is not None and (fewest is None or steps < fewest):
            fewest = steps
    return LimitStatus(exhausted, landing and not exhausted, fewest if memory.seen else None)


def find_unchecked_limits(memory: BudgetMemory) -> dict[LimitName, str]:
    """Return the limits that are set but cannot be checked, each with the reason."""
    if not memory.seen:
        return {}
    meters = memory.meters()
    return {
        name: f"no step has reported {what} it used"
        for name, what in _MEASURE_NAMES.items()
        if meters[name].limit and not meters[name].used
    }


def _to_whole(amount: int | None, per_one: int) -> float | None:
    return None if amount is None else amount / per_one


_Z_80_PERCENT: Final = 1.2816


class BudgetForecast(Struct, frozen=True, kw_only=True):
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


def forecast_steps(meters: Mapping[LimitName, Meter], *, seen: int, window: int) -> BudgetForecast:
    """Return the forecast over all limits: the first one used up ends the budget."""
    if not seen:
        return BudgetForecast()
    counted = min(seen, window)
    ranges = {
        name: range_
        for name, meter in meters.items()
        if (range_ := _forecast_limit(meter, meter.estimate_growth_per_step(seen), counted)) is not None
    }
    if not ranges:
        return BudgetForecast()
    first = min(ranges, key=lambda name: ranges[name].steps)
    if seen < MIN_TREND_STEPS:
        return BudgetForecast(steps=ranges[first].steps, limit=first)
    return BudgetForecast(
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
        max(0.0, fewest - _Z_80_PERCENT * _compute_deviation(relative, fewest, counted)),
        most + _Z_80_PERCENT * _compute_deviation(relative, most, counted),
    )


def _compute_deviation(relative: float, steps: float, counted: int) -> float:
    """Return the standard deviation of a number of steps, when steps differ by this relative variance.

    It is the variance of a renewal count, plus that of a mean taken from `counted` steps.
    """
    return math.sqrt(relative * steps + relative * steps * steps / counted)
