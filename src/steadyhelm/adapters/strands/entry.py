"""Recognise and wrap Strands agents, graphs and swarms."""

from typing import Any

from steadyhelm.adapters.strands.hooks import SteadyhelmHooks, is_watching
from steadyhelm.engine.monitor import Monitor
from steadyhelm.errors import MissingExtraError, SettingsError

try:
    from strands import Agent
    from strands.multiagent.graph import Graph
    from strands.multiagent.swarm import Swarm
except ImportError as exc:
    raise MissingExtraError("Strands adapter", extra="strands") from exc


class StrandsAdapter:
    """Watch an agent, a graph or a swarm: `monitor.wrap` returns the same object, with our hooks added."""

    @staticmethod
    def can_wrap(agent: Any) -> bool:
        """Return whether this is an agent, a graph or a swarm of Strands."""
        return issubclass(type(agent), Agent | Graph | Swarm)

    def __new__(cls, monitor: Monitor, agent: Any, **options: Any) -> Any:  # noqa: D102
        hooks = SteadyhelmHooks(monitor, **options)
        if options and is_watching(monitor, agent.hooks):
            raise SettingsError(
                f"wrap() got {', '.join(options)} for an agent that this monitor watches already. "
                "Give it where the agent is watched first, to SteadyhelmHooks or to wrap()."
            )
        hooks.register_hooks(agent.hooks)
        return agent
