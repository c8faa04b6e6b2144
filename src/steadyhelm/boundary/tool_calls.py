"""Make a tool call, recorded and steered, for frameworks that hand over the call itself, awaited or not."""

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct

from steadyhelm.adapter import Instruction, ToolResult
from steadyhelm.boundary.agent_run import AgentRun


class ToolCall(Struct, frozen=True, kw_only=True):
    """How a framework calls a tool.

    `refuse` returns what replaces the result when the call is not made; it raises to stop.
    `read_result` reads what came back. `ask` puts a question to the user by the framework's own means.
    """

    call_id: str
    name: str
    args: Any = None
    refuse: Callable[[Instruction], Any]
    read_result: Callable[[Any], ToolResult] = lambda value: ToolResult(value=value)
    ask: Callable[[Instruction], object] | None = None


def call_tool(run: AgentRun, call: ToolCall, handler: Callable[[], Any]) -> Any:
    """Return what the handler returns, or what replaces it when the call is refused."""
    instruction = _check_call(run, call)
    if instruction.verdict != "proceed":
        return call.refuse(instruction)
    try:
        output = handler()
    except BaseException as exc:
        run.after_tool(call.call_id, error=exc)
        raise
    _record_result(run, call, output)
    return output


async def call_tool_async(run: AgentRun, call: ToolCall, handler: Callable[[], Awaitable[Any]]) -> Any:
    """Do as `call_tool` for a handler that is awaited."""
    instruction = _check_call(run, call)
    if instruction.verdict != "proceed":
        return call.refuse(instruction)
    try:
        output = await handler()
    except BaseException as exc:
        run.after_tool(call.call_id, error=exc)
        raise
    _record_result(run, call, output)
    return output


def _check_call(run: AgentRun, call: ToolCall) -> Instruction:
    instruction = run.before_tool(call.call_id, call.name, call.args)
    if instruction.verdict == "ask" and call.ask is not None:
        instruction = run.apply_answer(call.ask(instruction), instruction, call.call_id)
    return instruction


def _record_result(run: AgentRun, call: ToolCall, output: Any) -> None:
    result = ToolResult(value=output)
    try:
        result = call.read_result(output)
    except Exception as exc:  # noqa: BLE001 - an output that cannot be read is recorded as it is
        run.boundary.monitor.health.swallowed(f"{run.boundary.source} adapter, tool's result", exc)
    run.after_tool(call.call_id, result.value, error=result.error)
