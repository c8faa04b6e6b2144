"""Watch any agent from outside: functions by decorator, objects by the method that runs them."""

import contextvars
import functools
import inspect
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Final, TypeVar, cast

from steadyhelm.adapters.frameworks import describe_frameworks
from steadyhelm.boundary.entry_points import WatchedCall, WatchedObject, join_parts
from steadyhelm.decisions import UNDECIDED, Decision, Verdict
from steadyhelm.engine.live_runs import describe_outcome, find_outer_run_id
from steadyhelm.engine.monitor import Monitor
from steadyhelm.errors import RunStopped, SettingsError
from steadyhelm.events import LLM_REQUEST, STATE_TRANSITION
from steadyhelm.fingerprints import encode_canonical
from steadyhelm.policy.response_levels import choose_verdict

ENTRY_POINTS: Final = ("invoke", "ainvoke", "stream", "astream", "run", "arun", "kickoff", "kickoff_async")
CAN: Final[frozenset[Verdict]] = frozenset({"proceed", "stop"})
"""A plain function call has no way to guide the model: it can go on or be stopped."""

_CHARACTERS_PER_TOKEN: Final = 4

F = TypeVar("F", bound=Callable[..., Any])


def watch_function(monitor: Monitor, function: F, *, action_type: str, name: str | None = None) -> F:
    """Return the function with every call recorded: its arguments by name, its result or error, its time.

    Works for plain functions, coroutines and generators; the function's own exception passes unchanged.
    """
    recorder = _FunctionRecorder(
        monitor, function, action_type, name or str(getattr(function, "__name__", "call"))
    )
    if inspect.iscoroutinefunction(function):
        wrapper = _wrap_coroutine(recorder, function)
    elif inspect.isasyncgenfunction(function):
        wrapper = _wrap_async_generator(recorder, function)
    elif inspect.isgeneratorfunction(function):
        wrapper = _wrap_generator(recorder, function)
    else:
        wrapper = _wrap_plain(recorder, function)
    return cast("F", functools.wraps(function)(wrapper))


def _wrap_plain(recorder: "_FunctionRecorder", function: Callable[..., Any]) -> Callable[..., Any]:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        began_s = recorder.begin()
        try:
            result = function(*args, **kwargs)
        except BaseException as exc:
            recorder.record(args, kwargs, None, exc, began_s)
            raise
        recorder.record(args, kwargs, result, None, began_s)
        return result

    return wrapper


def _wrap_coroutine(recorder: "_FunctionRecorder", function: Callable[..., Any]) -> Callable[..., Any]:
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        began_s = recorder.begin()
        try:
            result = await function(*args, **kwargs)
        except BaseException as exc:
            recorder.record(args, kwargs, None, exc, began_s)
            raise
        recorder.record(args, kwargs, result, None, began_s)
        return result

    return wrapper


def _wrap_generator(recorder: "_FunctionRecorder", function: Callable[..., Any]) -> Callable[..., Any]:
    def wrapper(*args: Any, **kwargs: Any) -> Iterator[Any]:
        began_s, parts = recorder.begin(), []
        try:
            for part in function(*args, **kwargs):
                parts.append(part)
                yield part
        except BaseException as exc:
            recorder.record(args, kwargs, join_parts(parts), exc, began_s)
            raise
        recorder.record(args, kwargs, join_parts(parts), None, began_s)

    return wrapper


def _wrap_async_generator(recorder: "_FunctionRecorder", function: Callable[..., Any]) -> Callable[..., Any]:
    async def wrapper(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        began_s, parts = recorder.begin(), []
        try:
            async for part in function(*args, **kwargs):
                parts.append(part)
                yield part
        except BaseException as exc:
            recorder.record(args, kwargs, join_parts(parts), exc, began_s)
            raise
        recorder.record(args, kwargs, join_parts(parts), None, began_s)

    return wrapper


class _FunctionRecorder:
    """Records the calls of one function."""

    def __init__(self, monitor: Monitor, function: Callable[..., Any], action_type: str, name: str) -> None:
        self._monitor = monitor
        self._action_type = action_type
        self._name = name
        try:
            self._signature: inspect.Signature | None = inspect.signature(function)
        except (TypeError, ValueError):
            self._signature = None

    def begin(self) -> float:
        """Return the time at which a call begins; raises a stop that had to wait."""
        stop = self._monitor.waiting_stop()
        if stop is not None:
            raise stop
        return time.perf_counter()

    def record(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        result: Any,
        error: BaseException | None,
        began_s: float,
    ) -> None:
        """Record a call that has ended; raises to stop, unless the function itself has failed."""
        if isinstance(error, RunStopped | GeneratorExit):
            return
        output = {"text": result} if isinstance(result, str) else result
        decision = self._monitor.record_event(
            self._action_type,
            self._name,
            input_data=self._name_arguments(args, kwargs),
            output_data=output,
            token_count=count_tokens(result) if self._action_type == LLM_REQUEST else 0,
            duration_ms=(time.perf_counter() - began_s) * 1000,
            error=error,
        )
        stop = make_stop(decision, self._monitor, self._monitor.current_run or "")
        if stop is not None and error is not None:
            self._monitor.stop_before_next(stop)  # the function's own error passes first
        elif stop is not None:
            raise stop

    def _name_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        try:
            assert self._signature is not None
            named = dict(self._signature.bind(*args, **kwargs).arguments)
        except (TypeError, AssertionError):
            named = {str(place): value for place, value in enumerate(args)} | kwargs
        for itself in ("self", "cls"):
            named.pop(itself, None)
        return named


class GenericAdapter(WatchedObject):
    """A proxy for an object, watched at the method that runs it, such as `invoke`, `run` or `kickoff`.

    Each call becomes a run with the input as its goal, an event when it starts and one when it ends.
    Everything else about the object stays as it is: other attributes are passed through.
    """

    ENTRY_POINTS = ENTRY_POINTS

    @classmethod
    def can_wrap(cls, agent: Any) -> bool:
        """Return whether the object has one of the methods in `ENTRY_POINTS`."""
        return any(callable(_get_attribute(agent, method)) for method in ENTRY_POINTS)

    def __init__(self, monitor: Monitor, agent: Any, **options: Any) -> None:
        if not self.can_wrap(agent):
            raise SettingsError(
                f"wrap() got a {type(agent).__name__}, which has no method {', '.join(ENTRY_POINTS)}. "
                "Use the @monitor.tool and @monitor.model decorators, or monitor.record_event(). "
                f"Watched at every step are: {describe_frameworks()}."
            )
        if options:
            raise SettingsError(
                f"wrap() takes no {', '.join(options)} for a {type(agent).__name__}: "
                "it is watched from outside only, and its model cannot be guided."
            )
        super().__init__(agent)
        self._monitor = monitor

    def open(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> WatchedCall:
        """Return the watched call, which is a run."""
        run = _ObjectRun(self._monitor, method, args, kwargs)
        return WatchedCall(activate=run.activate, finish=run.finish, args=args, kwargs=kwargs)


class _ObjectRun:
    """The run that one call of a watched object is."""

    def __init__(self, monitor: Monitor, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._monitor = monitor
        self._began_s = time.perf_counter()
        given = args[0] if args else kwargs.get("input", kwargs.get("inputs"))
        start = functools.partial(monitor.start_run, goal=_read_text(given) or None)
        self._run_id = contextvars.copy_context().run(start, parent_run_id=find_outer_run_id())
        monitor.record_event(
            LLM_REQUEST,
            f"agent_{method}",
            run_id=self._run_id,
            input_data=given if isinstance(given, dict) else {"input": given},
        )

    def activate(self) -> AbstractContextManager[None]:
        """Open a block of code that belongs to the run."""
        return self._monitor.within(self._run_id)

    def finish(self, result: Any, error: BaseException | None) -> BaseException | None:
        """Record the result and end the run; return the exception that the caller receives, if any."""
        if error is not None:
            self._fail(error)
            return error
        text = _read_text(result)
        decision = self._monitor.record_event(
            LLM_REQUEST,
            "agent_complete",
            run_id=self._run_id,
            output_data={"text": text} if text else result,
            token_count=count_tokens(result),
            duration_ms=(time.perf_counter() - self._began_s) * 1000,
        )
        stop = make_stop(decision, self._monitor)
        self._monitor.end_run(self._run_id, outcome=describe_outcome(stop))
        return stop

    def _fail(self, error: BaseException) -> None:
        if not isinstance(error, RunStopped | GeneratorExit):
            self._monitor.record_event(
                STATE_TRANSITION,
                "agent_error",
                run_id=self._run_id,
                error=error,
                duration_ms=(time.perf_counter() - self._began_s) * 1000,
            )
        self._monitor.end_run(self._run_id, outcome=describe_outcome(error))


def make_stop(decision: Decision, monitor: Monitor, run_id: str = "") -> RunStopped | None:
    """Return the stop that a decision asks of a function call; None to go on."""
    if decision is UNDECIDED and monitor.fails_closed:
        return RunStopped("Run stopped: a step could not be judged.", run_id=run_id, decision=decision)
    if choose_verdict(decision.action, monitor.mode, CAN).verdict != "stop":
        return None
    finding = decision.findings[0]
    return RunStopped(f"Run stopped: {finding.message}.", run_id=finding.run_id, decision=decision)


def count_tokens(result: Any) -> int:
    """Return the tokens that a result reports; a quarter of its characters where it reports none."""
    usage = _read_usage(result)
    for total in ("total_tokens", "totalTokenCount"):
        if isinstance(usage.get(total), int):
            return int(usage[total])
    parts = [
        usage.get(name) for name in ("input_tokens", "output_tokens", "prompt_tokens", "completion_tokens")
    ]
    if any(isinstance(part, int) for part in parts):
        return sum(part for part in parts if isinstance(part, int))
    return len(_read_text(result)) // _CHARACTERS_PER_TOKEN


def _read_usage(result: Any) -> dict[str, Any]:
    for name in ("usage", "usage_metadata", "token_usage"):
        usage = result.get(name) if isinstance(result, dict) else _get_attribute(result, name)
        if isinstance(usage, dict):
            return usage
        if usage is not None and hasattr(usage, "__dict__"):
            return dict(vars(usage))
    return {}


def _get_attribute(thing: Any, attribute: str) -> Any:
    """Return an attribute of the host's object; None where it has none, or reading it fails."""
    try:
        return getattr(thing, attribute, None)
    except Exception:  # noqa: BLE001 - a property may raise anything
        return None


def _read_text(value: Any) -> str:
    """Return the text in whatever an agent takes or returns."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        for key in ("input", "query", "question", "topic", "task", "text", "output", "content", "result"):
            if isinstance(value.get(key), str):
                return str(value[key])
    for attribute in ("content", "text", "output", "raw"):
        words = _get_attribute(value, attribute)
        if isinstance(words, str):
            return words
    return "" if value is None else encode_canonical(value).decode("utf-8", "replace")
