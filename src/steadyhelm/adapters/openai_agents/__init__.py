"""OpenAI Agents SDK: run hooks; `calls` decides about the calls of a reply before the SDK makes them."""

from typing import TYPE_CHECKING

from steadyhelm.adapters import lazy_names

if TYPE_CHECKING:
    from steadyhelm.adapters.openai_agents.entry import OpenAIAgentsAdapter as OpenAIAgentsAdapter

__getattr__ = lazy_names(
    __name__,
    {
        "OpenAIAgentsAdapter": "entry",
        "watch_runner": "entry",
    },
)
