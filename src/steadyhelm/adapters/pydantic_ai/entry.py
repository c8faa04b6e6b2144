"""Recognise and wrap Pydantic AI agents.

`watch_agents` watches every agent of a process: it replaces `Agent.iter`, which all ways to run call.
"""

import copy
from typing import Any

from steadyhelm.adapters.pydantic_ai.hooks import SteadyhelmCapability
from steadyhelm.boundary.driver import Ask
from steadyhelm.boundary.patches import Method, Patches
from steadyhelm.engine.monitor import Monitor
from steadyhelm.errors import MissingExtraError
from steadyhelm.host_objects import is_a

try:
    from pydantic_ai.agent import AbstractAgent, Agent, WrapperAgent
except ImportError as exc:
    raise MissingExtraError("Pydantic AI adapter", extra="pydantic-ai") from exc


class WatchedPydanticAgent(WrapperAgent[Any, Any]):
    """A Pydantic AI agent whose runs are watched; everything else is passed through."""

    def __init__(self, agent: Any, capability: SteadyhelmCapability) -> None:
        super().__init__(agent)
        self._capability = capability

    def __getattr__(self, attribute: str) -> Any:
        if "wrapped" not in self.__dict__:
            raise AttributeError(attribute)
        return getattr(self.wrapped, attribute)

    def __repr__(self) -> str:
        return f"<watched {self.wrapped!r}>"

    def run(self, *args: Any, **options: Any) -> Any:
        """Call `run` of the agent, watched."""
        return self.wrapped.run(*args, **add_capability(self._capability, options))

    def run_sync(self, *args: Any, **options: Any) -> Any:
        """Call `run_sync` of the agent, watched."""
        return self.wrapped.run_sync(*args, **add_capability(self._capability, options))

    def run_stream(self, *args: Any, **options: Any) -> Any:
        """Call `run_stream` of the agent, watched."""
        return self.wrapped.run_stream(*args, **add_capability(self._capability, options))

    def run_stream_sync(self, *args: Any, **options: Any) -> Any:
        """Call `run_stream_sync` of the agent, watched."""
        return self.wrapped.run_stream_sync(*args, **add_capability(self._capability, options))

    def run_stream_events(self, *args: Any, **options: Any) -> Any:
        """Call `run_stream_events` of the agent, watched."""
        return self.wrapped.run_stream_events(*args, **add_capability(self._capability, options))

    def iter(self, *args: Any, **options: Any) -> Any:
        """Call `iter` of the agent, watched."""
        return self.wrapped.iter(*args, **add_capability(self._capability, options))


def add_capability(capability: SteadyhelmCapability, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a run with a copy of the capability among them."""
    mine = copy.copy(capability)
    mine.output_type = options.get("output_type")
    return {**options, "capabilities": [*(options.get("capabilities") or ()), mine]}


class PydanticAIAdapter:
    """Watch an agent of Pydantic AI: `monitor.wrap` returns a `WatchedPydanticAgent`."""

    @staticmethod
    def can_wrap(agent: Any) -> bool:
        """Return whether this is an agent of Pydantic AI."""
        return is_a(agent, AbstractAgent)

    def __new__(cls, monitor: Monitor, agent: Any, *, ask: Ask | None = None) -> Any:
        """Return the agent, watched."""
        return WatchedPydanticAgent(agent, SteadyhelmCapability(monitor, ask=ask))


def watch_agents(monitor: Monitor, patches: Patches) -> None:
    """Watch all agents, those that exist already too; one with a capability of ours is watched by that."""
    capability = SteadyhelmCapability(monitor)

    def make(iterate: Method) -> Method:
        def iter(self: Any, *args: Any, **options: Any) -> Any:  # noqa: A001 - Pydantic AI's name
            if patches.is_active and not _is_watched(self, options):
                options = add_capability(capability, options)
            return iterate(self, *args, **options)

        return iter

    patches.replace_method(Agent, "iter", make)


def _is_watched(agent: Any, options: dict[str, Any]) -> bool:
    given = [*(options.get("capabilities") or ())]
    root = getattr(agent, "_root_capability", None)
    return any(is_a(it, SteadyhelmCapability) for it in (*given, *getattr(root, "capabilities", ())))
