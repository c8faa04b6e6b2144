"""Times measured and named in a result: they tell progress where each is clearly below the one before."""

import math
import re
from typing import Final

_HINTS: Final = ("ime", "IME", "atency", "ATENCY", "p50", "p9", "P50", "P9")
_MEASURE: Final = re.compile(
    r"\b(?:(?:boot|build|compile|execution|exec|inference|load|loading|planning|processing|query|render"
    r"|rendering|response|run|running|startup|start-up|wall)[ _-]?time"
    r"|(?:avg|mean|median|p50|p9\d)?[ _-]?latency|p50|p9\d)"
    r"(?:[ _](?:in[ _])?(?:ms|s|secs?|seconds?))?[\"']?\s?(?:[:=]|is|of)?\s?[\"']?(\d{1,9}(?:\.\d{1,9})?)",
    re.IGNORECASE,
)
_CLEARLY_LESS: Final = 0.9
"""A time is clearly below another one at nine tenths of it."""


def find_measures(text: str) -> tuple[float, ...]:
    """Return the times that a result names as measured.

    >>> find_measures("Execution time: 4000 ms, Seq Scan"), find_measures("done in 4000 ms")
    ((4000.0,), ())
    """
    for hint in _HINTS:
        if hint in text:
            return tuple(map(float, _MEASURE.findall(text)))
    return ()


def grade_measures(before: tuple[float, ...], now: tuple[float, ...]) -> tuple[float, ...]:
    """Return each time as a number that falls where it is clearly below the first one, else 0.

    >>> grade_measures((4000.0,), (2000.0,)) < grade_measures((4000.0,), (3000.0,)) < (0.0,)
    True
    >>> grade_measures((4000.0,), (3900.0,)), grade_measures((4000.0,), (5000.0,))
    ((0.0,), (0.0,))
    """
    return tuple(_grade(one, other) for one, other in zip(before, now, strict=True))


def _grade(before: float, now: float) -> float:
    if now <= 0.0 or before <= 0.0 or now > _CLEARLY_LESS * before:
        return 0.0
    return float(math.floor(math.log(now / before) / -math.log(_CLEARLY_LESS) + 1e-9))
