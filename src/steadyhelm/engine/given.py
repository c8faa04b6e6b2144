"""What a caller took for a number or an error, made into one: a wrong value never stops an agent."""

from typing import Any


def number(value: Any) -> float:
    """A number from whatever a caller took for one; 0 when it is none."""
    try:
        given = float(value)
    except (TypeError, ValueError, OverflowError):
        return 0.0
    return given if 0.0 <= given < float("inf") else 0.0


def whole(value: Any) -> int:
    """The same as a whole number."""
    return value if type(value) is int and value >= 0 else int(number(value))


def error_text(error: object) -> str | None:
    """The words of an error, whatever stands for one; None when there was none."""
    if error is None or error is False:
        return None
    if isinstance(error, str):
        return error or "error"
    if isinstance(error, BaseException):
        try:
            return f"{type(error).__name__}: {error}"
        except Exception:  # noqa: BLE001 - an exception's own words may fail too
            return type(error).__name__
    return "error" if error is True else str(error)


def share(value: Any) -> float | None:
    """A share from 0 to 1; None where it is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if 0.0 <= value <= 1.0 else None
