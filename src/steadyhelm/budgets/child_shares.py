"""Reserve a share of a budget for a run inside the run, and take back what it did not use."""

from typing import Any, Final

from msgspec import structs

from steadyhelm.budgets.memory import BudgetMemory, ChildShare
from steadyhelm.budgets.meters import MAX_LIMIT, UNITS, LimitName, Meter, to_units

MAX_CHILDREN: Final = 128
"""Child budgets that may be open at once; beyond it the oldest share counts as spent."""

# Time is not reserved: it passes for parent and children at once, however many run side by side. A child gets
# at most the time its parent has left, and only the parent's own steps count the parent's time.
_RESERVED_LIMITS: Final[tuple[LimitName, ...]] = ("steps", "tokens", "cost_usd")


def reserve_share(memory: BudgetMemory, requested: dict[LimitName, Any]) -> BudgetMemory:
    """Reserve a share, never more than is left except the landing reserve, and return the child's new memory.

    A limit not requested is all that is available of it, or no limit where the parent has none.
    """
    meters = memory.meters()
    landing = memory.rules.landing_reserve
    share = {
        name: _limit_share(meters[name].available(landing), requested.get(name), UNITS[name])
        for name in meters
    }
    memory.children_made += 1
    child = BudgetMemory(
        budget_id=f"{memory.budget_id}/{memory.children_made}",
        agent_id=memory.agent_id,
        is_child=True,
        # What was reserved is all there is: a child does not grow beyond it, nor is it extended.
        rules=structs.replace(memory.rules, ceiling_factor=1.0, enable_emergency_extensions=False),
        turn=memory.turn,
        steps=Meter.with_limit(share["steps"]),
        tokens=Meter.with_limit(share["tokens"]),
        cost_usd=Meter.with_limit(share["cost_usd"]),
        wall_s=Meter.with_limit(share["wall_s"]),
    )
    if len(memory.children) >= MAX_CHILDREN:
        oldest = memory.children.pop(next(iter(memory.children)))
        _settle_share(memory, oldest, oldest)
    for name in _RESERVED_LIMITS:
        meters[name].reserve(share[name] or 0)
    memory.children[child.budget_id] = ChildShare(*(share[name] for name in _RESERVED_LIMITS))
    return child


def release_share(memory: BudgetMemory, child: BudgetMemory) -> bool:
    """Count what a child used and release the rest; return False for an unknown or released child.

    What the child itself has reserved counts as used. Afterwards the child has nothing left.
    """
    own = child.meters()
    share = memory.children.get(child.budget_id)
    if share is None or share != ChildShare(*(own[name].original for name in _RESERVED_LIMITS)):
        return False
    del memory.children[child.budget_id]
    _settle_share(
        memory, share, ChildShare(*(own[name].used + own[name].reserved for name in _RESERVED_LIMITS))
    )
    for meter in own.values():
        meter.exhausted = meter.limit is not None
    return True


def _settle_share(memory: BudgetMemory, share: ChildShare, used: ChildShare) -> None:
    meters = memory.meters()
    for name in _RESERVED_LIMITS:
        meters[name].release(getattr(share, name) or 0, getattr(used, name) or 0)


def _limit_share(available: int | None, requested: Any, per_one: int) -> int | None:
    if requested is None:
        return available
    # What is not a number counts as 0: a child must not get more because of a mistake.
    amount = min(to_units(requested, per_one) or 0, MAX_LIMIT)
    return amount if available is None else min(amount, available)
