"""The saved state of a budget."""

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct, field

from steadyhelm.budgets.amounts import UNITS, LimitName
from steadyhelm.budgets.meters import Meter, Units
from steadyhelm.budgets.rules import BudgetRules
from steadyhelm.decisions import BudgetDecision, TaskProfile
from steadyhelm.errors import FormatError

STATE_VERSION: Final = 1
MAX_DECISIONS: Final = 20

Count = Annotated[int, Meta(ge=0)]
Delta = Annotated[float, Meta(ge=-1.0, le=1.0)]
Share = Annotated[float, Meta(ge=0.0, le=1.0)]


class ChildShare(Struct, frozen=True, array_like=True):
    """What a child budget was given, in whole units. Time is not part of it: it passes for all at once."""

    steps: Units | None
    tokens: Units | None
    cost_usd: Units | None


class BudgetMemory(Struct, kw_only=True):
    """What a budget has counted and decided so far, and its rules.

    `deltas` is the progress of the latest window's steps, `idle` how many steps in a row made none,
    `in_window` how many steps have passed since the limits could last change.
    """

    version: int = STATE_VERSION
    budget_id: str = ""
    agent_id: str = ""
    is_child: bool = False
    rules: BudgetRules
    steps: Meter
    tokens: Meter
    cost_usd: Meter
    wall_s: Meter
    turn: int = 0
    seen: Count = 0
    in_window: Count = 0
    deltas: list[Delta | None] = field(default_factory=list)
    progress: Share | None = None
    idle: Count = 0
    extensions: Count = 0
    decisions: list[BudgetDecision] = field(default_factory=list)
    decisions_made: Count = 0
    children: dict[str, ChildShare] = field(default_factory=dict)
    children_made: Count = 0
    profiles: dict[str, TaskProfile] = field(default_factory=dict)
    not_counted: Count = 0

    def meters(self) -> dict[LimitName, Meter]:
        """Return the four limits by name."""
        return {
            "steps": self.steps,
            "tokens": self.tokens,
            "cost_usd": self.cost_usd,
            "wall_s": self.wall_s,
        }

    def record_decision(self, decision: BudgetDecision) -> None:
        """Record a decision; the oldest are dropped, but still counted."""
        self.decisions.append(decision)
        self.decisions_made += 1
        del self.decisions[:-MAX_DECISIONS]


def to_decision_fields(amounts: dict[LimitName, int], word: str) -> dict[str, Any]:
    """Return amounts of limits as the fields of a decision that begin with this word.

    >>> to_decision_fields({"steps": 5, "cost_usd": 500_000_000}, "granted")
    {'granted_steps': 5, 'granted_cost_usd': 0.5}
    """
    return {
        f"{word}_{name}": amount if UNITS[name] == 1 else amount / UNITS[name]
        for name, amount in amounts.items()
    }


def encode_memory(memory: BudgetMemory) -> bytes:
    """Return the memory as bytes."""
    return msgspec.msgpack.encode(memory)


def decode_memory(state: bytes) -> BudgetMemory:
    """Return the memory in such bytes; raises FormatError for another version.

    Unlike a detector, a budget must not start again from nothing.
    """
    try:
        version = msgspec.msgpack.decode(state, type=_VersionOnly).version
        if version != STATE_VERSION:
            raise FormatError(
                f"The saved budget has version {version}, and this Steadyhelm reads {STATE_VERSION}."
            )
        return msgspec.msgpack.decode(state, type=BudgetMemory)
    except (msgspec.MsgspecError, UnicodeDecodeError, TypeError) as exc:
        raise FormatError(f"The saved budget cannot be read: {exc}.") from exc


class _VersionOnly(Struct):
    version: int
