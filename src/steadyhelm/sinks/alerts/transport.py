"""Post to a checked address: pinned, limited in time and size, no redirects, no proxies.

This module imports httpx and httpcore: import it only to send something.
"""

import contextlib
import ssl
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import httpcore
import httpx
from msgspec import Struct

from steadyhelm.sinks.alerts.address_guard import AddressGuard, WebhookURL

RESPONSE_LIMIT_BYTES: Final = 64 * 1024


class WebhookResponse(Struct, frozen=True, kw_only=True):
    """The parts of a webhook's response that we read."""

    status: int
    retry_after: str = ""
    location: str = ""
    body: bytes = b""


class ExchangeDeadline:
    """One time limit for a whole exchange, also for a response that comes byte by byte."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def get_remaining_s(self, error: type[Exception]) -> float:
        """Return the seconds that remain. Raises `error` when there are none."""
        seconds = self._end - time.monotonic()
        if seconds <= 0:
            raise error("the time for the whole exchange is over")
        return seconds


class TimedStream(httpcore.NetworkStream):
    """A connection on which no wait exceeds the deadline."""

    def __init__(self, stream: httpcore.NetworkStream, deadline: ExchangeDeadline) -> None:
        self._stream = stream
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ARG002 - the deadline decides
        """Read the bytes that are available."""
        return self._stream.read(max_bytes, self._deadline.get_remaining_s(httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002 - the same
        """Write everything."""
        self._stream.write(buffer, self._deadline.get_remaining_s(httpcore.WriteTimeout))

    def close(self) -> None:
        """Close the connection."""
        self._stream.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ARG002 - the same
    ) -> httpcore.NetworkStream:
        """Return the same connection, encrypted. Its certificate must be for the name, not the address."""
        left = self._deadline.get_remaining_s(httpcore.ConnectTimeout)
        return TimedStream(self._stream.start_tls(ssl_context, server_hostname, left), self._deadline)

    def get_extra_info(self, info: str) -> Any:
        """Return a property of the connection."""
        return self._stream.get_extra_info(info)


class PinnedBackend(httpcore.SyncBackend):
    """Connects only to addresses that the guard has checked."""

    def __init__(self, guard: AddressGuard, deadline: ExchangeDeadline) -> None:
        self._guard = guard
        self._deadline = deadline

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ARG002 - the deadline decides
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """Resolve once, check every address, connect to one of them, and check the address connected to."""
        failure: Exception = httpcore.ConnectError("no address")
        for address in self._resolve(host, port):
            left = self._deadline.get_remaining_s(httpcore.ConnectTimeout)
            try:
                stream = super().connect_tcp(address, port, left, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as exc:
                failure = exc
                continue
            try:
                self._guard.check_address(host, str(stream.get_extra_info("server_addr")[0]))
            except BaseException:
                stream.close()
                raise
            return TimedStream(stream, self._deadline)
        raise failure

    def _resolve(self, host: str, port: int) -> list[str]:
        try:
            return self._guard.resolve(host, port)
        except (OSError, UnicodeError) as exc:
            raise httpcore.ConnectError(f"its address could not be found: {exc}") from exc


class GuardedTransport(httpx.BaseTransport):
    """An httpx transport for one request to an address that the guard allows.

    It is used without an `httpx.Client`: the client logs whole URLs, and a webhook's URL is a secret.
    """

    def __init__(self, guard: AddressGuard, *, timeout_s: float, tls: ssl.SSLContext) -> None:
        self._pool = httpcore.ConnectionPool(
            ssl_context=tls,
            max_keepalive_connections=0,
            network_backend=PinnedBackend(guard, ExchangeDeadline(timeout_s)),
        )

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send the request. The body of the response is a stream that need not be read."""
        assert isinstance(request.stream, httpx.SyncByteStream)
        url = request.url
        raw = httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)
        response = self._pool.handle_request(
            httpcore.Request(request.method, raw, headers=request.headers.raw, content=request.stream)
        )
        body = response.stream
        assert isinstance(body, Iterable)
        return httpx.Response(response.status, headers=response.headers, stream=_ResponseStream(body))

    def close(self) -> None:
        """Close the connection."""
        self._pool.close()


class _ResponseStream(httpx.SyncByteStream):
    def __init__(self, stream: Iterable[bytes]) -> None:
        self._stream = stream

    def __iter__(self) -> Iterator[bytes]:
        yield from self._stream

    def close(self) -> None:
        close = getattr(self._stream, "close", None)
        if close is not None:
            close()


def build_tls_context() -> ssl.SSLContext:
    """Return a TLS context that trusts the usual authorities and those this machine trusts."""
    context = httpx.create_ssl_context(trust_env=False)
    context.load_default_certs()
    return context


def post(
    transport: GuardedTransport, target: WebhookURL, body: bytes, headers: Mapping[str, str]
) -> WebhookResponse:
    """Post one body. Raises AddressRefusedError, or one of httpcore's errors when there is no response."""
    url = httpx.URL(
        scheme=target.scheme, host=target.host, port=target.port, raw_path=target.path.encode("ascii")
    )
    with contextlib.closing(transport):
        response = transport.handle_request(httpx.Request("POST", url, headers=dict(headers), content=body))
        return WebhookResponse(
            status=response.status_code,
            retry_after=response.headers.get("retry-after", ""),
            location=response.headers.get("location", ""),
            body=_read_start(response),
        )


def _read_start(response: httpx.Response) -> bytes:
    """Return the first bytes of a response, also of one that breaks off or never ends."""
    read = b""
    assert isinstance(response.stream, httpx.SyncByteStream)
    with contextlib.suppress(httpcore.ReadTimeout, httpcore.ReadError, httpcore.RemoteProtocolError):
        for chunk in response.stream:
            read += chunk[: RESPONSE_LIMIT_BYTES - len(read)]
            if len(read) >= RESPONSE_LIMIT_BYTES:
                break
    response.stream.close()
    return read
