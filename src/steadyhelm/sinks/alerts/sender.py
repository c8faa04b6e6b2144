"""One alert to one channel, once: rendered, signed, posted, and an honest word on how it went."""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from steadyhelm.errors import AddressRefusedError, NotFoundError, SettingsError
from steadyhelm.policy.alerting import Alert
from steadyhelm.sinks.alerts import signing
from steadyhelm.sinks.alerts.backoff import asked_s
from steadyhelm.sinks.alerts.channel import Channel, cleaned
from steadyhelm.sinks.alerts.guard import AddressGuard, Target, host_of, parsed
from steadyhelm.sinks.alerts.webhook import Webhook

if TYPE_CHECKING:
    import ssl

    from steadyhelm.sinks.alerts.transport import Answer

TIMEOUT_S: Final = 5.0

_NAME: Final = re.compile(r"^[A-Za-z0-9_-]{1,40}$")
_TRY_AGAIN: Final = frozenset({408, 425, 429})
# Slack answers a refused message with one such word; anything longer might repeat the URL.
_ONE_WORD: Final = re.compile(rb"[a-z_]{3,60}")
_ERROR_LIMIT: Final = 300


class Receipt(Struct, frozen=True, kw_only=True):
    """How one attempt to send went. `again` says whether another attempt makes sense, `asked_s` how soon."""

    channel: str
    kind: str
    host: str
    ok: bool
    status: int | None = None
    ms: float = 0.0
    error: str = ""
    again: bool = False
    asked_s: float = 0.0


class Destination(Struct, frozen=True, kw_only=True):
    """A channel as configured: its name, where it is, and how to speak to it."""

    name: str
    target: Target
    channel: Channel


class Sender:
    """Posts alerts to the configured channels.

    Args:
        channels: URLs by name.
        secret: What alerts are signed with; None leaves them unsigned.
        guard: Judges where alerts may go.
        kinds: The kinds of channel to choose from, by URL.
        timeout_s: Seconds one alert may take, from looking up the address to the end of the answer.
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
        self.destinations = {name: _destination(name, url, kinds) for name, url in channels.items()}
        for destination in self.destinations.values():
            guard.screen(destination.target)

    def find(self, name: str) -> Destination:
        """The channel of that name; raises NotFoundError."""
        if name in self.destinations:
            return self.destinations[name]
        names = ", ".join(sorted(self.destinations)) or "none"
        raise NotFoundError(f"There is no alert channel named {cleaned(name)[:40]!r}; configured: {names}.")

    def send(self, alert: Alert, destination: Destination, *, delivery_id: str) -> Receipt:
        """Send an alert once; whatever goes wrong is in the receipt."""
        began = time.perf_counter()
        receipt = Receipt(
            channel=destination.name, kind=destination.channel.name, host=destination.target.host, ok=False
        )
        try:
            body = msgspec.json.encode(destination.channel.payload(alert))
            answer = self._posted(destination.target, body, delivery_id)
            noted = _noted(answer, now=self._clock())
        except AddressRefusedError as exc:
            noted = {"error": str(exc)}
        except Exception as exc:  # noqa: BLE001 - a channel is a plug-in and the network anything: say what it was
            noted = _what_happened(exc, self._timeout_s)
        noted["error"] = " ".join(cleaned(str(noted.get("error", ""))).split())[:_ERROR_LIMIT]
        ms = round((time.perf_counter() - began) * 1000, 1)
        return msgspec.structs.replace(receipt, ms=ms, **noted)

    def _posted(self, target: Target, body: bytes, delivery_id: str) -> "Answer":
        from steadyhelm.sinks.alerts import transport  # noqa: PLC0415 - costs an import of httpx

        self._guard.screen(target)
        if self._tls is None:
            self._tls = transport.tls_context()
        once = transport.GuardedTransport(self._guard, timeout_s=self._timeout_s, tls=self._tls)
        return transport.post(once, target, body, self._headers(body, delivery_id))

    def _headers(self, body: bytes, delivery_id: str) -> dict[str, str]:
        timestamp = int(self._clock())
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "steadyhelm",
            signing.DELIVERY_HEADER: delivery_id,
            signing.TIMESTAMP_HEADER: str(timestamp),
        }
        if self._secret is not None:
            signed = signing.signature(self._secret, delivery_id, timestamp, body)
            headers[signing.SIGNATURE_HEADER] = signed
        return headers


def _destination(name: str, url: str, kinds: Sequence[type[Channel]]) -> Destination:
    if not _NAME.match(name):
        raise SettingsError(
            f"A channel's name must be 1 to 40 letters, digits, '-' or '_', got {cleaned(name)[:60]!r}."
        )
    target = parsed(url, setting=f"alerts.channels.{name}")
    # The general kind takes any address, so it is asked last, wherever it stands in the list.
    particular = (kind for kind in kinds if kind is not Webhook and kind.matches(url))
    return Destination(name=name, target=target, channel=next(particular, Webhook)())


def _noted(answer: "Answer", *, now: float) -> dict[str, object]:
    status = answer.status
    if 200 <= status < 300:  # noqa: PLR2004 - HTTP's own numbers
        return {"ok": True, "status": status}
    if 300 <= status < 400:  # noqa: PLR2004 - the same
        where = host_of(answer.location) or "another place"
        error = f"answered {status}, a redirect to {where}; redirects are not followed"
        return {"status": status, "error": error}
    word = answer.body.decode() if _ONE_WORD.fullmatch(answer.body) else ""
    return {
        "status": status,
        "error": f"answered {status} {word}".rstrip(),
        "again": status in _TRY_AGAIN or status >= 500,  # noqa: PLR2004 - the same
        "asked_s": asked_s(answer.retry_after, now=now),
    }


def _what_happened(exc: Exception, timeout_s: float) -> dict[str, object]:
    import httpcore  # noqa: PLC0415 - only when something went wrong

    if isinstance(exc, httpcore.TimeoutException):
        return {"error": f"no answer within {timeout_s:g} s", "again": True}
    if isinstance(exc, httpcore.NetworkError | httpcore.ProtocolError | OSError):
        return {"error": f"could not be reached: {exc}", "again": True}
    return {"error": f"could not be sent: {type(exc).__name__}: {exc}"}
