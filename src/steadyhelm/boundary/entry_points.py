"""Watch an object at its entry points: plain calls, awaited calls and streams.

`watch_stream` and `watch_stream_async` are the one way to follow a stream: the run ends when the stream is
used up, is closed, fails, or is dropped, read or not. `StreamedParts` keeps as much of it as is recorded: a
stream may be longer than memory.
"""

import _thread
import asyncio
import functools
import inspect
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from contextlib import AbstractContextManager, aclosing, suppress
from types import FunctionType, GeneratorType, MethodType
from typing import Any, ClassVar, Final, Literal, Self

from msgspec import Struct

from steadyhelm.boundary.special_methods import choose_proxy_class
from steadyhelm.engine.agent_run import AgentRun
from steadyhelm.fingerprints import MAX_CHARS, encode_canonical, to_plain_data
from steadyhelm.host_objects import MAX_ITEMS, find_attribute, has_methods, is_a

_END_CHARS: Final = 4000
"""How much of the beginning and of the end of a long text is kept."""
Activate = Callable[[], AbstractContextManager[None]]
_END: Final = object()
_FUNCTIONS: Final = (FunctionType, MethodType, functools.partial)
FunctionKind = Literal["coroutine", "async generator", "generator", "plain"]


def find_kind(function: Any) -> FunctionKind:
    """Return what a callable is by its code; an object that is called is what its `__call__` is."""
    if type(function) not in _FUNCTIONS:
        function = find_attribute(type(function), "__call__")
    if type(function) not in _FUNCTIONS:
        return "plain"
    if inspect.iscoroutinefunction(function):
        return "coroutine"
    if inspect.isasyncgenfunction(function):
        return "async generator"
    return "generator" if inspect.isgeneratorfunction(function) else "plain"


class WatchedCall(Struct, frozen=True, kw_only=True):
    """One call of an entry point.

    `activate` opens the block in which the call works. `finish` takes the result or the exception, and
    returns the exception its caller receives, if any. `args` and `kwargs` are what the object is called with.
    `keeps_parts` is whether `finish` wants what was streamed.
    """

    activate: Activate
    finish: Callable[[Any, BaseException | None], BaseException | None]
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}
    keeps_parts: bool = True

    @classmethod
    def for_run(cls, run: AgentRun, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Self:
        """Return a call that is one run: it begins and ends with it."""
        return cls(
            activate=run.activate,
            finish=lambda _, error: run.finish(error),
            args=args,
            kwargs=kwargs or {},
            keeps_parts=False,
        )


class WatchedObject:
    """A proxy for an object: calls of its `ENTRY_POINTS` are watched, other attributes passed through."""

    ENTRY_POINTS: ClassVar[tuple[str, ...]] = ()

    _if_unused: "weakref.finalize[..., Any] | None" = None

    def __init__(self, agent: Any) -> None:
        self._agent = agent
        self.__class__ = choose_proxy_class(type(self), type(agent))

    def call_if_unused(self, then: Callable[[], object]) -> None:
        """Call `then` if this proxy is dropped before it was used; a second call replaces the first."""
        self.note_use()
        self._if_unused = on_garbage_collected(self, then)

    def note_use(self) -> None:
        """Note that this proxy is used; attributes that are passed through do so by themselves."""
        if self._if_unused is not None:
            self._if_unused.detach()
            self._if_unused = None

    def open(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> WatchedCall:
        """Return the watched call for a call of this entry point; adapters start their run here."""
        raise NotImplementedError

    def __getattr__(self, attribute: str) -> Any:
        if attribute == "_agent":
            raise AttributeError(attribute)  # a copy that is not made yet
        self.note_use()
        value = getattr(self._agent, attribute)
        if attribute not in self.ENTRY_POINTS or not callable(value):
            return value
        watch = {
            "coroutine": self._run_async,
            "async generator": self._stream_async,
            "generator": self._stream,
            "plain": self._run,
        }[find_kind(value)]
        return functools.partial(watch, attribute, value)

    def __setattr__(self, attribute: str, value: Any) -> None:
        """Set the attribute on the object itself; names with an underscore belong to the proxy."""
        if attribute.startswith("_"):
            object.__setattr__(self, attribute, value)
        else:
            setattr(self._agent, attribute, value)

    def __delattr__(self, attribute: str) -> None:
        """Delete the attribute where `__setattr__` sets it."""
        if attribute.startswith("_"):
            object.__delattr__(self, attribute)
        else:
            delattr(self._agent, attribute)

    def __repr__(self) -> str:
        return f"<watched {self._agent!r}>"

    def _run(self, method: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        call = self.open(method, args, kwargs)
        try:
            with call.activate():
                result = function(*call.args, **call.kwargs)
        except BaseException as exc:
            _finish_call(call, None, exc)
            raise
        is_stream = method == "stream" and has_methods(result, "__iter__", "__next__")
        if is_stream or type(result) is GeneratorType:
            return watch_stream(call, result)
        if has_methods(result, "__await__"):
            return _await_result(call, result)
        if has_methods(result, "__aiter__", "__anext__"):
            return watch_stream_async(call, result)
        _finish_call(call, result, None)
        return result

    async def _run_async(
        self, method: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> Any:
        call = self.open(method, args, kwargs)
        return await _await_result(call, _call_function(call, function))

    def _stream(
        self, method: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> Iterator[Any]:
        call = self.open(method, args, kwargs)
        yield from watch_stream(call, _call_function(call, function))

    async def _stream_async(
        self, method: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> AsyncIterator[Any]:
        call = self.open(method, args, kwargs)
        async with aclosing(watch_stream_async(call, _call_function(call, function))) as parts:
            async for part in parts:
                yield part


def watch_stream(call: WatchedCall, parts: Iterator[Any]) -> Generator[Any, None, None]:
    """Return the parts of a stream, and finish the call when the stream is over.

    It is over when it is used up, is closed, fails, or is dropped. Only the agent's own steps belong to its
    run, not what the caller does between two of them.
    """
    end = _StreamEnd(call)
    stream = _read_stream(end, parts)
    end.watch(stream)
    return stream


def watch_stream_async(call: WatchedCall, parts: AsyncIterator[Any]) -> AsyncGenerator[Any, None]:
    """Do as `watch_stream` for a stream that is awaited."""
    end = _StreamEnd(call)
    stream = _read_stream_async(end, parts)
    end.watch(stream)
    return stream


def pull(activate: Activate, parts: Iterator[Any]) -> Generator[Any, None, None]:
    """Yield the parts of a stream, each fetched inside the block; close the stream when it is left early."""
    try:
        while (part := _fetch(activate, parts)) is not _END:
            yield part
    except BaseException:
        _close(parts)
        raise


async def pull_async(activate: Activate, parts: AsyncIterator[Any]) -> AsyncGenerator[Any, None]:
    """Do as `pull` for a stream that is awaited."""
    try:
        while (part := await _fetch_async(activate, parts)) is not _END:
            yield part
    except BaseException:
        await _close_async(parts)
        raise


class ClosingAsync:
    """Closes a stream at the end of an `async with` block, unless the loop that ends does it.

    It is no generator itself: that one would be closed by the loop too.
    """

    def __init__(self, parts: AsyncIterator[Any]) -> None:
        self._parts = parts

    async def __aenter__(self) -> AsyncIterator[Any]:
        return self._parts

    async def __aexit__(self, *_: object) -> None:
        await _close_async(self._parts)


class StreamedParts:
    """The parts of one stream: as one text where all of them are text, else as a list.

    >>> parts = StreamedParts()
    >>> parts.add("forty"), parts.add("-two")
    (None, None)
    >>> parts.join()
    'forty-two'
    """

    def __init__(self) -> None:
        self._count = 0
        self._is_text = True
        self._head = ""
        self._tail = ""
        self._length = 0
        self._items: list[Any] = []
        self._room = MAX_CHARS

    def add(self, part: Any) -> None:
        """Keep a part, or count it where there is no more room."""
        self._count += 1
        if self._room > 0 and len(self._items) < MAX_ITEMS:
            plain = to_plain_data(part)
            self._items.append(plain)
            self._room -= len(encode_canonical(plain)) + 1
        if not self._is_text:
            return
        self._is_text = is_a(part, str)
        if self._is_text:
            self._add_text(part)

    def join(self) -> Any:
        """Return the text, with its length in place of what was left out; or the list of parts."""
        if self._count and self._is_text:
            if self._length <= 2 * _END_CHARS:
                return self._head + self._tail
            return f"{self._head}…[{self._length} characters]…{self._tail}"
        if self._count > len(self._items):
            return [*self._items, f"[{self._count} in all]"]
        return self._items

    def _add_text(self, text: str) -> None:
        size = str.__len__(text)
        self._length += size
        # Slices of the text as it came: it may be long, and its class may have methods of its own.
        taken = min(size, _END_CHARS - len(self._head))
        self._head += str.__getitem__(text, slice(taken))
        if taken < size:
            last = str.__getitem__(text, slice(max(taken, size - _END_CHARS), size))
            self._tail = (self._tail + last)[-_END_CHARS:]


def on_garbage_collected(thing: Any, then: Callable[[], object]) -> "weakref.finalize[..., Any]":
    """Call `then` once nothing refers to the object, unless the returned finalizer is detached before.

    The garbage collector may run anywhere, perhaps while we hold a lock: so `then` is called on a thread of
    its own. It must not refer to the object itself, which would never be collected.
    """
    finalizer = weakref.finalize(thing, _call_on_thread, then)
    finalizer.atexit = False
    return finalizer


class _StreamEnd:
    """The end of one watched stream, which comes also for a generator that was dropped before it started."""

    def __init__(self, call: WatchedCall) -> None:
        self.call = call
        self.is_started = False
        self._seen = StreamedParts()

    def watch(self, stream: object) -> None:
        on_garbage_collected(stream, self._drop)

    def see(self, part: Any) -> None:
        if self.call.keeps_parts:
            self._seen.add(part)

    def finish(self, error: BaseException | None) -> None:
        _finish_call(self.call, self._seen.join(), error)

    def _drop(self) -> None:
        if not self.is_started:
            self.call.finish(None, GeneratorExit())


def _read_stream(end: _StreamEnd, parts: Iterator[Any]) -> Generator[Any, None, None]:
    end.is_started = True
    try:
        while (part := _fetch(end.call.activate, parts)) is not _END:
            end.see(part)
            yield part
    except BaseException as exc:
        _close(parts)
        end.finish(exc)
        raise
    end.finish(None)


async def _read_stream_async(end: _StreamEnd, parts: AsyncIterator[Any]) -> AsyncGenerator[Any, None]:
    # Without a generator inside: a loop that ends closes all of them at the same time, which fails.
    end.is_started = True
    try:
        while (part := await _fetch_async(end.call.activate, parts)) is not _END:
            end.see(part)
            yield part
    except BaseException as exc:
        await _close_async(parts)
        end.finish(exc)
        raise
    end.finish(None)


def _fetch(activate: Activate, parts: Iterator[Any]) -> Any:
    with activate():
        return next(parts, _END)


async def _fetch_async(activate: Activate, parts: AsyncIterator[Any]) -> Any:
    with activate():
        return await anext(parts, _END)


def _close(parts: Any) -> None:
    close = getattr(parts, "close", None)
    if close is not None:
        close()


async def _close_async(parts: Any) -> None:
    """Close a stream, but no generator of a loop that ends: it closes all of them at once, each only once."""
    close = getattr(parts, "aclose", None)
    if close is not None and not (inspect.isasyncgen(parts) and _is_loop_ending()):
        await close()


def _is_loop_ending() -> bool:
    try:
        return bool(getattr(asyncio.get_running_loop(), "_asyncgens_shutdown_called", False))
    except RuntimeError:  # a loop of another library
        return False


def _call_function(call: WatchedCall, function: Callable[..., Any]) -> Any:
    """Call a coroutine or generator function; it fails at once where the arguments do not fit."""
    try:
        return function(*call.args, **call.kwargs)
    except BaseException as exc:
        _finish_call(call, None, exc)
        raise


async def _await_result(call: WatchedCall, awaitable: Any) -> Any:
    try:
        with call.activate():
            result = await awaitable
    except BaseException as exc:
        _finish_call(call, None, exc)
        raise
    _finish_call(call, result, None)
    return result


def _finish_call(call: WatchedCall, result: Any, error: BaseException | None) -> None:
    """Finish the call, and raise what its caller receives unless that is `error` itself."""
    raised = call.finish(result, error)
    if raised is not None and raised is not error:
        raise raised from error


def _call_on_thread(then: Callable[[], object]) -> None:
    # Starting a `threading.Thread` takes locks and waits.
    with suppress(RuntimeError):  # no thread can be started while the interpreter shuts down
        _thread.start_new_thread(then, ())
