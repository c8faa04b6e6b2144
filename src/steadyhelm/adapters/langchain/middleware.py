"""Watch and steer an agent of LangChain from inside: guide its model, deny its calls, ask its user."""

import functools
import inspect
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from contextlib import nullcontext
from types import CellType, FunctionType, MethodType
from typing import Any, Final, Literal

from steadyhelm.adapter import Instruction, ToolResult
from steadyhelm.adapters.langchain.contexts import AgentContext, CallbackRun, MiddlewareCall
from steadyhelm.adapters.langchain.hooks import get_handler
from steadyhelm.adapters.langchain.steering import (
    CALLBACKS_ONLY,
    GraphStopped,
    carry_out,
    current_config,
    make_boundary,
    make_message,
)
from steadyhelm.adapters.langchain.translate import read_result
from steadyhelm.boundary.conversation_edits import ConversationEdits
from steadyhelm.boundary.driver import Ask
from steadyhelm.decisions import Verdict
from steadyhelm.engine.agent_run import AgentRun
from steadyhelm.engine.monitor import Monitor
from steadyhelm.engine.pending_decisions import format_reason
from steadyhelm.errors import MissingExtraError, SettingsError
from steadyhelm.events import NotRun
from steadyhelm.host_objects import is_a

try:
    from langchain.agents.middleware import AgentMiddleware
    from langchain_core.messages import AIMessage, ToolMessage
    from langgraph.types import interrupt
except ImportError as exc:
    raise MissingExtraError("LangChain adapter", extra="langchain") from exc

_CHECKPOINTER_KEY: Final = "__pregel_checkpointer"
_MAX_SEARCHED: Final = 20_000
_INSIDE: Final = nullcontext()
"""The block of code of an agent whose outermost call has entered its run already."""


class SteadyhelmMiddleware(AgentMiddleware):
    """Watch and steer an agent from inside.

    Guidance goes to the model with its next request and stays in the conversation it is shown; the agent's
    own messages are left as they are. A denied call gets an error as its result.

    Args:
        monitor: The monitor that watches.
        ask: A function that puts a question to the user and returns the answer. "interrupt" asks by an
            interrupt, where the graph has a checkpointer: `Command(resume=...)` brings the answer.
        on_stop: What a stop in enforce mode does: "raise" raises `RunStopped`; "end" ends the agent with a
            last message that says why, and the caller receives its state.

    ```python
    agent = create_agent(model, tools, middleware=[SteadyhelmMiddleware(monitor)])
    ```
    """

    def __init__(
        self,
        monitor: Monitor,
        *,
        ask: Ask | Literal["interrupt"] | None = None,
        on_stop: Literal["raise", "end"] = "raise",
    ) -> None:
        super().__init__()
        if on_stop not in {"raise", "end"}:
            raise SettingsError(f"on_stop must be 'raise' or 'end', got {on_stop!r}.")
        self._ends = on_stop == "end"
        self._interrupts = ask == "interrupt"
        ask = None if ask == "interrupt" else ask
        self._boundary = make_boundary(monitor, CALLBACKS_ONLY, ask)
        self._handler = get_handler(monitor)
        self._ask = ask

    def __deepcopy__(self, memo: dict[int, Any]) -> "SteadyhelmMiddleware":
        """Return itself: a copy of an agent is watched by the same monitor."""
        return self

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Let the agent call its model, with our guidance in the request; raises to stop or to ask."""
        node = self._locate(before_model=True)
        if node is None or node.context.run is None:
            return handler(request)
        request = self._steer_request(node, node.context.run, request)
        if isinstance(request, AIMessage):
            return request
        with _INSIDE if node.context.is_entered else node.context.run.activate():
            return handler(request)

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """Do as `wrap_model_call` for a model that is awaited."""
        node = self._locate(before_model=True)
        if node is None or node.context.run is None:
            return await handler(request)
        request = self._steer_request(node, node.context.run, request)
        if isinstance(request, AIMessage):
            return request
        with _INSIDE if node.context.is_entered else node.context.run.activate():
            return await handler(request)

    def wrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Let the agent call a tool, unless the call is denied."""
        node = self._locate()
        call_id = str(request.tool_call.get("id") or "")
        if node is None or node.context.run is None or not call_id:
            return handler(request)
        run = node.context.run
        refusal = self._check_call(node.context, run, request)
        if refusal is not None:
            return refusal
        try:
            with _INSIDE if node.context.is_entered else run.activate():
                output = handler(request)
        except BaseException as exc:
            self._end_call(node.context, run, call_id, error=exc)
            raise
        self._end_call(node.context, run, call_id, output)
        return output

    async def awrap_tool_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """Do as `wrap_tool_call` for a tool that is awaited."""
        node = self._locate()
        call_id = str(request.tool_call.get("id") or "")
        if node is None or node.context.run is None or not call_id:
            return await handler(request)
        run = node.context.run
        refusal = self._check_call(node.context, run, request)
        if refusal is not None:
            return refusal
        try:
            with _INSIDE if node.context.is_entered else run.activate():
                output = await handler(request)
        except BaseException as exc:
            self._end_call(node.context, run, call_id, error=exc)
            raise
        self._end_call(node.context, run, call_id, output)
        return output

    # --- inside ------------------------------------------------------------------------------------

    def _locate(self, *, before_model: bool = False) -> CallbackRun | None:
        """Return the node that the code now running is in, with its run started; None if not watched."""
        monitor = self._boundary.monitor
        if monitor.disabled:
            return None
        try:
            node = self._handler.find_current()
            if node is None:
                return None
            context = node.context
            if context.boundary is None:
                context.boundary = context.inner_boundary = self._boundary
            run = context.run or context.ensure_run()
            if run is not None and not (
                context.can_deny and (not before_model or node.graph in context.guided_graphs)
            ):
                self._add_capabilities(node, run, before_model=before_model)
        except Exception as exc:  # noqa: BLE001 - a failure of ours must not reach the agent
            monitor.health.swallow("langchain adapter, middleware", exc)
            return None
        return node

    def _add_capabilities(self, node: CallbackRun, run: AgentRun, *, before_model: bool) -> None:
        """Let the run know what this middleware can carry out, the first time it is called for it."""
        context = node.context
        context.can_deny = True
        if before_model:
            context.guided_graphs.add(node.graph)
        saves = current_config().get("configurable", {}).get(_CHECKPOINTER_KEY) is not None
        asks = run.boundary.ask is not None or self._ask is not None or (self._interrupts and saves)
        ask: list[Verdict] = ["ask"] if asks else []
        back: list[Verdict] = ["rollback"] if context.can_roll_back else []
        text: list[Verdict] = ["guide", *ask] if context.guided_graphs else []
        # A stop before a call waits for the model: a call without a result would spoil the conversation.
        run.set_capabilities({"before_model": ["stop", *text, *back], "before_tool": ["deny", *ask]})

    def _steer_request(self, node: CallbackRun, run: AgentRun, request: Any) -> Any:
        """Return the request with our guidance in it; raises to stop, to roll back and to ask.

        Where a stop ends the agent, return its last message in place of the model's.
        """
        context = node.context
        instruction = context.rollback or run.take_instruction("before_model")
        if instruction.verdict == "ask":
            instruction = run.apply_answer(self._put_question(context, run, instruction), instruction)
        if instruction.verdict not in {"proceed", "guide"}:
            try:
                carry_out(context, run, instruction)
            except GraphStopped as stop:
                if not self._ends:
                    raise
                context.is_ended = True
                return AIMessage(str(stop))
        if instruction.verdict != "guide" and node.graph not in context.edits:
            return request
        messages = request.messages
        with self._boundary.guard("guidance"):
            edits = context.edits.setdefault(node.graph, ConversationEdits())
            edits.add(instruction, len(messages))
            messages = edits.apply(messages, make_message)
        return request.override(messages=messages)

    def _check_call(self, context: AgentContext, run: AgentRun, request: Any) -> ToolMessage | None:
        """Begin a call; return what the model gets in place of a result when the call is not made."""
        call, has_tool = request.tool_call, request.tool is not None
        call_id, name = str(call["id"]), str(call["name"])
        context.requested_calls.pop(call_id, None)
        instruction = run.before_tool(call_id, name, call.get("args"))
        if instruction.verdict == "ask":
            answer = self._put_question(context, run, instruction, call)
            instruction = run.apply_answer(answer, instruction, call_id)
        if instruction.verdict == "proceed":
            context.middleware_calls[call_id] = MiddlewareCall(name, has_tool)
            return None
        if instruction.verdict != "deny" and not (self._ends and run.stopped is not None):
            carry_out(context, run, instruction)
        return ToolMessage(instruction.text, tool_call_id=call_id, name=name, status="error")

    def _end_call(
        self,
        context: AgentContext,
        run: AgentRun,
        call_id: str,
        output: Any = None,
        *,
        error: BaseException | None = None,
    ) -> None:
        """Record what came of a call; an output that cannot be read is recorded as it is."""
        call = context.middleware_calls.pop(call_id, None)
        result = ToolResult(value=output, error=error)
        if error is None:
            try:
                result = read_result(output, call_id)
            except Exception as exc:  # noqa: BLE001 - a failure of ours must not reach the agent
                self._boundary.monitor.health.swallow("langchain adapter, tool's result", exc)
        if call is not None and not call.was_made:
            why: NotRun = "answered" if result.error is None else "refused"
            run.mark_not_run(call_id, why if call.has_tool else "no such tool")
        run.after_tool(call_id, result.value, error=result.error)

    def _put_question(
        self,
        context: AgentContext,
        run: AgentRun,
        instruction: Instruction,
        call: dict[str, Any] | None = None,
    ) -> object:
        """Return the user's answer; an interrupt leaves the node, which comes back here with the answer."""
        if self._ask is not None:
            return self._call_host(self._ask, context, run, instruction)
        about = {"name": call["name"], "args": call.get("args"), "id": call["id"]} if call else None
        return interrupt({"source": "steadyhelm", "question": instruction.text, "call": about})

    def _call_host(self, ask: Ask, context: AgentContext, run: AgentRun, instruction: Instruction) -> object:
        """Return what the host's function answers; raises to stop when the user cannot be asked."""
        answer: object = None
        try:
            answer = ask(instruction.text)
        except Exception as exc:  # noqa: BLE001 - the host's own function
            self._boundary.monitor.health.count(f"the user could not be asked: {type(exc).__name__}")
        if answer is None:
            run.report_not_carried_out("the user could not be asked")
            carry_out(
                context,
                run,
                Instruction(
                    verdict="stop", text=format_reason(instruction.decision), decision=instruction.decision
                ),
            )
        return answer


def is_guided(graph: Any) -> bool:
    """Return whether a graph has our middleware somewhere, found in what its nodes refer to."""
    waiting: deque[Any] = deque([graph])
    seen: set[int] = set()
    while waiting and len(seen) < _MAX_SEARCHED:
        it = waiting.popleft()
        if is_a(it, SteadyhelmMiddleware):
            return True
        if id(it) not in seen:
            seen.add(id(it))
            waiting.extend(_list_references(it))
    return False


def _list_references(it: Any) -> Iterable[Any]:
    """Return what a part of a graph refers to; objects of the host are not looked into."""
    if is_a(it, MethodType):
        return it.__self__, it.__func__
    if is_a(it, FunctionType):
        cells = [cell.cell_contents for cell in it.__closure__ or () if _is_filled(cell)]
        return (*cells, getattr(it, "__wrapped__", None))
    if is_a(it, functools.partial):
        return it.func, *it.args, *it.keywords.values()
    if is_a(it, (list, tuple)):
        return it
    if is_a(it, dict):
        return it.values()
    is_part = type(it).__module__.startswith(("langgraph.", "langchain."))
    return vars(it).values() if is_part and hasattr(it, "__dict__") else ()


def _is_filled(cell: CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - only whether it raises
    except ValueError:
        return False
    return True


def _store_signature(method: Any) -> None:
    # LangChain calls them through LangSmith, which asks for their signatures at every call.
    method.__signature__ = inspect.signature(method)


_store_signature(SteadyhelmMiddleware.wrap_model_call)
_store_signature(SteadyhelmMiddleware.awrap_model_call)
_store_signature(SteadyhelmMiddleware.wrap_tool_call)
_store_signature(SteadyhelmMiddleware.awrap_tool_call)
