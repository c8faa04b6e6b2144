"""Convert what a caller passes to numbers and texts: a wrong value never stops an agent."""

from typing import Any


def to_number(value: Any) -> float:
    """Return the value as a finite number of 0 or more; 0 when it is none."""
    try:
        given = float(value)
    except (TypeError, ValueError, OverflowError):
        return 0.0
    return given if 0.0 <= given < float("inf") else 0.0


def to_count(value: Any) -> int:
    """Return the value as a whole number of 0 or more; 0 when it is none."""
    return value if type(value) is int and value >= 0 else int(to_number(value))


def to_error_text(error: object) -> str | None:
    """Return the text of an error given as an exception, text or flag; None when there was none."""
    if error is None or error is False:
        return None
    if isinstance(error, str):
        return error or "error"
    if isinstance(error, BaseException):
        try:
            return f"{type(error).__name__}: {error}"
        except Exception:  # noqa: BLE001 - an exception's own text may fail too
            return type(error).__name__
    return "error" if error is True else to_text(error)


def to_text(value: object) -> str:
    """Return the value as text; the name of its type when its own `str()` fails."""
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - the host's own code
        return type(value).__name__


def to_share(value: Any) -> float | None:
    """Return the value when it is a number from 0 to 1, else None."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if 0.0 <= value <= 1.0 else None
