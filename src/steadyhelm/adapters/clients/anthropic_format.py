"""Anthropic's format: messages, each a list of blocks."""

from typing import Any, Final

import msgspec

from steadyhelm.adapters.clients.translate import (
    ClientReply,
    ServerState,
    get_field,
    get_text,
    get_token_count,
    to_list,
    to_plain,
)
from steadyhelm.host_objects import is_a
from steadyhelm.recordings.content import as_object, as_text, iter_parts

_INPUT_TOKEN_FIELDS: Final = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
_PAUSED: Final = "pause_turn"


class MessagesFormat:
    """Messages: the two roles alternate, and each message is a list of blocks."""

    messages_argument = "messages"
    has_server_state = True

    def read_messages(self, value: Any) -> list[Any]:
        """Return the messages of a request."""
        return to_list(value)

    def read_server_state(self, arguments: dict[str, Any]) -> ServerState:
        """Return the message of a thread that the request follows."""
        thread = as_object(arguments.get("thread"))
        if not thread:
            return ServerState()
        return ServerState(as_text(thread.get("previous_message_id")), arguments={"thread": thread})

    def read_reply(self, result: Any) -> ClientReply | None:
        """Return a message; None for anything else."""
        content = get_field(result, "content")
        if get_field(result, "type") != "message" or not is_a(content, list):
            return None
        return _read_message(result, [to_plain(block) for block in content])

    def make_reply_builder(self, arguments: dict[str, Any]) -> "_MessageBuilder":  # noqa: ARG002
        """Return a builder that takes the events of a message."""
        return _MessageBuilder()

    def add_guidance(self, messages: list[Any], text: str) -> None:
        """Add the text at the end of the user's last message; a reply the host has begun stays last."""
        index = len(messages) - 1
        while index >= 0 and get_field(messages[index], "role") != "user":
            index -= 1
        added = {"type": "text", "text": text}
        last = to_plain(messages[index]) if index >= 0 else {"content": None}
        content = last.get("content")
        if is_a(content, str):
            content = [{"type": "text", "text": content}]
        if is_a(content, (list, tuple)):
            messages[index] = {**last, "content": [*content, added]}
        else:
            messages.append({"role": "user", "content": [added]})


class _MessageBuilder:
    """Builds a message from its events."""

    def __init__(self) -> None:
        self._message: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._blocks: dict[int, dict[str, Any]] = {}
        self._pieces: dict[int, list[str]] = {}
        self._has_ended = False

    def add(self, event: Any) -> bool:
        """Add an event; return whether it was the last."""
        kind = get_text(event, "type")
        index = get_field(event, "index")
        if kind == "message_start":
            self._message = as_object(to_plain(get_field(event, "message")))
            self._usage = dict(as_object(self._message.get("usage")))
        elif kind == "content_block_start" and is_a(index, int):
            self._blocks[index] = as_object(to_plain(get_field(event, "content_block")))
        elif kind == "content_block_delta" and is_a(index, int):
            delta = get_field(event, "delta")
            piece = get_text(delta, "text") or get_text(delta, "partial_json")
            self._pieces.setdefault(index, []).append(piece)
        elif kind == "message_delta":
            stop_reason = get_field(get_field(event, "delta"), "stop_reason")
            self._message = {**self._message, "stop_reason": stop_reason}
            usage = as_object(to_plain(get_field(event, "usage")))
            self._usage |= {name: count for name, count in usage.items() if count is not None}
        self._has_ended = self._has_ended or kind == "message_stop"
        return self._has_ended

    def build(self, *, is_over: bool) -> ClientReply:
        """Return the message as far as it has come."""
        blocks = [self._build_block(index) for index in sorted(self._blocks)]
        message = {**self._message, "usage": self._usage}
        return _read_message(message, blocks, is_complete=is_over or self._has_ended)

    def _build_block(self, index: int) -> dict[str, Any]:
        block, streamed = self._blocks[index], "".join(self._pieces.get(index, ()))
        if block.get("type") == "text":
            return {**block, "text": str(block.get("text") or "") + streamed}
        return {**block, "input": _parse_input(streamed)} if streamed and "input" in block else block


def _read_message(message: Any, blocks: list[Any], *, is_complete: bool = True) -> ClientReply:
    usage = get_field(message, "usage")
    all_parts = list(iter_parts(blocks))
    return ClientReply(
        text="\n".join(part.words for part in all_parts if part.kind == "text"),
        model=get_text(message, "model"),
        input_tokens=sum(get_token_count(usage, name) for name in _INPUT_TOKEN_FIELDS),
        output_tokens=get_token_count(usage, "output_tokens"),
        parts=[part for part in all_parts if is_complete and part.kind in {"call", "result"}],
        messages=[{"role": "assistant", "content": blocks}],
        reply_id=get_text(message, "id"),
        is_final=is_complete and get_field(message, "stop_reason") != _PAUSED,
    )


def _parse_input(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except ValueError:
        return text
