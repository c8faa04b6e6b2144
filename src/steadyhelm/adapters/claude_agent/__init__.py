"""Claude Agent SDK: hooks and messages; `replies` joins what the two show of one reply."""

from typing import TYPE_CHECKING

from steadyhelm.adapters import lazy_names

if TYPE_CHECKING:
    from steadyhelm.adapters.claude_agent.entry import ClaudeAgentAdapter as ClaudeAgentAdapter

__getattr__ = lazy_names(
    __name__,
    {
        "ClaudeAgentAdapter": "entry",
        "watch_conversations": "entry",
    },
)
