"""Pydantic AI: a capability that watches and steers the agent it is given to."""

from typing import TYPE_CHECKING

from holdfast.adapters.lazy_names import lazy_names

if TYPE_CHECKING:
    from holdfast.adapters.pydantic_ai.capability import HoldfastCapability as HoldfastCapability
    from holdfast.adapters.pydantic_ai.capability import PydanticAIAdapter as PydanticAIAdapter

__getattr__ = lazy_names(__name__, {"HoldfastCapability": "capability", "PydanticAIAdapter": "capability"})
