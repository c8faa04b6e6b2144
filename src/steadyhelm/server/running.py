"""Run the server: choose an address, refuse an unsafe one, stop in time."""

import asyncio
import ipaddress
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Final

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from steadyhelm.errors import SettingsError
from steadyhelm.server.app import Server
from steadyhelm.server.stream import Streams

SHUTDOWN_S: Final = 2
_MAX_HEADER_BYTES: Final = 16 << 10
_MOST_CONNECTIONS: Final = 500
_BACKLOG: Final = 128
_FIRST_REQUEST_S: Final = 10.0


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0"), is_loopback("10.evil")
    (True, True, False, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def require_safe_address(host: str, *, has_tls: bool, trusted_proxy: str) -> None:
    """Raise SettingsError when others could reach the server without TLS."""
    if is_loopback(host) or has_tls or trusted_proxy:
        return
    raise SettingsError(
        f"The address {host} can be reached by others, and would send tokens in the clear. "
        "Give --tls-cert and --tls-key, or put a proxy with TLS in front of it and name its address in "
        "server.trusted_proxy."
    )


def bind(host: str, port: int) -> socket.socket:
    """Return a socket that listens there; port 0 lets the system choose one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except OSError as exc:
        listener.close()
        raise SettingsError(
            f"The address {host}:{port} cannot be used: {exc}. Choose another --port."
        ) from exc
    return listener


class ImpatientProtocol(H11Protocol):
    """Closes a connection that has sent no whole request in time: silent ones would take every place.

    It is named, so that a package that happens to be installed does not bring another one without limits.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self.loop.call_later(_FIRST_REQUEST_S, self._close_if_silent)

    def _close_if_silent(self) -> None:
        if getattr(self, "cycle", None) is None and not self.transport.is_closing():
            self.transport.close()


def make_config(
    server: Server, *, certificate: Path | None = None, key: Path | None = None
) -> uvicorn.Config:
    """Return how connections are handled: small heads, a limited number, no one that is silent."""
    return uvicorn.Config(
        server.app,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        http=ImpatientProtocol,
        h11_max_incomplete_event_size=_MAX_HEADER_BYTES,
        limit_concurrency=_MOST_CONNECTIONS,
        timeout_graceful_shutdown=SHUTDOWN_S,
        ssl_certfile=certificate,
        ssl_keyfile=key,
    )


def run(
    server: Server,
    listener: socket.socket,
    *,
    certificate: Path | None = None,
    key: Path | None = None,
    on_start: Callable[[], None] = lambda: None,
) -> None:
    """Answer requests until the process is asked to stop; open streams end within two seconds."""
    config = make_config(server, certificate=certificate, key=key)
    on_start()
    _StoppingServer(config, server.streams).run(sockets=[listener])


class _StoppingServer(uvicorn.Server):
    """Ends the streams first: a connection that streams never ends by itself."""

    def __init__(self, config: uvicorn.Config, streams: Streams) -> None:
        super().__init__(config)
        self._streams = streams

    def handle_exit(self, sig: int, frame: object) -> None:
        """Stop, on a signal."""
        self._streams.stop_soon()
        super().handle_exit(sig, frame)  # type: ignore[arg-type]
