"""Replies on their way to the host: read as they pass, whole, in pieces, or when the host opens them."""

import inspect
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, Self

from steadyhelm.adapters.clients.exchanges import Exchange


def received(exchange: Exchange, result: Any) -> Any:
    """What the host gets: the reply itself, or a stream that is watched while it is read."""
    with exchange.guard("reply"):
        answer = exchange.dialect.read(result)
        if answer is not None:
            exchange.took(answer)
        elif hasattr(result, "http_response") and callable(getattr(result, "parse", None)):
            _when_opened(exchange, result)
        elif _is_stream(result):
            return watch_stream(exchange, result)
        else:
            exchange.leave()
    return result


async def awaited(exchange: Exchange, coming: Any) -> Any:
    """The same for a reply that is awaited."""
    try:
        result = await coming
    except BaseException as exc:
        failed(exchange, exc)
        raise
    return received(exchange, result)


def failed(exchange: Exchange, error: BaseException) -> None:
    """The request came to nothing; who takes it back has not failed."""
    with exchange.guard("failure"):
        exchange.fail(error) if isinstance(error, Exception) else exchange.leave()


def watch_stream(exchange: Exchange, stream: Any) -> Any:
    """The stream, watched: itself where it can be watched from inside, else something that stands for it."""
    pieces = getattr(stream, "_iterator", None)
    if pieces is None:
        return WatchedPieces(exchange, stream, stream)
    stream._iterator = WatchedPieces(exchange, pieces)  # noqa: SLF001 - the only way to watch it in place
    close = getattr(stream, "close", None)
    if inspect.ismethod(close):
        stream.close = _closing(exchange, weakref.WeakMethod(close))
    return stream


class WatchedPieces:
    """The pieces of a reply, each looked at as it passes.

    With a `source` it stands for that stream, in all that is asked of it.
    """

    def __init__(self, exchange: Exchange, pieces: Any, source: Any = None) -> None:
        self._exchange = exchange
        self._gathering = exchange.stream()
        self._source = source
        if not hasattr(pieces, "__next__") and not hasattr(pieces, "__anext__"):
            pieces = iter(pieces) if hasattr(pieces, "__iter__") else aiter(pieces)
        self._pieces = pieces

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        try:
            piece = next(self._pieces)
        except StopIteration:
            self._over()
            raise
        except BaseException as exc:
            failed(self._exchange, exc)
            raise
        self._take(piece)
        return piece

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            piece = await anext(self._pieces)
        except StopAsyncIteration:
            self._over()
            raise
        except BaseException as exc:
            failed(self._exchange, exc)
            raise
        self._take(piece)
        return piece

    def __getattr__(self, name: str) -> Any:
        source = self.__dict__.get("_source")
        return getattr(source if source is not None else self.__dict__["_pieces"], name)

    def __enter__(self) -> Self:
        self._source.__enter__()
        return self

    def __exit__(self, *left: object) -> Any:
        self._over(is_over=False)
        return self._source.__exit__(*left)

    async def __aenter__(self) -> Self:
        await self._source.__aenter__()
        return self

    async def __aexit__(self, *left: object) -> Any:
        self._over(is_over=False)
        return await self._source.__aexit__(*left)

    def __del__(self) -> None:
        # Garbage may be collected while a lock of ours is held: nothing is told from here.
        exchange = self.__dict__.get("_exchange")
        if exchange is not None and not exchange.is_settled:
            exchange.watch.dropped(exchange)

    def _take(self, piece: Any) -> None:
        try:
            is_last = self._gathering.take(piece)
        except Exception as exc:  # noqa: BLE001 - the host must not notice
            self._exchange.watch.monitor.health.swallowed("client adapter, a piece of a reply", exc)
            return
        if is_last:
            self._over()

    def _over(self, *, is_over: bool = True) -> None:
        with self._exchange.guard("end of a reply"):
            self._exchange.leave(is_over=is_over)


class WatchedManager:
    """Stands for what opens a stream when it is entered; the stream itself is the library's own."""

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
            failed(self._exchange, exc)
            raise
        return self._opened(stream)

    def __exit__(self, *left: object) -> Any:
        self._left()
        return self._manager.__exit__(*left)

    async def __aenter__(self) -> Any:
        self._exchange.is_sent = True
        try:
            stream = await self._manager.__aenter__()
        except BaseException as exc:
            failed(self._exchange, exc)
            raise
        return self._opened(stream)

    async def __aexit__(self, *left: object) -> Any:
        self._left()
        return await self._manager.__aexit__(*left)

    def _opened(self, stream: Any) -> Any:
        with self._exchange.guard("stream"):
            watch_stream(self._exchange, getattr(stream, "_raw_stream", stream))
        return stream

    def _left(self) -> None:
        with self._exchange.guard("end of a stream"):
            self._exchange.leave()


def _is_stream(result: Any) -> bool:
    if isinstance(result, (str, bytes, Sequence, Mapping)):
        return False
    return hasattr(result, "__iter__") or hasattr(result, "__aiter__")


def _when_opened(exchange: Exchange, response: Any) -> None:
    """A response that the host opens itself is read when it does."""
    parse = response.parse

    def parsed(*args: Any, **kwargs: Any) -> Any:
        value = parse(*args, **kwargs)
        return awaited(exchange, value) if inspect.isawaitable(value) else received(exchange, value)

    exchange.is_streaming = True
    response.parse = parsed


def _closing(exchange: Exchange, close: "weakref.WeakMethod[Any]") -> Any:
    def closed() -> Any:
        with exchange.guard("end of a stream"):
            exchange.leave()
        method = close()
        return method() if method is not None else None

    return closed
