"""How a graph of LangGraph is stopped or left from inside, and where in it the code now running is."""

from collections.abc import Mapping
from typing import Any, Final

from steadyhelm.adapter import Capabilities, Instruction
from steadyhelm.adapters.langchain.scopes import Scope
from steadyhelm.boundary.agent_run import AgentRun
from steadyhelm.boundary.driver import Ask, Boundary
from steadyhelm.engine.monitor import Monitor
from steadyhelm.errors import MissingExtraError, RunStopped

try:
    from langgraph.config import get_config
    from langgraph.errors import GraphBubbleUp
except ImportError as exc:
    raise MissingExtraError("LangChain adapter", extra="langchain") from exc

EYES: Final[Capabilities] = {"before_model": {"stop"}, "before_tool": {"stop"}}
"""What can be carried out by callbacks alone."""


class GraphStopped(RunStopped, GraphBubbleUp):
    """A stop that no node, tool node or retry of LangGraph takes for a failure of its own."""


class GraphReturn(GraphBubbleUp):
    """Leaves a graph that is to be taken back, for whoever made the outermost call."""


def make_boundary(monitor: Monitor, can: Capabilities = EYES, ask: Ask | None = None) -> Boundary:
    """Where an agent's steps are told; what LangGraph steers itself by is no failure."""
    return Boundary(monitor, "langchain", can, ask=ask, control=(GraphBubbleUp,))


def carry_out(scope: Scope, run: AgentRun, instruction: Instruction) -> None:
    """Do what can be done without a word to the model: stop, or leave the graph to be taken back.

    Words that cannot be said must not get lost: where the user gave them, or forbade a call, the run stops.
    """
    if instruction.verdict == "proceed":
        return
    if instruction.verdict == "rollback":
        scope.returning = instruction
        raise GraphReturn
    if run.stopped is None:
        run.stopped = RunStopped(
            f"Run stopped. {instruction.text}", run_id=run.run_id, decision=instruction.decision
        )
    raise GraphStopped(str(run.stopped), run_id=run.run_id, decision=run.stopped.decision)


def config_here() -> Mapping[str, Any]:
    """The settings of the node in which the code now running is; empty outside of graphs."""
    try:
        config: Mapping[str, Any] = get_config()
    except RuntimeError:
        return {}
    return config


def state_here() -> str | None:
    """The checkpoint of the outermost graph that the node now running started from."""
    places = config_here().get("configurable", {}).get("checkpoint_map")
    found = places.get("") if isinstance(places, Mapping) else None
    return str(found) if found else None
