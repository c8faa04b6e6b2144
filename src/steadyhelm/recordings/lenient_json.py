"""Read JSON that is not strict: half characters, NaN, giant numbers, a byte order mark, broken UTF-8."""

import json
import math
from typing import Any, Final

from steadyhelm.recordings.run_entries import describe_value

_MAX_INTEGER_DIGITS: Final = 300
"""Longer integers have no float near them."""


def repair_json(read: bytes) -> tuple[bytes, list[str]]:
    """Return the text as strict JSON, and what was replaced or left out.

    Raises ValueError or RecursionError when it is not JSON at all.
    """
    problems: list[str] = []
    try:
        text = read.decode("utf-8-sig")
    except UnicodeDecodeError:
        problems.append("the line is not UTF-8 throughout; what could not be read was replaced")
        text = read.decode("utf-8-sig", "replace")
    dropped: list[str] = []

    def keep_finite(number: str) -> float | None:
        if math.isfinite(float(number)):
            return float(number)
        dropped.append(number)
        return None

    value = json.loads(text, parse_constant=keep_finite, parse_float=keep_finite, parse_int=_keep_integer)
    if dropped:
        problems.append(
            f"{len(dropped)} numbers such as {describe_value(dropped[0])} are not finite; left out"
        )
    # Half of a surrogate pair has no UTF-8 form.
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"), problems


def _keep_integer(digits: str) -> Any:
    """Return an integer; as its text where it is too long to compute with."""
    return int(digits) if len(digits) <= _MAX_INTEGER_DIGITS else digits
