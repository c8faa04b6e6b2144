"""Strands Agents: a hook provider for agents, graphs and swarms."""

from typing import TYPE_CHECKING

from holdfast.adapters.lazy_names import lazy_names

if TYPE_CHECKING:
    from holdfast.adapters.strands.hooks import HoldfastHooks as HoldfastHooks
    from holdfast.adapters.strands.hooks import StrandsAdapter as StrandsAdapter

__getattr__ = lazy_names(__name__, {"HoldfastHooks": "hooks", "StrandsAdapter": "hooks"})
