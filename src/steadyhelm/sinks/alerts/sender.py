"""Send one alert to one channel once, and decide how long to wait before it is sent again."""

import hashlib
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from steadyhelm.errors import AddressRefusedError, NotFoundError, SettingsError
from steadyhelm.policy.alerting import Alert
from steadyhelm.sinks.alerts import signing
from steadyhelm.sinks.alerts.address_guard import AddressGuard, WebhookURL, get_host, parse_url
from steadyhelm.sinks.alerts.channel import AlertChannel, clean_text
from steadyhelm.sinks.alerts.webhook import Webhook

if TYPE_CHECKING:
    import ssl

    from steadyhelm.sinks.alerts.transport import WebhookResponse


TIMEOUT_S: Final = 5.0

_NAME: Final = re.compile(r"^[A-Za-z0-9_-]{1,40}$")
_RETRYABLE_STATUSES: Final = frozenset({408, 425, 429})
# Slack responds to a refused message with one such word; anything longer might repeat the URL.
_ERROR_WORD: Final = re.compile(rb"[a-z_]{3,60}")
_ERROR_LIMIT: Final = 300


class SendResult(Struct, frozen=True, kw_only=True):
    """The result of one attempt to send. If it `can_retry`, the next may follow after `retry_after_s`."""

    channel: str
    kind: str
    host: str
    ok: bool
    status: int | None = None
    ms: float = 0.0
    error: str = ""
    can_retry: bool = False
    retry_after_s: float = 0.0


class Destination(Struct, frozen=True, kw_only=True):
    """A configured channel: its name, its URL, and the format of its messages."""

    name: str
    target: WebhookURL
    channel: AlertChannel


class AlertSender:
    """Posts alerts to the configured channels.

    Args:
        channels: URLs by name.
        secret: The key that signs alerts; None leaves them unsigned.
        guard: Decides where alerts may go.
        kinds: The kinds of channel to choose from, by URL.
        timeout_s: Seconds one alert may take, from resolving the address to the end of the response.
    """

    def __init__(
        self,
        channels: Mapping[str, str],
        *,
        secret: str | None,
        guard: AddressGuard,
        kinds: Sequence[type[AlertChannel]],
        clock: Callable[[], float],
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        if secret is not None and not secret:
            raise SettingsError("alerts.secret must hold at least one character or be left out, got ''.")
        if not timeout_s > 0:
            raise SettingsError(f"alerts.timeout_s must be more than 0 seconds, got {timeout_s!r}.")
        self._secret = secret
        self._guard = guard
        self._clock = clock
        self._timeout_s = timeout_s
        self._tls: ssl.SSLContext | None = None
        self.destinations = {name: _build_destination(name, url, kinds) for name, url in channels.items()}
        for destination in self.destinations.values():
            guard.check_url(destination.target)

    def find(self, name: str) -> Destination:
        """Return the channel of this name. Raises NotFoundError."""
        if name in self.destinations:
            return self.destinations[name]
        names = ", ".join(sorted(self.destinations)) or "none"
        raise NotFoundError(f"There is no alert channel {clean_text(name)[:40]!r}; configured: {names}.")

    def send(self, alert: Alert, destination: Destination, *, delivery_id: str) -> SendResult:
        """Send an alert once. Errors are part of the result and never raised."""
        began = time.perf_counter()
        result = SendResult(
            channel=destination.name, kind=destination.channel.name, host=destination.target.host, ok=False
        )
        try:
            body = msgspec.json.encode(destination.channel.build_payload(alert))
            response = self._post(destination.target, body, delivery_id)
            changes = _read_response(response, now=self._clock())
        except AddressRefusedError as exc:
            changes = {"error": str(exc)}
        except Exception as exc:  # noqa: BLE001 - a channel is a plug-in and the network anything: say what it was
            changes = _read_exception(exc, self._timeout_s)
        changes["error"] = " ".join(clean_text(str(changes.get("error", ""))).split())[:_ERROR_LIMIT]
        ms = round((time.perf_counter() - began) * 1000, 1)
        return msgspec.structs.replace(result, ms=ms, **changes)

    def _post(self, target: WebhookURL, body: bytes, delivery_id: str) -> "WebhookResponse":
        from steadyhelm.sinks.alerts import transport  # noqa: PLC0415 - imports httpx

        self._guard.check_url(target)
        if self._tls is None:
            self._tls = transport.build_tls_context()
        guarded = transport.GuardedTransport(self._guard, timeout_s=self._timeout_s, tls=self._tls)
        return transport.post(guarded, target, body, self._build_headers(body, delivery_id))

    def _build_headers(self, body: bytes, delivery_id: str) -> dict[str, str]:
        timestamp = int(self._clock())
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "steadyhelm",
            signing.DELIVERY_HEADER: delivery_id,
            signing.TIMESTAMP_HEADER: str(timestamp),
        }
        if self._secret is not None:
            signed = signing.compute_signature(self._secret, delivery_id, timestamp, body)
            headers[signing.SIGNATURE_HEADER] = signed
        return headers


def _build_destination(name: str, url: str, kinds: Sequence[type[AlertChannel]]) -> Destination:
    if not _NAME.match(name):
        raise SettingsError(
            f"A channel's name must be 1 to 40 letters, digits, '-' or '_', got {clean_text(name)[:60]!r}."
        )
    target = parse_url(url, setting=f"alerts.channels.{name}")
    # The general kind matches any URL, so it is tried last, wherever it is in the list.
    specific = (kind for kind in kinds if kind is not Webhook and kind.matches(url))
    return Destination(name=name, target=target, channel=next(specific, Webhook)())


def _read_response(response: "WebhookResponse", *, now: float) -> dict[str, object]:
    status = response.status
    if 200 <= status < 300:  # noqa: PLR2004 - HTTP's own numbers
        return {"ok": True, "status": status}
    if 300 <= status < 400:  # noqa: PLR2004 - the same
        where = get_host(response.location) or "another place"
        error = f"answered {status}, a redirect to {where}; redirects are not followed"
        return {"status": status, "error": error}
    word = response.body.decode() if _ERROR_WORD.fullmatch(response.body) else ""
    return {
        "status": status,
        "error": f"answered {status} {word}".rstrip(),
        "can_retry": status in _RETRYABLE_STATUSES or status >= 500,  # noqa: PLR2004 - the same
        "retry_after_s": parse_retry_after_s(response.retry_after, now=now),
    }


def _read_exception(exc: Exception, timeout_s: float) -> dict[str, object]:
    import httpcore  # noqa: PLC0415 - only when something went wrong

    if isinstance(exc, httpcore.TimeoutException):
        return {"error": f"no answer within {timeout_s:g} s", "can_retry": True}
    if isinstance(exc, httpcore.NetworkError | httpcore.ProtocolError | OSError):
        return {"error": f"could not be reached: {exc}", "can_retry": True}
    return {"error": f"could not be sent: {type(exc).__name__}: {exc}"}


# Decide how long to wait before an alert is sent again, and when a failing channel is paused.

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
