"""How a budget follows a run's progress, and how far: every rule can be set."""

import math
from typing import Any, Final, TypedDict

from msgspec import Struct, structs

from steadyhelm.budgets.amounts import LARGEST_LIMIT, LIMITS, UNITS, LimitName
from steadyhelm.errors import SettingsError

LONGEST_WINDOW: Final = 1000
LARGEST_FACTOR: Final = 100.0


class BudgetRules(Struct, frozen=True, kw_only=True):
    """What makes limits grow and shrink, and where that ends.

    Args:
        min_velocity: Progress per step that is good enough.
        velocity_window: Steps the velocity is taken over, and between two adjustments.
        expansion_factor: What good progress multiplies the limits by.
        contraction_factor: What poor progress multiplies them by.
        stuck_steps: Steps in a row without any progress after which a run is stuck.
        stuck_factor: What being stuck multiplies the limits by.
        ceiling_factor: How many times the original a limit may grow to.
        adaptive_limits: The limits that grow and shrink; the others stay as they were set.
        landing_reserve: The share of each limit kept for handing over in order; 0 for none.
        enable_historical_profiling: Learn from completed tasks, and recommend by them.
        enable_emergency_extensions: Let extensions be granted at all.
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
    adaptive_limits: tuple[LimitName, ...] = ("steps", "tokens")
    landing_reserve: float = 0.1
    enable_historical_profiling: bool = True
    enable_emergency_extensions: bool = True
    extension_progress: float = 0.9
    extension_share: float = 0.1
    most_extensions: int = 1

    def __post_init__(self) -> None:
        _number(self, "min_velocity", 0, 1)
        _whole(self, "velocity_window", 1, LONGEST_WINDOW)
        _number(self, "expansion_factor", 1, LARGEST_FACTOR)
        _number(self, "contraction_factor", 0, 1)
        _whole(self, "stuck_steps", 1, LONGEST_WINDOW)
        _number(self, "stuck_factor", 0, 1)
        _number(self, "ceiling_factor", 1, LARGEST_FACTOR)
        _number(self, "landing_reserve", 0, 0.9)
        _number(self, "extension_progress", 0, 1)
        _number(self, "extension_share", 0, 1)
        _whole(self, "most_extensions", 0, LONGEST_WINDOW)
        for name in ("enable_historical_profiling", "enable_emergency_extensions"):
            if not isinstance(getattr(self, name), bool):
                raise SettingsError(f"{name} must be true or false, got {getattr(self, name)!r}.")
        if not isinstance(self.adaptive_limits, tuple) or any(
            it not in LIMITS for it in self.adaptive_limits
        ):
            raise SettingsError(
                f"adaptive_limits must be a tuple with some of {', '.join(LIMITS)}, "
                f"got {self.adaptive_limits!r}."
            )


class FurtherRules(TypedDict, total=False):
    """The rules that are given by name only."""

    stuck_steps: int
    stuck_factor: float
    ceiling_factor: float
    adaptive_limits: tuple[LimitName, ...]
    landing_reserve: float
    extension_progress: float
    extension_share: float
    most_extensions: int


def checked_limit(setting: str, name: LimitName, value: Any) -> int | None:
    """A limit a user set, in whole units; None is no limit."""
    if value is None:
        return None
    unit, largest = UNITS[name], LARGEST_LIMIT // UNITS[name]
    sound = _is_number(value) and 1 / unit <= value <= largest
    if sound and (unit > 1 or isinstance(value, int)):
        amount: int = round(value * unit)
        return amount
    words = f"a whole number from 1 to {largest}" if unit == 1 else f"a number above 0, at most {largest}"
    raise SettingsError(f"{setting} must be {words}, or None for no limit, got {value!r}.")


def _number(rules: BudgetRules, name: str, low: float, high: float) -> None:
    value = getattr(rules, name)
    if not _is_number(value) or not low <= value <= high:
        raise SettingsError(f"{name} must be a number from {low:g} to {high:g}, got {value!r}.")
    # A 1 given for 1.0 would not be the same any more when it was saved and read back.
    structs.force_setattr(rules, name, float(value))


def _whole(rules: BudgetRules, name: str, low: int, high: int) -> None:
    value = getattr(rules, name)
    if not _is_number(value) or not isinstance(value, int) or not low <= value <= high:
        raise SettingsError(f"{name} must be a whole number from {low} to {high}, got {value!r}.")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and -math.inf < value < math.inf
