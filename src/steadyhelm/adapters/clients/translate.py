"""Translate requests and replies of model APIs; `ApiFormat` is the contract of one kind of request.

Messages may be plain objects or a client library's own.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol

from msgspec import Struct

from steadyhelm.adapter import ModelReply
from steadyhelm.host_objects import MISSING, is_a, is_pydantic_model, read_field
from steadyhelm.recordings.content import (
    ContentPart,
    as_object,
    as_text,
    get_content,
    get_role,
    iter_calls,
    iter_parts,
    join_text,
)
from steadyhelm.recordings.run_entries import parse_arguments

_MAX_CHARACTERS_PARSED: Final = 8192
_CHARACTERS_PER_TOKEN: Final = 4


class ClientReply(Struct, frozen=True, kw_only=True):
    """A reply of a model.

    `parts` are the calls it asks for, and those the provider made itself with their results; a reply that was
    cut short has none, since half a call cannot be made.
    `messages` are the reply as the host will send it back, `reply_id` is what it may name it by instead.
    `is_final` is whether the model waits for nothing, `is_pending` whether the reply must be fetched later.
    """

    text: str = ""
    model: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    parts: Sequence[ContentPart] = ()
    messages: Sequence[Any] = ()
    reply_id: str = ""
    is_final: bool = True
    is_pending: bool = False
    error: str | None = None


class ReplyBuilder(Protocol):
    """Builds a reply from the pieces of a stream."""

    def add(self, piece: Any) -> bool:
        """Add one piece; return whether it was the last that matters."""
        ...

    def build(self, *, is_over: bool) -> ClientReply:
        """Return the reply as far as it has come; `is_over` is whether the stream was read to its end."""
        ...


class ServerState(NamedTuple):
    """The part of a conversation that the provider keeps.

    `id` is what a request names it by, `is_lasting` whether that is the same for every request, `arguments`
    are the request's arguments that name it.
    """

    id: str | None = None
    is_lasting: bool = False
    arguments: Mapping[str, Any] = MappingProxyType({})


class ApiFormat(Protocol):
    """Reads and edits one kind of request.

    `messages_argument` is the argument with the messages; `has_server_state` is whether the provider may keep
    the messages before them.
    """

    messages_argument: str
    has_server_state: bool

    def read_messages(self, value: Any) -> list[Any]:
        """Return the messages of a request."""
        ...

    def read_server_state(self, arguments: dict[str, Any]) -> ServerState:
        """Return what the provider keeps of the conversation of this request."""
        ...

    def read_reply(self, result: Any) -> ClientReply | None:
        """Return a reply that came as a whole; None for anything else."""
        ...

    def make_reply_builder(self, arguments: dict[str, Any]) -> ReplyBuilder:
        """Return a builder for the streamed reply to this request."""
        ...

    def add_guidance(self, messages: list[Any], text: str) -> None:
        """Add a text for the model at the end of the list; replaces messages, but does not change them."""
        ...


# --- fields --------------------------------------------------------------------------------------------


def get_field(item: Any, name: str) -> Any:
    """Return a field of a plain object or of a library's own; None where there is none.

    An object of another kind, such as a mock or a proxy, is asked for nothing: only what it holds is read.
    """
    if is_a(item, dict):
        return dict.get(item, name)
    value = read_field(item, name)
    if value is MISSING:
        extra = read_field(item, "__pydantic_extra__")
        return extra.get(name) if type(extra) is dict else None
    return value


def get_text(item: Any, name: str) -> str:
    """Return a field that is a text, else an empty text."""
    value = get_field(item, name)
    return value if is_a(value, str) else ""


def get_list(item: Any, name: str) -> list[Any]:
    """Return a field that is a list, else an empty list."""
    value = get_field(item, name)
    return value if is_a(value, list) else []


def get_token_count(usage: Any, name: str) -> int:
    """Return a number of tokens; 0 where it is not known."""
    value = get_field(usage, name)
    return value if is_a(value, int) and not is_a(value, bool) and value > 0 else 0


def to_plain(item: Any) -> Any:
    """Return a message, or a part of one, as a plain object with plain parts."""
    if not is_a(item, dict):
        return item.model_dump(exclude_none=True, warnings=False) if is_pydantic_model(item) else item
    content = item.get("content")
    if is_a(content, list) and not all(is_a(part, (dict, str)) for part in content):
        return {**item, "content": [to_plain(part) for part in content]}
    return item


def to_list(value: Any) -> list[Any]:
    """Return messages as a list; an empty list for what holds no messages."""
    if is_a(value, list):
        return value
    return list(value) if is_a(value, Iterable) and not is_a(value, (str, bytes, dict)) else []


def make_model_reply(reply: ClientReply, messages: Iterable[Any]) -> ModelReply:
    """Return the record of a reply to these messages; tokens are estimated where the reply has no usage.

    A streamed chat completion has none unless the host asks for it.
    """
    sent, received = reply.input_tokens, reply.output_tokens
    if not (sent or received) and (reply.text or reply.parts):
        sent = _count_characters(messages) // _CHARACTERS_PER_TOKEN
        characters = len(reply.text) + sum(len(str(part.args)) for part in reply.parts)
        received = characters // _CHARACTERS_PER_TOKEN
    return ModelReply(text=reply.text, model=reply.model, input_tokens=sent, output_tokens=received)


def _count_characters(messages: Iterable[Any]) -> int:
    """Return about how many characters these messages have."""
    return sum(
        _measure_content(get_field(message, "content") or get_field(message, "output"))
        for message in messages
    )


def _measure_content(content: Any) -> int:
    if is_a(content, str):
        return len(content)
    if not is_a(content, list):
        return 0
    return sum(_measure_content(get_field(part, "text")) for part in content)


# --- steps ---------------------------------------------------------------------------------------------


def read_steps(message: Any) -> list[ContentPart]:
    """Return the steps in a message: calls the model asked for, results of calls, and the user's text."""
    item = as_object(to_plain(message))
    if as_text(item.get("call_id")) is not None:
        return [_read_item(item)]
    role = get_role(item)
    if role == "assistant":
        return [_ensure_call_id(call) for call in iter_calls(_convert_custom_calls(item))]
    if role == "tool":
        return [_read_tool_message(item)]
    return _read_user_message(item) if role == "user" else []


def has_user_text(message: Any) -> bool:
    """Return whether the user says something in a message; results of tools do not count."""
    return any(step.kind == "text" for step in read_steps(message))


def find_last_turn(messages: Sequence[Any]) -> int:
    """Return the index where the user's latest turn begins: messages before it are examples or done."""
    index = len(messages) - 1
    while index >= 0 and not has_user_text(messages[index]):
        index -= 1
    while index > 0 and get_text(messages[index - 1], "role") in {"user", "system", "developer"}:
        index -= 1
    return max(index, 0)


def find_last_results(messages: Sequence[Any]) -> int:
    """Return the index where the results begin that follow the model's last message."""
    index = len(messages)
    while index > 0 and any(step.kind != "call" for step in read_steps(messages[index - 1])):
        index -= 1
    return index


def read_item_call(item: dict[str, Any]) -> ContentPart:
    """Return the call in an item of its own; where it has no name, its type names the tool."""
    name = as_text(item.get("name")) or str(item.get("type")).removesuffix("_call")
    args = next(
        (item[key] for key in ("arguments", "input", "action", "queries", "code") if key in item), None
    )
    call_id = as_text(item.get("call_id")) or as_text(item.get("id"))
    return ContentPart(kind="call", name=name, args=parse_arguments(args), call_id=call_id)


def _read_item(item: dict[str, Any]) -> ContentPart:
    if not str(item.get("type")).endswith("_output"):
        return read_item_call(item)
    output = item.get("output")
    kind = as_text(as_object(output).get("type"))
    # A screenshot is megabytes of encoded characters, of no use as text.
    words = f"[{kind}]" if kind is not None and "text" not in as_object(output) else join_text(output)
    return _make_result(words, as_text(item.get("call_id")))


def _convert_custom_calls(message: dict[str, Any]) -> dict[str, Any]:
    """Return the same message with its free-form calls in the form of function calls."""
    calls = message.get("tool_calls")
    if not is_a(calls, list) or not any(as_object(call).get("custom") for call in calls):
        return message
    return {**message, "tool_calls": [_convert_custom_call(as_object(call)) for call in calls]}


def _convert_custom_call(call: dict[str, Any]) -> dict[str, Any]:
    custom = as_object(call.get("custom"))
    function = {"name": custom.get("name"), "arguments": custom.get("input")}
    return {**call, "function": function} if custom else call


def _ensure_call_id(call: ContentPart) -> ContentPart:
    """Return the call; one of the deprecated kind without an id gets the name of its tool as id."""
    return (
        call
        if call.call_id is not None
        else ContentPart(kind="call", name=call.name, args=call.args, call_id=call.name)
    )


def _read_tool_message(message: dict[str, Any]) -> ContentPart:
    name = as_text(message.get("name"))
    return _make_result(join_text(get_content(message)), as_text(message.get("tool_call_id")) or name, name)


def _make_result(words: Any, call_id: str | None, name: str | None = None) -> ContentPart:
    """Return the result of a call; an object with an `error` has failed, since the API has no such flag."""
    is_parsed = is_a(words, str) and len(words) <= _MAX_CHARACTERS_PARSED
    failure = as_object(parse_arguments(words)).get("error") if is_parsed else None
    return ContentPart(
        kind="result", words=failure or words, call_id=call_id, name=name, is_error=bool(failure)
    )


def _read_user_message(message: dict[str, Any]) -> list[ContentPart]:
    results, texts = [], []
    for part in iter_parts(get_content(message)):
        if part.kind == "result":
            results.append(part)
        elif part.kind == "text":
            texts.append(part.words)
        elif part.kind == "other" and part.name:
            texts.append(f"[{part.name}]")
    text = "\n".join(texts)
    return [*results, ContentPart(kind="text", words=text)] if text.strip() else results
