"""Pydantic AI: a capability that watches and steers the agent it is given to."""

from typing import TYPE_CHECKING

from steadyhelm.adapters.lazy_names import lazy_names

if TYPE_CHECKING:
    from steadyhelm.adapters.pydantic_ai.capability import PydanticAIAdapter as PydanticAIAdapter
    from steadyhelm.adapters.pydantic_ai.capability import SteadyhelmCapability as SteadyhelmCapability

__getattr__ = lazy_names(__name__, {"SteadyhelmCapability": "capability", "PydanticAIAdapter": "capability"})
