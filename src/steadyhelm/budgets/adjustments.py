"""How fast a run gets on, what that multiplies its limits by, and the words for it."""

import math
from collections.abc import Sequence
from typing import Final

from steadyhelm.budgets.rules import BudgetRules

# Ten steps of .01 must reach a velocity of .01, whatever the last bit of their sum says.
_ROUNDING: Final = 1e-12


def velocity(deltas: Sequence[float | None]) -> float | None:
    """The progress per step over the steps given; None when not one of them told its progress.

    >>> velocity([0.05, 0.04]), velocity([None]), velocity([])
    (0.045, None, None)
    """
    told = [delta for delta in deltas if delta is not None]
    # All steps divide: a step that told progress after some that told none speaks for them too.
    return math.fsum(told) / len(deltas) if told else None


def factor(rules: BudgetRules, deltas: Sequence[float | None], idle: int, speed: float | None) -> float:
    """What a full window of such steps, at this velocity, multiplies the limits by.

    Steps of unknown progress can be part of a good window, never make a poor one.
    """
    if idle >= rules.stuck_steps:
        return rules.stuck_factor
    if speed is None:
        return 1.0
    if speed + _ROUNDING >= rules.min_velocity:
        return rules.expansion_factor
    return 1.0 if None in deltas else rules.contraction_factor


def reason(rules: BudgetRules, deltas: Sequence[float | None], idle: int, speed: float | None) -> str:
    """Why the limits are multiplied, in one sentence."""
    if idle >= rules.stuck_steps:
        return f"Stuck: {idle} steps in a row without progress; limits x {rules.stuck_factor:g}."
    speed = speed or 0.0
    measured = f"{speed:.3g} a step over {len(deltas)} steps, {rules.min_velocity:g} is wanted"
    if speed + _ROUNDING >= rules.min_velocity:
        return f"Good progress: {measured}; limits x {rules.expansion_factor:g}."
    return f"Poor progress: {measured}; limits x {rules.contraction_factor:g}."
