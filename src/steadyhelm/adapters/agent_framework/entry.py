"""Recognise and wrap agents of Microsoft Agent Framework.

`watch_agents` watches every agent of a process: it replaces `run` of agents that take middleware.
"""

import copy
from typing import Any, Literal, Self

from steadyhelm.adapters.agent_framework.hooks import (
    AgentRunMiddleware,
    ModelCallMiddleware,
    ToolCallMiddleware,
)
from steadyhelm.adapters.agent_framework.run_state import CAN, CAN_APPROVE, AgentFrameworkRuns
from steadyhelm.boundary.driver import Ask, Boundary
from steadyhelm.boundary.patches import Method, Patches
from steadyhelm.engine.monitor import Monitor
from steadyhelm.errors import MissingExtraError
from steadyhelm.host_objects import is_a

try:
    from agent_framework import AgentMiddlewareLayer, MiddlewareTermination, UserInputRequiredException
except ImportError as exc:
    raise MissingExtraError("Agent Framework adapter", extra="agent-framework") from exc


class SteadyhelmMiddleware(tuple[Any, ...]):
    """Our three middlewares, for `Agent(client, middleware=SteadyhelmMiddleware(monitor))`.

    Beside others: `middleware=[*SteadyhelmMiddleware(monitor), mine]`. Several agents may share them.

    Args:
        monitor: The monitor that records the runs.
        ask: A function that puts a question to the user and returns the answer. "approval" uses the
            framework's approvals: the agent returns with a request among `user_input_requests`, and continues
            with the response to it.
    """

    __slots__ = ()

    def __new__(cls, monitor: Monitor, *, ask: Ask | Literal["approval"] | None = None) -> Self:
        """Return the three, for one monitor."""
        native = is_a(ask, str) and ask == "approval"
        boundary = Boundary(
            monitor,
            "agent_framework",
            CAN_APPROVE if native else CAN,
            ask=None if native else ask,  # type: ignore[arg-type]
            control=(MiddlewareTermination, UserInputRequiredException),
        )
        runs = AgentFrameworkRuns(boundary)
        middlewares = (AgentRunMiddleware(runs), ModelCallMiddleware(runs), ToolCallMiddleware(runs))
        return super().__new__(cls, middlewares)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


class AgentFrameworkAdapter:
    """Watch an agent: `monitor.wrap` returns a copy of it with our middlewares added."""

    @staticmethod
    def can_wrap(agent: Any) -> bool:
        """Return whether this is an agent that takes middleware."""
        return issubclass(type(agent), AgentMiddlewareLayer)

    def __new__(cls, monitor: Monitor, agent: Any, **options: Any) -> Any:
        """Return the agent, watched."""
        ours = SteadyhelmMiddleware(monitor, **options)
        return agent if monitor.disabled else add_middleware(agent, ours)


def add_middleware(agent: Any, ours: SteadyhelmMiddleware) -> Any:
    """Return a copy of an agent with our middlewares before its own."""
    watched = copy.copy(agent)
    watched.middleware = [*ours, *(agent.middleware or ())]
    return watched


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
