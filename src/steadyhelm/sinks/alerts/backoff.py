"""Decide how long to wait before an alert is sent again, and when a failing channel is paused."""

import hashlib
from typing import Final

FIRST_WAIT_S: Final = 1.0
MAX_WAIT_S: Final = 900.0
MAX_ATTEMPTS: Final = 10

FAILURES_BEFORE_PAUSE: Final = 5
PAUSE_S: Final = 60.0

_MAX_JITTER_SHARE: Final = 0.25


def compute_wait_s(delivery_id: str, attempt: int, *, retry_after_s: float = 0.0) -> float:
    """Return the seconds from this failed attempt (1 is the first) to the next.

    It doubles each time. The delivery's id adds up to a quarter, so that alerts which failed together are
    not sent again together; the same id always waits the same time.

    >>> [round(compute_wait_s("d1", attempt)) for attempt in (1, 2, 3, 10, 20)]
    [1, 2, 4, 539, 900]
    """
    digest = hashlib.blake2b(f"{delivery_id}.{attempt}".encode("utf-8", "replace"), digest_size=4).digest()
    share = int.from_bytes(digest) / 2**32
    doubled = FIRST_WAIT_S * 2.0 ** min(attempt - 1, 20)
    return min(max(doubled * (1 + _MAX_JITTER_SHARE * share), retry_after_s), MAX_WAIT_S)


def parse_retry_after_s(retry_after: str, *, now: float) -> float:
    """Return the seconds that a Retry-After header (a number or a date) asks for; 0 when it cannot be read.

    >>> texts = ("120", "Thu, 01 Jan 1970 00:01:00 GMT", "soon")
    >>> [parse_retry_after_s(text, now=0.0) for text in texts]
    [120.0, 60.0, 0.0]
    """
    text = retry_after.strip()
    if text.isascii() and text.replace(".", "", 1).isdigit():
        return min(float(text), MAX_WAIT_S)
    import email.utils  # noqa: PLC0415 - a date is rare, and this import takes longer than all else here

    try:
        until = email.utils.parsedate_to_datetime(text).timestamp()
    except (TypeError, ValueError, OverflowError):
        return 0.0
    return min(max(until - now, 0.0), MAX_WAIT_S)


class CircuitBreaker:
    """Pauses a channel that keeps failing, then lets one alert test whether it works again."""

    def __init__(self) -> None:
        self._failures: dict[str, int] = {}
        self._paused_until: dict[str, float] = {}

    def get_pause_end(self, channel: str, *, now: float) -> float | None:
        """Return the end of the channel's pause, or None when it may be used."""
        until = self._paused_until.get(channel, 0.0)
        return until if until > now else None

    def record_success(self, channel: str) -> None:
        """Record that the channel works, and end its pause."""
        self._failures.pop(channel, None)
        self._paused_until.pop(channel, None)

    def record_failure(self, channel: str, *, now: float) -> None:
        """Record a failure. From the fifth in a row on, each one pauses the channel."""
        failures = self._failures.get(channel, 0) + 1
        self._failures[channel] = failures
        if failures >= FAILURES_BEFORE_PAUSE:
            self._paused_until[channel] = now + PAUSE_S
