"""The methods of a client that ask a model, watched, with their replies on the way to the host.

A reply may be whole, streamed, or parsed by the host later.
"""

import inspect
import weakref
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final, Self

from steadyhelm.adapters.clients.conversations import ClientId
from steadyhelm.adapters.clients.hooks import ClientWatcher, Exchange
from steadyhelm.adapters.clients.translate import ApiFormat
from steadyhelm.boundary.driver import is_asking
from steadyhelm.engine.judge_calls import is_judging
from steadyhelm.errors import RunStopped
from steadyhelm.host_objects import MISSING, find_attribute, has_methods, is_a, read_field

Method = Callable[..., Any]


class WatchedMethods:
    """Makes the watched counterparts of the methods of one client.

    Args:
        watcher: Records the requests.
        client_id: The client they are made with.
    """

    def __init__(self, watcher: ClientWatcher, client_id: ClientId) -> None:
        self.watcher = watcher
        self.client_id = client_id

    def make_request(self, api_format: ApiFormat, method: Method) -> Method:
        """Return a method that makes a request, watched."""

        def request(*args: Any, **kwargs: Any) -> Any:
            exchange = self._open_exchange(api_format, method, args, kwargs)
            if exchange is None:
                return method(*args, **kwargs)
            return watch_result(exchange, _send(exchange, method))

        async def request_async(*args: Any, **kwargs: Any) -> Any:
            exchange = self._open_exchange(api_format, method, args, kwargs)
            if exchange is None:
                return await method(*args, **kwargs)
            return await watch_awaited_reply(exchange, _send_async(method, exchange.arguments))

        return request_async if is_async(method) else request

    def make_stream(self, api_format: ApiFormat, method: Method) -> Method:
        """Return a method that returns the manager of a stream, watched."""

        def open_stream(*args: Any, **kwargs: Any) -> Any:
            exchange = self._open_exchange(api_format, method, args, kwargs)
            if exchange is None:
                return method(*args, **kwargs)
            return WatchedStreamManager(exchange, _send(exchange, method))

        return open_stream

    def make_fetch(self, method: Method) -> Method:
        """Return a method that fetches a reply asked for earlier, watched."""

        def fetch(*args: Any, **kwargs: Any) -> Any:
            exchange = self.watcher.find_pending(args[0] if args else kwargs.get("response_id"))
            result = method(*args, **kwargs)
            return watch_result(exchange, result) if exchange is not None else result

        return fetch

    def _open_exchange(
        self, api_format: ApiFormat, method: Method, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Exchange | None:
        """Return the exchange of a request; None where it must not be recorded here.

        Raises:
            RunStopped: The request must not be made.
        """
        if self.watcher.monitor.disabled or is_asking() or is_judging() or _is_sending.get():
            return None
        exchange = None
        with self.watcher.boundary.guard("request"):
            arguments = _name_arguments(method, args, kwargs)
            exchange = self.watcher.open_exchange(api_format, arguments, self.client_id)
        stop = exchange.stopped if exchange is not None else None
        if stop is not None:
            # An exception that is raised several times keeps the frames of each time: raise a new one.
            raise RunStopped(str(stop), run_id=stop.run_id, decision=stop.decision)
        return exchange


# Whether a watched request is being sent: what a library asks another one for then is part of it.
_is_sending: Final[ContextVar[bool]] = ContextVar("steadyhelm_client_sending", default=False)


def _send(exchange: Exchange, method: Method) -> Any:
    token = _is_sending.set(True)
    try:
        return method(**exchange.arguments)
    except BaseException as exc:
        record_failure(exchange, exc)
        raise
    finally:
        _is_sending.reset(token)


async def _send_async(method: Method, arguments: dict[str, Any]) -> Any:
    token = _is_sending.set(True)
    try:
        return await method(**arguments)
    finally:
        _is_sending.reset(token)


def _name_arguments(method: Method, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return all arguments by name: only clients of other libraries take any by position."""
    if not args:
        return kwargs
    names = list(inspect.signature(method).parameters)
    return {**dict(zip(names, args, strict=False)), **kwargs}


def is_async(method: Method) -> bool:
    """Return whether a method is awaited."""
    return inspect.iscoroutinefunction(inspect.unwrap(method))


def watch_result(exchange: Exchange, result: Any) -> Any:
    """Return what a method of the client returned, watched: a reply, or an awaitable for one."""
    if inspect.isawaitable(result):
        return watch_awaited_reply(exchange, result)
    return watch_reply(exchange, result)


def watch_reply(exchange: Exchange, result: Any) -> Any:
    """Return what the host gets: the reply itself, or a stream that is watched while it is read."""
    with exchange.guard("reply"):
        reply = exchange.format.read_reply(result)
        if reply is not None:
            exchange.receive(reply)
        elif has_methods(result, "parse") and _has_field(result, "http_response"):
            _watch_parse(exchange, result)
        elif _is_stream(result):
            return watch_reply_stream(exchange, result)
        else:
            exchange.close()
    return result


async def watch_awaited_reply(exchange: Exchange, awaitable: Any) -> Any:
    """Do as `watch_reply` for a reply that is awaited."""
    try:
        result = await awaitable
    except BaseException as exc:
        record_failure(exchange, exc)
        raise
    return watch_reply(exchange, result)


def record_failure(exchange: Exchange, error: BaseException) -> None:
    """Record that a request failed; one that was cancelled did not fail."""
    with exchange.guard("failure"):
        exchange.fail(error) if is_a(error, Exception) else exchange.close()


def watch_reply_stream(exchange: Exchange, stream: Any) -> Any:
    """Return the stream itself where it can be watched from inside, else a proxy for it."""
    pieces = stream._iterator if _has_field(stream, "_iterator") else None  # noqa: SLF001 - see below
    if pieces is None:
        return WatchedPieces(exchange, stream, stream)
    stream._iterator = WatchedPieces(exchange, pieces)  # noqa: SLF001 - the only way to watch it in place
    if has_methods(stream, "close"):
        stream.close = _make_close(exchange, weakref.WeakMethod(stream.close))
    return stream


class WatchedPieces:
    """The pieces of a reply, each read when the host takes it.

    With a `source` it is a proxy for that stream: other attributes are passed through.
    """

    def __init__(self, exchange: Exchange, pieces: Any, source: Any = None) -> None:
        self._exchange = exchange
        self._builder = exchange.start_stream()
        self._source = source
        if not has_methods(pieces, "__next__") and not has_methods(pieces, "__anext__"):
            pieces = iter(pieces) if has_methods(pieces, "__iter__") else aiter(pieces)
        self._pieces = pieces

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        try:
            piece = next(self._pieces)
        except StopIteration:
            self._close_exchange()
            raise
        except BaseException as exc:
            record_failure(self._exchange, exc)
            raise
        self._add(piece)
        return piece

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            piece = await anext(self._pieces)
        except StopAsyncIteration:
            self._close_exchange()
            raise
        except BaseException as exc:
            record_failure(self._exchange, exc)
            raise
        self._add(piece)
        return piece

    def __getattr__(self, name: str) -> Any:
        source = self.__dict__.get("_source")
        return getattr(source if source is not None else self.__dict__["_pieces"], name)

    def __enter__(self) -> Self:
        self._source.__enter__()
        return self

    def __exit__(self, *error: object) -> Any:
        self._close_exchange(is_over=False)
        return self._source.__exit__(*error)

    async def __aenter__(self) -> Self:
        await self._source.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> Any:
        self._close_exchange(is_over=False)
        return await self._source.__aexit__(*error)

    def __del__(self) -> None:
        # Garbage may be collected while this thread holds one of our locks: it is recorded later.
        exchange = self.__dict__.get("_exchange")
        if exchange is not None and not exchange.is_finished:
            exchange.watcher.note_dropped(exchange)

    def _add(self, piece: Any) -> None:
        try:
            is_last = self._builder.add(piece)
        except Exception as exc:  # noqa: BLE001 - the host must not notice
            self._exchange.watcher.monitor.health.swallow("client adapter, a piece of a reply", exc)
            return
        if is_last:
            self._close_exchange()

    def _close_exchange(self, *, is_over: bool = True) -> None:
        with self._exchange.guard("end of a reply"):
            self._exchange.close(is_over=is_over)


class WatchedStreamManager:
    """A proxy for the context manager that opens a stream; the stream is the library's own."""

    def __init__(self, exchange: Exchange, manager: Any) -> None:
        self._exchange = exchange
        self._manager = manager
        exchange.is_streaming, exchange.is_sent = True, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_manager"], name)

    def __enter__(self) -> Any:
        self._exchange.is_sent = True
        try:
            stream = self._manager.__enter__()
        except BaseException as exc:
            record_failure(self._exchange, exc)
            raise
        return self._watch_opened(stream)

    def __exit__(self, *error: object) -> Any:
        self._close_exchange()
        return self._manager.__exit__(*error)

    async def __aenter__(self) -> Any:
        self._exchange.is_sent = True
        try:
            stream = await self._manager.__aenter__()
        except BaseException as exc:
            record_failure(self._exchange, exc)
            raise
        return self._watch_opened(stream)

    async def __aexit__(self, *error: object) -> Any:
        self._close_exchange()
        return await self._manager.__aexit__(*error)

    def _watch_opened(self, stream: Any) -> Any:
        with self._exchange.guard("stream"):
            watch_reply_stream(self._exchange, getattr(stream, "_raw_stream", stream))
        return stream

    def _close_exchange(self) -> None:
        with self._exchange.guard("end of a stream"):
            self._exchange.close()


def _is_stream(result: Any) -> bool:
    if is_a(result, (str, bytes, list, tuple, dict)):
        return False
    return has_methods(result, "__iter__") or has_methods(result, "__aiter__")


def _has_field(result: Any, name: str) -> bool:
    """Return whether an object holds a field, or its class computes it."""
    return read_field(result, name) is not MISSING or find_attribute(type(result), name) is not MISSING


def _watch_parse(exchange: Exchange, response: Any) -> None:
    """Read a raw response when the host parses it."""
    original = response.parse

    def parse(*args: Any, **kwargs: Any) -> Any:
        return watch_result(exchange, original(*args, **kwargs))

    exchange.is_streaming = True
    response.parse = parse


def _make_close(exchange: Exchange, original: "weakref.WeakMethod[Any]") -> Any:
    def close() -> Any:
        with exchange.guard("end of a stream"):
            exchange.close()
        method = original()
        return method() if method is not None else None

    return close
