"""OpenAI Agents SDK: a runner or an agent, watched by the hooks of each run."""

from typing import TYPE_CHECKING

from steadyhelm.adapters.lazy_names import lazy_names

if TYPE_CHECKING:
    from steadyhelm.adapters.openai_agents.runner import OpenAIAgentsAdapter as OpenAIAgentsAdapter

__getattr__ = lazy_names(__name__, {"OpenAIAgentsAdapter": "runner"})
