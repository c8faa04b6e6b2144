"""Record the steps of agents that LangChain and LangGraph report to their callbacks.

Callbacks reach everything, graphs built by hand and agents inside tools too, and need no change of the host's
code. All they can do about what they see is stop, or leave the graph so that it is taken back.
"""

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, Final
from uuid import UUID

from steadyhelm.adapter import Capabilities, Instruction, ToolResult
from steadyhelm.adapters.langchain.contexts import (
    PLACE_KEY,
    AgentContext,
    AgentContexts,
    CallbackRun,
    MiddlewareCall,
)
from steadyhelm.adapters.langchain.translate import (
    RequestedToolCall,
    find_refusal,
    find_tool_messages,
    read_reply,
    read_requested_calls,
    read_result,
    read_structured_answer,
)
from steadyhelm.boundary.driver import Ask, Boundary
from steadyhelm.engine.agent_run import AgentRun
from steadyhelm.engine.monitor import Monitor
from steadyhelm.errors import MissingExtraError, RunStopped
from steadyhelm.events import NotRun
from steadyhelm.host_objects import is_a

try:
    from langchain_core.messages import HumanMessage
    from langgraph.config import get_config
    from langgraph.errors import GraphBubbleUp, GraphInterrupt
except ImportError as exc:
    raise MissingExtraError("LangChain adapter", extra="langchain") from exc

CALLBACKS_ONLY: Final[Capabilities] = {"before_model": {"stop"}, "before_tool": {"stop"}}
"""What can be carried out by callbacks alone."""

_WITHOUT_TEXT: Final = ("rollback", "ask", "stop")

opened: Final[ContextVar[tuple[tuple["CallbackHandler", AgentContext], ...]]] = ContextVar(
    "steadyhelm_langchain", default=()
)
"""The agents whose outermost calls are made in this context, with the handler of the monitor that watches."""


class GraphStopped(RunStopped, GraphBubbleUp):
    """A stop that no node, tool node or retry of LangGraph takes for a failure of its own."""


class GraphReturn(GraphBubbleUp):
    """Leaves a graph that is to be taken back, for the `GraphCall` that made the outermost call."""


def make_boundary(monitor: Monitor, can: Capabilities = CALLBACKS_ONLY, ask: Ask | None = None) -> Boundary:
    """Return a boundary for LangChain's agents; the exceptions LangGraph steers itself by are no failures."""
    return Boundary(monitor, "langchain", can, ask=ask, control=(GraphBubbleUp,))


def make_message(text: str) -> HumanMessage:
    """Return a message to the model that every provider takes anywhere in a conversation."""
    return HumanMessage(text)


def carry_out(context: AgentContext, run: AgentRun, instruction: Instruction) -> None:
    """Carry out what needs no word to the model: raise to stop, or to leave the graph for a rollback.

    Text that cannot be said must not get lost: where the user gave it, or forbade a call, the run stops.
    """
    if instruction.verdict == "proceed":
        return
    if instruction.verdict == "rollback":
        context.rollback = instruction
        raise GraphReturn
    if run.stopped is None:
        run.stopped = RunStopped(
            f"Run stopped. {instruction.text}", run_id=run.run_id, decision=instruction.decision
        )
    raise GraphStopped(str(run.stopped), run_id=run.run_id, decision=run.stopped.decision)


def current_config() -> Mapping[str, Any]:
    """Return the settings of the node that the code now running is in; empty outside of graphs."""
    try:
        config: Mapping[str, Any] = get_config()
    except RuntimeError:
        return {}
    return config


class CallbackHandler:
    """Records what callbacks report about the agents of one monitor; `Steadyhelm` calls it.

    Its methods have LangChain's own signatures. They may raise `GraphBubbleUp` to steer; any other exception
    is a failure of ours.

    Args:
        monitor: The monitor that watches.
    """

    def __init__(self, monitor: Monitor) -> None:
        self.monitor = monitor
        self.contexts = AgentContexts(make_boundary(monitor))

    def find_current(self) -> CallbackRun | None:
        """Return the node or tool that the code now running is in; None outside of graphs."""
        try:
            manager = get_config().get("callbacks")
        except RuntimeError:
            return None
        return self.contexts.find(getattr(manager, "parent_run_id", None))

    # --- chains: graphs and their nodes -------------------------------------------------------------

    def on_chain_start(
        self,
        serialized: Any,  # noqa: ARG002 - the signatures are LangChain's
        inputs: Any,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        name: str | None = None,
        **_: Any,
    ) -> None:
        """Add a graph, one of its nodes, or another chain that starts."""
        context = self._find_opened()
        if context is not None and not context.is_attached:
            context.is_attached = True
            self.contexts.add(run_id, CallbackRun(context, "chain", is_first=True), metadata)
            return
        above = self.contexts.find(parent_run_id, metadata) or _inside(context)
        self.contexts.start_chain(run_id, above, inputs, name=name or "", tags=tags, metadata=metadata)

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **_: Any) -> None:
        """Forget the chain, and record the calls whose results it returns and that no tool was called for."""
        ended = self.contexts.remove(run_id)
        if ended is None:
            return
        context = ended.context
        if context.requested_calls and context.run is not None:
            is_prebuilt = ended.is_prebuilt and not context.is_anonymous
            _record_unreported_calls(context, context.run, outputs, is_prebuilt=is_prebuilt)
        if ended.is_first:
            self.contexts.end_agent(ended, None)

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        """Forget the chain, which has failed or waits for an answer."""
        ended = self.contexts.remove(run_id)
        if ended is None:
            return
        if is_a(error, GraphInterrupt):
            ended.context.is_paused = True
        self.contexts.end_agent(ended, error)

    # --- models ------------------------------------------------------------------------------------

    def on_chat_model_start(self, serialized: Any, messages: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """Record that a chat model is called; raises to stop."""
        self._start_model(messages[0] if messages else None, **kwargs)

    def on_llm_start(self, serialized: Any, prompts: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """Record that a text completion model is called; raises to stop."""
        self._start_model(prompts[0] if prompts else None, **kwargs)

    def _start_model(
        self,
        given: Any,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        metadata: dict[str, Any] | None = None,
        **_: Any,
    ) -> None:
        above = self.contexts.find(parent_run_id, metadata) or _inside(self._find_opened())
        context = above.context if above is not None else self.contexts.start_single(run_id, given)
        run = context.run or context.ensure_run(given)
        if run is None:
            return
        details = metadata or {}
        _steer_model_call(context, run, str(details.get(PLACE_KEY, "")).rpartition("|")[0])
        run.begin_model_call(key=str(run_id), state=_read_checkpoint() if context.can_roll_back else None)
        model = str(details.get("ls_model_name") or "")
        self.contexts.add(
            run_id, CallbackRun(context, "model", is_first=above is None, model=model), metadata
        )

    def on_llm_end(self, response: Any, *, run_id: UUID, **_: Any) -> None:
        """Record a model's reply, and note the calls it asks for."""
        ended = self.contexts.remove(run_id)
        if ended is None or ended.context.run is None:
            return
        context, run = ended.context, ended.context.run
        run.after_model(read_reply(response, ended.model), key=str(run_id))
        for call in read_requested_calls(response):
            if call.result is None:
                context.requested_calls.put(call.call_id, call)
            else:
                _record_call(run, call, call.result)
        if ended.is_first:
            self.contexts.end_agent(ended, None)

    def on_llm_error(self, error: BaseException, *, run_id: UUID, response: Any = None, **_: Any) -> None:
        """Record that a model has failed, or that its reply is not read to the end."""
        ended = self.contexts.remove(run_id)
        if ended is None or ended.context.run is None:
            return
        failure = None if is_a(error, GeneratorExit) else error
        ended.context.run.after_model(read_reply(response, ended.model), key=str(run_id), error=failure)
        self.contexts.end_agent(ended, error)

    # --- tools -------------------------------------------------------------------------------------

    def on_tool_start(
        self,
        serialized: Any,
        input_str: str,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        metadata: dict[str, Any] | None = None,
        inputs: Any = None,
        tool_call_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        """Record that a tool is called, unless our middleware reports the call; raises to stop."""
        above = self.contexts.find(parent_run_id, metadata) or _inside(self._find_opened())
        context = above.context if above is not None else self.contexts.start_single(run_id, None)
        call_id = tool_call_id or str(run_id)
        run = context.run or context.ensure_run()
        name = str(kwargs.get("name") or (serialized or {}).get("name") or "tool")
        args = inputs if is_a(inputs, Mapping) else {"input": input_str}
        reported = context.middleware_calls.get(call_id)
        if run is not None and reported is not None:
            _follow_attempt(run, reported, call_id, name, args)
        elif run is not None:
            context.requested_calls.pop(call_id, None)
            if context.can_deny:
                run.begin_tool_call(call_id, name, args)
            else:
                carry_out(context, run, run.before_tool(call_id, name, args))
        # Also where it is not watched: an agent inside this tool is no part of the agent around it.
        callback_run = CallbackRun(context, "tool", is_first=above is None, call_id=call_id)
        self.contexts.add(run_id, callback_run, metadata)

    def on_tool_end(self, output: Any, *, run_id: UUID, **_: Any) -> None:
        """Record a tool's result, unless our middleware reports it."""
        ended = self.contexts.remove(run_id)
        if ended is not None and ended.context.run is not None:
            self._end_tool(ended, ended.context.run, output, None)

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        """Record a tool's failure, unless our middleware reports it."""
        ended = self.contexts.remove(run_id)
        if ended is not None and ended.context.run is not None:
            self._end_tool(ended, ended.context.run, None, error)

    def _end_tool(self, ended: CallbackRun, run: AgentRun, output: Any, error: BaseException | None) -> None:
        reported = ended.context.middleware_calls.get(ended.call_id)
        if reported is not None:
            reported.has_ended, reported.output, reported.error = True, output, error
            return
        _end_call(run, ended.call_id, output, error)
        self.contexts.end_agent(ended, error)

    # --- inside --------------------------------------------------------------------------------------

    def _find_opened(self) -> AgentContext | None:
        for handler, context in reversed(opened.get()):
            if handler is self:
                return context
        return None


def _inside(context: AgentContext | None) -> CallbackRun | None:
    """Return a chain of this agent, for what starts in it without a parent; None when the run has ended."""
    if context is None or (context.run is not None and context.run.has_ended):
        return None
    return CallbackRun(context, "chain")


def _steer_model_call(context: AgentContext, run: AgentRun, graph: str) -> None:
    """Raise to stop or to roll back; where our middleware is called before the model it sees to the rest."""
    if context.rollback is not None:
        carry_out(context, run, context.rollback)
    elif graph not in context.guided_graphs:
        carry_out(context, run, run.take_instruction("before_model", only=_WITHOUT_TEXT))
    elif run.stopped is not None:
        carry_out(context, run, Instruction(verdict="stop"))


def _read_checkpoint() -> str | None:
    """Return the id of the checkpoint of the outermost graph that the node now running started from."""
    places = current_config().get("configurable", {}).get("checkpoint_map")
    found = places.get("") if is_a(places, Mapping) else None
    return str(found) if found else None


def _record_unreported_calls(
    context: AgentContext, run: AgentRun, outputs: Any, *, is_prebuilt: bool
) -> None:
    """Record requested calls for which no tool was called, but whose results are there.

    Such are unknown tools, results out of a cache, and nodes that do their tools' work themselves, which a
    prebuilt agent does not have.
    """
    for message in find_tool_messages(outputs):
        call = context.requested_calls.pop(str(message.tool_call_id), None)
        if call is None:
            continue
        answer = read_structured_answer(outputs)
        if answer:
            continue  # it is a reply, although it has the form of a call
        result = read_result(message)
        if answer is False and result.error is None:
            result = ToolResult(error=result.value or "the answer does not fit its format")
        not_run = find_refusal(call, result, answer, is_prebuilt=is_prebuilt)
        _record_call(run, call, result, not_run)


def _follow_attempt(run: AgentRun, call: MiddlewareCall, call_id: str, name: str, args: Any) -> None:
    """Record that middleware inside ours tries a call again, or makes it to another tool."""
    call.was_made = True
    if call.has_ended:
        _end_call(run, call_id, call.output, call.error)
    elif name != call.name:
        run.drop_call(call_id)
    else:
        return
    call.name, call.has_ended, call.output, call.error = name, False, None, None
    run.begin_tool_call(call_id, name, args)


def _end_call(run: AgentRun, call_id: str, output: Any, error: BaseException | None) -> None:
    result = ToolResult(error=error) if error is not None else read_result(output, call_id)
    run.after_tool(call_id, result.value, error=result.error)


def _record_call(
    run: AgentRun, call: RequestedToolCall, result: ToolResult, not_run: NotRun | None = None
) -> None:
    run.record_call(call.call_id, call.name, call.args, result.value, error=result.error, not_run=not_run)
