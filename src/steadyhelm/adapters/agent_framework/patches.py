"""Watch every agent of a process: `run` of agents that take middleware is replaced."""

from typing import Any

from steadyhelm.adapters.agent_framework.entry import SteadyhelmMiddleware, add_middleware
from steadyhelm.adapters.agent_framework.hooks import AgentRunMiddleware
from steadyhelm.boundary.patches import Method, Patches
from steadyhelm.engine.monitor import Monitor
from steadyhelm.errors import MissingExtraError
from steadyhelm.host_objects import is_a

try:
    from agent_framework import AgentMiddlewareLayer
except ImportError as exc:
    raise MissingExtraError("Agent Framework adapter", extra="agent-framework") from exc


def watch_agents(monitor: Monitor, patches: Patches) -> None:
    """Watch all agents, those that exist already too; one with middleware of ours is watched by that."""
    ours = SteadyhelmMiddleware(monitor)

    def make(run_agent: Method) -> Method:
        def run(self: Any, *args: Any, **options: Any) -> Any:
            watched = self
            if patches.is_active and not monitor.disabled and not _is_watched(self, options):
                watched = add_middleware(self, ours)
            return run_agent(watched, *args, **options)

        return run

    patches.replace_method(AgentMiddlewareLayer, "run", make)


def _is_watched(agent: Any, options: dict[str, Any]) -> bool:
    given = (*(getattr(agent, "middleware", None) or ()), *(options.get("middleware") or ()))
    return any(is_a(it, AgentRunMiddleware) for it in given)
