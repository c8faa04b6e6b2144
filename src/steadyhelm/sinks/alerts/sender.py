"""Send one alert to one channel once: build the message, sign it, post it, and return the result."""

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
from steadyhelm.sinks.alerts.backoff import parse_retry_after_s
from steadyhelm.sinks.alerts.channel import Channel, clean_text
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
    channel: Channel


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
        kinds: Sequence[type[Channel]],
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


def _build_destination(name: str, url: str, kinds: Sequence[type[Channel]]) -> Destination:
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
