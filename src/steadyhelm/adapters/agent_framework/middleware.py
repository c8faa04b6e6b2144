"""Watch agents of Microsoft Agent Framework through its three middlewares: agent, chat and function.

The framework keeps the conversation. Words of ours, and what was taken back, are edits of each request.
"""

import asyncio
import copy
import itertools
import sys
import weakref
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Literal, Self

from steadyhelm.adapter import Instruction
from steadyhelm.adapters.agent_framework.messages import args_of, value_of
from steadyhelm.adapters.agent_framework.requests import approval, ask, failed, is_closing_calls, replied
from steadyhelm.adapters.agent_framework.runs import CAN, CAN_APPROVE, Live, Runs
from steadyhelm.boundary.driver import Ask, Boundary
from steadyhelm.engine.monitor import Monitor
from steadyhelm.errors import MissingExtraError

try:
    from agent_framework import (
        AgentContext,
        AgentMiddleware,
        AgentMiddlewareLayer,
        ChatContext,
        ChatMiddleware,
        FunctionInvocationContext,
        FunctionMiddleware,
        MiddlewareFailure,
        MiddlewareTermination,
        ResponseStream,
        UserInputRequiredException,
    )
except ImportError as exc:
    raise MissingExtraError("Agent Framework adapter", extra="agent-framework") from exc

Next = Callable[[], Awaitable[None]]

_keys: Final = itertools.count()


class SteadyhelmMiddleware(tuple[Any, ...]):
    """The three middlewares, for `Agent(client, middleware=SteadyhelmMiddleware(monitor))`.

    Beside others: `middleware=[*SteadyhelmMiddleware(monitor), mine]`. Several agents may share them.

    Args:
        monitor: Who watches.
        ask: Puts a question to the user and gives the answer. "approval" asks by the framework's approvals:
            the agent returns with a request among `user_input_requests`, and goes on with the response to it.
    """

    __slots__ = ()

    def __new__(cls, monitor: Monitor, *, ask: Ask | Literal["approval"] | None = None) -> Self:  # noqa: D102
        native = isinstance(ask, str) and ask == "approval"
        boundary = Boundary(
            monitor,
            "agent_framework",
            CAN_APPROVE if native else CAN,
            ask=None if native else ask,  # type: ignore[arg-type]
            control=(MiddlewareTermination, UserInputRequiredException),
        )
        runs = Runs(boundary)
        return super().__new__(cls, (_AgentRuns(runs), _ModelCalls(runs), _ToolCalls(runs)))

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


class AgentFrameworkAdapter:
    """What `monitor.wrap` gives for an agent: a copy of it that has our middlewares as well."""

    @staticmethod
    def can_wrap(agent: Any) -> bool:
        """Whether it is an agent that takes middleware."""
        return issubclass(type(agent), AgentMiddlewareLayer)

    def __new__(cls, monitor: Monitor, agent: Any, **options: Any) -> Any:  # noqa: D102
        ours = SteadyhelmMiddleware(monitor, **options)
        if monitor.disabled:
            return agent
        watched = copy.copy(agent)
        watched.middleware = [*ours, *(agent.middleware or ())]
        return watched


class _Shared:
    """A middleware of ours. The framework keeps it in agents and clients: their copies share it."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


class _AgentRuns(_Shared, AgentMiddleware):
    """Sees an agent's runs begin and end."""

    async def process(self, context: AgentContext, call_next: Next) -> None:
        """One run, or the beginning of one that is streamed."""
        live: Live | None = None
        if self._runs.is_first(context):
            with self._runs.boundary.guard("run"):
                live = self._runs.begin(context)
        if live is None:
            await call_next()
            return
        try:
            with live.activate():
                await call_next()
        except MiddlewareTermination:
            self._runs.end(live, None, context.result)  # a middleware of the host's has the last word
            raise
        except BaseException as error:
            self._runs.end(live, error)
            raise
        if isinstance(context.result, ResponseStream):
            self._follow(live, context)
        else:
            self._runs.end(live, None, context.result)

    def _follow(self, live: Live, context: AgentContext) -> None:
        """A stream is over when it is used up, fails, is closed, or nobody holds it any more."""
        loop = asyncio.get_running_loop()

        def over(response: Any) -> None:
            # Of a stream that is closed early, telemetry asks for the response to what there was of it.
            self._runs.end(live, None, response) if live.exhausted else closed()

        def closed() -> None:
            if not live.exhausted and not live.run.has_ended:
                live.run.end(sys.exc_info()[1] or GeneratorExit())

        def dropped() -> None:
            # This runs wherever the garbage collector was at work, perhaps while we hold a lock.
            if not loop.is_closed():
                loop.call_soon_threadsafe(closed)

        context.result.with_pull_context_manager(lambda: self._pulled(live))
        context.stream_result_hooks.append(over)
        context.stream_cleanup_hooks.append(closed)
        weakref.finalize(context.result, dropped).atexit = False

    @contextmanager
    def _pulled(self, live: Live) -> Iterator[None]:
        """A part of the stream is fetched: only meanwhile is the agent at work."""
        try:
            with live.activate():
                yield
        except StopAsyncIteration:
            live.exhausted = True
            raise
        except BaseException as error:
            self._runs.end(live, error)
            raise


class _ModelCalls(_Shared, ChatMiddleware):
    """Sees every request to the model, and edits it."""

    async def process(self, context: ChatContext, call_next: Next) -> None:
        """One model call."""
        live = self._runs.here()
        if live is None or not self._runs.is_first(context) or is_closing_calls(context, live.run):
            await call_next()
            return
        key = f"chat {next(_keys)}"
        ask(context, live, key)
        try:
            await call_next()
        except MiddlewareTermination:
            replied(live, key, None if context.stream else context.result)
            raise
        except BaseException as error:
            failed(live, key, error)
            raise
        if isinstance(context.result, ResponseStream):
            context.result.with_pull_context_manager(lambda: self._pulled(live, key))
            context.stream_result_hooks.append(lambda response: replied(live, key, response))
        else:
            replied(live, key, context.result)

    @contextmanager
    def _pulled(self, live: Live, key: str) -> Iterator[None]:
        try:
            yield
        except StopAsyncIteration:
            raise
        except BaseException as error:
            failed(live, key, error)
            raise


class _ToolCalls(_Shared, FunctionMiddleware):
    """Sees every call of a function, and may keep it from being made."""

    async def process(self, context: FunctionInvocationContext, call_next: Next) -> None:
        """One call."""
        live = self._runs.here()
        if live is None or not self._runs.is_first(context):
            await call_next()
            return
        run, call_id = live.run, str(context.metadata.get("call_id") or f"call {next(_keys)}")
        live.wanted.pop(call_id, None)
        if call_id in live.allowed:
            live.allowed.discard(call_id)
        elif self._is_refused(context, live, call_id):
            return
        try:
            await call_next()
        except BaseException as error:
            if run.stopped is None:  # else it was taken down together with the whole batch
                run.after_tool(call_id, error=error)
            raise
        value: Any = None
        with self._runs.boundary.guard("tool's result"):
            value = value_of(context.result)
        run.after_tool(call_id, value)

    def _is_refused(self, context: FunctionInvocationContext, live: Live, call_id: str) -> bool:
        """Whether the call is not made; then its result is set, or the whole run ends."""
        run = live.run
        instruction = Instruction()
        if run.stopped is None:
            instruction = run.before_tool(call_id, context.function.name, args_of(context.arguments))
        if run.stopped is not None:
            # Any other exception would be told to the model, and the agent would go on.
            raise MiddlewareFailure(str(run.stopped)) from run.stopped
        if instruction.verdict == "ask":
            live.asked[call_id] = instruction
            context.result = approval(context, call_id, instruction.text)
        elif instruction.verdict == "deny":
            context.result = instruction.text
        return instruction.verdict != "proceed"
