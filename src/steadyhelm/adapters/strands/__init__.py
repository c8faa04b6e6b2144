"""Strands Agents: hooks for agents; graphs and swarms have events of their own, handled in `graph_hooks`."""

from typing import TYPE_CHECKING

from steadyhelm.adapters import lazy_names

if TYPE_CHECKING:
    from steadyhelm.adapters.strands.entry import StrandsAdapter as StrandsAdapter
    from steadyhelm.adapters.strands.hooks import SteadyhelmHooks as SteadyhelmHooks

__getattr__ = lazy_names(
    __name__,
    {
        "SteadyhelmHooks": "hooks",
        "StrandsAdapter": "entry",
        "watch_agents": "entry",
    },
)
