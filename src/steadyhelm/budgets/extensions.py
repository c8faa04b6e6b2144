"""When a run that has used up its budget may have a little more."""

from collections.abc import Mapping
from typing import Any, Final, Literal

from steadyhelm.budgets.amounts import UNITS, LimitName, plain
from steadyhelm.budgets.memory import BudgetMemory, decided
from steadyhelm.budgets.meters import Meter
from steadyhelm.budgets.rules import BudgetRules
from steadyhelm.decisions import BudgetDecision

JUSTIFICATION_KEPT: Final = 500

# Ten steps of .09 add up to a hair less than .9.
_ROUNDING: Final = 1e-9

_WORDS: Final[dict[LimitName, str]] = {
    "steps": "steps",
    "tokens": "tokens",
    "cost_usd": "USD",
    "wall_s": "seconds",
}


def extended(
    memory: BudgetMemory, justification: Any, requested: Mapping[LimitName, int | None]
) -> BudgetDecision:
    """Decide about a request and write it down; when it is granted the limits are raised by it.

    A limit that is not set needs no more: nothing is granted of it.
    """
    refused = refusal(memory, memory.meters(), requested)
    if refused is None:
        memory.extensions += 1
    reason = refused or f"Progress is {memory.progress:.3g}, and the request is small enough."
    return _decided(memory, "extension", justification, requested, reason=reason, approved=refused is None)


def granted(
    memory: BudgetMemory, justification: Any, requested: Mapping[LimitName, int | None]
) -> BudgetDecision:
    """Raise the limits because whoever they belong to says so; no rule is asked, and it is written down."""
    meters = memory.meters()
    given = any(amount and meters[name].limit is not None for name, amount in requested.items())
    if memory.is_child:
        refused = "This is a share of another budget: grant it to that one."
    else:
        refused = "" if given and None not in requested.values() else "Nothing was granted of any limit set."
    reason = refused or "The user granted it."
    return _decided(memory, "grant", justification, requested, reason=reason, approved=not refused)


def _decided(
    memory: BudgetMemory,
    kind: Literal["extension", "grant"],
    justification: Any,
    requested: Mapping[LimitName, int | None],
    *,
    reason: str,
    approved: bool,
) -> BudgetDecision:
    meters, given = memory.meters(), {}
    if approved:
        given = {name: amount or 0 for name, amount in requested.items() if meters[name].limit is not None}
    for name, amount in given.items():
        meters[name].extend(amount)
    decision = BudgetDecision(
        approved=approved,
        kind=kind,
        reason=reason,
        justification=plain(justification, JUSTIFICATION_KEPT),
        turn=memory.turn,
        **decided({name: amount or 0 for name, amount in requested.items()}, "requested"),
        **decided(given, "granted"),
    )
    memory.keep(decision)
    return decision


def refusal(
    memory: BudgetMemory, meters: Mapping[LimitName, Meter], requested: Mapping[LimitName, int | None]
) -> str | None:
    """Why an extension is refused, in one sentence; None when it is granted."""
    amounts = {name: amount or 0 for name, amount in requested.items() if meters[name].limit is not None}
    if memory.is_child:
        return "This is a share of another budget: ask that one for more."
    if None in requested.values():
        return "What is requested must be a number of 0 or more for every limit."
    if not any(amounts.values()):
        return "Nothing was requested of any limit that is set."
    return (
        _not_now(memory.rules, memory.progress, memory.extensions)
        or _too_much(memory.rules, meters, amounts)
        or _too_little(meters, amounts)
    )


def _not_now(rules: BudgetRules, progress: float | None, granted_before: int) -> str | None:
    if not rules.enable_emergency_extensions:
        return "Extensions are switched off."
    if granted_before >= rules.most_extensions:
        return f"{granted_before} granted before, and {rules.most_extensions} is the most."
    if progress is None:
        return f"Progress is unknown, and an extension needs at least {rules.extension_progress:g}."
    if progress + _ROUNDING < rules.extension_progress:
        return f"Progress is {progress:.3g}, and an extension needs at least {rules.extension_progress:g}."
    return None


def _too_much(
    rules: BudgetRules, meters: Mapping[LimitName, Meter], amounts: Mapping[LimitName, int]
) -> str | None:
    for name, amount in amounts.items():
        original = meters[name].original or 0
        if amount > original * rules.extension_share * (1.0 + _ROUNDING):
            return (
                f"{in_words(name, amount)} are more than {rules.extension_share:.0%} "
                f"of the original {in_words(name, original)}."
            )
    return None


def _too_little(meters: Mapping[LimitName, Meter], amounts: Mapping[LimitName, int]) -> str | None:
    """A budget has few extensions to give: none is spent on one that would leave it used up."""
    for name, meter in meters.items():
        if not meter.exhausted or meter.limit is None:
            continue
        missing = max(0, meter.used + meter.reserved - meter.limit)
        if amounts.get(name, 0) <= missing:
            needed = f"more than {in_words(name, missing)} would be needed"
            return f"The run would still be out of {_WORDS[name]}: {needed}."
    return None


def in_words(name: LimitName, amount: int) -> str:
    """An amount of a limit, with its unit.

    >>> in_words("cost_usd", 250_000_000)
    '0.25 USD'
    """
    return f"{amount / UNITS[name]:.6g} {_WORDS[name]}" if UNITS[name] > 1 else f"{amount} {_WORDS[name]}"
