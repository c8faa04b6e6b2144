"""Watch graphs and swarms of Strands: a run whose steps are its nodes and whose children are their agents."""

import sys
import weakref
from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct, field

from steadyhelm.adapter import Capabilities
from steadyhelm.boundary.driver import Boundary
from steadyhelm.engine.agent_run import AgentRun
from steadyhelm.engine.monitor import Monitor
from steadyhelm.errors import MissingExtraError
from steadyhelm.host_objects import is_a

try:
    from strands.hooks import (
        AfterMultiAgentInvocationEvent,
        AfterNodeCallEvent,
        BeforeNodeCallEvent,
    )
except ImportError as exc:
    raise MissingExtraError("Strands adapter", extra="strands") from exc

CAN: Final[Capabilities] = {"before_tool": frozenset({"stop"})}

# The run that is the parent of an agent's next run, while the agent's node executes.
PARENTS: Final[weakref.WeakKeyDictionary[Any, AgentRun]] = weakref.WeakKeyDictionary()


class _GraphRun(Struct):
    """One run of a graph or a swarm: the nodes that execute now, each with its call id."""

    run: AgentRun
    node_calls: int = 0
    open_nodes: dict[str, str] = field(default_factory=dict)
    stopped: BaseException | None = None


class GraphHooks:
    """Hooks for graphs and swarms.

    Args:
        monitor: The monitor that records the runs.
        watch: Registers hooks with a node's agent, before the node executes.
    """

    def __init__(self, monitor: Monitor, watch: Callable[[Any], None]) -> None:
        self._boundary = Boundary(monitor, "strands", CAN)
        self._watch = watch
        self._live: weakref.WeakKeyDictionary[Any, _GraphRun] = weakref.WeakKeyDictionary()
        self._graph_of: weakref.WeakKeyDictionary[Any, _GraphRun] = weakref.WeakKeyDictionary()
        self.callbacks: dict[Any, Callable[[Any], None]] = {
            BeforeNodeCallEvent: self._before_node,
            AfterNodeCallEvent: self._after_node,
            AfterMultiAgentInvocationEvent: self._end,
        }

    def record_stop(self, agent: Any, stop: BaseException) -> None:
        """Remember that the run of a node's agent was stopped: a swarm swallows the exception."""
        graph = self._graph_of.get(agent)
        if graph is not None:
            graph.stopped = stop

    def _before_node(self, event: BeforeNodeCallEvent) -> None:
        source, node_id = event.source, event.node_id
        with self._boundary.guard("node"):
            live = self._live.get(source) or self._start(source)
            executor = source.nodes[node_id].executor
            PARENTS[executor] = live.run
            self._graph_of[executor] = live
            if hasattr(executor, "hooks"):
                self._watch(executor.hooks)
            if node_id in live.open_nodes:
                return  # it was interrupted, and continues
            live.node_calls += 1
            live.open_nodes[node_id] = f"{node_id} {live.node_calls}"
            live.run.before_tool(live.open_nodes[node_id], node_id, {})
            if event.cancel_node:
                live.run.mark_not_run(live.open_nodes[node_id], "refused")
            if live.run.stopped is not None:
                event.cancel_node = str(live.run.stopped)

    def _after_node(self, event: AfterNodeCallEvent) -> None:
        with self._boundary.guard("node's result"):
            live = self._live.get(event.source)
            executor = event.source.nodes[event.node_id].executor
            PARENTS.pop(executor, None)
            self._graph_of.pop(executor, None)
            if live is None:
                return
            result = getattr(event.source.state.results.get(event.node_id), "result", None)
            failed = result if is_a(result, BaseException) else None
            value = str(result).strip() if failed is None and result is not None else None
            live.run.after_tool(live.open_nodes.pop(event.node_id, ""), value, error=failed)

    def _end(self, event: AfterMultiAgentInvocationEvent) -> None:
        live = self._live.get(event.source)
        if live is None or _status(event.source) == "interrupted":
            return
        del self._live[event.source]
        error = sys.exc_info()[1] if _status(event.source) != "completed" else None
        stopped = live.run.stopped or live.stopped
        left = live.run.finish(stopped or error)
        if stopped is not None and stopped is not error:
            raise left or stopped from error

    def _start(self, source: Any) -> _GraphRun:
        task = source.state.task
        goal = task if is_a(task, str) else "\n".join(it.get("text", "") for it in task)
        run = self._boundary.start_run(goal, agent=str(source.id), parent=PARENTS.get(source))
        self._live[source] = _GraphRun(run)
        return self._live[source]


def _status(source: Any) -> str:
    state = source.state
    status = getattr(state, "status", None) or getattr(state, "completion_status", "")
    return str(getattr(status, "value", status))
