"""Read the content of messages: texts, thoughts, calls and results, in any of the usual layouts."""

from collections.abc import Callable, Iterator
from typing import Any, Final, Literal

from msgspec import Struct

from steadyhelm.recordings.run_builder import RunBuilder
from steadyhelm.recordings.run_entries import parse_arguments

_TEXT_TYPES: Final = frozenset({"text", "input_text", "output_text", "refusal", "summary_text"})
_THOUGHT_TYPES: Final = frozenset({"thinking", "redacted_thinking", "reasoning"})
_CALL_TYPES: Final = frozenset({"tool_use", "server_tool_use", "mcp_tool_use", "tool_call"})
_RESULT_TYPES: Final = frozenset({"tool_result", "tool_call_response"})
_ROLES: Final = {
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "model": "assistant",
    "tool": "tool",
    "function": "tool",
    "system": "system",
    "developer": "system",
}

OnUnknown = Callable[[str], None]


class ContentPart(Struct, frozen=True, kw_only=True):
    """One part of a message: `words` is the text or result, `name` the tool or the unknown kind."""

    kind: Literal["text", "thought", "call", "result", "other"]
    words: Any = None
    name: Any = None
    args: Any = None
    call_id: str | None = None
    is_error: bool = False


def as_text(value: Any) -> str | None:
    """Return the value when it is a text that is not empty, else None."""
    return value if isinstance(value, str) and value else None


def as_object(value: Any) -> dict[str, Any]:
    """Return the value when it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """Return the value when it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def join_text(content: Any) -> Any:
    """Return a content as one text, other parts as their kind in brackets; return other values unchanged."""
    if not isinstance(content, list):
        text = as_object(content).get("text")
        return text if isinstance(text, str) else content
    said = []
    for raw in content:
        part = _parse_part(raw)
        kind = as_text(as_object(raw).get("type"))
        if part.kind != "text" and kind is None:
            return content
        said.append(part.words if part.kind == "text" else f"[{kind}]")
    return "\n".join(said)


def iter_parts(content: Any) -> Iterator[ContentPart]:
    """Yield the parts of a content, in order; consecutive texts are joined."""
    said: list[str] = []
    for raw in content if isinstance(content, list) else [content]:
        part = _parse_part(raw)
        if part.kind == "text":
            said.append(part.words)
            continue
        if said:
            yield ContentPart(kind="text", words="\n".join(said))
            said = []
        yield part
    if said:
        yield ContentPart(kind="text", words="\n".join(said))


def _get_first(block: dict[str, Any], *keys: str) -> Any:
    """Return the value of the first of these keys that the block has; None when it has none."""
    return next((block[key] for key in keys if key in block), None)


def _parse_part(raw: Any) -> ContentPart:
    if isinstance(raw, str):
        return ContentPart(kind="text", words=raw)
    block = as_object(raw)
    kind = as_text(block.get("type")) or ("text" if "text" in block else "")
    call_id = as_text(block.get("tool_use_id")) or as_text(block.get("call_id")) or as_text(block.get("id"))
    if kind in _TEXT_TYPES:
        text = _get_first(block, "text", "content", "refusal")
        is_text = isinstance(text, str)
        return ContentPart(kind="text", words=text) if is_text else ContentPart(kind="other", name=kind)
    if kind in _THOUGHT_TYPES:
        return ContentPart(kind="thought")
    if kind in _CALL_TYPES:
        args = _get_first(block, "input", "arguments", "args")
        return ContentPart(kind="call", name=block.get("name"), args=parse_arguments(args), call_id=call_id)
    # Tools that run on the model's side have result types of their own.
    if kind in _RESULT_TYPES or kind.endswith("_tool_result"):
        words = _get_first(block, "content", "response", "result")
        is_error = block.get("is_error") is True
        return ContentPart(kind="result", words=join_text(words), call_id=call_id, is_error=is_error)
    return ContentPart(kind="other", name=kind)


def add_reply(run: RunBuilder, content: Any, t: float | None, on_unknown: OnUnknown, **metadata: Any) -> None:
    """Add a model's content to its run: thoughts only as a flag, blank texts not at all."""
    for part in iter_parts(content):
        if part.kind == "thought":
            run.add_flags(thinking=True)
        elif part.kind == "call":
            run.add_call(part.name, part.args, call_id=part.call_id, t=t, **metadata)
        elif part.kind == "result":
            run.add_result(part.call_id, part.words, t=t, error=part.is_error, **metadata)
        elif part.kind == "other":
            on_unknown(part.name)
        elif part.words.strip():
            run.add_text(part.words, t, **metadata)


def add_results(run: RunBuilder, content: Any, t: float | None, **metadata: Any) -> list[str]:
    """Add the results in a user message to its run, and return its texts."""
    texts = []
    for part in iter_parts(content):
        if part.kind == "result":
            run.add_result(part.call_id, part.words, t=t, error=part.is_error, **metadata)
        elif part.kind == "text":
            texts.append(part.words)
        elif part.kind == "other" and part.name:
            texts.append(f"[{part.name}]")
    return texts


def get_role(message: Any) -> str | None:
    """Return the role: user, assistant, tool or system; None for what is no message."""
    fields = as_object(message)
    role = as_text(fields.get("role"))
    if role is None and ("content" in fields or "data" in fields):
        role = as_text(fields.get("type"))
    return _ROLES.get(role.lower()) if role is not None else None


def get_content(message: dict[str, Any]) -> Any:
    """Return the content of a message, under either of its names."""
    content = message.get("content")
    return content if content is not None else message.get("parts", [])


def iter_calls(message: dict[str, Any]) -> Iterator[ContentPart]:
    """Yield the calls of an assistant message, in its content and next to it."""
    yield from (part for part in iter_parts(get_content(message)) if part.kind == "call")
    yield from _iter_separate_calls(message)


def _iter_separate_calls(message: dict[str, Any]) -> Iterator[ContentPart]:
    calls = as_list(message.get("tool_calls"))
    if isinstance(message.get("function_call"), dict):
        calls = [*calls, message["function_call"]]
    for raw in calls:
        call = as_object(as_object(raw).get("tool_call")) or as_object(raw)
        function = as_object(call.get("function")) or call
        args = next((function[key] for key in ("arguments", "args", "input") if key in function), None)
        yield ContentPart(
            kind="call",
            name=function.get("name"),
            args=parse_arguments(args),
            call_id=as_text(call.get("id")),
        )


def add_assistant_message(
    run: RunBuilder, message: dict[str, Any], t: float | None, on_unknown: OnUnknown
) -> None:
    """Add an assistant message to its run: its content, and the calls next to it."""
    if message.get("reasoning_content") or message.get("reasoning"):
        run.add_flags(thinking=True)
    add_reply(run, get_content(message), t, on_unknown)
    for call in _iter_separate_calls(message):
        run.add_call(call.name, call.args, call_id=call.call_id, t=t)


def add_tool_message(run: RunBuilder, message: dict[str, Any], t: float | None) -> None:
    """Add a tool's result message to its run."""
    call_id, name = as_text(message.get("tool_call_id")), as_text(message.get("name"))
    content = get_content(message)
    if call_id is None and any(part.kind == "result" for part in iter_parts(content)):
        add_results(run, content, t)
        return
    is_error = message.get("is_error") is True or message.get("status") == "error"
    run.add_result(call_id, join_text(content), t=t, error=is_error, name=name)
