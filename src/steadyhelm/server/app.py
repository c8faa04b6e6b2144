"""The server as an ASGI application: every route of the table, the page, health and metrics."""

import re
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any, Final
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route as StarletteRoute

from steadyhelm.errors import NotFoundError, SettingsError, StoreError
from steadyhelm.logs import logger
from steadyhelm.server import actions, effects, reads
from steadyhelm.server.access import COOKIE, SESSION_S
from steadyhelm.server.context import Call, ServerContext
from steadyhelm.server.gate import App, Gate, RefusedError, read_cookie
from steadyhelm.server.metrics import write_metrics
from steadyhelm.server.page_files import INDEX, NOT_BUILT, PageFile
from steadyhelm.server.records.common import Record
from steadyhelm.server.records.settings import SignedIn, SignIn
from steadyhelm.server.routes import PREFIX, ROUTES, Parameter, Route
from steadyhelm.server.stream import HEARTBEAT_S, MOST_STREAMS, Streams
from steadyhelm.stores.database import read_bounds

CHANGE_HEADER: Final = "steadyhelm-change"
_THREADS: Final = 8
_MOST_STREAMS_OF_KEY: Final = 50
_KEYS: Final = frozenset({"run", "agent", "step", "id"})
_INCIDENT_ID: Final = re.compile(r"[0-9A-Za-z_-]{1,64}\Z")
_LONGEST_VALUE: Final = 500
_MOST_KEY: Final = 2**62

_MODULES: Final = (reads, actions, effects)


class Server:
    """Answers requests about one store.

    Args:
        context: The store, the settings, and what the command line hands over.
        page: The files of the page; empty when it is not built.
        is_secure: Whether browsers reach it over TLS: its cookie then says so.
        host: The name it is bound to.
    """

    def __init__(
        self, context: ServerContext, page: Mapping[str, PageFile], *, host: str = "", is_secure: bool = False
    ) -> None:
        self.streams = Streams(context.store, context.views)
        self._context = context._replace(count_streams=self.streams.count)
        self._page = page
        self._is_secure = is_secure
        self._threads = anyio.CapacityLimiter(_THREADS)
        starlette = Starlette(routes=self._make_routes(), lifespan=self._lifespan)
        self.routes = starlette.routes
        settings = context.settings
        public = urlsplit(settings.server_public_url)
        self._gate = Gate(
            starlette,
            context.access,
            hosts=[*settings.server_allow_hosts, *filter(None, (host, public.hostname))],
            origins=[f"{public.scheme}://{public.netloc}"] if public.netloc else [],
            open_paths=self.is_open,
            trusted_proxy=settings.server_trusted_proxy,
        )
        self.app: App = self._gate
        self._streams_by: Counter[str] = Counter()

    def is_open(self, method: str, path: str) -> bool:
        """Return whether nobody needs to be signed in: health, signing in, and the page's own files."""
        if method in {"GET", "HEAD"}:
            return path in {"/", "/healthz"} or path in self._page
        return method == "POST" and path == f"{PREFIX}/session"

    def _make_routes(self) -> list[StarletteRoute]:
        special: dict[str, Callable[[Request], Any]] = {
            "sign_in": self._sign_in,
            "stream": self._stream,
            "download_run": self._download,
        }
        routes = []
        for route in ROUTES:
            endpoint = special.get(route.name) or self._make_endpoint(route)
            path = PREFIX + route.path
            routes.append(StarletteRoute(path, endpoint, methods=[route.method], name=route.name))
        return [
            *routes,
            StarletteRoute("/healthz", self._check_health, methods=["GET"]),
            StarletteRoute("/metrics", self._write_metrics, methods=["GET"]),
            *(StarletteRoute(path, self._send_file) for path in ("/", *self._page)),
        ]

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.streams.follow)
            yield
            self.streams.stop()
            tasks.cancel_scope.cancel()

    def _make_endpoint(self, route: Route) -> Callable[[Request], Any]:
        handler = find_handler(route.name)

        async def answer(request: Request) -> Response:
            return await self._answer(route, handler, request)

        return answer

    async def _answer(self, route: Route, handler: Callable[[Call], Record], request: Request) -> Response:
        try:
            call = self._make_call(route, request)
            content, number = await anyio.to_thread.run_sync(_run, handler, call, limiter=self._threads)
        except RefusedError as exc:
            return _to_response(exc)
        headers = {"cache-control": "no-store"}
        if number is not None:
            headers[CHANGE_HEADER] = str(number)
        return Response(content, media_type="application/json", headers=headers)

    def _make_call(self, route: Route, request: Request) -> Call:
        identity = request.scope["steadyhelm.identity"]
        if route.scope is not None and (identity is None or not identity.may(route.scope)):
            raise RefusedError("forbidden", f"This needs the scope {route.scope}.")
        return Call(
            context=self._context,
            identity=identity,
            path={name: _parse_path(name, value) for name, value in request.path_params.items()},
            query=_parse_query(route.query, request),
            body=_decode_body(route, request),
            cookie=read_cookie({"cookie": request.headers.getlist("cookie")}),
        )

    async def _sign_in(self, request: Request) -> Response:
        try:
            given = msgspec.json.decode(request.scope["steadyhelm.body"], type=SignIn)
        except (ValueError, RecursionError) as exc:
            return _to_response(RefusedError("invalid", f"The body does not fit: {exc}"))
        signed_in = self._context.access.sign_in(given.token, given.code)
        if signed_in is None:
            if not self._gate.may_be_wrong(request.scope):
                return _to_response(RefusedError("too_many", "Too many tries. Try again in some seconds."))
            words = "This token is not right, or the code was used or is too old."
            return _to_response(RefusedError("unauthorized", words))
        identity, cookie, secret = signed_in
        content = SignedIn(
            secret=secret,
            by=identity.by,
            scopes=list(identity.scopes),
            expires_at=identity.expires_at or 0.0,
        )
        response = Response(
            msgspec.json.encode(content), media_type="application/json", headers={"cache-control": "no-store"}
        )
        response.set_cookie(
            COOKIE,
            cookie,
            max_age=int(SESSION_S),
            path="/",
            # A browser that reaches it over TLS says so, also through a proxy that no setting names.
            secure=self._is_secure or request.headers.get("origin", "").startswith("https://"),
            httponly=True,
            samesite="strict",
        )
        return response

    async def _stream(self, request: Request) -> Response:
        by = request.scope["steadyhelm.identity"].by
        most = MOST_STREAMS if by == "page" else _MOST_STREAMS_OF_KEY
        if self.streams.count() >= MOST_STREAMS or self._streams_by[by] >= most:
            return _to_response(RefusedError("too_many", "Too many streams are open."))
        given = request.headers.get("last-event-id", "")
        after = int(given) if given.isdecimal() and len(given) < 19 else None  # noqa: PLR2004 - fits a column
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        events = self._stream_while_allowed(request, self.streams.listen(after))
        return StreamingResponse(events, media_type="text/event-stream", headers=headers)

    async def _stream_while_allowed(
        self, request: Request, events: AsyncGenerator[bytes, None]
    ) -> AsyncIterator[bytes]:
        """End a stream soon after its key, token or session did."""
        checked, by = time.monotonic(), request.scope["steadyhelm.identity"].by
        self._streams_by[by] += 1
        try:
            async with aclosing(events):
                async for event in events:
                    if time.monotonic() - checked > HEARTBEAT_S / 2:
                        if not await self._gate.is_still_known(request.scope):
                            return
                        checked = time.monotonic()
                    yield event
        finally:
            self._streams_by[by] -= 1

    async def _download(self, request: Request) -> Response:
        route = next(it for it in ROUTES if it.name == "download_run")
        try:
            call = self._make_call(route, request)
            name, pieces = await anyio.to_thread.run_sync(
                _run_raw, reads.write_run_file, call, limiter=self._threads
            )
        except RefusedError as exc:
            return _to_response(exc)
        headers = {"content-disposition": f'attachment; filename="{name}"', "cache-control": "no-store"}
        return StreamingResponse(pieces, media_type="application/jsonl", headers=headers)

    async def _check_health(self, _: Request) -> Response:
        try:
            await anyio.to_thread.run_sync(self._context.store.get_version, limiter=self._threads)
        except (StoreError, OSError):
            return PlainTextResponse("the store cannot be read\n", status_code=503)
        return PlainTextResponse("ok\n")

    async def _write_metrics(self, request: Request) -> Response:
        identity = request.scope["steadyhelm.identity"]
        if identity is None or not identity.may("read"):
            return _to_response(RefusedError("forbidden", "This needs the scope read."))
        try:
            text = await anyio.to_thread.run_sync(write_metrics, self._context, limiter=self._threads)
        except StoreError as exc:
            return _to_response(RefusedError("unavailable", str(exc)))
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")

    async def _send_file(self, request: Request) -> Response:
        path = request.url.path
        file = self._page.get(INDEX if path == "/" else path)
        if file is None:
            return PlainTextResponse(NOT_BUILT, status_code=503)
        kept = "public, max-age=31536000, immutable" if file.is_immutable else "no-cache"
        return Response(file.content, headers={"content-type": file.type, "cache-control": kept})


def find_handler(name: str) -> Callable[[Call], Record]:
    """Return the function that answers a route."""
    for module in _MODULES:
        found = getattr(module, name, None)
        if found is not None:
            handler: Callable[[Call], Record] = found
            return handler
    raise LookupError(name)


def _run(handler: Callable[[Call], Record], call: Call) -> tuple[bytes, int | None]:
    """Return an answer, and for the page the number of the latest change that it is sure to contain."""
    is_page = call.identity is not None and call.identity.is_cookie
    number: int | None = _run_raw(_read_latest_change, call) if is_page else None
    return msgspec.json.encode(_run_raw(handler, call)), number


def _read_latest_change(call: Call) -> int:
    with call.store.reading() as connection:
        return read_bounds(connection)[1]


def _run_raw(handler: Callable[[Call], Any], call: Call) -> Any:
    """Call a handler; turn what it raises into an answer."""
    try:
        return handler(call)
    except NotFoundError as exc:
        raise RefusedError("not_found", str(exc)) from exc
    except SettingsError as exc:
        raise RefusedError("conflict", str(exc)) from exc
    except (ValueError, OverflowError) as exc:
        raise RefusedError("invalid", f"This does not fit: {exc}") from exc
    except StoreError as exc:
        logger.warning("The store could not answer.", exc_info=exc)
        raise RefusedError("unavailable", str(exc)) from exc


def _parse_path(name: str, value: str) -> int | str:
    if name in _KEYS:
        if not value.isdecimal() or not value.isascii() or not 0 < int(value[:20]) < _MOST_KEY:
            raise RefusedError("not_found", "There is no such thing.")
        return int(value)
    if not _INCIDENT_ID.match(value):
        raise RefusedError("not_found", "There is no such incident.")
    return value


def _parse_query(parameters: tuple[Parameter, ...], request: Request) -> dict[str, Any]:
    known = {parameter.name: parameter for parameter in parameters}
    parsed: dict[str, Any] = {}
    for name, value in request.query_params.multi_items():
        parameter = known.get(name)
        if parameter is None or name in parsed or len(value) > _LONGEST_VALUE:
            raise RefusedError("invalid", f"The parameter {name[:50]!r} is not allowed here.")
        try:
            parts = [_parse_value(parameter, part) for part in value.split(",")] if parameter.many else None
            parsed[name] = _parse_value(parameter, value) if parts is None else parts
        except ValueError as exc:
            raise RefusedError("invalid", f"The parameter {name} does not fit.") from exc
    return parsed


def _parse_value(parameter: Parameter, text: str) -> Any:
    if parameter.allowed:
        if text not in parameter.allowed:
            raise ValueError(text)
        return text
    if parameter.kind == "whole":
        number = int(text[:20])
        if not 0 <= number < _MOST_KEY:
            raise ValueError(text)
        return number
    if parameter.kind == "number":
        value = float(text)
        if value != value or abs(value) > _MOST_KEY:  # noqa: PLR0124 - not a number
            raise ValueError(text)
        return value
    return text


def _to_response(refused: RefusedError) -> Response:
    return Response(
        msgspec.json.encode(refused.problem),
        status_code=refused.status,
        media_type="application/json",
        headers={"cache-control": "no-store"},
    )


def _decode_body(route: Route, request: Request) -> Any:
    """Return the body as the record that the route takes; None where it takes none."""
    if route.request is None:
        return None
    try:
        return msgspec.json.decode(request.scope["steadyhelm.body"] or b"{}", type=route.request)
    except (ValueError, RecursionError) as exc:
        raise RefusedError("invalid", f"The body does not fit: {exc}") from exc
