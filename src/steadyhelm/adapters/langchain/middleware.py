"""Watch and steer an agent of LangChain from inside."""

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Final, Literal

from steadyhelm.adapter import Instruction
from steadyhelm.adapters.langchain.callbacks import eyes_of
from steadyhelm.adapters.langchain.messages import result_of
from steadyhelm.adapters.langchain.scopes import SPACE, Scope, graph_of
from steadyhelm.adapters.langchain.steering import EYES, carry_out, config_here, make_boundary
from steadyhelm.boundary.agent_run import AgentRun
from steadyhelm.boundary.conversation_edits import ConversationEdits
from steadyhelm.boundary.driver import Ask
from steadyhelm.boundary.pending_decisions import reason
from steadyhelm.boundary.tool_calls import ToolCall, call_tool, call_tool_async
from steadyhelm.decisions import Verdict
from steadyhelm.engine.monitor import Monitor
from steadyhelm.errors import MissingExtraError

try:
    from langchain.agents.middleware import AgentMiddleware
    from langchain_core.messages import HumanMessage, ToolMessage
    from langgraph.types import interrupt
except ImportError as exc:
    raise MissingExtraError("LangChain adapter", extra="langchain") from exc

_SURFACE: Final = "middleware"
_CHECKPOINTER: Final = "__pregel_checkpointer"


class SteadyhelmMiddleware(AgentMiddleware):
    """Watches and steers an agent from inside.

    Words go to the model with its next request and stay in the conversation it is shown; the agent's own
    messages are left as they are. A refused call gets an error as its result.

    Args:
        monitor: Who watches.
        ask: A function that puts a question to the user and gives the answer. "interrupt" asks by an
            interrupt, where the graph has a checkpointer: `Command(resume=...)` brings the answer.

    ```python
    agent = create_agent(model, tools, middleware=[SteadyhelmMiddleware(monitor)])
    ```
    """

    def __init__(self, monitor: Monitor, *, ask: Ask | Literal["interrupt"] | None = None) -> None:
        super().__init__()
        self._interrupts = ask == "interrupt"
        ask = None if ask == "interrupt" else ask
        self._boundary = make_boundary(monitor, EYES, ask)
        self._eyes = eyes_of(monitor)
        self._ask = ask

    def __deepcopy__(self, memo: dict[int, Any]) -> "SteadyhelmMiddleware":
        """A copy of an agent is watched by the same monitor."""
        return self

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """The agent asks its model."""
        scope, run = self._here(before_model=True)
        if scope is None or run is None:
            return handler(request)
        request = self._steered(scope, run, request)
        with run.activate():
            return handler(request)

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """The same, awaited."""
        scope, run = self._here(before_model=True)
        if scope is None or run is None:
            return await handler(request)
        request = self._steered(scope, run, request)
        with run.activate():
            return await handler(request)

    def wrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """The agent calls a tool."""
        scope, run = self._here()
        if scope is None or run is None or not request.tool_call.get("id"):
            return handler(request)

        def made() -> Any:
            with run.activate():
                return handler(request)

        return call_tool(run, self._call(scope, run, request.tool_call), made)

    async def awrap_tool_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """The same, awaited."""
        scope, run = self._here()
        if scope is None or run is None or not request.tool_call.get("id"):
            return await handler(request)

        async def made() -> Any:
            with run.activate():
                return await handler(request)

        return await call_tool_async(run, self._call(scope, run, request.tool_call), made)

    # --- inside ------------------------------------------------------------------------------------

    def _here(self, *, before_model: bool = False) -> tuple[Scope | None, AgentRun | None]:
        """The agent this is part of, and its run, which can be steered from here from now on."""
        scope = run = None
        with self._boundary.guard("middleware"):
            scope = None if self._boundary.monitor.disabled else self._eyes.scope_here()
            if scope is not None:
                if scope.boundary is None:
                    scope.boundary = scope.inner = self._boundary
                run = scope.begun()
                if run is not None:
                    self._show_up(scope, run, before_model=before_model)
        return scope, run

    def _show_up(self, scope: Scope, run: AgentRun, *, before_model: bool) -> None:
        config = config_here()
        graph = graph_of(str(config.get("metadata", {}).get(SPACE, "")))
        if scope.can_refuse and (not before_model or graph in scope.speaks_in):
            return
        scope.can_refuse = True
        if before_model:
            scope.speaks_in.add(graph)
        saves = config.get("configurable", {}).get(_CHECKPOINTER) is not None
        asks = run.boundary.ask is not None or self._ask is not None or (self._interrupts and saves)
        ask: list[Verdict] = ["ask"] if asks else []
        back: list[Verdict] = ["rollback"] if scope.can_return else []
        words: list[Verdict] = ["guide", *ask] if scope.speaks_in else []
        # A stop before a call waits for the model: a call without a result would spoil the conversation.
        run.set_capabilities({"before_model": ["stop", *words, *back], "before_tool": ["deny", *ask]})

    def _steered(self, scope: Scope, run: AgentRun, request: Any) -> Any:
        """The request after what there is to do; raises to stop, to go back, and to ask."""
        instruction = scope.returning or run.take_instruction("before_model")
        if instruction.verdict == "ask":
            instruction = run.apply_answer(self._answer(scope, run, instruction), instruction)
        if instruction.verdict != "guide":
            carry_out(scope, run, instruction)
        with self._boundary.guard("words"):
            graph = graph_of(str(config_here().get("metadata", {}).get(SPACE, "")))
            if instruction.verdict == "guide":
                scope.edits.setdefault(graph, ConversationEdits()).add(instruction, len(request.messages))
            if graph in scope.edits:
                return request.override(messages=scope.edits[graph].apply(request.messages, said))
        return request

    def _call(self, scope: Scope, run: AgentRun, call: dict[str, Any]) -> ToolCall:
        call_id, name = str(call["id"]), str(call["name"])
        scope.asked.pop(call_id, None)

        def refused(instruction: Instruction) -> ToolMessage:
            if instruction.verdict != "deny":
                carry_out(scope, run, instruction)
            return ToolMessage(instruction.text, tool_call_id=call_id, name=name, status="error")

        return ToolCall(
            call_id=call_id,
            name=name,
            args=call.get("args"),
            refused=refused,
            result=lambda output: result_of(output, call_id),
            ask=lambda instruction: self._answer(scope, run, instruction, call),
            surface=_SURFACE,
        )

    def _answer(
        self, scope: Scope, run: AgentRun, instruction: Instruction, call: dict[str, Any] | None = None
    ) -> object:
        """What the user says; an interrupt leaves the node, which comes back here with the answer."""
        if self._ask is not None:
            return self._put(self._ask, scope, run, instruction)
        about = {"name": call["name"], "args": call.get("args"), "id": call["id"]} if call else None
        return interrupt({"source": "steadyhelm", "question": instruction.text, "call": about})

    def _put(self, ask: Ask, scope: Scope, run: AgentRun, instruction: Instruction) -> object:
        """Ask by the host's own function; who cannot be asked cannot let it go on."""
        answer: object = None
        try:
            answer = ask(instruction.text)
        except Exception as exc:  # noqa: BLE001 - the host's own function
            self._boundary.monitor.health.count(f"the user could not be asked: {type(exc).__name__}")
        if answer is None:
            run.report_not_carried_out("the user could not be asked")
            carry_out(
                scope,
                run,
                Instruction(verdict="stop", text=reason(instruction.decision), decision=instruction.decision),
            )
        return answer


def _with_signature(method: Any) -> None:
    # LangChain calls them through LangSmith, which asks for their signatures at every call.
    method.__signature__ = inspect.signature(method)


_with_signature(SteadyhelmMiddleware.wrap_model_call)
_with_signature(SteadyhelmMiddleware.awrap_model_call)
_with_signature(SteadyhelmMiddleware.wrap_tool_call)
_with_signature(SteadyhelmMiddleware.awrap_tool_call)


def said(words: str) -> HumanMessage:
    """Words to the model, as a message that every provider takes anywhere in a conversation."""
    return HumanMessage(words)
