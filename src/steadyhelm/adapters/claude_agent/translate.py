"""Translate messages of the Claude Agent SDK."""

from collections.abc import Mapping
from typing import Any, Final

from steadyhelm.adapters.claude_agent.hooks import ClaudeConversation
from steadyhelm.adapters.claude_agent.replies import ShownReply
from steadyhelm.errors import MissingExtraError
from steadyhelm.host_objects import is_a

try:
    import claude_agent_sdk as sdk
except ImportError as exc:
    raise MissingExtraError("Claude Agent SDK adapter", extra="claude") from exc

_INPUT_TOKENS: Final = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


def record_message(conversation: ClaudeConversation, message: Any) -> None:
    """Record what a message shows of replies, of sub-agents and of the tokens of a turn."""
    if is_a(message, sdk.AssistantMessage):
        text = "\n".join(part.text for part in message.content if is_a(part, sdk.TextBlock))
        if message.error is not None:
            conversation.show_failure(text or message.error, parent_call=message.parent_tool_use_id)
            return
        calls = tuple(part.id for part in message.content if is_a(part, sdk.ToolUseBlock))
        tokens_in, tokens_out = _read_tokens(message.usage)
        reply = ShownReply(
            message_id=message.message_id or message.uuid or "",
            text=text,
            model=message.model,
            input_tokens=tokens_in,
            output_tokens=tokens_out,
        )
        conversation.show_reply(reply, calls=calls, parent_call=message.parent_tool_use_id)
    elif is_a(message, sdk.ResultMessage):
        tokens_in, tokens_out = _read_tokens(message.usage)
        conversation.show_turn_end(
            input_tokens=tokens_in, output_tokens=tokens_out, total_cost_usd=message.total_cost_usd
        )
    elif is_a(message, sdk.TaskStartedMessage):
        conversation.note_subagent(message.task_id, message.tool_use_id)


def _read_tokens(usage: Mapping[str, Any] | None) -> tuple[int, int]:
    """Return the input tokens, cached or not, and the output tokens."""
    counts = usage or {}
    tokens_in = sum(int(counts.get(name) or 0) for name in _INPUT_TOKENS)
    return tokens_in, int(counts.get("output_tokens") or 0)
