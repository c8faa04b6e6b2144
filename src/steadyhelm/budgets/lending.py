"""Parts of a budget for the children of a run, and what comes back of them.

Steps, tokens and money are lent: a child's share is set aside, what it uses is spent, the rest comes back.
Time is not: it passes for parent and children at once, however many run side by side.
A child may be given as much time as its parent has left, and only the parent's own steps tell how
much of the parent's time has passed.
"""

from typing import Any, Final

from msgspec import structs

from steadyhelm.budgets.amounts import LARGEST_LIMIT, UNITS, LimitName, units
from steadyhelm.budgets.memory import BudgetMemory, Loan
from steadyhelm.budgets.meters import Meter

MOST_CHILDREN: Final = 128
"""Children that may be out at once; beyond it the oldest share counts as spent."""

LENT: Final[tuple[LimitName, ...]] = ("steps", "tokens", "cost_usd")


def lend(memory: BudgetMemory, asked: dict[LimitName, Any]) -> BudgetMemory:
    """Set a share aside, never more than is left beside the landing reserve; the child's fresh memory.

    A limit not asked for is all that may be lent of it, or no limit where the parent has none.
    """
    meters = memory.meters()
    share = memory.rules.landing_reserve
    given = {name: _given(meters[name].available(share), asked.get(name), UNITS[name]) for name in meters}
    memory.children_made += 1
    child = BudgetMemory(
        budget_id=f"{memory.budget_id}/{memory.children_made}",
        agent_id=memory.agent_id,
        is_child=True,
        # What was set aside is all there is: a child does not grow beyond it, nor is it extended.
        rules=structs.replace(memory.rules, ceiling_factor=1.0, enable_emergency_extensions=False),
        turn=memory.turn,
        steps=Meter.of(given["steps"]),
        tokens=Meter.of(given["tokens"]),
        cost_usd=Meter.of(given["cost_usd"]),
        wall_s=Meter.of(given["wall_s"]),
    )
    if len(memory.children) >= MOST_CHILDREN:
        oldest = memory.children.pop(next(iter(memory.children)))
        _settle(memory, oldest, oldest)
    for name in LENT:
        meters[name].lend(given[name] or 0)
    memory.children[child.budget_id] = Loan(*(given[name] for name in LENT))
    return child


def take_back(memory: BudgetMemory, child: BudgetMemory) -> bool:
    """Count what a child used and free the rest; False when it is none of ours, or came back before.

    What the child has lent on and not got back counts as used. Afterwards the child has nothing left.
    """
    own = child.meters()
    loan = memory.children.get(child.budget_id)
    if loan is None or loan != Loan(*(own[name].original for name in LENT)):
        return False
    del memory.children[child.budget_id]
    _settle(memory, loan, Loan(*(own[name].used + own[name].reserved for name in LENT)))
    for meter in own.values():
        meter.exhausted = meter.limit is not None
    return True


def _settle(memory: BudgetMemory, lent: Loan, used: Loan) -> None:
    meters = memory.meters()
    for name in LENT:
        meters[name].take_back(getattr(lent, name) or 0, getattr(used, name) or 0)


def _given(available: int | None, asked: Any, per_one: int) -> int | None:
    if asked is None:
        return available
    # What is no number is nothing: a child must not get more for a mistake.
    amount = min(units(asked, per_one) or 0, LARGEST_LIMIT)
    return amount if available is None else min(amount, available)
