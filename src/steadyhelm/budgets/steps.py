"""Count the steps of a run, and adjust its limits to its progress once per full window."""

import math
from collections.abc import Sequence
from typing import Any, Final

from steadyhelm.budgets.amounts import MAX_UNITS, UNITS, to_progress, to_units
from steadyhelm.budgets.memory import BudgetMemory, to_decision_fields
from steadyhelm.budgets.rules import BudgetRules
from steadyhelm.decisions import BudgetDecision

_NUMBERS: Final = (int, float)

# Ten steps of .01 must reach a velocity of .01, whatever the last bit of their sum says.
_ROUNDING: Final = 1e-12


def count_step(
    memory: BudgetMemory, *, turn: Any, tokens: Any, progress: Any, cost_usd: Any, wall_s: Any
) -> None:
    """Count one step. A value that is not a usable number counts as 0, and is counted in `not_counted`."""
    memory.seen += 1
    number = memory.seen
    memory.turn = turn if type(turn) is int and -MAX_UNITS < turn < MAX_UNITS else memory.turn + 1
    # A plain mean until the window is full, then an exponential one of the window's length.
    weight = max(1.0 / number, 2.0 / (memory.rules.velocity_window + 1))
    memory.steps.spend(1, weight, number)
    memory.tokens.spend(_to_amount(memory, tokens, 1), weight, number)
    memory.cost_usd.spend(_to_amount(memory, cost_usd, UNITS["cost_usd"]), weight, number)
    memory.wall_s.spend(_to_amount(memory, wall_s, UNITS["wall_s"]), weight, number)
    _record_progress(memory, progress)
    memory.in_window += 1
    if memory.in_window >= memory.rules.velocity_window:
        memory.in_window = 0
        _adjust(memory)


def count_spending(memory: BudgetMemory, *, tokens: Any, cost_usd: Any, wall_s: Any) -> None:
    """Count what was used between two steps."""
    memory.tokens.spend_between(_to_amount(memory, tokens, 1))
    memory.cost_usd.spend_between(_to_amount(memory, cost_usd, UNITS["cost_usd"]))
    memory.wall_s.spend_between(_to_amount(memory, wall_s, UNITS["wall_s"]))


def count_progress(memory: BudgetMemory, value: Any) -> None:
    """Count progress reported between two steps: it belongs to the latest one."""
    change = to_progress(value)
    if change is None:
        memory.not_counted += 1
        return
    memory.progress = min(1.0, max(0.0, (memory.progress or 0.0) + change))
    if memory.deltas:
        memory.deltas[-1] = min(1.0, max(-1.0, (memory.deltas[-1] or 0.0) + change))
    if change > 0.0:
        memory.idle = 0


def rewind(memory: BudgetMemory, then: BudgetMemory) -> None:
    """Restore the progress of an earlier state; what was used stays used."""
    memory.turn = then.turn
    memory.deltas = then.deltas[-memory.rules.velocity_window :]
    memory.progress = then.progress
    memory.idle = then.idle
    memory.in_window = min(then.in_window, memory.rules.velocity_window - 1)


def is_exhausted(memory: BudgetMemory) -> bool:
    """Return whether any limit is used up."""
    return (
        memory.steps.exhausted
        or memory.tokens.exhausted
        or memory.cost_usd.exhausted
        or memory.wall_s.exhausted
    )


def _to_amount(memory: BudgetMemory, value: Any, per_one: int) -> int:
    if value is None or (type(value) in _NUMBERS and not value):
        return 0
    amount = to_units(value, per_one)
    if amount is None:
        memory.not_counted += 1
        return 0
    return amount


def _record_progress(memory: BudgetMemory, value: Any) -> None:
    change = to_progress(value)
    if change is None and value is not None:
        memory.not_counted += 1
    memory.deltas.append(change)
    if len(memory.deltas) > memory.rules.velocity_window:
        del memory.deltas[0]
    if change is None:
        # A step of unknown progress is no proof of being stuck.
        memory.idle = 0
        return
    memory.idle = memory.idle + 1 if change <= 0.0 else 0
    memory.progress = min(1.0, max(0.0, (memory.progress or 0.0) + change))


def _adjust(memory: BudgetMemory) -> None:
    """Apply the factor; a used-up budget stays as it is: only an extension can change that."""
    rules, speed = memory.rules, measure_velocity(memory.deltas)
    factor = choose_factor(rules, memory.deltas, memory.idle, speed)
    if factor == 1.0 or is_exhausted(memory):
        return
    changes = {
        name: meter.scale(factor, ceiling_factor=rules.ceiling_factor, landing_reserve=rules.landing_reserve)
        for name, meter in memory.meters().items()
        if name in rules.adaptive_limits
    }
    changed = any(changes.values())
    if not changed and _is_repeated_refusal(memory, factor):
        return
    reason = explain_factor(rules, memory.deltas, memory.idle, speed)
    if not changed:
        reason += " No limit can change any further."
    memory.record_decision(
        BudgetDecision(
            approved=changed,
            reason=reason,
            turn=memory.turn,
            kind="adjustment",
            factor=factor,
            **to_decision_fields(changes, "granted"),
        )
    )


def _is_repeated_refusal(memory: BudgetMemory, factor: float) -> bool:
    """Return whether the latest decision was the same: a run at its ceiling gets one decision, not many."""
    last = memory.decisions[-1] if memory.decisions else None
    return last is not None and last.kind == "adjustment" and not last.approved and last.factor == factor


def measure_velocity(deltas: Sequence[float | None]) -> float | None:
    """Return the progress per step over these steps; None when none of them reported its progress.

    >>> measure_velocity([0.05, 0.04]), measure_velocity([None]), measure_velocity([])
    (0.045, None, None)
    """
    known = [delta for delta in deltas if delta is not None]
    # Divided by all steps: progress reported after steps without any covers those steps too.
    return math.fsum(known) / len(deltas) if known else None


def choose_factor(
    rules: BudgetRules, deltas: Sequence[float | None], idle: int, speed: float | None
) -> float:
    """Return the factor for the limits after a full window of such steps, at this velocity.

    Steps of unknown progress can be part of a good window, but never make a poor one.
    """
    if idle >= rules.stuck_steps:
        return rules.stuck_factor
    if speed is None:
        return 1.0
    if speed + _ROUNDING >= rules.min_velocity:
        return rules.expansion_factor
    return 1.0 if None in deltas else rules.contraction_factor


def explain_factor(rules: BudgetRules, deltas: Sequence[float | None], idle: int, speed: float | None) -> str:
    """Return the reason for the factor, in one sentence."""
    if idle >= rules.stuck_steps:
        return f"Stuck: {idle} steps in a row without progress; limits x {rules.stuck_factor:g}."
    speed = speed or 0.0
    measured = f"{speed:.3g} a step over {len(deltas)} steps, {rules.min_velocity:g} is wanted"
    if speed + _ROUNDING >= rules.min_velocity:
        return f"Good progress: {measured}; limits x {rules.expansion_factor:g}."
    return f"Poor progress: {measured}; limits x {rules.contraction_factor:g}."
