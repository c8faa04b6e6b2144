"""Record the steps of agents that LangChain and LangGraph report to their callbacks.

Callbacks reach everything, graphs built by hand and agents inside tools too, and need no change of the host's
code. All they can do about what they see is stop, or leave the graph so that it is taken back.
LangChain takes one handler for the whole process: it forwards to the handlers of all monitors.
"""

import logging
import weakref
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, Final
from uuid import UUID

from steadyhelm.adapter import Instruction, ToolResult
from steadyhelm.adapters.langchain.contexts import (
    PLACE_KEY,
    AgentContext,
    AgentContexts,
    CallbackRun,
    MiddlewareCall,
)
from steadyhelm.adapters.langchain.steering import (
    OwnStops,
    carry_out,
    make_boundary,
    read_checkpoint,
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
from steadyhelm.engine.agent_run import AgentRun
from steadyhelm.engine.monitor import Monitor
from steadyhelm.errors import MissingExtraError
from steadyhelm.events import NotRun
from steadyhelm.forks import ForkSafeLock
from steadyhelm.host_objects import is_a

try:
    from langchain_core.callbacks import BaseCallbackHandler
    from langchain_core.callbacks import manager as callbacks
    from langchain_core.tracers.context import register_configure_hook
    from langgraph.config import get_config
    from langgraph.errors import GraphBubbleUp, GraphInterrupt
except ImportError as exc:
    raise MissingExtraError("LangChain adapter", extra="langchain") from exc

_WITHOUT_TEXT: Final = ("rollback", "ask", "stop")

opened: Final[ContextVar[tuple[tuple["CallbackHandler", AgentContext], ...]]] = ContextVar(
    "steadyhelm_langchain", default=()
)
"""The agents whose outermost calls are made in this context, with the handler of the monitor that watches."""


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
        inside = opened.get()
        is_own = bool(inside) and inside[-1][0] is self
        context = inside[-1][1] if is_own else self._find_opened()
        if context is not None and not context.is_attached:
            context.is_attached = True
            self.contexts.add(run_id, CallbackRun(context, "chain", is_first=True), metadata)
            return
        above = self.contexts.find(parent_run_id, metadata) or _inside(context)
        self.contexts.start_chain(run_id, above, inputs, name=name or "", tags=tags, metadata=metadata)

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **_: Any) -> None:
        """Forget the chain, and record the calls whose results it returns and that no tool was called for."""
        ended = self.contexts.remove(run_id.int)
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
        ended = self.contexts.remove(run_id.int)
        if ended is None:
            return
        if is_a(error, GraphInterrupt):
            ended.context.is_paused = True
        self.contexts.end_agent(ended, error)

    # --- models ------------------------------------------------------------------------------------

    def on_chat_model_start(
        self,
        serialized: Any,  # noqa: ARG002
        prompts: Any,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        metadata: dict[str, Any] | None = None,
        **_: Any,
    ) -> None:
        """Record that a model is called; raises to stop."""
        given = prompts[0] if prompts else None
        above = self.contexts.find(parent_run_id, metadata) or _inside(self._find_opened())
        context = above.context if above is not None else self.contexts.start_single(run_id, given)
        run = context.run or context.ensure_run(given)
        if run is None:
            return
        details = metadata or {}
        _steer_model_call(context, run, str(details.get(PLACE_KEY, "")).rpartition("|")[0])
        run.begin_model_call(key=str(run_id), state=read_checkpoint() if context.can_roll_back else None)
        model = str(details.get("ls_model_name") or "")
        self.contexts.add(
            run_id, CallbackRun(context, "model", is_first=above is None, model=model), metadata
        )

    on_llm_start = on_chat_model_start

    def on_llm_end(self, response: Any, *, run_id: UUID, **_: Any) -> None:
        """Record a model's reply, and note the calls it asks for."""
        ended = self.contexts.remove(run_id.int)
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
        ended = self.contexts.remove(run_id.int)
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
        ended = self.contexts.remove(run_id.int)
        if ended is not None and ended.context.run is not None:
            self._end_tool(ended, ended.context.run, output, None)

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        """Record a tool's failure, unless our middleware reports it."""
        ended = self.contexts.remove(run_id.int)
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


# --- LangChain takes one handler for the whole process ---------------------------------------------------


class SteadyhelmCallbacks(BaseCallbackHandler):
    """Watch the calls that these callbacks are handed to.

    ```python
    graph.invoke(question, {"callbacks": [SteadyhelmCallbacks(monitor)]})
    ```
    """

    run_inline = True

    def __init__(self, monitor: Monitor) -> None:
        self._handler = get_handler(monitor)

    def on_chain_start(self, *_given: Any, run_id: UUID, parent_run_id: UUID | None = None, **_: Any) -> None:
        """Claim what starts here; its steps are recorded like those of all other agents."""
        self._handler.contexts.claim(run_id, parent_run_id)

    def __deepcopy__(self, memo: dict[int, Any]) -> "SteadyhelmCallbacks":
        """Return itself: a copy of an agent is watched by the same monitor."""
        return self

    on_chat_model_start = on_chain_start
    on_llm_start = on_chain_start
    on_tool_start = on_chain_start


def get_handler(monitor: Monitor) -> CallbackHandler:
    """Return the callback handler of a monitor, created at the first call."""
    return _process_handler.get_handler(monitor)


def _forward(callback: str) -> Any:
    """Return a callback that calls the handlers of all monitors, and raises only what steers a graph."""

    def call_handlers(self: "Steadyhelm", *args: Any, **kwargs: Any) -> None:
        steering: GraphBubbleUp | None = None
        for reference in self.references:
            handler = reference()
            if handler is None or handler.monitor.disabled:
                continue
            try:
                getattr(handler, callback)(*args, **kwargs)
            except GraphBubbleUp as exc:
                steering = steering or exc
            except Exception as exc:  # noqa: BLE001 - a failure of ours must not reach the agent
                handler.monitor.health.swallow(f"langchain adapter, {callback}", exc)
        if steering is not None:
            raise steering

    return call_handlers


class Steadyhelm(BaseCallbackHandler):
    """Forwards every callback of this process to all handlers."""

    raise_error = True
    run_inline = True

    on_chain_start = _forward("on_chain_start")
    on_chain_end = _forward("on_chain_end")
    on_chain_error = _forward("on_chain_error")
    on_chat_model_start = _forward("on_chat_model_start")
    on_llm_start = _forward("on_llm_start")
    on_llm_end = _forward("on_llm_end")
    on_llm_error = _forward("on_llm_error")
    on_tool_start = _forward("on_tool_start")
    on_tool_end = _forward("on_tool_end")
    on_tool_error = _forward("on_tool_error")

    def __init__(self) -> None:
        self.references: tuple[weakref.ref[CallbackHandler], ...] = ()
        self._lock = ForkSafeLock()
        self._variable: ContextVar[Steadyhelm] | None = None

    def get_handler(self, monitor: Monitor) -> CallbackHandler:
        """Return the handler of a monitor; the first call registers this object with LangChain."""
        with self._lock:
            living = [handler for reference in self.references if (handler := reference()) is not None]
            found = next((handler for handler in living if handler.monitor is monitor), None)
            handler = found or CallbackHandler(monitor)
            self.references = tuple(weakref.ref(it) for it in (*living, *(() if found else (handler,))))
            if self._variable is None:
                self._variable = ContextVar("steadyhelm_langchain_handler", default=self)
                register_configure_hook(self._variable, inheritable=True)
                logging.getLogger(callbacks.__name__).addFilter(OwnStops(type(self).__name__))
            return handler


_process_handler: Final = Steadyhelm()
