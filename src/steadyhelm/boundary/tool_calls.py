"""A tool call and what stands around it, for frameworks that hand over the call itself, awaited or not.

A flow is a generator that stops once, where the call is made: whoever walks through it makes the call,
awaited or not, and hands back what came of it.
"""

from collections.abc import Awaitable, Callable, Generator
from typing import Any

from msgspec import Struct

from steadyhelm.adapter import Instruction, ToolResult
from steadyhelm.boundary.agent_run import AgentRun

Flow = Generator[Any, Any, Any]


class ToolCall(Struct, frozen=True, kw_only=True):
    """How a framework calls a tool.

    `refused` gives what stands in for a result when the call is not made; it raises to stop.
    `result` reads what came back. `ask` puts a question to the user by the framework's own means.
    """

    call_id: str
    name: str
    args: Any = None
    refused: Callable[[Instruction], Any]
    result: Callable[[Any], ToolResult] = lambda value: ToolResult(value=value)
    ask: Callable[[Instruction], object] | None = None
    surface: str = ""


def call_tool(run: AgentRun, call: ToolCall, handler: Callable[[], Any]) -> Any:
    """Call a tool, watched and steered."""
    return _walked(_tool_flow(run, call), handler)


async def call_tool_async(run: AgentRun, call: ToolCall, handler: Callable[[], Awaitable[Any]]) -> Any:
    """Call a tool, watched and steered."""
    return await _walked_async(_tool_flow(run, call), handler)


def _tool_flow(run: AgentRun, call: ToolCall) -> Flow:
    instruction = run.before_tool(call.call_id, call.name, call.args, surface=call.surface)
    if instruction.verdict == "ask" and call.ask is not None:
        instruction = run.apply_answer(call.ask(instruction), instruction, call.call_id)
    if instruction.verdict != "proceed":
        return call.refused(instruction)
    try:
        answer = yield
    except BaseException as exc:
        run.after_tool(call.call_id, error=exc, surface=call.surface)
        raise
    read = ToolResult(value=answer)
    with run.boundary.guard("tool's result"):
        read = call.result(answer)
    run.after_tool(call.call_id, read.value, error=read.error, surface=call.surface)
    return answer


def _walked(flow: Flow, handler: Callable[[], Any]) -> Any:
    try:
        next(flow)
    except StopIteration as done:
        return done.value
    try:
        answer = handler()
    except BaseException as exc:  # noqa: BLE001 - the flow notes it and raises it again
        flow.throw(exc)
    return _last(flow, answer)


async def _walked_async(flow: Flow, handler: Callable[[], Awaitable[Any]]) -> Any:
    try:
        next(flow)
    except StopIteration as done:
        return done.value
    try:
        answer = await handler()
    except BaseException as exc:  # noqa: BLE001 - the flow notes it and raises it again
        flow.throw(exc)
    return _last(flow, answer)


def _last(flow: Flow, answer: Any) -> Any:
    try:
        flow.send(answer)
    except StopIteration as done:
        return done.value
    raise AssertionError("a flow stops once")
