"""One POST to one judged address: pinned, bounded in time and size, no redirects, no proxies.

Imports httpx and httpcore; import this module only when something is to be sent.
"""

import contextlib
import ssl
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import httpcore
import httpx
from msgspec import Struct

from steadyhelm.sinks.alerts.guard import AddressGuard, Target

RESPONSE_LIMIT: Final = 64 * 1024


class Answer(Struct, frozen=True, kw_only=True):
    """What the other side answered, as far as we look at it."""

    status: int
    retry_after: str = ""
    location: str = ""
    body: bytes = b""


class Deadline:
    """One end for a whole exchange: an answer that trickles in byte by byte gets no longer."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def left(self, late: type[Exception]) -> float:
        """Seconds that are left; raises `late` when there are none."""
        seconds = self._end - time.monotonic()
        if seconds <= 0:
            raise late("the time for the whole exchange is over")
        return seconds


class TimedStream(httpcore.NetworkStream):
    """A connection whose every wait ends with the deadline."""

    def __init__(self, stream: httpcore.NetworkStream, deadline: Deadline) -> None:
        self._stream = stream
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ARG002 - the deadline decides
        """Read what is there."""
        return self._stream.read(max_bytes, self._deadline.left(httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002 - the same
        """Write everything."""
        self._stream.write(buffer, self._deadline.left(httpcore.WriteTimeout))

    def close(self) -> None:
        """Close the connection."""
        self._stream.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ARG002 - the same
    ) -> httpcore.NetworkStream:
        """The same connection, encrypted; the certificate must be for the name, not for the address."""
        left = self._deadline.left(httpcore.ConnectTimeout)
        return TimedStream(self._stream.start_tls(ssl_context, server_hostname, left), self._deadline)

    def get_extra_info(self, info: str) -> Any:
        """What the connection knows about itself."""
        return self._stream.get_extra_info(info)


class PinnedBackend(httpcore.SyncBackend):
    """Connects to addresses the guard has judged, and to no others."""

    def __init__(self, guard: AddressGuard, deadline: Deadline) -> None:
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
        """Resolve once, judge every address, connect to one of them, and judge the one that answered."""
        failure: Exception = httpcore.ConnectError("no address")
        for address in self._resolved(host, port):
            left = self._deadline.left(httpcore.ConnectTimeout)
            try:
                stream = super().connect_tcp(address, port, left, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as exc:
                failure = exc
                continue
            try:
                self._guard.judge(host, str(stream.get_extra_info("server_addr")[0]))
            except BaseException:
                stream.close()
                raise
            return TimedStream(stream, self._deadline)
        raise failure

    def _resolved(self, host: str, port: int) -> list[str]:
        try:
            return self._guard.addresses(host, port)
        except (OSError, UnicodeError) as exc:
            raise httpcore.ConnectError(f"its address could not be found: {exc}") from exc


class GuardedTransport(httpx.BaseTransport):
    """An httpx transport for one request that goes where the guard lets it, directly, once.

    It is used without an `httpx.Client`: the client logs whole URLs, and a webhook's URL is a secret.
    """

    def __init__(self, guard: AddressGuard, *, timeout_s: float, tls: ssl.SSLContext) -> None:
        self._pool = httpcore.ConnectionPool(
            ssl_context=tls,
            max_keepalive_connections=0,
            network_backend=PinnedBackend(guard, Deadline(timeout_s)),
        )

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send the request; the answer's body is a stream that nobody has to read."""
        assert isinstance(request.stream, httpx.SyncByteStream)
        url = request.url
        raw = httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)
        answer = self._pool.handle_request(
            httpcore.Request(request.method, raw, headers=request.headers.raw, content=request.stream)
        )
        assert isinstance(answer.stream, Iterable)
        return httpx.Response(answer.status, headers=answer.headers, stream=_Stream(answer.stream))

    def close(self) -> None:
        """Close the connection."""
        self._pool.close()


class _Stream(httpx.SyncByteStream):
    def __init__(self, stream: Iterable[bytes]) -> None:
        self._stream = stream

    def __iter__(self) -> Iterator[bytes]:
        yield from self._stream

    def close(self) -> None:
        close = getattr(self._stream, "close", None)
        if close is not None:
            close()


def tls_context() -> ssl.SSLContext:
    """What certificates are checked against: the usual authorities, and those this machine trusts."""
    context = httpx.create_ssl_context(trust_env=False)
    context.load_default_certs()
    return context


def post(transport: GuardedTransport, target: Target, body: bytes, headers: Mapping[str, str]) -> Answer:
    """Send one body; raises AddressRefusedError, or one of httpcore's errors when there is no answer."""
    url = httpx.URL(
        scheme=target.scheme, host=target.host, port=target.port, raw_path=target.path.encode("ascii")
    )
    with contextlib.closing(transport):
        response = transport.handle_request(httpx.Request("POST", url, headers=dict(headers), content=body))
        return Answer(
            status=response.status_code,
            retry_after=response.headers.get("retry-after", ""),
            location=response.headers.get("location", ""),
            body=_start_of(response),
        )


def _start_of(response: httpx.Response) -> bytes:
    """The first bytes of the answer; one that breaks off or goes on for ever is still an answer."""
    read = b""
    assert isinstance(response.stream, httpx.SyncByteStream)
    with contextlib.suppress(httpcore.ReadTimeout, httpcore.ReadError, httpcore.RemoteProtocolError):
        for chunk in response.stream:
            read += chunk[: RESPONSE_LIMIT - len(read)]
            if len(read) >= RESPONSE_LIMIT:
                break
    response.stream.close()
    return read
