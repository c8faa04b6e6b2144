"""The limits that a user gives a run."""

from typing import Any

from msgspec import Struct

from steadyhelm.budgets.memory import parse_limit
from steadyhelm.budgets.meters import LIMITS


class Budget(Struct, frozen=True, kw_only=True):
    """What a run may spend; a limit of None is no limit.

    Nothing raises these limits by itself: only the user does, or an emergency extension that was approved.
    Raises SettingsError for a limit that is no number above 0.

    Args:
        steps: Tool calls.
        tokens: Tokens of all model calls.
        cost_usd: Dollars.
        wall_s: Seconds, without the time a user takes to answer.

    >>> Budget(steps=50, cost_usd=0.5).to_limits()
    {'steps': 50, 'cost_usd': 0.5}
    """

    steps: int | None = None
    tokens: int | None = None
    cost_usd: float | None = None
    wall_s: float | None = None

    def __post_init__(self) -> None:
        for name in LIMITS:
            parse_limit(f"The budget's {name}", name, getattr(self, name))

    def __bool__(self) -> bool:
        return bool(self.to_limits())

    def to_limits(self) -> dict[str, Any]:
        """Return the limits that are set, by name."""
        return {name: value for name in LIMITS if (value := getattr(self, name)) is not None}
