"""Convert what a caller passes to numbers and texts: a wrong value never stops an agent."""

from typing import Any, Final

from steadyhelm import fingerprints
from steadyhelm.decisions import Verdict
from steadyhelm.host_objects import cut_text, is_a, name_type
from steadyhelm.object_descriptions import describe, read_error
from steadyhelm.policy.response_levels import VERDICTS

MAX_COUNT: Final = 2**53
"""The largest whole number that is kept: more is a mistake, and no float or database could hold it."""
MAX_WAIT_S: Final = 365 * 86_400.0
"""The longest wait: no clock of the system can count to infinity."""
_MAX_NUMBER_CHARS: Final = 64


def to_number(value: Any) -> float:
    """Return the value as a finite number of 0 or more; 0 when it is none."""
    plain = value if is_a(value, (int, float, str)) else describe(value)
    if is_a(plain, str) and str.__len__(plain) > _MAX_NUMBER_CHARS:
        return 0.0
    try:
        number = float.__add__(plain, 0.0) if is_a(plain, float) else float(fingerprints.to_plain_data(plain))
    except (TypeError, ValueError, OverflowError):
        return 0.0
    return number if 0.0 <= number < float("inf") else 0.0


def to_count(value: Any) -> int:
    """Return the value as a whole number of 0 or more; 0 when it is none."""
    if type(value) is int:
        return min(value, MAX_COUNT) if value >= 0 else 0
    return min(int(to_number(value)), MAX_COUNT)


def to_timeout(value: Any) -> float:
    """Return how long to wait, in seconds: at most a year, also for None and infinity.

    >>> to_timeout(2), to_timeout(None) == to_timeout(float("inf")) == MAX_WAIT_S, to_timeout("soon")
    (2.0, True, 0.0)
    """
    if value is None or (type(value) is float and value == float("inf")):
        return MAX_WAIT_S
    return min(to_number(value), MAX_WAIT_S)


def to_error_text(error: object) -> str | None:
    """Return the text of an error given as an exception, text or flag; None when there was none."""
    if error is None or error is False:
        return None
    if is_a(error, str):
        return cut_text(error) or "error"
    if is_a(error, BaseException):
        text = read_error(error)
        return name_type(error) if text is None else f"{name_type(error)}: {text}"
    return "error" if error is True else to_text(error)


def to_text(value: object, max_chars: int = fingerprints.MAX_CHARS) -> str:
    """Return the value as text; the name of its type when it is not known to have one."""
    text = fingerprints.to_text(value, max_chars)
    return name_type(value) if text == f"<{name_type(value)}>" else text


def to_share(value: Any) -> float | None:
    """Return the value when it is a number from 0 to 1, else None."""
    if type(value) not in (int, float):
        return None
    return float(value) if 0.0 <= value <= 1.0 else None


def to_verdicts(value: object) -> frozenset[Verdict] | None:
    """Return the verdicts in a collection; None when it is none that can be read without code of the host."""
    if type(value) is frozenset and all(type(it) is str for it in value):
        return value  # as our own callers pass them, at every step
    plain = fingerprints.to_plain_data(value)
    if type(plain) is not list:
        return None
    names = {it for it in plain if type(it) is str}
    return frozenset(it for it in VERDICTS if it in names)
