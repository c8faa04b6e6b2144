"""Count the model and tool calls that a framework's own tests make, and those that Steadyhelm records.

What is made is counted without Steadyhelm, where the framework calls its models and tools: at the base
classes and functions that every call passes.
"""

import functools
import inspect
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import aclosing
from contextvars import ContextVar
from typing import Any

from steadyhelm.boundary.patches import Method, Patches
from steadyhelm.sink import Record, RecordedEvent, Sink

MODEL, TOOL = "model", "tool"
Calls = Counter[tuple[str, str]]
"""How often each kind of call was made, with the tool's name; models have none."""

_is_inside_run: ContextVar[bool] = ContextVar("is_inside_run", default=False)

Read = Callable[[tuple[Any, ...], dict[str, Any]], tuple[str, str] | None]
"""Tells from the arguments what a call counts as; None for one that does not count."""


class RecordedCalls(Sink):
    """Counts the calls that are recorded."""

    name = "foreign_counts"

    def __init__(self) -> None:
        self.calls: Calls = Counter()

    def write(self, records: Sequence[Record]) -> None:
        """Count the model and tool calls of a batch."""
        for record in records:
            if not isinstance(record, RecordedEvent):
                continue
            if record.event.action_type == "llm_request":
                self.calls[MODEL, ""] += 1
            elif record.event.action_type == "tool_call":
                self.calls[TOOL, record.event.action_name] += 1


class MadeCalls:
    """Counts the calls that a framework makes.

    Args:
        suite: The name of the suite, as in `benchmarks.foreign`.
    """

    def __init__(self, suite: str) -> None:
        self.calls: Calls = Counter()
        self._live_agents = 0
        self._patches = Patches()
        getattr(self, f"_count_{suite.replace('-', '_')}")()

    # --- the frameworks ------------------------------------------------------------------------------

    def _count_langchain(self) -> None:
        from langchain_core.language_models import BaseChatModel  # noqa: PLC0415 - in its environment only
        from langchain_core.tools import BaseTool  # noqa: PLC0415

        for name in ("_generate_with_cache", "_agenerate_with_cache"):
            self._patches.replace_method(BaseChatModel, name, self._make_counter(_is_model_call))
        for name, is_async in (("stream", False), ("astream", True)):
            read = functools.partial(_read_langchain_stream, is_async)
            self._patches.replace_method(BaseChatModel, name, self._make_counter(read))
        for name in ("run", "arun"):
            self._patches.replace_method(BaseTool, name, self._make_counter(_read_langchain_tool))

    def _count_openai_agents(self) -> None:
        from agents import tool as tools  # noqa: PLC0415 - in its environment only
        from agents.models.interface import Model  # noqa: PLC0415
        from agents.run import AgentRunner  # noqa: PLC0415

        for name in ("run", "run_sync", "run_streamed"):
            self._patches.replace_method(AgentRunner, name, _mark_run)
        self._count_subclasses(Model, ("get_response", "stream_response"), _is_model_call)
        function = tools._invoke_function_tool_with_metadata  # noqa: SLF001 - every call passes it
        self._patches.replace_function(function, self._make_counter(_read_agents_tool))

    def _count_strands(self) -> None:
        from strands import Agent  # noqa: PLC0415 - in its environment only
        from strands.event_loop.streaming import stream_messages  # noqa: PLC0415
        from strands.types.tools import AgentTool  # noqa: PLC0415

        def count_inside(read: Read) -> Read:
            """Leave out what tests of its inner functions call without any agent."""
            return lambda args, options: read(args, options) if self._live_agents else None

        self._patches.replace_method(Agent, "stream_async", self._count_live)
        # Not at the class of models: many of the tests have models that are no instances of it.
        self._patches.replace_function(stream_messages, self._make_counter(count_inside(_is_model_call)))
        self._count_subclasses(AgentTool, ("stream",), count_inside(_read_strands_tool))

    def _count_pydantic_ai(self) -> None:
        from pydantic_ai.models import Model  # noqa: PLC0415 - in its environment only
        from pydantic_ai.models.fallback import FallbackModel  # noqa: PLC0415
        from pydantic_ai.models.wrapper import WrapperModel  # noqa: PLC0415
        from pydantic_ai.toolsets.function import FunctionToolset  # noqa: PLC0415

        def read_model(args: tuple[Any, ...], _: dict[str, Any]) -> tuple[str, str] | None:
            return None if isinstance(args[0], WrapperModel | FallbackModel) else (MODEL, "")

        self._count_subclasses(Model, ("request", "request_stream"), read_model)
        self._patches.replace_method(
            FunctionToolset, "call_tool", self._make_counter(lambda args, _: (TOOL, str(args[1])))
        )

    # --- counting ------------------------------------------------------------------------------------

    def _make_counter(self, read: Read) -> Callable[[Method], Method]:
        def make(original: Method) -> Method:
            def call(*args: Any, **options: Any) -> Any:
                counted = read(args, options)
                if counted is not None:
                    self.calls[counted] += 1
                return original(*args, **options)

            return call

        return make

    def _count_live(self, original: Method) -> Method:
        async def stream(*args: Any, **options: Any) -> Any:
            self._live_agents += 1
            try:
                async with aclosing(original(*args, **options)) as parts:
                    async for part in parts:
                        yield part
            finally:
                self._live_agents -= 1

        return stream

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

    def read_own(args: tuple[Any, ...], options: dict[str, Any]) -> tuple[str, str] | None:
        nearest = next((kind for kind in type(args[0]).__mro__ if name in vars(kind)), owner)
        return read(args, options) if nearest is owner else None

    return read_own


def _is_model_call(_args: tuple[Any, ...], _options: dict[str, Any]) -> tuple[str, str]:
    return MODEL, ""


def _read_langchain_stream(
    is_async: bool, args: tuple[Any, ...], options: dict[str, Any]
) -> tuple[str, str] | None:
    # A model that cannot stream is invoked instead, which counts by itself.
    given = {name: value for name, value in options.items() if name not in {"input", "config", "stop"}}
    streams = args[0]._should_stream(async_api=is_async, **{**given, "stream": True})  # noqa: SLF001
    return (MODEL, "") if streams else None


def _read_langchain_tool(args: tuple[Any, ...], _options: dict[str, Any]) -> tuple[str, str]:
    return TOOL, str(args[0].name)


def _mark_run(original: Method) -> Method:
    """Let the code of a run, and the tasks that it starts, be known as inside of it."""

    def run(*args: Any, **options: Any) -> Any:
        token = _is_inside_run.set(True)
        try:
            return original(*args, **options)
        finally:
            _is_inside_run.reset(token)

    async def run_async(*args: Any, **options: Any) -> Any:
        token = _is_inside_run.set(True)
        try:
            return await original(*args, **options)
        finally:
            _is_inside_run.reset(token)

    return run_async if inspect.iscoroutinefunction(original) else run


def _read_agents_tool(_args: tuple[Any, ...], options: dict[str, Any]) -> tuple[str, str] | None:
    # Many tests call the inner functions that call a tool, without any run.
    return (TOOL, str(options["function_tool"].name)) if _is_inside_run.get() else None


def _read_strands_tool(args: tuple[Any, ...], _options: dict[str, Any]) -> tuple[str, str]:
    return TOOL, str(args[0].tool_name)
