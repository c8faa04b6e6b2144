"""Convert what a host reports about a step: whole units, progress between -1 and 1, plain text.

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

MAX_UNITS: Final = 10**17
"""Nothing is counted beyond this many units: it still fits the format of saved states."""
MAX_LIMIT: Final = 10**15
"""The most units a limit may start with."""


def to_units(value: Any, per_one: int) -> int | None:
    """Return a number of 0 or more in whole units, None for anything else.

    >>> to_units(1500, 1), to_units(0.25, 1_000_000), to_units(-1, 1), to_units(float("nan"), 1)
    (1500, 250000, None, None)
    """
    if type(value) is int:
        return min(value * per_one, MAX_UNITS) if value >= 0 else None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    # Written so that NaN, which is neither above nor below anything, is rejected.
    if not 0 <= value < math.inf:
        return None
    return (
        round(min(float(value) * per_one, MAX_UNITS))
        if isinstance(value, float)
        else min(value * per_one, MAX_UNITS)
    )


def to_progress(value: Any) -> float | None:
    """Return the progress of a step, -1 to 1; None when it is unknown or not a number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if not -math.inf < value < math.inf:
        return None
    return float(min(1, max(-1, value)))


def to_text(text: Any, max_chars: int) -> str:
    """Return text that can be stored: cut, and without halves of surrogate pairs; empty for anything else."""
    if not isinstance(text, str):
        return ""
    return text[:max_chars].encode("utf-8", "replace").decode("utf-8")
