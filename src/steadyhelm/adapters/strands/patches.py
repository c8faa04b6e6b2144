"""Watch every agent, graph and swarm of a process: they get our hooks when they are next called."""

import functools
import weakref
from typing import Any

from steadyhelm.adapters.strands.hooks import SteadyhelmHooks, has_watcher
from steadyhelm.boundary.patches import Method, Patches
from steadyhelm.engine.monitor import Monitor
from steadyhelm.errors import MissingExtraError

try:
    from strands import Agent
    from strands.multiagent.graph import Graph
    from strands.multiagent.swarm import Swarm
except ImportError as exc:
    raise MissingExtraError("Strands adapter", extra="strands") from exc


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
