"""What one monitor sees through the callbacks of LangChain and LangGraph, whoever hands them over."""

import functools
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, Final, TypeVar
from uuid import UUID

from steadyhelm.adapter import CONTINUE, Instruction, ToolResult
from steadyhelm.adapters.langchain.agents import Agents
from steadyhelm.adapters.langchain.messages import Asked, asked_in, reply_of, result_of, tool_messages_in
from steadyhelm.adapters.langchain.scopes import SPACE, Node, Scope, graph_of
from steadyhelm.adapters.langchain.steering import carry_out, config_here, make_boundary, state_here
from steadyhelm.boundary.agent_run import AgentRun
from steadyhelm.engine.monitor import Monitor
from steadyhelm.errors import MissingExtraError

try:
    from langgraph.errors import GraphBubbleUp, GraphInterrupt
except ImportError as exc:
    raise MissingExtraError("LangChain adapter", extra="langchain") from exc

_SURFACE: Final = "callbacks"
_WITHOUT_WORDS: Final = ("rollback", "ask", "stop")

opening: Final[ContextVar[tuple[tuple["Eyes", Scope], ...]]] = ContextVar("steadyhelm_langchain", default=())
"""The agents that whoever makes the outermost calls has opened in this context, for each monitor its own."""

F = TypeVar("F", bound=Callable[..., None])


def _guarded(callback: F) -> F:
    """What fails in here is our fault, and the agent must not notice; what is raised to steer is meant."""

    @functools.wraps(callback)
    def guard(self: "Eyes", *args: Any, **kwargs: Any) -> None:
        if self.monitor.disabled:
            return
        try:
            callback(self, *args, **kwargs)
        except GraphBubbleUp:
            raise
        except Exception as exc:  # noqa: BLE001 - the agent must not notice
            self.monitor.health.swallowed(f"langchain adapter, {callback.__name__}", exc)

    return guard  # type: ignore[return-value]


class Eyes:
    """Tells the steps of the agents that are watched, out of callbacks with LangChain's own signatures.

    Args:
        monitor: Who watches.
    """

    def __init__(self, monitor: Monitor) -> None:
        self.monitor = monitor
        self.agents = Agents(make_boundary(monitor))

    def scope_here(self) -> Scope | None:
        """The agent in whose node or tool the code now running is."""
        manager = config_here().get("callbacks")
        node = self.agents.tree.above(getattr(manager, "parent_run_id", None))
        return node.scope if node is not None else None

    # --- chains: graphs and their nodes -------------------------------------------------------------

    @_guarded
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
        """A graph, one of its nodes, or another chain starts."""
        opened = self._opened()
        if opened is not None and not opened.is_linked:
            opened.is_linked = True
            self.agents.tree.add(run_id, Node(opened, "chain", is_first=True), metadata)
            return
        above = self._above(parent_run_id, metadata)
        self.agents.started(run_id, above, inputs, name=name or "", tags=tags, metadata=metadata)

    @_guarded
    def on_chain_end(self, outputs: Any, *, run_id: UUID, **_: Any) -> None:
        """It is over."""
        node = self.agents.tree.remove(run_id)
        if node is None:
            return
        if node.scope.asked and node.scope.run is not None:
            _tell_untold(node.scope, node.scope.run, outputs)
        self.agents.leave(node, None)

    @_guarded
    def on_chain_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        """It is over, by an exception."""
        node = self.agents.tree.remove(run_id)
        if node is None:
            return
        if isinstance(error, GraphInterrupt):
            node.scope.is_paused = True
        self.agents.leave(node, error)

    # --- models ------------------------------------------------------------------------------------

    @_guarded
    def on_chat_model_start(self, serialized: Any, messages: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """A chat model is about to be asked."""
        self._model_starts(messages[0] if messages else None, **kwargs)

    @_guarded
    def on_llm_start(self, serialized: Any, prompts: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """A model that goes on with a text is about to be asked."""
        self._model_starts(prompts[0] if prompts else None, **kwargs)

    def _model_starts(
        self,
        asked: Any,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        metadata: dict[str, Any] | None = None,
        **_: Any,
    ) -> None:
        above = self._above(parent_run_id, metadata)
        scope = above.scope if above is not None else self.agents.single(run_id, asked)
        run = scope.begun(asked)
        if run is None:
            return
        carry_out(scope, run, scope.returning or _steer(scope, run, metadata))
        run.begin_model_call(key=str(run_id), state=state_here() if scope.can_return else None)
        model = str((metadata or {}).get("ls_model_name") or "")
        self.agents.tree.add(run_id, Node(scope, "model", is_first=above is None, model=model), metadata)

    @_guarded
    def on_llm_end(self, response: Any, *, run_id: UUID, **_: Any) -> None:
        """A model has answered."""
        node = self.agents.tree.remove(run_id)
        if node is None or node.scope.run is None:
            return
        run = node.scope.run
        run.after_model(reply_of(response, node.model), key=str(run_id))
        for asked in asked_in(response):
            if asked.result is None:
                node.scope.note_asked(asked)
            else:
                _tell(run, asked, asked.result)
        self.agents.leave(node, None)

    @_guarded
    def on_llm_error(self, error: BaseException, *, run_id: UUID, response: Any = None, **_: Any) -> None:
        """A model failed, or nobody listens to it any more."""
        node = self.agents.tree.remove(run_id)
        if node is None or node.scope.run is None:
            return
        failed = None if isinstance(error, GeneratorExit) else error
        node.scope.run.after_model(reply_of(response, node.model), key=str(run_id), error=failed)
        self.agents.leave(node, error)

    # --- tools -------------------------------------------------------------------------------------

    @_guarded
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
        """A tool is about to be called; middleware may have told of the call already."""
        above = self._above(parent_run_id, metadata)
        scope = above.scope if above is not None else self.agents.single(run_id, None)
        call_id = tool_call_id or str(run_id)
        run = scope.begun()
        if run is not None:
            name = str(kwargs.get("name") or (serialized or {}).get("name") or "tool")
            args = inputs if isinstance(inputs, Mapping) else {"input": input_str}
            scope.asked.pop(call_id, None)
            if scope.can_refuse:
                run.begin_tool_call(call_id, name, args, surface=_SURFACE)
            else:
                carry_out(scope, run, run.before_tool(call_id, name, args, surface=_SURFACE))
        # Also where nobody watches: an agent inside this tool is no part of the agent around it.
        self.agents.tree.add(run_id, Node(scope, "tool", is_first=above is None, call_id=call_id), metadata)

    @_guarded
    def on_tool_end(self, output: Any, *, run_id: UUID, **_: Any) -> None:
        """A tool has answered."""
        node = self.agents.tree.remove(run_id)
        if node is None or node.scope.run is None:
            return
        result = result_of(output, node.call_id)
        node.scope.run.after_tool(node.call_id, result.value, error=result.error, surface=_SURFACE)
        self.agents.leave(node, None)

    @_guarded
    def on_tool_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        """A tool failed."""
        node = self.agents.tree.remove(run_id)
        if node is None or node.scope.run is None:
            return
        node.scope.run.after_tool(node.call_id, error=error, surface=_SURFACE)
        self.agents.leave(node, error)

    # --- inside --------------------------------------------------------------------------------------

    def _opened(self) -> Scope | None:
        return next((scope for eyes, scope in reversed(opening.get()) if eyes is self), None)

    def _above(self, parent_run_id: UUID | None, metadata: Mapping[str, Any] | None) -> Node | None:
        found = self.agents.tree.above(parent_run_id, metadata)
        if found is not None:
            return found
        opened = self._opened()
        if opened is None or (opened.run is not None and opened.run.has_ended):
            return None
        return Node(opened, "chain")


def _steer(scope: Scope, run: AgentRun, metadata: Mapping[str, Any] | None) -> Instruction:
    """What to do before the model is asked; where middleware stands before it, only a stop is seen to."""
    if graph_of(str((metadata or {}).get(SPACE, ""))) not in scope.speaks_in:
        return run.take_instruction("before_model", only=_WITHOUT_WORDS)
    return CONTINUE if run.stopped is None else Instruction(verdict="stop")


def _tell_untold(scope: Scope, run: AgentRun, outputs: Any) -> None:
    """Calls for which no tool was called, but whose results are there.

    Such are unknown tools, nodes that do their tools' work themselves, and results out of a cache.
    """
    for message in tool_messages_in(outputs):
        asked = scope.asked.pop(str(message.tool_call_id), None)
        if asked is not None:
            _tell(run, asked, result_of(message))


def _tell(run: AgentRun, asked: Asked, result: ToolResult) -> None:
    run.record_call(
        asked.call_id, asked.name, asked.args, result.value, error=result.error, surface="results"
    )
