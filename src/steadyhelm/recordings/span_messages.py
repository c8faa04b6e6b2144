"""The messages in a span: as a list, as JSON in a text, key by key, or an event each."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from steadyhelm.recordings.content import as_list, as_object, as_text, content_of, parts, role_of, words_of
from steadyhelm.recordings.span_layouts import Span

_INPUTS: Final = ("gen_ai.input.messages", "llm.input_messages", "gen_ai.prompt")
_OUTPUTS: Final = ("gen_ai.output.messages", "llm.output_messages", "gen_ai.completion")
_TASKS: Final = ("task", "input", "question", "query", "prompt", "goal")
_CHOICE: Final = "gen_ai.choice"
_TOOL_MESSAGE: Final = "gen_ai.tool.message"
_DETAILS: Final = "gen_ai.client.inference.operation.details"
_DEEP: Final = 12
_PARTS: Final = frozenset({"type", "text", "toolUse", "toolResult"})


def inputs_of(span: Span) -> list[dict[str, Any]]:
    """The messages a model or an agent was given."""
    return _messages(span, _INPUTS) or _from_events(span, is_output=False)


def outputs_of(span: Span) -> list[dict[str, Any]]:
    """The messages a model gave."""
    return _messages(span, _OUTPUTS) or _from_events(span, is_output=True)


def asked_of(span: Span) -> Any:
    """A tool's arguments, where an event of its span tells them; None where none does."""
    return next((event.get("content") for event in span.events if event.get("name") == _TOOL_MESSAGE), None)


def answered_of(span: Span) -> Any:
    """A tool's result, where an event of its span tells it; None where none does."""
    told = (event.get("message") for event in span.events if event.get("name") == _CHOICE)
    return words_of(_with_parts(next(told, None)))


def _messages(span: Span, keys: Sequence[str]) -> list[dict[str, Any]]:
    """Messages on the span, or on the one event that newer emitters put them on."""
    details = (event for event in span.events if event.get("name") == _DETAILS)
    for attributes in (span.attributes, *details):
        for key in keys:
            found = read_json(attributes.get(key))
            if not isinstance(found, list):
                found = _gathered(attributes, f"{key}.")
            if found:
                return [_unwrapped(message) for message in found]
    return []


def read_json(value: Any) -> Any:
    """The value; a text that is JSON is opened."""
    if not isinstance(value, str) or not value.lstrip().startswith(("[", "{")):
        return value
    try:
        return msgspec.json.decode(value)
    except (ValueError, RecursionError):
        return value


def _gathered(attributes: dict[str, Any], prefix: str) -> list[Any]:
    """`0.message.role`, `0.message.content`, `1.message.role` and so on, put together again."""
    root: dict[str, Any] = {}
    for key, value in attributes.items():
        if not key.startswith(prefix):
            continue
        *path, leaf = key[len(prefix) :].split(".", _DEEP)
        level = root
        for step in path:
            level = level.setdefault(step, {}) if isinstance(level.setdefault(step, {}), dict) else {}
        level[leaf] = value
    return as_list(_with_lists(root, _DEEP))


def _with_lists(value: Any, depth: int) -> Any:
    """Objects whose keys are all numbers are lists."""
    if not isinstance(value, dict) or not depth:
        return value
    if value and all(key.isdecimal() for key in value):
        return [_with_lists(value[key], depth - 1) for key in sorted(value, key=lambda key: (len(key), key))]
    return {key: _with_lists(inner, depth - 1) for key, inner in value.items()}


def _unwrapped(raw: Any) -> dict[str, Any]:
    """A message without the covers that OpenInference puts around it and its parts."""
    message = as_object(as_object(raw).get("message")) or as_object(raw)
    if message.get("content") is None and (contents := as_list(message.get("contents"))):
        parts = [as_object(part).get("message_content", part) for part in contents]
        return {**message, "content": parts}
    return {**message, "content": read_json(message["content"])} if _holds_parts(message) else message


def _holds_parts(message: dict[str, Any]) -> bool:
    content = message.get("content")
    return isinstance(content, str) and content.startswith("[{") and '"type"' in content[:200]


def _from_events(span: Span, *, is_output: bool) -> list[dict[str, Any]]:
    """Messages as the older convention has them: an event each, its role in the event's name."""
    found = []
    for event in span.events:
        name = as_text(event.get("name")) or ""
        body = as_object(read_json(event.get("gen_ai.event.content"))) or event
        if is_output and name == _CHOICE:
            message = read_json(body.get("message"))
            if not isinstance(message, dict):
                message = _gathered_message(body) or {**body, "content": message or body.get("content")}
            found.append({"role": "assistant", **message, "content": _with_parts(message.get("content"))})
        elif not is_output and name.startswith("gen_ai.") and name.endswith(".message"):
            role = name.removeprefix("gen_ai.").removesuffix(".message")
            about = {"tool_call_id": body.get("id")} if role == "tool" else {}
            found.append({**body, "role": role, **about, "content": _with_parts(body.get("content"))})
    return found


def _with_parts(content: Any) -> Any:
    """A content; one that is a text of JSON with parts in it is opened."""
    found = read_json(content)
    is_parts = isinstance(found, list) and any(not _PARTS.isdisjoint(as_object(part)) for part in found)
    return found if is_parts else content


def _gathered_message(event: dict[str, Any]) -> dict[str, Any]:
    """A choice's message whose keys were joined by dots."""
    prefix = "message."
    return {key.removeprefix(prefix): value for key, value in event.items() if key.startswith(prefix)}


def last_asked(messages: list[dict[str, Any]]) -> str | None:
    """What the user said last; None where the message is there and its words were not recorded."""
    said = (content_of(message) for message in reversed(messages) if role_of(message) == "user")
    asked = (words_of(content) for content in said if _has_words(content))
    return next((text for text in asked if isinstance(text, str)), None)


def _has_words(content: Any) -> bool:
    texts = (part.words for part in parts(content) if part.kind == "text")
    return any(isinstance(text, str) and text.strip() for text in texts)


def last_answers(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The tools' messages since the model last spoke; those before it were given then."""
    answers: list[dict[str, Any]] = []
    for message in reversed(messages):
        if role_of(message) == "assistant":
            break
        if role_of(message) == "tool":
            answers.append(message)
    return answers[::-1]


def task_in(value: Any) -> str | None:
    """What an agent was given to do, from the input of its span."""
    given = read_json(value)
    if isinstance(given, dict):
        tasks = (as_text(given.get(key)) for key in _TASKS)
        messages = [as_object(message) for message in as_list(given.get("messages"))]
        return next((task for task in tasks if task), None) or last_asked(messages)
    return as_text(given)
