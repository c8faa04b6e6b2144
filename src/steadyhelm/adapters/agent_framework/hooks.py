"""Watch agents of Microsoft Agent Framework through its three middlewares: agent, chat and function.

The framework keeps the conversation: guidance and rollbacks are edits of each request.
"""

import asyncio
import itertools
import sys
import weakref
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Self

from steadyhelm.adapter import Instruction, ModelReply
from steadyhelm.adapters.agent_framework.run_state import AgentFrameworkRuns, AgentFrameworkRunState
from steadyhelm.adapters.agent_framework.translate import (
    find_hosted_calls,
    find_requested_calls,
    read_args,
    read_reply,
    read_result,
)
from steadyhelm.boundary.conversation_edits import ConversationEdits
from steadyhelm.engine.agent_run import AgentRun
from steadyhelm.errors import MissingExtraError
from steadyhelm.host_objects import is_a

try:
    from agent_framework import (
        AgentContext,
        AgentMiddleware,
        ChatContext,
        ChatMiddleware,
        Content,
        FunctionInvocationContext,
        FunctionMiddleware,
        Message,
        MiddlewareTermination,
        ResponseStream,
    )

    try:
        from agent_framework import MiddlewareFailure
    except ImportError:  # an older version can only end its loop, after which the run raises the stop
        MiddlewareFailure = MiddlewareTermination
except ImportError as exc:
    raise MissingExtraError("Agent Framework adapter", extra="agent-framework") from exc

Next = Callable[[], Awaitable[None]]

_keys: Final = itertools.count()


class _SharedMiddleware:
    """The base of our middlewares. Copies of agents and clients share it."""

    def __init__(self, runs: AgentFrameworkRuns) -> None:
        self._runs = runs

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


class AgentRunMiddleware(_SharedMiddleware, AgentMiddleware):
    """Record the start and the end of an agent's runs."""

    async def process(self, context: AgentContext, call_next: Next) -> None:
        """Record one run, or the start of a streamed one."""
        live: AgentFrameworkRunState | None = None
        if self._runs.is_first(context):
            with self._runs.boundary.guard("run"):
                live = self._runs.resume_or_start(context)
        if live is None:
            await call_next()
            return
        try:
            with live.activate():
                await call_next()
        except MiddlewareTermination:
            self._runs.end(live, None, context.result)  # a middleware of the host ended the run
            raise
        except BaseException as error:
            self._runs.end(live, error)
            raise
        if is_a(context.result, ResponseStream):
            self._watch_stream(live, context)
        else:
            self._runs.end(live, None, context.result)

    def _watch_stream(self, live: AgentFrameworkRunState, context: AgentContext) -> None:
        """End the run when its stream is used up, fails, is closed, or is garbage collected."""
        loop = asyncio.get_running_loop()

        def on_response(response: Any) -> None:
            # Telemetry asks for a response of a stream that was closed early too.
            self._runs.end(live, None, response) if live.exhausted else on_close()

        def on_close() -> None:
            if not live.exhausted and not live.run.has_ended:
                live.run.end(sys.exc_info()[1] or GeneratorExit())

        def on_collected() -> None:
            # The garbage collector may run this while one of our locks is held.
            if not loop.is_closed():
                loop.call_soon_threadsafe(on_close)

        context.result.with_pull_context_manager(lambda: self._read_part(live))
        context.stream_result_hooks.append(on_response)
        context.stream_cleanup_hooks.append(on_close)
        weakref.finalize(context.result, on_collected).atexit = False

    @contextmanager
    def _read_part(self, live: AgentFrameworkRunState) -> Iterator[None]:
        """Activate the run while a part of its stream is read, and only then."""
        try:
            with live.activate():
                yield
        except StopAsyncIteration:
            live.exhausted = True
            raise
        except BaseException as error:
            self._runs.end(live, error)
            raise


class ModelCallMiddleware(_SharedMiddleware, ChatMiddleware):
    """Record every model call, and edit its request."""

    async def process(self, context: ChatContext, call_next: Next) -> None:
        """Record one model call."""
        live = self._runs.find_current()
        if live is None or not self._runs.is_first(context) or is_closing_calls(context, live.run):
            await call_next()
            return
        key = f"chat {next(_keys)}"
        begin_model_call(context, live, key)
        try:
            await call_next()
        except MiddlewareTermination:
            end_model_call(live, key, None if context.stream else context.result)
            raise
        except BaseException as error:
            fail_model_call(live, key, error)
            raise
        if is_a(context.result, ResponseStream):
            context.result.with_pull_context_manager(lambda: self._read_part(live, key))
            context.stream_result_hooks.append(lambda response: end_model_call(live, key, response))
        else:
            end_model_call(live, key, context.result)

    @contextmanager
    def _read_part(self, live: AgentFrameworkRunState, key: str) -> Iterator[None]:
        try:
            yield
        except StopAsyncIteration:
            raise
        except BaseException as error:
            fail_model_call(live, key, error)
            raise


class ToolCallMiddleware(_SharedMiddleware, FunctionMiddleware):
    """Record every function call, which may be blocked."""

    async def process(self, context: FunctionInvocationContext, call_next: Next) -> None:
        """Record one function call."""
        live = self._runs.find_current()
        if live is None or not self._runs.is_first(context):
            await call_next()
            return
        run, call_id = live.run, str(context.metadata.get("call_id") or f"call {next(_keys)}")
        live.requested.pop(call_id, None)
        if call_id in live.allowed:
            live.allowed.discard(call_id)
        elif self._block(context, live, call_id):
            return
        try:
            await call_next()
        except BaseException as error:
            if run.stopped is None:  # else the whole batch was stopped
                run.after_tool(call_id, error=error)
            raise
        value: Any = None
        with self._runs.boundary.guard("tool's result"):
            value = read_result(context.result)
        run.after_tool(call_id, value)

    def _block(self, context: FunctionInvocationContext, live: AgentFrameworkRunState, call_id: str) -> bool:
        """Return whether the call is not made. Sets its result, or raises to end the run."""
        run = live.run
        instruction = Instruction()
        if run.stopped is None:
            instruction = run.before_tool(call_id, context.function.name, read_args(context.arguments))
        if run.stopped is not None:
            # The framework would pass any other exception to the model, and continue.
            raise MiddlewareFailure(str(run.stopped)) from run.stopped
        if instruction.verdict == "ask":
            live.asked[call_id] = instruction
            context.result = make_approval_request(context, call_id, instruction.text)
        elif instruction.verdict == "deny":
            context.result = instruction.text
        return instruction.verdict != "proceed"


def begin_model_call(context: ChatContext, live: AgentFrameworkRunState, key: str) -> None:
    """Record the start of a model call, and add guidance to its request. Raises to stop the run."""
    run = live.run
    if run.stopped is None:
        with run.boundary.guard("request"):
            live.record_outside_results(context.messages)
            # Where the provider keeps the conversation, a request is only what is new in it.
            is_kept_by_provider = bool((context.options or {}).get("conversation_id"))
            state = None if is_kept_by_provider else ConversationEdits.state(context.messages)
            instruction = run.before_model(key=key, state=state)
            live.open_model_calls.add(key)
            if is_kept_by_provider:
                _append_guidance(context, instruction, run)
            else:
                _edit(context, live, instruction)
    if run.stopped is not None:
        live.open_model_calls.clear()
        raise run.stopped


def end_model_call(live: AgentFrameworkRunState, key: str, response: Any) -> None:
    """Record the reply of a model call. With telemetry a stream reports it twice: the second is ignored."""
    if key not in live.open_model_calls:
        return
    live.open_model_calls.discard(key)
    reply = ModelReply()
    with live.run.boundary.guard("model's reply"):
        if response is not None:
            reply = read_reply(response)
            live.requested.update(find_requested_calls(response))
    live.run.after_model(reply, key=key)
    with live.run.boundary.guard("hosted calls"):
        for call in find_hosted_calls(response) if response is not None else ():
            live.run.record_call(*call)


def fail_model_call(live: AgentFrameworkRunState, key: str, error: BaseException) -> None:
    """Record a model call that failed."""
    live.open_model_calls.discard(key)
    live.run.after_model(key=key, error=error)


def is_closing_calls(context: ChatContext, run: AgentRun) -> bool:
    """Return whether the framework reports the open calls of a stopped run to the provider."""
    is_last = (context.options or {}).get("tool_choice") == "none"
    return run.stopped is not None and is_last and all(it.role == "tool" for it in context.messages)


def make_approval_request(context: FunctionInvocationContext, call_id: str, question: str) -> Any:
    """Return a request to the user to approve a call, with our question as its reason."""
    occurrence = context.metadata.get("function_call_occurrence_id")
    args = read_args(context.arguments)
    own_id = {"id": occurrence} if occurrence else {}  # older versions have none
    call = Content.from_function_call(call_id, context.function.name, arguments=args, **own_id)
    return Content.from_function_approval_request(
        id=occurrence or call_id, function_call=call, additional_properties={"reason": question}
    )


def _edit(context: ChatContext, live: AgentFrameworkRunState, instruction: Instruction) -> None:
    if instruction.verdict in {"guide", "rollback"}:
        live.edits.setdefault(live.agent_id, ConversationEdits()).add(instruction, len(context.messages))
    edits = live.edits.get(live.agent_id)
    if edits is None:
        return
    edited = edits.apply(context.messages, _make_message)
    if [id(it) for it in edited] != [id(it) for it in context.messages]:
        context.messages = edited


def _append_guidance(context: ChatContext, instruction: Instruction, run: AgentRun) -> None:
    if instruction.verdict == "rollback":
        run.report_failed_rollback("the model's provider keeps the conversation")
    if instruction.text:
        context.messages = [*context.messages, _make_message(instruction.text)]


def _make_message(text: str) -> Any:
    return Message("user", [text])
