"""What a host tells about a step, made usable: whole units, progress between -1 and 1, plain text.

Money and time are counted in whole small units, so that a sum never depends on the order of its parts.
"""

import math
from typing import Any, Final, Literal

LimitName = Literal["steps", "tokens", "cost_usd", "wall_s"]
LIMITS: Final[tuple[LimitName, ...]] = ("steps", "tokens", "cost_usd", "wall_s")
UNITS: Final[dict[LimitName, int]] = {
    "steps": 1,
    "tokens": 1,
    "cost_usd": 1_000_000_000,
    "wall_s": 1_000_000,
}
"""How many whole units one of each is: a dollar is counted in billionths, a second in millionths."""

MOST: Final = 10**17
"""Nothing is counted beyond this many units: it still fits what states are written in."""
LARGEST_LIMIT: Final = 10**15
"""The most units a limit may start with."""


def units(value: Any, per_one: int) -> int | None:
    """A number of 0 or more in whole units, None for anything that is not one.

    >>> units(1500, 1), units(0.25, 1_000_000), units(-1, 1), units(float("nan"), 1)
    (1500, 250000, None, None)
    """
    if type(value) is int:
        return min(value * per_one, MOST) if value >= 0 else None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    # Written so that NaN, which is neither above nor below anything, is refused.
    if not 0 <= value < math.inf:
        return None
    return (
        round(min(float(value) * per_one, MOST)) if isinstance(value, float) else min(value * per_one, MOST)
    )


def delta(value: Any) -> float | None:
    """A step's progress, -1 to 1; None when it is unknown or not a number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if not -math.inf < value < math.inf:
        return None
    return float(min(1, max(-1, value)))


def plain(text: Any, most: int) -> str:
    """Text as it can be written down: cut, and without halves of surrogate pairs; empty for anything else."""
    if not isinstance(text, str):
        return ""
    return text[:most].encode("utf-8", "replace").decode("utf-8")
