"""Adjust the limits of a run: to its progress once per full window, and by extensions it asks for."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from msgspec import structs

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
    """Count progress reported between two steps: it covers the steps since the last one that is known."""
    change = to_progress(value)
    if change is None:
        memory.not_counted += 1
        return
    _move_progress(memory, change)
    covered = count_unreported(memory.deltas)
    if covered:
        memory.deltas[-covered:] = [0.0] * covered
    if memory.deltas:
        memory.deltas[-1] = min(1.0, max(-1.0, (memory.deltas[-1] or 0.0) + change))
    memory.idle = 0 if change > 0.0 else memory.idle + covered


def count_inferred_progress(memory: BudgetMemory, value: Any) -> None:
    """Count progress that nobody reported: it shows how far the run is, and nothing about its velocity."""
    change = to_progress(value)
    if change is None:
        memory.not_counted += 1
    else:
        _move_progress(memory, change)


def _move_progress(memory: BudgetMemory, change: float) -> None:
    memory.progress = min(1.0, max(0.0, (memory.progress or 0.0) + change))


def count_unreported(deltas: Sequence[float | None]) -> int:
    """Return how many of the latest steps have not reported their progress.

    >>> count_unreported([0.1, None, 0.0, None, None])
    2
    """
    return next((n for n, delta in enumerate(reversed(deltas)) if delta is not None), len(deltas))


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
    # A step of unknown progress is no proof of being stuck: what follows it counts from there.
    was_unknown = bool(memory.deltas) and memory.deltas[-1] is None
    memory.deltas.append(change)
    if len(memory.deltas) > memory.rules.velocity_window:
        del memory.deltas[0]
    if change is None:
        return
    memory.idle = 0 if change > 0.0 else (0 if was_unknown else memory.idle) + 1
    _move_progress(memory, change)


def _adjust(memory: BudgetMemory) -> None:
    """Apply the factor; a used-up budget stays as it is: only an extension can change that."""
    rules, judgement = memory.rules, judge_window(memory)
    memory.looping = False
    factor = judgement.factor
    if factor == 1.0 or is_exhausted(memory):
        return
    is_recovery = judgement.cause == "recovery"
    changes = {
        name: meter.scale(
            factor,
            ceiling_factor=1.0 if is_recovery or name in rules.ceilings else rules.ceiling_factor,
            landing_reserve=rules.landing_reserve,
        )
        for name, meter in memory.meters().items()
        if name in rules.adaptive_limits
    }
    changed = any(changes.values())
    memory.looped = judgement.cause == "loop" or (memory.looped and changed)
    if not changed and (is_recovery or _is_repeated_refusal(memory, factor)):
        return
    reason = explain_judgement(memory, judgement)
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


class Judgement(NamedTuple):
    """What a window of steps says about the limits: the factor for them, and why."""

    factor: float
    cause: Literal["stuck", "loop", "recovery", "good", "poor", ""]


def judge_window(memory: BudgetMemory) -> Judgement:
    """Judge the latest window of steps.

    Limits shrink for reported progress that is poor, and for a loop; what a loop has cost comes back after
    a window without one. Steps of unknown progress can be part of a good window, but never make a poor one;
    only the latest few may be without their report yet.
    """
    rules = memory.rules
    reported = memory.deltas[: len(memory.deltas) - count_unreported(memory.deltas)]
    is_recent = 2 * len(reported) > len(memory.deltas)
    if memory.idle >= rules.stuck_steps and is_recent:
        return Judgement(rules.stuck_factor, "stuck")
    if memory.looping:
        return Judgement(rules.contraction_factor, "loop")
    speed, wanted = measure_velocity(memory.deltas), rules.min_velocity - _VELOCITY_TOLERANCE
    if speed is None:
        return Judgement(rules.expansion_factor, "recovery") if memory.looped else Judgement(1.0, "")
    if speed >= wanted:
        return Judgement(rules.expansion_factor, "good")
    is_poor = is_recent and None not in reported and (measure_velocity(reported) or 0.0) < wanted
    return Judgement(rules.contraction_factor, "poor") if is_poor else Judgement(1.0, "")


def explain_judgement(memory: BudgetMemory, judgement: Judgement) -> str:
    """Return the reason for the factor, in one sentence."""
    wanted = memory.rules.min_velocity
    speed = measure_velocity(memory.deltas) or 0.0
    measured = f"{speed:.3g} a step over {len(memory.deltas)} steps, {wanted:g} is wanted"
    reason = {
        "stuck": f"Stuck: {memory.idle} steps in a row without progress",
        "loop": "The run repeats itself",
        "recovery": "The run no longer repeats itself",
        "good": f"Good progress: {measured}",
        "poor": f"Poor progress: {measured}",
        "": measured,
    }[judgement.cause]
    return f"{reason}; limits x {judgement.factor:g}."


def set_limit(memory: BudgetMemory, name: LimitName, limit: int | None) -> None:
    """Set one limit as a ceiling, in whole units; a child's never becomes more than its share."""
    meter = memory.meters()[name]
    if limit is None:
        return
    if memory.is_child:
        meter.limit = limit if meter.limit is None else min(limit, meter.limit)
    else:
        meter.original = meter.limit = limit
        ceilings = tuple(dict.fromkeys((*memory.rules.ceilings, name)))
        memory.rules = structs.replace(memory.rules, ceilings=ceilings)
    meter.exhausted = meter.used + meter.reserved >= meter.limit


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
        or _explain_too_large(memory.rules, meters, amounts)
        or _explain_too_small(meters, amounts)
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


def _explain_too_large(
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


def _explain_too_small(meters: Mapping[LimitName, Meter], amounts: Mapping[LimitName, int]) -> str | None:
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
