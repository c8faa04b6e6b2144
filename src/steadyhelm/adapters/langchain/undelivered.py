"""Words for the model of a graph that has no middleware to say them: that is told once for each graph."""

import logging
from typing import Final

from steadyhelm.adapters.langchain.scopes import Scope
from steadyhelm.boundary.agent_run import AgentRun

_log: Final = logging.getLogger("steadyhelm")


class Unsaid:
    """Looks after each call of a graph whether there were words that nobody could say.

    Args:
        graph: The name of the graph.
    """

    def __init__(self, graph: str) -> None:
        self._graph = graph
        self._is_told = False

    def look(self, scope: Scope, run: AgentRun | None) -> None:
        """A call is over."""
        if self._is_told or scope.speaks_in or run is None or not run.undelivered:
            return
        self._is_told = True
        _log.warning(
            "Steadyhelm had words for the model of %s and no way to say them: "
            "add SteadyhelmMiddleware(monitor) to create_agent(middleware=[...]). "
            "Without it Steadyhelm can stop a graph, but not guide it.",
            self._graph,
        )
