"""How long to wait before an alert is tried again, and when a channel gets a rest."""

import hashlib
from typing import Final

FIRST_WAIT_S: Final = 1.0
LONGEST_WAIT_S: Final = 900.0
MOST_ATTEMPTS: Final = 10

BREAKS_AFTER: Final = 5
REST_S: Final = 60.0

_JITTER: Final = 0.25


def wait_s(delivery_id: str, attempt: int, *, asked_s: float = 0.0) -> float:
    """Seconds from the given failed attempt (1 is the first) to the next.

    It doubles each time. The delivery's id adds up to a quarter, so that many alerts which failed
    together do not come back together; the same id always waits the same time.

    >>> [round(wait_s("d1", attempt)) for attempt in (1, 2, 3, 10, 20)]
    [1, 2, 4, 539, 900]
    """
    digest = hashlib.blake2b(f"{delivery_id}.{attempt}".encode("utf-8", "replace"), digest_size=4).digest()
    share = int.from_bytes(digest) / 2**32
    doubled = FIRST_WAIT_S * 2.0 ** min(attempt - 1, 20)
    return min(max(doubled * (1 + _JITTER * share), asked_s), LONGEST_WAIT_S)


def asked_s(retry_after: str, *, now: float) -> float:
    """Seconds a Retry-After header asks for, given as a number or a date; 0 when it says nothing we can read.

    >>> asked_s("120", now=0.0), asked_s("Thu, 01 Jan 1970 00:01:00 GMT", now=0.0), asked_s("soon", now=0.0)
    (120.0, 60.0, 0.0)
    """
    text = retry_after.strip()
    if text.isascii() and text.replace(".", "", 1).isdigit():
        return min(float(text), LONGEST_WAIT_S)
    import email.utils  # noqa: PLC0415 - a date is rare, and reading one costs more to import than all else here

    try:
        until = email.utils.parsedate_to_datetime(text).timestamp()
    except (TypeError, ValueError, OverflowError):
        return 0.0
    return min(max(until - now, 0.0), LONGEST_WAIT_S)


class Breaker:
    """Gives a channel that keeps failing a rest, then lets one alert try whether it is well again."""

    def __init__(self) -> None:
        self._failures: dict[str, int] = {}
        self._rests_until: dict[str, float] = {}

    def rests_until(self, channel: str, *, now: float) -> float | None:
        """The end of the channel's rest, or None when it may be used."""
        until = self._rests_until.get(channel, 0.0)
        return until if until > now else None

    def worked(self, channel: str) -> None:
        """The channel is well."""
        self._failures.pop(channel, None)
        self._rests_until.pop(channel, None)

    def failed(self, channel: str, *, now: float) -> None:
        """The channel failed once more; from the fifth time in a row every failure means a rest."""
        failures = self._failures.get(channel, 0) + 1
        self._failures[channel] = failures
        if failures >= BREAKS_AFTER:
            self._rests_until[channel] = now + REST_S
