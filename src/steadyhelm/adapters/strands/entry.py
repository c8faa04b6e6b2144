"""Recognise and wrap Strands agents, graphs and swarms.

`watch_agents` watches all of a process: each gets our hooks when it is next called.
"""

import functools
import weakref
from typing import Any

from steadyhelm.adapters.strands.hooks import SteadyhelmHooks, has_watcher, is_watching
from steadyhelm.boundary.patches import Method, Patches
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

    def __new__(cls, monitor: Monitor, agent: Any, **options: Any) -> Any:
        """Return the agent, watched."""
        hooks = SteadyhelmHooks(monitor, **options)
        if options and is_watching(monitor, agent.hooks):
            raise SettingsError(
                f"wrap() got {', '.join(options)} for an agent that this monitor watches already. "
                "Give it where the agent is watched first, to SteadyhelmHooks or to wrap()."
            )
        hooks.register_hooks(agent.hooks)
        return agent


def watch_agents(monitor: Monitor, patches: Patches) -> None:
    """Watch all agents, graphs and swarms; one with hooks of ours is watched by them."""
    hooks = SteadyhelmHooks(monitor)
    watched: weakref.WeakSet[Any] = weakref.WeakSet()

    def make(stream: Method) -> Method:
        def stream_async(self: Any, *args: Any, **options: Any) -> Any:
            if patches.is_active and not has_watcher(self.hooks):
                hooks.register_hooks(self.hooks)
                watched.add(self)
            return stream(self, *args, **options)

        return stream_async

    for owner in (Agent, Graph, Swarm):
        patches.replace_method(owner, "stream_async", make)
    patches.on_undo(functools.partial(_remove_hooks, hooks, watched))


def _remove_hooks(hooks: SteadyhelmHooks, watched: "weakref.WeakSet[Any]") -> None:
    for agent in list(watched):
        hooks.unregister_hooks(agent.hooks)
