"""Decide on requests for more budget, and record what the user grants."""

from collections.abc import Mapping
from typing import Any, Final, Literal

from steadyhelm.budgets.amounts import UNITS, LimitName, to_text
from steadyhelm.budgets.memory import BudgetMemory, to_decision_fields
from steadyhelm.budgets.meters import Meter
from steadyhelm.budgets.rules import BudgetRules
from steadyhelm.decisions import BudgetDecision

MAX_JUSTIFICATION_CHARS: Final = 500

# Ten steps of .09 add up to a hair less than .9.
_ROUNDING: Final = 1e-9

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
    if progress + _ROUNDING < rules.extension_progress:
        return f"Progress is {progress:.3g}, and an extension needs at least {rules.extension_progress:g}."
    return None


def _check_size(
    rules: BudgetRules, meters: Mapping[LimitName, Meter], amounts: Mapping[LimitName, int]
) -> str | None:
    for name, amount in amounts.items():
        original = meters[name].original or 0
        if amount > original * rules.extension_share * (1.0 + _ROUNDING):
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
