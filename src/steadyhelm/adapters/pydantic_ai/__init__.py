"""Pydantic AI: a capability that watches and steers; `run_state` follows what only its messages show."""

from typing import TYPE_CHECKING

from steadyhelm.adapters import lazy_names

if TYPE_CHECKING:
    from steadyhelm.adapters.pydantic_ai.entry import PydanticAIAdapter as PydanticAIAdapter
    from steadyhelm.adapters.pydantic_ai.hooks import SteadyhelmCapability as SteadyhelmCapability

__getattr__ = lazy_names(
    __name__,
    {
        "SteadyhelmCapability": "hooks",
        "PydanticAIAdapter": "entry",
        "watch_agents": "entry",
    },
)
