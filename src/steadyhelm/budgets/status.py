"""What a budget says of itself at any moment."""

from typing import Final, NamedTuple

from steadyhelm.budgets.adjustments import factor, velocity
from steadyhelm.budgets.amounts import UNITS, LimitName
from steadyhelm.budgets.forecasts import steps_left
from steadyhelm.budgets.memory import BudgetMemory
from steadyhelm.decisions import BudgetState

_USD: Final = UNITS["cost_usd"]
_SECOND: Final = UNITS["wall_s"]
_TOLD: Final[dict[LimitName, str]] = {
    "tokens": "how many tokens",
    "cost_usd": "how much money",
    "wall_s": "how much time",
}


class Outlook(NamedTuple):
    """What all limits together mean for the run."""

    exhausted_by: tuple[LimitName, ...]
    landing: bool
    steps_to_exhaustion: float | None


def status(memory: BudgetMemory) -> BudgetState:
    """The state of a budget as one record."""
    steps, tokens, cost, wall = memory.steps, memory.tokens, memory.cost_usd, memory.wall_s
    speed, ahead = velocity(memory.deltas), outlook(memory)
    return BudgetState(
        steps_used=steps.used,
        steps_limit=steps.limit,
        steps_reserved=steps.reserved,
        steps_remaining=steps.remaining,
        tokens_used=tokens.used,
        tokens_limit=tokens.limit,
        tokens_reserved=tokens.reserved,
        tokens_remaining=tokens.remaining,
        cost_used_usd=cost.used / _USD,
        cost_limit_usd=_in_ones(cost.limit, _USD),
        cost_reserved_usd=cost.reserved / _USD,
        cost_remaining_usd=_in_ones(cost.remaining, _USD),
        wall_used_s=wall.used / _SECOND,
        wall_limit_s=_in_ones(wall.limit, _SECOND),
        wall_remaining_s=_in_ones(wall.remaining, _SECOND),
        progress=memory.progress,
        velocity=speed,
        pace=pace(memory),
        adjustment_factor=1.0
        if ahead.exhausted_by
        else factor(memory.rules, memory.deltas, memory.idle, speed),
        exhausted_by=ahead.exhausted_by,
        landing=ahead.landing,
        steps_to_exhaustion=ahead.steps_to_exhaustion,
    )


def pace(memory: BudgetMemory) -> float | None:
    """The progress made minus the largest share of any limit used, -1 to 1; None while it is unknown."""
    if memory.progress is None:
        return None
    share = 0.0
    for meter in (memory.steps, memory.tokens, memory.cost_usd, memory.wall_s):
        if meter.limit is not None:
            share = max(share, meter.share_used)
    return memory.progress - share


def outlook(memory: BudgetMemory) -> Outlook:
    """Look at every limit that is set: the one that is furthest gone speaks for all."""
    reserve = memory.rules.landing_reserve
    exhausted: tuple[LimitName, ...] = ()
    landing, to_go = False, None
    for name, meter in memory.meters().items():
        left = meter.remaining
        if left is None:
            continue
        if meter.exhausted:
            exhausted += (name,)
        # What is only lent comes back: it is no reason to land.
        landing = landing or (reserve > 0.0 and left + meter.reserved <= meter.landing_units(reserve))
        steps = steps_left(left, meter.mean, meter.growth(memory.seen))
        if steps is not None and (to_go is None or steps < to_go):
            to_go = steps
    return Outlook(exhausted, landing and not exhausted, to_go if memory.seen else None)


def not_checked(memory: BudgetMemory) -> dict[LimitName, str]:
    """The limits that are set but cannot be judged, each with the reason: no step has told what it took."""
    if not memory.seen:
        return {}
    meters = memory.meters()
    return {
        name: f"no step has told {what} it took"
        for name, what in _TOLD.items()
        if meters[name].limit and not meters[name].used
    }


def _in_ones(amount: int | None, per_one: int) -> float | None:
    return None if amount is None else amount / per_one
