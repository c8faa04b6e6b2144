"""The formats of model APIs: OpenAI's chat completions and responses, and Anthropic's messages.

Many other providers offer chat completions too.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from steadyhelm.adapters.clients.translate import (
    ClientReply,
    ServerState,
    get_field,
    get_list,
    get_text,
    get_token_count,
    read_item_call,
    read_steps,
    to_list,
    to_plain,
)
from steadyhelm.host_objects import is_a
from steadyhelm.recordings.content import ContentPart, as_object, as_text, iter_parts, join_text

_END_EVENTS: Final = frozenset({"response.completed", "response.incomplete", "response.failed"})
_PENDING_STATUSES: Final = frozenset({"queued", "in_progress"})
_INPUT_TOKEN_FIELDS: Final = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
_PAUSED: Final = "pause_turn"


class ChatFormat:
    """Chat completions: messages with roles, calls beside the text, one message for each result."""

    messages_argument = "messages"
    has_server_state = False

    def read_messages(self, value: Any) -> list[Any]:
        """Return the messages of a request."""
        return to_list(value)

    def read_server_state(self, arguments: dict[str, Any]) -> ServerState:  # noqa: ARG002
        """Return an empty state: every request has all of its conversation."""
        return ServerState()

    def read_reply(self, result: Any) -> ClientReply | None:
        """Return a completion; None for anything else."""
        choices = get_field(result, "choices")
        if not is_a(choices, list) or get_field(result, "object") == "chat.completion.chunk":
            return None
        message = get_field(choices[0], "message") if choices else None
        return _read_completion(result, message, get_field(result, "usage"))

    def make_reply_builder(self, arguments: dict[str, Any]) -> "_ChatReplyBuilder":
        """Return a builder that takes the chunks of a completion."""
        return _ChatReplyBuilder(as_object(arguments.get("stream_options")).get("include_usage") is True)

    def add_guidance(self, messages: list[Any], text: str) -> None:
        """Add the text to the user's message where it is the last, so that roles still alternate."""
        last = as_object(to_plain(messages[-1])) if messages else {}
        if last.get("role") != "user":
            messages.append({"role": "user", "content": text})
            return
        content = last.get("content")
        if is_a(content, list):
            messages[-1] = {**last, "content": [*content, {"type": "text", "text": text}]}
        else:
            messages[-1] = {**last, "content": f"{content}\n\n{text}"}


class _ChatReplyBuilder:
    """Builds a completion from its chunks."""

    def __init__(self, has_usage: bool) -> None:
        self._has_usage = has_usage
        self._first_chunk: Any = None
        self._usage: Any = None
        self._texts: list[str] = []
        self._calls: dict[int, dict[str, Any]] = {}
        self._has_ended = False

    def add(self, chunk: Any) -> bool:
        """Add a chunk; only the first choice counts, since the conversation continues with it."""
        self._first_chunk = chunk if self._first_chunk is None else self._first_chunk
        self._usage = get_field(chunk, "usage") or self._usage
        for choice in get_list(chunk, "choices"):
            if get_field(choice, "index"):
                continue
            self._add_delta(get_field(choice, "delta"))
            self._has_ended = self._has_ended or get_field(choice, "finish_reason") is not None
        return self._has_ended and (self._usage is not None or not self._has_usage)

    def build(self, *, is_over: bool) -> ClientReply:
        """Return the completion as far as it has come."""
        calls = [{**call, "function": _join_pieces(call["function"])} for call in self._calls.values()]
        message = {"role": "assistant", "content": "".join(self._texts), "tool_calls": calls}
        reply = _read_completion(self._first_chunk, message, self._usage)
        if is_over or self._has_ended:
            return reply
        return ClientReply(text=reply.text, model=reply.model, messages=reply.messages, is_final=False)

    def _add_delta(self, delta: Any) -> None:
        self._texts += [get_text(delta, "content"), get_text(delta, "refusal")]
        for call in get_list(delta, "tool_calls"):
            index = get_field(call, "index")
            known = self._calls.setdefault(
                index if is_a(index, int) else len(self._calls),
                {"id": None, "function": {"name": [], "arguments": []}},
            )
            known["id"] = known["id"] or get_field(call, "id")
            function = get_field(call, "function") or get_field(call, "custom")
            known["function"]["name"].append(get_text(function, "name"))
            known["function"]["arguments"].append(
                get_text(function, "arguments") or get_text(function, "input")
            )


def _read_completion(completion: Any, message: Any, usage: Any) -> ClientReply:
    plain = to_plain(message)
    text = join_text(get_field(plain, "content")) or get_field(message, "refusal")
    return ClientReply(
        text=text if is_a(text, str) else "",
        model=get_text(completion, "model"),
        input_tokens=get_token_count(usage, "prompt_tokens"),
        output_tokens=get_token_count(usage, "completion_tokens"),
        parts=read_steps({**as_object(plain), "role": "assistant"}),
        messages=[message],
    )


def _join_pieces(pieces: dict[str, list[str]]) -> dict[str, str]:
    return {name: "".join(texts) for name, texts in pieces.items()}


class ResponsesFormat:
    """Responses: items of many kinds, and a conversation that OpenAI may keep."""

    messages_argument = "input"
    has_server_state = True

    def read_messages(self, value: Any) -> list[Any]:
        """Return the items of a request."""
        return [{"role": "user", "content": value}] if is_a(value, str) else to_list(value)

    def read_server_state(self, arguments: dict[str, Any]) -> ServerState:
        """Return the response the request follows, or the stored conversation it is part of."""
        stored = arguments.get("conversation")
        stored_id = as_text(stored) or as_text(as_object(stored).get("id"))
        if stored_id is not None:
            return ServerState(stored_id, is_lasting=True)
        previous = as_text(arguments.get("previous_response_id"))
        if previous is None:
            return ServerState()
        return ServerState(previous, arguments={"previous_response_id": previous})

    def read_reply(self, result: Any) -> ClientReply | None:
        """Return a response; None for anything else."""
        output = get_field(result, "output")
        if not is_a(output, list):
            return None
        usage = get_field(result, "usage")
        text = "\n".join(_read_item_text(item) for item in output if get_field(item, "type") == "message")
        failure = as_text(get_field(get_field(result, "error"), "message"))
        return ClientReply(
            text=text,
            model=get_text(result, "model"),
            input_tokens=get_token_count(usage, "input_tokens"),
            output_tokens=get_token_count(usage, "output_tokens"),
            parts=[part for item in output for part in _read_item_calls(item)],
            messages=output,
            reply_id=get_text(result, "id"),
            is_pending=get_text(result, "status") in _PENDING_STATUSES,
            error=failure if get_field(result, "status") == "failed" else None,
        )

    def make_reply_builder(self, arguments: dict[str, Any]) -> "_ResponseBuilder":  # noqa: ARG002
        """Return a builder that takes the events of a response."""
        return _ResponseBuilder(self)

    def add_guidance(self, messages: list[Any], text: str) -> None:
        """Add the text as a message of its own."""
        messages.append({"role": "user", "content": text})


class _ResponseBuilder:
    """Builds a response from its events: the last one has all of it."""

    def __init__(self, api_format: ResponsesFormat) -> None:
        self._format = api_format
        self._response: Any = None
        self._texts: list[str] = []
        self._items: list[Any] = []
        self._has_ended = False
        self._error: str | None = None

    def add(self, event: Any) -> bool:
        """Add an event; return whether it was the last."""
        kind = get_text(event, "type")
        if kind == "error":
            # It comes in place of the last event, without a response.
            self._error = get_text(event, "message") or get_text(event, "code") or "failed"
            return True
        if kind in _END_EVENTS or kind == "response.created":
            self._response = get_field(event, "response")
            self._has_ended = kind in _END_EVENTS
        elif kind == "response.output_text.delta":
            self._texts.append(get_text(event, "delta"))
        elif kind == "response.output_item.done":
            self._items.append(get_field(event, "item"))
        return self._has_ended

    def build(self, *, is_over: bool) -> ClientReply:  # noqa: ARG002 - its last event shows that it is over
        """Return the response as far as it has come."""
        reply = self._format.read_reply(self._response)
        if reply is not None and self._has_ended:
            return reply
        return ClientReply(
            text="".join(self._texts),
            model=reply.model if reply is not None else "",
            messages=self._items,
            reply_id=reply.reply_id if reply is not None else "",
            is_final=False,
            error=self._error,
        )


def _read_item_calls(item: Any) -> Sequence[ContentPart]:
    """Return the call in an item: one for the host to make, or one OpenAI made, together with its result."""
    plain = as_object(to_plain(item))
    if not str(plain.get("type")).endswith("_call"):
        return ()
    call = read_item_call(plain)
    if as_text(plain.get("call_id")) is not None:
        return (call,)
    failure = plain.get("error")
    output = next((plain[key] for key in ("output", "results", "outputs") if plain.get(key)), None)
    result = ContentPart(kind="result", words=failure or output, call_id=call.call_id, is_error=bool(failure))
    return (call, result)


def _read_item_text(item: Any) -> str:
    text = join_text(get_field(to_plain(item), "content"))
    return text if is_a(text, str) else ""


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
