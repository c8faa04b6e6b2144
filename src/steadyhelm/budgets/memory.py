"""The saved state of a budget, the rules by which it adapts, and the shares of it that child runs reserve."""

import math
from typing import Annotated, Any, Final, TypedDict

import msgspec
from msgspec import Meta, Struct, field, structs

from steadyhelm.budgets.meters import LIMITS, MAX_LIMIT, UNITS, LimitName, Meter, Units, to_units
from steadyhelm.decisions import BudgetDecision, TaskProfile
from steadyhelm.errors import FormatError, SettingsError

MAX_CHILDREN: Final = 128
"""Child budgets that may be open at once; beyond it the oldest share counts as spent."""

# Time is not reserved: it passes for parent and children at once, however many run side by side. A child gets
# at most the time its parent has left, and only the parent's own steps count the parent's time.
_RESERVED_LIMITS: Final[tuple[LimitName, ...]] = ("steps", "tokens", "cost_usd")
MAX_WINDOW_STEPS: Final = 1000
MAX_FACTOR: Final = 100.0


class BudgetRules(Struct, frozen=True, kw_only=True):
    """The rules by which limits grow and shrink.

    Args:
        min_velocity: Progress per step that is good enough.
        velocity_window: Steps the velocity is taken over, and between two adjustments.
        expansion_factor: What good progress multiplies the limits by.
        contraction_factor: What poor progress multiplies them by.
        stuck_steps: Steps in a row without any progress after which a run is stuck.
        stuck_factor: What being stuck multiplies the limits by.
        ceiling_factor: How many times the original a limit may grow to.
        ceilings: The limits that never grow past their original: only a grant or an extension raises them.
        adaptive_limits: The limits that grow and shrink; the others stay as they were set.
        landing_reserve: The share of each limit kept for finishing in order; 0 for none.
        enable_historical_profiling: Learn from completed tasks, and recommend by them.
        enable_emergency_extensions: Whether extensions are granted at all.
        extension_progress: How far the run must have come for an extension.
        extension_share: The most an extension may ask for, as a share of the original.
        most_extensions: How many are granted to one run.
    """

    min_velocity: float = 0.01
    velocity_window: int = 10
    expansion_factor: float = 1.5
    contraction_factor: float = 0.7
    stuck_steps: int = 5
    stuck_factor: float = 0.5
    ceiling_factor: float = 3.0
    ceilings: tuple[LimitName, ...] = ()
    adaptive_limits: tuple[LimitName, ...] = ("steps", "tokens")
    landing_reserve: float = 0.1
    enable_historical_profiling: bool = True
    enable_emergency_extensions: bool = True
    extension_progress: float = 0.9
    extension_share: float = 0.1
    most_extensions: int = 1

    def __post_init__(self) -> None:
        _check_number(self, "min_velocity", 0, 1)
        _check_whole(self, "velocity_window", 1, MAX_WINDOW_STEPS)
        _check_number(self, "expansion_factor", 1, MAX_FACTOR)
        _check_number(self, "contraction_factor", 0, 1)
        _check_whole(self, "stuck_steps", 1, MAX_WINDOW_STEPS)
        _check_number(self, "stuck_factor", 0, 1)
        _check_number(self, "ceiling_factor", 1, MAX_FACTOR)
        _check_number(self, "landing_reserve", 0, 0.9)
        _check_number(self, "extension_progress", 0, 1)
        _check_number(self, "extension_share", 0, 1)
        _check_whole(self, "most_extensions", 0, MAX_WINDOW_STEPS)
        for name in ("enable_historical_profiling", "enable_emergency_extensions"):
            if not isinstance(getattr(self, name), bool):
                raise SettingsError(f"{name} must be true or false, got {getattr(self, name)!r}.")
        for name in ("adaptive_limits", "ceilings"):
            limits = getattr(self, name)
            if not isinstance(limits, tuple) or any(it not in LIMITS for it in limits):
                raise SettingsError(
                    f"{name} must be a tuple with some of {', '.join(LIMITS)}, got {limits!r}."
                )


class BudgetRuleOptions(TypedDict, total=False):
    """The rules that are keyword arguments only."""

    stuck_steps: int
    stuck_factor: float
    ceiling_factor: float
    ceilings: tuple[LimitName, ...]
    adaptive_limits: tuple[LimitName, ...]
    landing_reserve: float
    extension_progress: float
    extension_share: float
    most_extensions: int


def parse_limit(setting: str, name: LimitName, value: Any) -> int | None:
    """Return a limit that a user set in whole units, None for no limit; raises SettingsError."""
    if value is None:
        return None
    unit, largest = UNITS[name], MAX_LIMIT // UNITS[name]
    is_valid = _is_number(value) and 1 / unit <= value <= largest
    if is_valid and (unit > 1 or isinstance(value, int)):
        amount: int = round(value * unit)
        return amount
    words = f"a whole number from 1 to {largest}" if unit == 1 else f"a number above 0, at most {largest}"
    raise SettingsError(f"{setting} must be {words}, or None for no limit, got {value!r}.")


def _check_number(rules: BudgetRules, name: str, low: float, high: float) -> None:
    value = getattr(rules, name)
    if not _is_number(value) or not low <= value <= high:
        raise SettingsError(f"{name} must be a number from {low:g} to {high:g}, got {value!r}.")
    # A 1 passed for 1.0 would come back as another type after it was saved.
    structs.force_setattr(rules, name, float(value))


def _check_whole(rules: BudgetRules, name: str, low: int, high: int) -> None:
    value = getattr(rules, name)
    if not _is_number(value) or not isinstance(value, int) or not low <= value <= high:
        raise SettingsError(f"{name} must be a whole number from {low} to {high}, got {value!r}.")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and -math.inf < value < math.inf


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
    `in_window` how many steps have passed since the limits could last change. `looping` is whether a loop was
    proven since then, and `looped` whether one has made the limits shrink that did not grow back yet.
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
    looping: bool = False
    looped: bool = False
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


def reserve_share(memory: BudgetMemory, requested: dict[LimitName, Any]) -> BudgetMemory:
    """Reserve a share, never more than is left except the landing reserve, and return the child's new memory.

    A limit not requested is all that is available of it, or no limit where the parent has none.
    """
    meters = memory.meters()
    landing = memory.rules.landing_reserve
    share = {
        name: _limit_share(meters[name].compute_available(landing), requested.get(name), UNITS[name])
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
