"""One step of a run, counted; and once per full window, what its progress makes of the limits."""

from typing import Any, Final

from steadyhelm.budgets import adjustments
from steadyhelm.budgets.amounts import MOST, UNITS, delta, units
from steadyhelm.budgets.memory import BudgetMemory, decided
from steadyhelm.decisions import BudgetDecision

_NUMBERS: Final = (int, float)


def count_step(
    memory: BudgetMemory, *, turn: Any, tokens: Any, progress: Any, cost_usd: Any, wall_s: Any
) -> None:
    """Take one step in. A number that makes no sense counts as nothing, and is counted itself."""
    memory.seen += 1
    number = memory.seen
    memory.turn = turn if type(turn) is int and -MOST < turn < MOST else memory.turn + 1
    # A plain mean until the window is full, then one that forgets at the window's pace.
    weight = max(1.0 / number, 2.0 / (memory.rules.velocity_window + 1))
    memory.steps.spend(1, weight, number)
    memory.tokens.spend(_amount(memory, tokens, 1), weight, number)
    memory.cost_usd.spend(_amount(memory, cost_usd, UNITS["cost_usd"]), weight, number)
    memory.wall_s.spend(_amount(memory, wall_s, UNITS["wall_s"]), weight, number)
    _note_progress(memory, progress)
    memory.in_window += 1
    if memory.in_window >= memory.rules.velocity_window:
        memory.in_window = 0
        _adjust(memory)


def count_spending(memory: BudgetMemory, *, tokens: Any, cost_usd: Any, wall_s: Any) -> None:
    """Take in what was used between two steps."""
    memory.tokens.spend_between(_amount(memory, tokens, 1))
    memory.cost_usd.spend_between(_amount(memory, cost_usd, UNITS["cost_usd"]))
    memory.wall_s.spend_between(_amount(memory, wall_s, UNITS["wall_s"]))


def count_progress(memory: BudgetMemory, value: Any) -> None:
    """Take in progress that somebody told between two steps: it belongs to the latest one."""
    change = delta(value)
    if change is None:
        memory.not_counted += 1
        return
    memory.progress = min(1.0, max(0.0, (memory.progress or 0.0) + change))
    if memory.deltas:
        memory.deltas[-1] = min(1.0, max(-1.0, (memory.deltas[-1] or 0.0) + change))
    if change > 0.0:
        memory.idle = 0


def rewind(memory: BudgetMemory, then: BudgetMemory) -> None:
    """Take the progress of an earlier moment; what was used is not brought back by going back."""
    memory.turn = then.turn
    memory.deltas = then.deltas[-memory.rules.velocity_window :]
    memory.progress = then.progress
    memory.idle = then.idle
    memory.in_window = min(then.in_window, memory.rules.velocity_window - 1)


def is_exhausted(memory: BudgetMemory) -> bool:
    """Whether any limit is used up."""
    return (
        memory.steps.exhausted
        or memory.tokens.exhausted
        or memory.cost_usd.exhausted
        or memory.wall_s.exhausted
    )


def _amount(memory: BudgetMemory, value: Any, per_one: int) -> int:
    if value is None or (type(value) in _NUMBERS and not value):
        return 0
    amount = units(value, per_one)
    if amount is None:
        memory.not_counted += 1
        return 0
    return amount


def _note_progress(memory: BudgetMemory, value: Any) -> None:
    change = delta(value)
    if change is None and value is not None:
        memory.not_counted += 1
    memory.deltas.append(change)
    if len(memory.deltas) > memory.rules.velocity_window:
        del memory.deltas[0]
    if change is None:
        # A step that may have got on is no proof of being stuck.
        memory.idle = 0
        return
    memory.idle = memory.idle + 1 if change <= 0.0 else 0
    memory.progress = min(1.0, max(0.0, (memory.progress or 0.0) + change))


def _adjust(memory: BudgetMemory) -> None:
    """Apply the factor; a used-up budget is left alone, so that nothing but an extension revives it."""
    rules, speed = memory.rules, adjustments.velocity(memory.deltas)
    factor = adjustments.factor(rules, memory.deltas, memory.idle, speed)
    if factor == 1.0 or is_exhausted(memory):
        return
    changes = {
        name: meter.scale(factor, ceiling_factor=rules.ceiling_factor, landing_reserve=rules.landing_reserve)
        for name, meter in memory.meters().items()
        if name in rules.adaptive_limits
    }
    changed = any(changes.values())
    if not changed and _said_already(memory, factor):
        return
    why = adjustments.reason(rules, memory.deltas, memory.idle, speed)
    if not changed:
        why += " No limit can change any further."
    memory.keep(
        BudgetDecision(
            approved=changed,
            reason=why,
            turn=memory.turn,
            kind="adjustment",
            factor=factor,
            **decided(changes, "granted"),
        )
    )


def _said_already(memory: BudgetMemory, factor: float) -> bool:
    """Whether the latest decision said the same: a run at its ceiling says so once."""
    last = memory.decisions[-1] if memory.decisions else None
    return last is not None and last.kind == "adjustment" and not last.approved and last.factor == factor
