"""An object whose entry points are watched: plain, awaited or streamed; all else about it stays as it is."""

import functools
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Self

from msgspec import Struct

from steadyhelm.boundary.agent_run import AgentRun


class WatchedCall(Struct, frozen=True, kw_only=True):
    """One call of an entry point: the arguments it is made with, and what is told about it.

    `entered` is the block in which it works. `finished` takes its result, or its exception, and gives the
    exception its caller shall receive, if any; `keeps_parts` says that it wants what was streamed.
    """

    activate: Callable[[], AbstractContextManager[None]]
    finish: Callable[[Any, BaseException | None], BaseException | None]
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}
    keeps_parts: bool = True

    @classmethod
    def of(cls, run: AgentRun, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Self:
        """A call that is a watched run."""
        return cls(
            activate=run.activate,
            finish=lambda _, error: run.finish(error),
            args=args,
            kwargs=kwargs,
            keeps_parts=False,
        )


class WatchedObject:
    """Stands for an object: its entry points are watched, its other attributes passed through."""

    ENTRY_POINTS: ClassVar[tuple[str, ...]] = ()

    def __init__(self, agent: Any) -> None:
        self._agent = agent

    def open(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> WatchedCall:
        """An entry point is called."""
        raise NotImplementedError

    def __getattr__(self, attribute: str) -> Any:
        if attribute == "_agent":
            raise AttributeError(attribute)  # a copy that is not made yet
        value = getattr(self._agent, attribute)
        if attribute not in self.ENTRY_POINTS or not callable(value):
            return value
        if inspect.iscoroutinefunction(value):
            return functools.partial(self._run_async, attribute, value)
        if inspect.isasyncgenfunction(value):
            return functools.partial(self._stream_async, attribute, value)
        if inspect.isgeneratorfunction(value):
            return functools.partial(self._stream, attribute, value)
        return functools.partial(self._run, attribute, value)

    def __setattr__(self, attribute: str, value: Any) -> None:
        """What is set on it is set on the object it stands for; names with an underscore are its own."""
        if attribute.startswith("_"):
            object.__setattr__(self, attribute, value)
        else:
            setattr(self._agent, attribute, value)

    def __repr__(self) -> str:
        return f"<watched {self._agent!r}>"

    def _run(self, method: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        entry = self.open(method, args, kwargs)
        try:
            with entry.activate():
                result = function(*entry.args, **entry.kwargs)
        except BaseException as exc:
            _leave(entry, None, exc)
            raise
        if inspect.isgenerator(result) or (isinstance(result, Iterator) and method == "stream"):
            return watch_stream(entry, result)
        if inspect.isawaitable(result):
            return _awaited(entry, result)
        if isinstance(result, AsyncIterator):
            return watch_stream_async(entry, result)
        _leave(entry, result, None)
        return result

    async def _run_async(
        self, method: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> Any:
        entry = self.open(method, args, kwargs)
        return await _awaited(entry, _made(entry, function))

    def _stream(
        self, method: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> Iterator[Any]:
        entry = self.open(method, args, kwargs)
        yield from watch_stream(entry, _made(entry, function))

    async def _stream_async(
        self, method: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> AsyncIterator[Any]:
        entry = self.open(method, args, kwargs)
        async for part in watch_stream_async(entry, _made(entry, function)):
            yield part


def _made(entry: WatchedCall, function: Callable[..., Any]) -> Any:
    """The call as such, which fails at once where its arguments do not fit."""
    try:
        return function(*entry.args, **entry.kwargs)
    except BaseException as exc:
        _leave(entry, None, exc)
        raise


def _leave(entry: WatchedCall, result: Any, error: BaseException | None) -> None:
    """The call is over: raise what its caller shall receive, unless that is what it has already."""
    left = entry.finish(result, error)
    if left is not None and left is not error:
        raise left from error


async def _awaited(entry: WatchedCall, coming: Any) -> Any:
    try:
        with entry.activate():
            result = await coming
    except BaseException as exc:
        _leave(entry, None, exc)
        raise
    _leave(entry, result, None)
    return result


def watch_stream(entry: WatchedCall, parts: Iterator[Any]) -> Iterator[Any]:
    """What a call streams, part by part; it is over when they are."""
    seen = []
    try:
        while True:
            # Only the agent's own steps belong to its run, not what its caller does between two of them.
            with entry.activate():
                try:
                    part = next(parts)
                except StopIteration:
                    break
            if entry.keeps_parts:
                seen.append(part)
            yield part
    except BaseException as exc:
        _close(parts)
        _leave(entry, joined(seen), exc)
        raise
    _leave(entry, joined(seen), None)


async def watch_stream_async(entry: WatchedCall, parts: AsyncIterator[Any]) -> AsyncIterator[Any]:
    """The same, awaited."""
    seen = []
    try:
        while True:
            with entry.activate():
                try:
                    part = await anext(parts)
                except StopAsyncIteration:
                    break
            if entry.keeps_parts:
                seen.append(part)
            yield part
    except BaseException as exc:
        close = getattr(parts, "aclose", None)
        if close is not None and isinstance(exc, GeneratorExit):
            await close()
        _leave(entry, joined(seen), exc)
        raise
    _leave(entry, joined(seen), None)


def _close(parts: Iterator[Any]) -> None:
    close = getattr(parts, "close", None)
    if close is not None:
        close()


def joined(parts: list[Any]) -> Any:
    """What was streamed, as one text where it is text."""
    return "".join(parts) if parts and all(isinstance(part, str) for part in parts) else parts
