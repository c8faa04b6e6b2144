"""Strands Agents: a hook provider for agents, graphs and swarms."""

from typing import TYPE_CHECKING

from steadyhelm.adapters.lazy_names import lazy_names

if TYPE_CHECKING:
    from steadyhelm.adapters.strands.hooks import SteadyhelmHooks as SteadyhelmHooks
    from steadyhelm.adapters.strands.hooks import StrandsAdapter as StrandsAdapter

__getattr__ = lazy_names(__name__, {"SteadyhelmHooks": "hooks", "StrandsAdapter": "hooks"})
