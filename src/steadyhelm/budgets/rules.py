"""The rules by which a budget adapts to the progress of a run."""

import math
from typing import Any, Final, TypedDict

from msgspec import Struct, structs

from steadyhelm.budgets.amounts import LIMITS, MAX_LIMIT, UNITS, LimitName
from steadyhelm.errors import SettingsError

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
        if not isinstance(self.adaptive_limits, tuple) or any(
            it not in LIMITS for it in self.adaptive_limits
        ):
            raise SettingsError(
                f"adaptive_limits must be a tuple with some of {', '.join(LIMITS)}, "
                f"got {self.adaptive_limits!r}."
            )


class FurtherRules(TypedDict, total=False):
    """The rules that are keyword arguments only."""

    stuck_steps: int
    stuck_factor: float
    ceiling_factor: float
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
