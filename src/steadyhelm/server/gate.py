"""The gate every request passes: host, path, origin, size and rate first, then who it is. Deny by default."""

import ipaddress
import re
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, Final

import anyio.to_thread
import msgspec

from steadyhelm.errors import StoreError
from steadyhelm.server.access import COOKIE, SECRET_HEADER, Access, Identity
from steadyhelm.server.records.common import Problem

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

MOST_BODY_BYTES: Final = 64 << 10
LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_PORT: Final = re.compile(r":[0-9]{0,5}")
_MOST_PORT: Final = 65_535
_REQUESTS_PER_S: Final = 50.0
_BURST: Final = 400.0
_SIGN_INS_PER_S: Final = 0.2
_SIGN_IN_BURST: Final = 10.0
_MOST_BUCKETS: Final = 1000
_MOST_TARGET: Final = 4096
_SAFE: Final = frozenset({"GET", "HEAD"})
_METHODS: Final = _SAFE | {"POST", "DELETE"}

_BODY_S: Final = 10.0

_CSP: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; worker-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS: Final = (
    (b"content-security-policy", _CSP.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
)

_STATUS_BY_CODE: Final = {
    "unauthorized": 401,
    "forbidden": 403,
    "not_found": 404,
    "invalid": 400,
    "too_large": 413,
    "too_many": 429,
    "conflict": 409,
    "misdirected": 421,
    "unavailable": 503,
    "page_not_built": 503,
}


class RefusedError(Exception):
    """A request is refused, with what the answer says."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.problem = Problem(code=code, message=message)

    @property
    def status(self) -> int:
        """The status of the answer."""
        return _STATUS_BY_CODE[self.problem.code]


class RateLimit:
    """So many requests a second for each who asks, and some at once."""

    def __init__(self, per_s: float, burst: float) -> None:
        self._per_s = per_s
        self._burst = burst
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, who: str) -> bool:
        """Return whether one more request is allowed now."""
        now = time.monotonic()
        left, at = self._left.pop(who, (self._burst, now))
        left = min(self._burst, left + (now - at) * self._per_s)
        while len(self._left) >= _MOST_BUCKETS:
            del self._left[next(iter(self._left))]
        self._left[who] = (left - 1 if left >= 1 else left, now)
        return left >= 1


class Gate:
    """Lets requests pass that may: everything else gets a problem as its answer.

    Args:
        app: What is behind it.
        access: Recognises who sends a request.
        hosts: Names under which the server may be asked, beside loopback; a public URL's among them.
        origins: Origins that pages may have, beside the host that was asked.
        open_paths: Methods and paths that need nobody to be signed in.
        trusted_proxy: The only address that requests may come from; empty for any.
    """

    def __init__(
        self,
        app: App,
        access: Access,
        *,
        hosts: Iterable[str],
        origins: Iterable[str],
        open_paths: Callable[[str, str], bool],
        trusted_proxy: str = "",
    ) -> None:
        self._app = app
        self._access = access
        self._hosts = (LOOPBACK_NAMES | {canonical_host(host) for host in hosts}) - {""}
        self._origins = frozenset(origins)
        self._is_open = open_paths
        self._proxy = trusted_proxy
        self._requests = RateLimit(_REQUESTS_PER_S, _BURST)
        self._sign_ins = RateLimit(_SIGN_INS_PER_S, _SIGN_IN_BURST)

    async def _admit(self, scope: Scope, receive: Receive) -> bytes:
        """Return the body of an allowed request, and note who sent it; raises RefusedError for others."""
        headers = _read_headers(scope)
        self._check_target(scope)
        self._check_host(headers)
        self._check_origin(scope, headers)
        try:
            scope["steadyhelm.identity"] = await self._identify(scope, headers)
        except StoreError as exc:
            raise RefusedError("unavailable", str(exc)) from exc
        return await _read_body(scope, headers, receive)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        try:
            body = await self._admit(scope, receive)
        except RefusedError as exc:
            await send_problem(send, exc)
            return
        scope["steadyhelm.body"] = body
        await self._app(scope, receive, _add_headers(send))

    def _check_target(self, scope: Scope) -> None:
        if self._proxy and (scope.get("client") or ("",))[0] != self._proxy:
            raise RefusedError("forbidden", "Requests must come through the trusted proxy.")
        raw: bytes = scope.get("raw_path") or scope["path"].encode()
        # A path that two parsers may read differently is refused, encoded slashes among them.
        odd = b"%" in raw or b"\\" in raw or b"//" in raw or b"/." in raw or not raw.isascii()
        if odd or len(raw) + len(scope.get("query_string", b"")) > _MOST_TARGET:
            raise RefusedError("invalid", "This path is not allowed.")
        if scope["method"] not in _METHODS:
            raise RefusedError("invalid", "This method is not allowed.")

    def _check_host(self, headers: dict[str, list[str]]) -> None:
        hosts = headers.get("host", [])
        if len(hosts) != 1 or canonical_host(hosts[0]) not in self._hosts:
            raise RefusedError(
                "misdirected",
                "The server is not known under this name. Add it to the setting server.allow_hosts.",
            )

    def _check_origin(self, scope: Scope, headers: dict[str, list[str]]) -> None:
        site = headers.get("sec-fetch-site", ["same-origin"])[0]
        if site not in {"same-origin", "none"} and not (
            scope["method"] in _SAFE and self._is_open(scope["method"], scope["path"])
        ):
            raise RefusedError("forbidden", "Requests of other sites are refused.")
        if scope["method"] in _SAFE:
            return
        origin = headers.get("origin")
        if origin is not None:
            host = headers["host"][0]
            own = {f"http://{host}", f"https://{host}"} | self._origins
            if len(origin) != 1 or origin[0] not in own:
                raise RefusedError("forbidden", "Requests of other origins are refused.")
        kind = headers.get("content-type", [""])[0].partition(";")[0].strip().lower()
        if scope["method"] == "POST" and kind != "application/json":
            raise RefusedError("invalid", "The body must be JSON, with content type application/json.")

    async def _identify(self, scope: Scope, headers: dict[str, list[str]]) -> Identity | None:
        method, path = scope["method"], scope["path"]
        client = (scope.get("client") or ("",))[0]
        if self._is_open(method, path):
            if method in _SAFE and not self._requests.take(f"open {client}"):
                raise RefusedError("too_many", "Too many requests. Try again in some seconds.")
            return None
        identity = await self._recognise(headers, client)
        if identity is None:
            raise RefusedError("unauthorized", "Sign in first, or send an API key.")
        if identity.is_cookie and method not in _SAFE and "origin" not in headers:
            raise RefusedError("forbidden", "A change from the page needs its origin.")
        if not self._requests.take(identity.by):
            raise RefusedError("too_many", "Too many requests. Try again in some seconds.")
        return identity

    def may_be_wrong(self, scope: Scope) -> bool:
        """Count a token or code that was wrong, and return whether its sender may go on trying."""
        return self._sign_ins.take((scope.get("client") or ("",))[0])

    async def is_still_known(self, scope: Scope) -> bool:
        """Return whether who sent a request may still read: a stream outlives the check of its request."""
        try:
            return await self._recognise(_read_headers(scope), (scope.get("client") or ("",))[0]) is not None
        except (RefusedError, StoreError):
            return False

    async def _recognise(self, headers: dict[str, list[str]], client: str) -> Identity | None:
        given = headers.get("authorization", [])
        if len(given) == 1 and given[0][:7].lower() == "bearer ":
            secret = given[0][7:].strip()
            # Only keys are in the store: the token needs no thread.
            identity = self._access.recognise_token(secret) or await anyio.to_thread.run_sync(
                self._access.recognise_key, secret
            )
            # Only what is wrong counts: others behind the same address must not be locked out by it.
            if identity is None and not self._requests.take(f"bearer {client}"):
                raise RefusedError("too_many", "Too many requests. Try again in some seconds.")
            return identity
        cookie, secrets = read_cookie(headers), headers.get(SECRET_HEADER, [])
        if not cookie or len(secrets) != 1:
            return None
        return self._access.recognise_session(cookie, secrets[0])


def canonical_host(given: str) -> str:
    """Return a host without its port, in one form: lower case, no trailing dot, IP addresses parsed.

    Empty when what follows the name is no port: two parsers may read it differently.

    >>> canonical_host("LOCALHOST.:8000"), canonical_host("[0:0::1]:80"), canonical_host("10.evil.example")
    ('localhost', '::1', '10.evil.example')
    >>> canonical_host("localhost:80@evil"), canonical_host("[::1]evil"), canonical_host("localhost:65536")
    ('', '', '')
    """
    name, port = given.strip().lower(), ""
    if name.startswith("["):
        name, _, port = name[1:].partition("]")
    elif name.count(":") == 1:
        name, colon, port = name.partition(":")
        port = colon + port
    if port and (not _PORT.fullmatch(port) or int(port[1:] or 0) > _MOST_PORT):
        return ""
    name = name.rstrip(".")
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        return name


def read_cookie(headers: dict[str, list[str]]) -> str:
    """Return the session's cookie; empty when there is none, or more than one."""
    found = [
        part.partition("=")[2]
        for line in headers.get("cookie", [])
        for part in line.split("; ")
        if part.partition("=")[0] == COOKIE
    ]
    return found[0] if len(found) == 1 else ""


def _read_headers(scope: Scope) -> dict[str, list[str]]:
    headers: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    return headers


async def _read_body(scope: Scope, headers: dict[str, list[str]], receive: Receive) -> bytes:
    """Return the whole body; it is small. Nothing is read of a request that has none."""
    if scope["method"] in _SAFE:
        return b""
    length = headers.get("content-length", ["0"])[0]
    if not length.isdecimal() or int(length) > MOST_BODY_BYTES:
        raise RefusedError("too_large", f"A body may have {MOST_BODY_BYTES:,} bytes at most.")
    try:
        with anyio.fail_after(_BODY_S):
            return await _receive_all(receive)
    except TimeoutError:
        raise RefusedError("invalid", "The body did not come in time.") from None


async def _receive_all(receive: Receive) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise RefusedError("invalid", "The request broke off.")
        body += message.get("body", b"")
        if len(body) > MOST_BODY_BYTES:
            raise RefusedError("too_large", f"A body may have {MOST_BODY_BYTES:,} bytes at most.")
        if not message.get("more_body"):
            return bytes(body)


def _add_headers(send: Send) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), *HEADERS]
        await send(message)

    return send_with_headers


async def send_problem(send: Send, refused: RefusedError) -> None:
    """Answer with a problem."""
    body = msgspec.json.encode(refused.problem)
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
        *HEADERS,
    ]
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
