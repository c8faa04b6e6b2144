"""Adjust the limits of a run: to its progress once per full window, and by extensions it asks for."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from steadyhelm.budgets.memory import BudgetMemory, BudgetRules, to_decision_fields
from steadyhelm.budgets.meters import MAX_UNITS, UNITS, LimitName, Meter, to_progress, to_text, to_units
from steadyhelm.decisions import BudgetDecision

_NUMBERS: Final = (int, float)

# Ten steps of .01 must reach a velocity of .01, whatever the last bit of their sum says.
_VELOCITY_TOLERANCE: Final = 1e-12


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
    if speed + _VELOCITY_TOLERANCE >= rules.min_velocity:
        return rules.expansion_factor
    return 1.0 if None in deltas else rules.contraction_factor


def explain_factor(rules: BudgetRules, deltas: Sequence[float | None], idle: int, speed: float | None) -> str:
    """Return the reason for the factor, in one sentence."""
    if idle >= rules.stuck_steps:
        return f"Stuck: {idle} steps in a row without progress; limits x {rules.stuck_factor:g}."
    speed = speed or 0.0
    measured = f"{speed:.3g} a step over {len(deltas)} steps, {rules.min_velocity:g} is wanted"
    if speed + _VELOCITY_TOLERANCE >= rules.min_velocity:
        return f"Good progress: {measured}; limits x {rules.expansion_factor:g}."
    return f"Poor progress: {measured}; limits x {rules.contraction_factor:g}."


# Decide on requests for more budget, and record what the user grants.

MAX_JUSTIFICATION_CHARS: Final = 500

# Ten steps of .09 add up to a hair less than .9.
_EXTENSION_TOLERANCE: Final = 1e-9

_UNIT_NAMES: Final[dict[LimitName, str]] = {
    "steps": "steps",
    "tokens": "tokens",
    "cost_usd": "USD",
    "wall_s": "seconds",
}


def decide_extension(
    memory: BudgetMemory, justification: Any, requested: Mapping[LimitName, int | None]
) -> BudgetDecision:
    """Decide on a request and record the decision; when it is granted the limits are raised.

    A limit that is not set is not raised.
    """
    refusal = find_refusal(memory, memory.meters(), requested)
    if refusal is None:
        memory.extensions += 1
    reason = refusal or f"Progress is {memory.progress:.3g}, and the request is small enough."
    return _record_decision(
        memory, "extension", justification, requested, reason=reason, approved=refusal is None
    )


def grant(
    memory: BudgetMemory, justification: Any, requested: Mapping[LimitName, int | None]
) -> BudgetDecision:
    """Raise the limits because the user, who set them, says so; no rule applies, and it is recorded."""
    meters = memory.meters()
    is_something = any(amount and meters[name].limit is not None for name, amount in requested.items())
    if memory.is_child:
        refusal = "This is a share of another budget: grant it to that one."
    else:
        refusal = (
            "" if is_something and None not in requested.values() else "Nothing was granted of any limit set."
        )
    reason = refusal or "The user granted it."
    return _record_decision(memory, "grant", justification, requested, reason=reason, approved=not refusal)


def _record_decision(
    memory: BudgetMemory,
    kind: Literal["extension", "grant"],
    justification: Any,
    requested: Mapping[LimitName, int | None],
    *,
    reason: str,
    approved: bool,
) -> BudgetDecision:
    meters, granted = memory.meters(), {}
    if approved:
        granted = {name: amount or 0 for name, amount in requested.items() if meters[name].limit is not None}
    for name, amount in granted.items():
        meters[name].extend(amount)
    decision = BudgetDecision(
        approved=approved,
        kind=kind,
        reason=reason,
        justification=to_text(justification, MAX_JUSTIFICATION_CHARS),
        turn=memory.turn,
        **to_decision_fields({name: amount or 0 for name, amount in requested.items()}, "requested"),
        **to_decision_fields(granted, "granted"),
    )
    memory.record_decision(decision)
    return decision


def find_refusal(
    memory: BudgetMemory, meters: Mapping[LimitName, Meter], requested: Mapping[LimitName, int | None]
) -> str | None:
    """Return why an extension is refused, in one sentence; None when it is granted."""
    amounts = {name: amount or 0 for name, amount in requested.items() if meters[name].limit is not None}
    if memory.is_child:
        return "This is a share of another budget: ask that one for more."
    if None in requested.values():
        return "What is requested must be a number of 0 or more for every limit."
    if not any(amounts.values()):
        return "Nothing was requested of any limit that is set."
    return (
        _check_rules(memory.rules, memory.progress, memory.extensions)
        or _check_size(memory.rules, meters, amounts)
        or _check_usefulness(meters, amounts)
    )


def _check_rules(rules: BudgetRules, progress: float | None, granted_before: int) -> str | None:
    if not rules.enable_emergency_extensions:
        return "Extensions are switched off."
    if granted_before >= rules.most_extensions:
        return f"{granted_before} granted before, and {rules.most_extensions} is the most."
    if progress is None:
        return f"Progress is unknown, and an extension needs at least {rules.extension_progress:g}."
    if progress + _EXTENSION_TOLERANCE < rules.extension_progress:
        return f"Progress is {progress:.3g}, and an extension needs at least {rules.extension_progress:g}."
    return None


def _check_size(
    rules: BudgetRules, meters: Mapping[LimitName, Meter], amounts: Mapping[LimitName, int]
) -> str | None:
    for name, amount in amounts.items():
        original = meters[name].original or 0
        if amount > original * rules.extension_share * (1.0 + _EXTENSION_TOLERANCE):
            return (
                f"{format_amount(name, amount)} are more than {rules.extension_share:.0%} "
                f"of the original {format_amount(name, original)}."
            )
    return None


def _check_usefulness(meters: Mapping[LimitName, Meter], amounts: Mapping[LimitName, int]) -> str | None:
    """Return why the request is too small: an extension must not leave the budget used up."""
    for name, meter in meters.items():
        if not meter.exhausted or meter.limit is None:
            continue
        missing = max(0, meter.used + meter.reserved - meter.limit)
        if amounts.get(name, 0) <= missing:
            needed = f"more than {format_amount(name, missing)} would be needed"
            return f"The run would still be out of {_UNIT_NAMES[name]}: {needed}."
    return None


def format_amount(name: LimitName, amount: int) -> str:
    """Return an amount of a limit, with its unit.

    >>> format_amount("cost_usd", 250_000_000)
    '0.25 USD'
    """
    return (
        f"{amount / UNITS[name]:.6g} {_UNIT_NAMES[name]}"
        if UNITS[name] > 1
        else f"{amount} {_UNIT_NAMES[name]}"
    )
