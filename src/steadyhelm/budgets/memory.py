"""Everything a budget remembers, as it is saved and taken up again."""

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct, field

from steadyhelm.budgets.amounts import UNITS, LimitName
from steadyhelm.budgets.meters import Meter, Units
from steadyhelm.budgets.rules import BudgetRules
from steadyhelm.decisions import BudgetDecision, TaskProfile
from steadyhelm.errors import FormatError

STATE_VERSION: Final = 1
DECISIONS_KEPT: Final = 20

Count = Annotated[int, Meta(ge=0)]
Delta = Annotated[float, Meta(ge=-1.0, le=1.0)]
Share = Annotated[float, Meta(ge=0.0, le=1.0)]


class Loan(Struct, frozen=True, array_like=True):
    """What a child was given, in whole units. Time is missing: it passes for all at once."""

    steps: Units | None
    tokens: Units | None
    cost_usd: Units | None


class BudgetMemory(Struct, kw_only=True):
    """What a budget has counted and decided so far, and the rules it goes by.

    `deltas` is the progress of the latest window's steps, `idle` how many steps in a row told none,
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
    children: dict[str, Loan] = field(default_factory=dict)
    children_made: Count = 0
    profiles: dict[str, TaskProfile] = field(default_factory=dict)
    not_counted: Count = 0

    def meters(self) -> dict[LimitName, Meter]:
        """The four limits by name."""
        return {
            "steps": self.steps,
            "tokens": self.tokens,
            "cost_usd": self.cost_usd,
            "wall_s": self.wall_s,
        }

    def keep(self, decision: BudgetDecision) -> None:
        """Write a decision down; the oldest give way, how many there were stays known."""
        self.decisions.append(decision)
        self.decisions_made += 1
        del self.decisions[:-DECISIONS_KEPT]


def decided(amounts: dict[LimitName, int], word: str) -> dict[str, Any]:
    """Amounts of the four limits as the fields of a decision that begin with this word.

    >>> decided({"steps": 5, "cost_usd": 500_000_000}, "granted")
    {'granted_steps': 5, 'granted_cost_usd': 0.5}
    """
    return {
        f"{word}_{name}": amount if UNITS[name] == 1 else amount / UNITS[name]
        for name, amount in amounts.items()
    }


def encoded(memory: BudgetMemory) -> bytes:
    """The memory as bytes."""
    return msgspec.msgpack.encode(memory)


def decoded(state: bytes) -> BudgetMemory:
    """The memory in such bytes. One of another version is refused: a budget must not start afresh."""
    try:
        version = msgspec.msgpack.decode(state, type=_Versioned).version
        if version != STATE_VERSION:
            raise FormatError(
                f"The saved budget has version {version}, and this Steadyhelm reads {STATE_VERSION}."
            )
        return msgspec.msgpack.decode(state, type=BudgetMemory)
    except (msgspec.MsgspecError, UnicodeDecodeError, TypeError) as exc:
        raise FormatError(f"The saved budget cannot be read: {exc}.") from exc


class _Versioned(Struct):
    version: int
