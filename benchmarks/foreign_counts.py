"""Count the model and tool calls that a framework's own tests make, and those that Steadyhelm records.

What is made is counted without Steadyhelm, where the framework calls its models and tools: at the functions
and base classes that every call passes. Two rules say what is no call of an agent: what a test calls without
any run of an agent, and what the code of a tool calls by itself, which is part of that tool's call.
"""

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import Any, Literal

from benchmarks.foreign_comparison import MODEL, TOOL, Call
from msgspec import Struct

from steadyhelm.boundary.patches import Method, Patches
from steadyhelm.sink import Record, RecordedEvent, Sink

INTERRUPTED = "interrupted"

_place: ContextVar[Literal["", "run", "tool"]] = ContextVar("place", default="")
"""What encloses the code running now: a run of an agent, a tool, or neither."""


class MadeCall(Struct):
    """A call that a framework makes; `not_run` turns out at its end."""

    kind: str
    call_id: str = ""
    name: str = ""
    not_run: str = ""


Read = Callable[[tuple[Any, ...], dict[str, Any]], MadeCall | None]
"""Tells from the arguments what a call counts as; None for one that does not count."""


class RecordedCalls(Sink):
    """Collects the calls that are recorded."""

    name = "foreign_counts"

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def write(self, records: Sequence[Record]) -> None:
        """Collect the model and tool calls of a batch."""
        for event in (record.event for record in records if isinstance(record, RecordedEvent)):
            if event.action_type == "llm_request":
                self.calls.append(Call(MODEL, "", "", event.not_run))
            elif event.action_type == "tool_call":
                self.calls.append(Call(TOOL, event.call_id or "", event.action_name, event.not_run))


class MadeCalls:
    """Collects the calls that a framework makes.

    Args:
        suite: The name of the suite, as in `benchmarks.foreign`.
    """

    def __init__(self, suite: str) -> None:
        self._made: list[MadeCall] = []
        self._interrupts: tuple[type[BaseException], ...] = ()
        self._interrupt_events: tuple[type, ...] = ()
        self._live_runs = 0
        self._patches = Patches()
        getattr(self, f"_count_{suite.replace('-', '_')}")()

    @property
    def calls(self) -> list[Call]:
        """The calls so far."""
        return [Call(it.kind, it.call_id, it.name, it.not_run) for it in self._made]

    def clear(self) -> None:
        """Forget the calls so far."""
        self._made.clear()

    # --- the frameworks ------------------------------------------------------------------------------

    def _count_langchain(self) -> None:
        from langchain_core.language_models import BaseChatModel  # noqa: PLC0415 - in its environment only
        from langchain_core.tools import BaseTool  # noqa: PLC0415
        from langgraph.errors import GraphInterrupt  # noqa: PLC0415

        self._interrupts = (GraphInterrupt,)
        for name in ("_generate_with_cache", "_agenerate_with_cache"):
            self._patches.replace_method(BaseChatModel, name, self._make_counter(_read_model))
        for name, is_async in (("stream", False), ("astream", True)):
            read = functools.partial(_read_langchain_stream, is_async)
            self._patches.replace_method(BaseChatModel, name, self._make_counter(read))
        for name in ("run", "arun"):
            self._patches.replace_method(BaseTool, name, self._make_counter(_read_langchain_tool))

    def _count_openai_agents(self) -> None:
        from agents import tool as tools  # noqa: PLC0415 - in its environment only
        from agents.run import AgentRunner  # noqa: PLC0415
        from agents.run_internal import model_retry, turn_resolution  # noqa: PLC0415

        for name in ("run", "run_sync", "run_streamed"):
            self._patches.replace_method(AgentRunner, name, _mark_run)
        # Where the SDK asks a model, at each attempt: tests replace the methods of single models.
        for function, option in (
            (model_retry.get_response_with_retry, "get_response"),
            (model_retry.stream_response_with_retry, "get_stream"),
        ):
            self._patches.replace_function(function, self._make_option_counter(option))
        process = turn_resolution.process_model_response
        self._patches.replace_function(process, self._count_provider_calls)
        function = tools._invoke_function_tool_with_metadata  # noqa: SLF001 - every call passes it
        self._patches.replace_function(function, self._make_counter(_only_in_run(_read_agents_tool)))

    def _count_strands(self) -> None:
        from strands import Agent  # noqa: PLC0415 - in its environment only
        from strands.event_loop.streaming import stream_messages  # noqa: PLC0415
        from strands.interrupt import InterruptException  # noqa: PLC0415
        from strands.multiagent.graph import Graph  # noqa: PLC0415
        from strands.multiagent.swarm import Swarm  # noqa: PLC0415
        from strands.types._events import MultiAgentNodeInterruptEvent, ToolInterruptEvent  # noqa: PLC0415
        from strands.types.tools import AgentTool  # noqa: PLC0415

        self._interrupts = (InterruptException,)
        self._interrupt_events = (ToolInterruptEvent, MultiAgentNodeInterruptEvent)
        self._patches.replace_method(Agent, "stream_async", _mark_run)
        # Not at the class of models: many of the tests have models that are no instances of it.
        self._patches.replace_function(stream_messages, self._make_counter(_only_in_run(_read_model)))
        self._count_subclasses(AgentTool, ("stream",), _only_in_run(_read_strands_tool))
        for owner in (Graph, Swarm):
            self._patches.replace_method(owner, "_execute_node", self._make_counter(_read_strands_node))

    def _count_pydantic_ai(self) -> None:
        from pydantic_ai import Agent, UserPromptNode  # noqa: PLC0415 - in its environment only
        from pydantic_ai.exceptions import ApprovalRequired, CallDeferred  # noqa: PLC0415
        from pydantic_ai.models import Model  # noqa: PLC0415
        from pydantic_ai.models.fallback import FallbackModel  # noqa: PLC0415
        from pydantic_ai.models.wrapper import WrapperModel  # noqa: PLC0415
        from pydantic_ai.tool_manager import ToolManager  # noqa: PLC0415
        from pydantic_ai.toolsets.function import FunctionToolset  # noqa: PLC0415

        delegating = (WrapperModel, FallbackModel)

        def read_model(args: tuple[Any, ...], _: dict[str, Any]) -> MadeCall | None:
            caller = _find_caller()
            is_inner = isinstance(caller, Model) and not isinstance(caller, delegating)
            is_outer = isinstance(args[0], delegating) or self._live_runs == 0
            return None if is_inner or is_outer or _is_continuation(args[1]) else MadeCall(MODEL)

        self._patches.replace_method(Agent, "iter", self._count_live)
        self._interrupts = (ApprovalRequired, CallDeferred)
        self._count_subclasses(Model, ("request", "request_stream"), read_model)
        self._patches.replace_method(FunctionToolset, "call_tool", self._make_counter(_read_pydantic_tool))
        make = self._make_results_counter
        self._patches.replace_method(
            UserPromptNode, "_handle_deferred_tool_results", make(lambda args, _: args[1])
        )
        self._patches.replace_method(ToolManager, "resolve_deferred_tool_calls", make(lambda _, given: given))

    # --- counting ------------------------------------------------------------------------------------

    def _make_counter(self, read: Read) -> Callable[[Method], Method]:
        def make(original: Method) -> Method:
            def call(*args: Any, **options: Any) -> Any:
                made = read(args, options)
                if made is None:
                    return original(*args, **options)
                self._made.append(made)
                return (
                    self._follow(made, original, args, options)
                    if made.kind == TOOL
                    else original(*args, **options)
                )

            return call

        return make

    def _make_option_counter(self, option: str) -> Callable[[Method], Method]:
        """Count the calls of a function that is given as an option."""

        def make(original: Method) -> Method:
            def call(**options: Any) -> Any:
                counted = self._make_counter(_only_in_run(_read_model))(options[option])
                return original(**{**options, option: counted})

            return call

        return make

    def _count_provider_calls(self, original: Method) -> Method:
        """Count the calls of a reply that the SDK leaves alone: the model's provider has made them."""

        def process(*args: Any, **options: Any) -> Any:
            found = original(*args, **options)
            if _place.get() == "run":
                queues = (it for it in vars(found).values() if isinstance(it, list))
                queued = {
                    _get_id(it.tool_call) for queue in queues for it in queue if hasattr(it, "tool_call")
                }
                called = [_get_id(it.raw_item) for it in found.new_items if it.type == "tool_call_item"]
                self._made += [MadeCall(TOOL, call_id) for call_id in called if call_id not in queued]
            return found

        return process

    def _count_live(self, original: Method) -> Method:
        @asynccontextmanager
        async def iterate(*args: Any, **options: Any) -> Any:
            self._live_runs += 1
            try:
                async with original(*args, **options) as run:
                    yield run
            finally:
                self._live_runs -= 1

        return iterate

    def _make_results_counter(self, find: Callable[[Any, Any], Any]) -> Callable[[Method], Method]:
        """Count the deferred calls whose results the host gives to a run: it has made them elsewhere."""

        def make(original: Method) -> Method:
            async def handle(*args: Any, **options: Any) -> Any:
                came = await original(*args, **options)
                results = find(args, came)
                self._made += [MadeCall(TOOL, call_id) for call_id in (results.calls if results else ())]
                return came

            return handle

        return make

    def _follow(
        self, made: MadeCall, original: Method, args: tuple[Any, ...], options: dict[str, Any]
    ) -> Any:
        """Make a tool call, and note when it is left by an interrupt."""
        with self._inside(made):
            result = original(*args, **options)
        if inspect.isasyncgen(result):
            return self._follow_parts(made, result)
        return self._follow_awaited(made, result) if inspect.iscoroutine(result) else result

    async def _follow_awaited(self, made: MadeCall, result: Any) -> Any:
        with self._inside(made):
            return await result

    async def _follow_parts(self, made: MadeCall, parts: Any) -> Any:
        async with aclosing(parts):
            while True:
                try:
                    with self._inside(made):
                        part = await anext(parts)
                except StopAsyncIteration:
                    return
                if isinstance(part, self._interrupt_events):
                    made.not_run = INTERRUPTED
                yield part

    @contextmanager
    def _inside(self, made: MadeCall) -> Iterator[None]:
        token = _place.set("tool")
        try:
            yield
        except self._interrupts:
            made.not_run = INTERRUPTED
            raise
        finally:
            _place.reset(token)

    def _count_subclasses(self, base: type, names: Sequence[str], read: Read) -> None:
        """Count calls of these methods in every subclass there is and will be; one by `super()` is none."""

        def count_in(owner: type) -> None:
            for name in names:
                if name in vars(owner) and not getattr(vars(owner)[name], "__isabstractmethod__", False):
                    self._patches.replace_method(
                        owner, name, self._make_counter(_only_own(owner, name, read))
                    )

        def start_subclass(cls: type, **options: Any) -> None:
            before.__get__(None, cls)(**options)
            count_in(cls)

        before = inspect.getattr_static(base, "__init_subclass__")
        base.__init_subclass__ = classmethod(start_subclass)  # type: ignore[assignment]
        waiting = list(base.__subclasses__())
        while waiting:
            owner = waiting.pop()
            waiting += owner.__subclasses__()
            count_in(owner)


def _only_own(owner: type, name: str, read: Read) -> Read:
    """Leave out calls for an object whose class has a method of its own instead: that one is counted."""

    def read_own(args: tuple[Any, ...], options: dict[str, Any]) -> MadeCall | None:
        nearest = next((kind for kind in type(args[0]).__mro__ if name in vars(kind)), owner)
        return read(args, options) if nearest is owner else None

    return read_own


def _only_in_run(read: Read) -> Read:
    """Leave out what a test calls without a run, and what a tool's own code calls."""
    return lambda args, options: read(args, options) if _place.get() == "run" else None


def _mark_run(original: Method) -> Method:
    """Let the code of a run, and the tasks that it starts, be known as inside of it."""

    def run(*args: Any, **options: Any) -> Any:
        token = _place.set("run")
        try:
            return original(*args, **options)
        finally:
            _place.reset(token)

    async def run_async(*args: Any, **options: Any) -> Any:
        token = _place.set("run")
        try:
            return await original(*args, **options)
        finally:
            _place.reset(token)

    async def run_parts(*args: Any, **options: Any) -> Any:
        async with aclosing(original(*args, **options)) as parts:
            while True:
                token = _place.set("run")
                try:
                    part = await anext(parts)
                except StopAsyncIteration:
                    return
                finally:
                    _place.reset(token)
                yield part

    if inspect.isasyncgenfunction(original):
        return run_parts
    return run_async if inspect.iscoroutinefunction(original) else run


# --- what the arguments tell -------------------------------------------------------------------------


def _read_model(_args: tuple[Any, ...], _options: dict[str, Any]) -> MadeCall:
    return MadeCall(MODEL)


def _read_langchain_stream(is_async: bool, args: tuple[Any, ...], options: dict[str, Any]) -> MadeCall | None:
    # A model that cannot stream is invoked instead, which counts by itself.
    given = {name: value for name, value in options.items() if name not in {"input", "config", "stop"}}
    streams = args[0]._should_stream(async_api=is_async, **{**given, "stream": True})  # noqa: SLF001
    return MadeCall(MODEL) if streams else None


def _read_langchain_tool(args: tuple[Any, ...], options: dict[str, Any]) -> MadeCall:
    return MadeCall(TOOL, options.get("tool_call_id") or "", str(args[0].name))


def _read_agents_tool(_args: tuple[Any, ...], options: dict[str, Any]) -> MadeCall:
    return MadeCall(TOOL, options["context"].tool_call_id, str(options["function_tool"].name))


def _get_id(item: Any) -> str:
    get = item.get if isinstance(item, dict) else functools.partial(getattr, item)
    return str(get("call_id", None) or get("id", None))


def _find_caller() -> Any:
    """Return the object in whose method a counted call is made."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__") == __name__:
        frame = frame.f_back
    return None if frame is None else frame.f_locals.get("self")


def _is_continuation(messages: list[Any]) -> bool:
    # The provider has paused its reply: the framework lets it go on, and gives one reply with all tokens.
    return getattr(messages[-1], "state", "") == "suspended"


def _read_strands_tool(args: tuple[Any, ...], options: dict[str, Any]) -> MadeCall:
    use = args[1] if len(args) > 1 else options["tool_use"]
    return MadeCall(TOOL, str(use["toolUseId"]), str(args[0].tool_name))


def _read_strands_node(args: tuple[Any, ...], options: dict[str, Any]) -> MadeCall:
    return MadeCall(TOOL, "", str((args[1] if len(args) > 1 else options["node"]).node_id))


def _read_pydantic_tool(args: tuple[Any, ...], _options: dict[str, Any]) -> MadeCall:
    return MadeCall(TOOL, args[3].tool_call_id or "", str(args[1]))
