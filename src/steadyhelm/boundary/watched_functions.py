"""Watch plain functions, by a decorator: every call is recorded as a tool call or a model call."""

import functools
import inspect
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import suppress
from typing import Any, Final, TypeVar, cast

from msgspec import structs

from steadyhelm.boundary.entry_points import StreamedParts, find_kind
from steadyhelm.boundary.results import count_tokens, get_attribute
from steadyhelm.decisions import UNDECIDED, Decision, Verdict
from steadyhelm.engine.monitor import Monitor
from steadyhelm.engine.pending_decisions import format_reason
from steadyhelm.errors import RunStopped, SettingsError
from steadyhelm.events import LLM_REQUEST, TOOL_CALL
from steadyhelm.host_objects import bind_methods, is_a, name_type

CAN: Final[frozenset[Verdict]] = frozenset({"proceed", "stop"})
"""A plain function call has no way to guide the model: it can go on or be stopped."""
CAN_GUIDE: Final[frozenset[Verdict]] = frozenset({*CAN, "guide"})

GUIDANCE_HEADING: Final = "[Guidance from Steadyhelm, not part of the result above]"
MAX_APPENDED_CHARS: Final = 2_000
"""The most that is added to a tool's result."""

LEFT_EARLY: Final = "left_early"
"""In the metadata of an event: its generator was closed or dropped before its end."""

F = TypeVar("F", bound=Callable[..., Any])


def watch_function(
    monitor: Monitor,
    function: F,
    *,
    action_type: str,
    name: str | None = None,
    append_guidance: bool = False,
) -> F:
    """Return the function with every call recorded: its arguments by name, its result or error, its time.

    Works for functions of every kind, and for other callables, whose methods it keeps; their own exception
    passes unchanged. A generator stays one in full: values sent, exceptions thrown in, what it returns, and
    when it cleans up. With `append_guidance`, guidance for the model is added to a result that is text.
    """
    kind: Any = type(function)
    if kind in (staticmethod, classmethod):
        inner = watch_function(
            monitor,
            cast("Any", function).__func__,
            action_type=action_type,
            name=name,
            append_guidance=append_guidance,
        )
        return cast("F", kind(inner))
    if not callable(function):
        raise SettingsError(f"@monitor.tool and @monitor.model take a function, got {name_type(function)}.")
    recorder = _FunctionRecorder(
        monitor, function, action_type, name or find_name(function), appends=append_guidance
    )
    wrap = {
        "coroutine": _wrap_coroutine,
        "async generator": _wrap_async_generator,
        "generator": _wrap_generator,
        "plain": _wrap_plain,
    }[find_kind(function)]
    wrapper = wrap(recorder, function)
    with suppress(Exception):  # a callable of the host may fail when it is asked for its name
        functools.update_wrapper(wrapper, function)
        wrapper.__dict__.update(bind_methods(function) | wrapper.__dict__)
    return cast("F", wrapper)


def find_name(function: Any) -> str:
    """Return the name under which the calls of a function are recorded."""
    while type(function) is functools.partial:
        function = function.func
    name = get_attribute(function, "__name__")
    return name if type(name) is str else name_type(function)


def _wrap_plain(recorder: "_FunctionRecorder", function: Callable[..., Any]) -> Callable[..., Any]:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        began_s = recorder.begin()
        try:
            result = function(*args, **kwargs)
        except BaseException as exc:
            recorder.record(args, kwargs, None, exc, began_s)
            raise
        return recorder.record_result(args, kwargs, result, began_s)

    return wrapper


def _wrap_coroutine(recorder: "_FunctionRecorder", function: Callable[..., Any]) -> Callable[..., Any]:
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        began_s = recorder.begin()
        try:
            result = await function(*args, **kwargs)
        except BaseException as exc:
            recorder.record(args, kwargs, None, exc, began_s)
            raise
        return recorder.record_result(args, kwargs, result, began_s)

    return wrapper


def _wrap_generator(recorder: "_FunctionRecorder", function: Callable[..., Any]) -> Callable[..., Any]:
    def wrapper(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        stream, is_left = recorder.begin_stream(args, kwargs), False
        try:
            generator = function(*args, **kwargs)
            # What is passed on is taken out of a list: nothing refers to it while the generator waits, and no
            # exception to this frame and this frame to it.
            sent, thrown, part = None, list[BaseException](), list[Any]()
            while True:
                try:
                    part.append(generator.throw(thrown.pop()) if thrown else generator.send(sent))
                except StopIteration as end:
                    result = end.value
                    break
                sent, is_left = None, False
                stream.see(part[0])
                try:
                    sent = yield part.pop()
                except BaseException as exc:  # noqa: BLE001 - whatever it is, it is thrown into the generator
                    is_left = type(exc) is GeneratorExit
                    thrown.append(exc)
        except BaseException as exc:
            stream.end(exc, is_left=type(exc) is GeneratorExit)
            raise
        stream.end(None, is_left=is_left)
        return result

    return wrapper


def _wrap_async_generator(recorder: "_FunctionRecorder", function: Callable[..., Any]) -> Callable[..., Any]:
    async def wrapper(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        stream, is_left = recorder.begin_stream(args, kwargs), False
        try:
            generator = function(*args, **kwargs)
            steps, part = [_begin_unseen(generator)], list[Any]()
            while True:
                try:
                    part.append(await steps.pop())
                except StopAsyncIteration:
                    break
                is_left = False
                stream.see(part[0])
                try:
                    sent = yield part.pop()
                except BaseException as exc:  # noqa: BLE001 - whatever it is, it is thrown into the generator
                    is_left = type(exc) is GeneratorExit
                    steps.append(generator.athrow(exc))
                else:
                    steps.append(generator.asend(sent))
                    del sent
        except BaseException as exc:
            stream.end(exc, is_left=type(exc) is GeneratorExit)
            raise
        stream.end(None, is_left=is_left)

    return wrapper


def _begin_unseen(generator: AsyncGenerator[Any, Any]) -> Awaitable[Any]:
    """Return the first step of an async generator that the event loop does not close by itself.

    A loop that ends closes every generator it knows at the same time: it would close this one while the
    generator around it does so.
    """
    hooks = sys.get_asyncgen_hooks()
    sys.set_asyncgen_hooks(None, None)
    try:
        return generator.__anext__()
    finally:
        sys.set_asyncgen_hooks(*hooks)


class _Stream:
    """Records one generator, once: when it ends or is left, at the latest when the run ends it began in.

    Where the host is at the end of its stack the generator goes on, and is recorded as far as there is room.
    """

    def __init__(
        self, recorder: "_FunctionRecorder", args: tuple[Any, ...], kwargs: dict[str, Any], began_s: float
    ) -> None:
        self._recorder = recorder
        self._args, self._kwargs, self._began_s = args, kwargs, began_s
        self._number: int | None = None
        try:
            self._parts = StreamedParts()
            self._open = recorder.monitor.open_streams
            self._run_id = recorder.monitor.current_run
            self._number = self._open.add(self._run_id, self._record_left)
        except RecursionError:
            recorder.monitor.health.out_of_stack += 1

    def see(self, part: Any) -> None:
        """Keep a part that the generator has yielded, or as much of it as is recorded."""
        if self._number is not None:
            with suppress(RecursionError):
                self._parts.add(part)

    def end(self, error: BaseException | None, *, is_left: bool) -> None:
        """Record the end of the generator, unless its run has ended before it; raises to stop."""
        if self._number is None:
            return
        try:
            self._record_end(self._number, error, is_left=is_left)
        except RecursionError:
            self._recorder.monitor.health.out_of_stack += 1

    def _record_end(self, number: int, error: BaseException | None, *, is_left: bool) -> None:
        if not self._open.remove(self._run_id, number):
            return
        if is_left:
            self._record_left()
        else:
            self._recorder.record(self._args, self._kwargs, self._parts.join(), error, self._began_s)

    def _record_left(self) -> None:
        self._recorder.record_left(self._args, self._kwargs, self._parts.join(), self._began_s, self._run_id)


class _FunctionRecorder:
    """Records the calls of one function."""

    def __init__(
        self, monitor: Monitor, function: Callable[..., Any], action_type: str, name: str, *, appends: bool
    ) -> None:
        self.monitor = monitor
        self._health = monitor.health
        self._appends = appends
        self._action_type = action_type
        self._name = name
        self._signature: inspect.Signature | None = None
        with suppress(Exception):  # not every callable has one, and a class of the host may compute its own
            self._signature = inspect.signature(function)

    def begin(self) -> float:
        """Return the time at which a call begins; raises a stop that had to wait, or one for a budget."""
        try:
            if (stop := self.monitor.waiting_stop() or self._refuse_overspending()) is None:
                return time.perf_counter()
        except RecursionError:  # the host is near the end of its stack: the function has room all the same
            return 0.0
        raise stop

    def _refuse_overspending(self) -> RunStopped | None:
        """Return the stop for a tool call after a budget was used up, and record that it was refused."""
        monitor = self.monitor
        if self._action_type != TOOL_CALL or monitor.mode != "enforce":
            return None
        decision = monitor.before_tool(self._name)
        is_spent = any(it is not None and it.exhausted for it in (decision.budget, decision.daily_budget))
        if not is_spent or decision.verdict in {"proceed", "guide"}:
            return None
        stop = make_stop(structs.replace(decision, verdict="stop", wanted="ask"), monitor)
        monitor.call_refused(self._name, reason=str(stop), decision=decision)
        return stop

    def record(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        result: Any,
        error: BaseException | None,
        began_s: float,
    ) -> None:
        """Record a call that has ended; raises to stop, unless the function itself has failed."""
        try:
            self._record(args, kwargs, result, error, began_s, find_verdicts(self.monitor))
        except RecursionError:  # the host is at the end of its stack: the function has ended all the same
            self._health.out_of_stack += 1

    def begin_stream(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> "_Stream":
        """Return what records a generator that begins; raises a stop that had to wait."""
        return _Stream(self, args, kwargs, self.begin())

    def record_left(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, began_s: float, run_id: str | None
    ) -> None:
        """Record a generator that was left before its end, with what it yielded until then. Never raises."""
        event = self._describe(args, kwargs, result, began_s)
        decision = self.monitor.record_event(**event, run_id=run_id, metadata={LEFT_EARLY: True}, can=CAN)
        if (stop := make_stop(decision, self.monitor, run_id or "")) is not None:
            self.monitor.stop_before_next(stop)  # closing a generator raises nothing

    def record_result(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, began_s: float
    ) -> Any:
        """Record a call that has returned; return its result, with guidance added where that is asked."""
        try:
            # A subclass of str would become a plain one: it is left as it is.
            if not self._appends or type(result) is not str:
                self.record(args, kwargs, result, None, began_s)
                return result
            self._record(args, kwargs, result, None, began_s, CAN_GUIDE)
            guidance = self.monitor.guidance()
        except RecursionError:
            self._health.out_of_stack += 1
            return result
        return f"{result}\n\n{GUIDANCE_HEADING}\n{guidance[:MAX_APPENDED_CHARS]}" if guidance else result

    def _record(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        result: Any,
        error: BaseException | None,
        began_s: float,
        can: frozenset[Verdict],
    ) -> None:
        if is_a(error, RunStopped):
            return
        decision = self.monitor.record_event(
            **self._describe(args, kwargs, result, began_s), error=error, can=can
        )
        stop = make_stop(decision, self.monitor, self.monitor.current_run or "")
        if stop is not None and error is not None:
            self.monitor.stop_before_next(stop)  # the function's own error passes first
        elif stop is not None:
            raise stop

    def _describe(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, began_s: float
    ) -> dict[str, Any]:
        return {
            "action_type": self._action_type,
            "action_name": self._name,
            "input_data": self._name_arguments(args, kwargs),
            "output_data": {"text": result} if is_a(result, str) else result,
            "token_count": count_tokens(result) if self._action_type == LLM_REQUEST else 0,
            "duration_ms": (time.perf_counter() - began_s) * 1000,
        }

    def _name_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        named = {str(place): value for place, value in enumerate(args)} | kwargs
        if self._signature is not None:
            with suppress(TypeError):
                named = dict(self._signature.bind(*args, **kwargs).arguments)
        for itself in ("self", "cls"):
            named.pop(itself, None)
        return named


def find_verdicts(monitor: Monitor) -> frozenset[Verdict]:
    """Return what can be carried out at a function's call: guidance, where a callback receives decisions."""
    return CAN_GUIDE if monitor.has_decision_callback else CAN


def make_stop(decision: Decision, monitor: Monitor, run_id: str = "") -> RunStopped | None:
    """Return the stop that a decision asks of a function call; None to go on."""
    if decision is UNDECIDED and monitor.fails_closed:
        return RunStopped("Run stopped: a step could not be judged.", run_id=run_id, decision=decision)
    if decision.verdict != "stop":
        return None
    where = decision.findings[0].run_id if decision.findings else run_id
    return RunStopped(f"Run stopped. {format_reason(decision)}", run_id=where, decision=decision)
