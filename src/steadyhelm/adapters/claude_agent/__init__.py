"""Claude Agent SDK: hooks beside the user's own, and the stream of messages for what hooks do not tell."""

from typing import TYPE_CHECKING

from steadyhelm.adapters.lazy_names import lazy_names

if TYPE_CHECKING:
    from steadyhelm.adapters.claude_agent.session import ClaudeAgentAdapter as ClaudeAgentAdapter

__getattr__ = lazy_names(__name__, {"ClaudeAgentAdapter": "session"})
