"""The status of a budget: what is used, what is left, and what could not be checked."""

from typing import Final, NamedTuple

from steadyhelm.budgets.amounts import UNITS, LimitName
from steadyhelm.budgets.forecasts import count_steps_left
from steadyhelm.budgets.memory import BudgetMemory
from steadyhelm.budgets.steps import choose_factor, measure_velocity
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
        adjustment_factor=1.0
        if limits.exhausted_by
        else choose_factor(memory.rules, memory.deltas, memory.idle, speed),
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
        steps = count_steps_left(left, meter.mean, meter.growth_per_step(memory.seen))
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
