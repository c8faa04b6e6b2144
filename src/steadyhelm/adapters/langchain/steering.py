"""Carry out instructions in a graph of LangGraph: stop it, leave it for a rollback, speak to its model."""

import logging
from collections.abc import Mapping
from typing import Any, Final

from steadyhelm.adapter import Capabilities, Instruction
from steadyhelm.adapters.langchain.contexts import AgentContext
from steadyhelm.boundary.driver import Ask, Boundary
from steadyhelm.engine.agent_run import AgentRun
from steadyhelm.engine.monitor import Monitor
from steadyhelm.errors import MissingExtraError, RunStopped
from steadyhelm.host_objects import is_a

try:
    from langchain_core.messages import HumanMessage
    from langgraph.config import get_config
    from langgraph.errors import GraphBubbleUp
except ImportError as exc:
    raise MissingExtraError("LangChain adapter", extra="langchain") from exc

_ARGUMENTS_LOGGED: Final = 3
"""LangChain logs a callback's error by the name of its handler, of its method, and the exception."""

CALLBACKS_ONLY: Final[Capabilities] = {"before_model": {"stop"}, "before_tool": {"stop"}}
"""What can be carried out by callbacks alone."""


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


def read_checkpoint() -> str | None:
    """Return the id of the checkpoint of the outermost graph that the node now running started from."""
    places = current_config().get("configurable", {}).get("checkpoint_map")
    found = places.get("") if is_a(places, Mapping) else None
    return str(found) if found else None


class OwnStops(logging.Filter):
    """Drops the line by which LangChain logs that our callback raised to stop or to leave a graph.

    Args:
        handler: The name of our handler's class.
    """

    def __init__(self, handler: str) -> None:
        super().__init__()
        self._handler = handler

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the line is about anything else."""
        args = record.args
        if not isinstance(args, tuple) or len(args) != _ARGUMENTS_LOGGED or args[0] != self._handler:
            return True
        return not str(args[2]).startswith((GraphStopped.__name__, GraphReturn.__name__))
