"""The limits that a user sets for a run, and an agent for each day."""

from typing import Any, Final

from msgspec import Struct

from steadyhelm.budgets.memory import parse_limit
from steadyhelm.budgets.meters import LIMITS, LimitName

DAILY_PREFIX: Final = "daily_"
DAILY_LIMITS: Final[tuple[LimitName, ...]] = ("steps", "tokens", "cost_usd")
"""What can be limited for a whole day; time passes for all runs at once."""


class Budget(Struct, frozen=True, kw_only=True):
    """What a run may spend, and its agent in one day over all runs; a limit of None is no limit.

    Nothing raises these limits by itself: only the user does, or an emergency extension that was approved.
    Raises SettingsError for a limit that is no number above 0.

    Args:
        steps: Tool calls.
        tokens: Tokens of all model calls.
        cost_usd: Dollars.
        wall_s: Seconds, without the time a user takes to answer.
        daily_steps: Tool calls of all runs of the agent in one day.
        daily_tokens: Tokens of all its runs in one day.
        daily_cost_usd: Dollars of all its runs in one day.

    >>> Budget(steps=50, cost_usd=0.5).to_limits()
    {'steps': 50, 'cost_usd': 0.5}
    """

    steps: int | None = None
    tokens: int | None = None
    cost_usd: float | None = None
    wall_s: float | None = None
    daily_steps: int | None = None
    daily_tokens: int | None = None
    daily_cost_usd: float | None = None

    def __post_init__(self) -> None:
        for name in LIMITS:
            parse_limit(f"The budget's {name}", name, getattr(self, name))
        for name in DAILY_LIMITS:
            parse_limit(f"The budget's {DAILY_PREFIX}{name}", name, getattr(self, DAILY_PREFIX + name))

    def to_limits(self) -> dict[str, Any]:
        """Return the limits of a run that are set, by name."""
        return {name: value for name in LIMITS if (value := getattr(self, name)) is not None}

    def to_daily_limits(self) -> dict[str, Any]:
        """Return the limits of a day that are set, by name.

        >>> Budget(steps=50, daily_tokens=2_000_000).to_daily_limits()
        {'daily_tokens': 2000000}
        """
        names = (DAILY_PREFIX + name for name in DAILY_LIMITS)
        return {name: value for name in names if (value := getattr(self, name)) is not None}
