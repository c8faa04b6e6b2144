"""Read the messages in a span: as a list, as JSON in a text, key by key, or one per event."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from steadyhelm.recordings.content import (
    as_list,
    as_object,
    as_text,
    get_content,
    get_role,
    iter_parts,
    join_text,
)
from steadyhelm.recordings.spans.layouts import Span

_INPUTS: Final = ("gen_ai.input.messages", "llm.input_messages", "gen_ai.prompt")
_OUTPUTS: Final = ("gen_ai.output.messages", "llm.output_messages", "gen_ai.completion")
_TASKS: Final = ("task", "input", "question", "query", "prompt", "goal")
_CHOICE: Final = "gen_ai.choice"
_TOOL_MESSAGE: Final = "gen_ai.tool.message"
_DETAILS: Final = "gen_ai.client.inference.operation.details"
_MAX_DEPTH: Final = 12
_PARTS: Final = frozenset({"type", "text", "toolUse", "toolResult"})


def read_inputs(span: Span) -> list[dict[str, Any]]:
    """Return the messages that a model or an agent received."""
    return _find_messages(span, _INPUTS) or _read_events(span, is_output=False)


def read_outputs(span: Span) -> list[dict[str, Any]]:
    """Return the messages that a model returned."""
    return _find_messages(span, _OUTPUTS) or _read_events(span, is_output=True)


def read_tool_arguments(span: Span) -> Any:
    """Return a tool's arguments from an event of its span; None where no event has them."""
    return next((event.get("content") for event in span.events if event.get("name") == _TOOL_MESSAGE), None)


def read_tool_result(span: Span) -> Any:
    """Return a tool's result from an event of its span; None where no event has it."""
    told = (event.get("message") for event in span.events if event.get("name") == _CHOICE)
    return join_text(_parse_parts(next(told, None)))


def _find_messages(span: Span, keys: Sequence[str]) -> list[dict[str, Any]]:
    """Return messages of the span, or of the one event that newer emitters put them on."""
    details = (event for event in span.events if event.get("name") == _DETAILS)
    for attributes in (span.attributes, *details):
        for key in keys:
            found = read_json(attributes.get(key))
            if not isinstance(found, list):
                found = _join_keys(attributes, f"{key}.")
            if found:
                return [_unwrap(message) for message in found]
    return []


def read_json(value: Any) -> Any:
    """Return the value; parse a text that is JSON."""
    if not isinstance(value, str) or not value.lstrip().startswith(("[", "{")):
        return value
    try:
        return msgspec.json.decode(value)
    except (ValueError, RecursionError):
        return value


def _join_keys(attributes: dict[str, Any], prefix: str) -> list[Any]:
    """Return the list built from `0.message.role`, `0.message.content`, `1.message.role` and so on."""
    root: dict[str, Any] = {}
    for key, value in attributes.items():
        if not key.startswith(prefix):
            continue
        *path, leaf = key[len(prefix) :].split(".", _MAX_DEPTH)
        level = root
        for step in path:
            level = level.setdefault(step, {}) if isinstance(level.setdefault(step, {}), dict) else {}
        level[leaf] = value
    return as_list(_convert_lists(root, _MAX_DEPTH))


def _convert_lists(value: Any, depth: int) -> Any:
    """Return the value with objects whose keys are all numbers as lists."""
    if not isinstance(value, dict) or not depth:
        return value
    if value and all(key.isdecimal() for key in value):
        return [
            _convert_lists(value[key], depth - 1) for key in sorted(value, key=lambda key: (len(key), key))
        ]
    return {key: _convert_lists(inner, depth - 1) for key, inner in value.items()}


def _unwrap(raw: Any) -> dict[str, Any]:
    """Return a message without the wrappers that OpenInference puts around it and its parts."""
    message = as_object(as_object(raw).get("message")) or as_object(raw)
    if message.get("content") is None and (contents := as_list(message.get("contents"))):
        parts = [as_object(part).get("message_content", part) for part in contents]
        return {**message, "content": parts}
    return {**message, "content": read_json(message["content"])} if _has_json_parts(message) else message


def _has_json_parts(message: dict[str, Any]) -> bool:
    content = message.get("content")
    return isinstance(content, str) and content.startswith("[{") and '"type"' in content[:200]


def _read_events(span: Span, *, is_output: bool) -> list[dict[str, Any]]:
    """Return messages of the older convention: one event each, with the role in its name."""
    found = []
    for event in span.events:
        name = as_text(event.get("name")) or ""
        body = as_object(read_json(event.get("gen_ai.event.content"))) or event
        if is_output and name == _CHOICE:
            message = read_json(body.get("message"))
            if not isinstance(message, dict):
                message = _join_message_keys(body) or {**body, "content": message or body.get("content")}
            found.append({"role": "assistant", **message, "content": _parse_parts(message.get("content"))})
        elif not is_output and name.startswith("gen_ai.") and name.endswith(".message"):
            role = name.removeprefix("gen_ai.").removesuffix(".message")
            about = {"tool_call_id": body.get("id")} if role == "tool" else {}
            found.append({**body, "role": role, **about, "content": _parse_parts(body.get("content"))})
    return found


def _parse_parts(content: Any) -> Any:
    """Return a content; parse one that is a JSON text with parts in it."""
    found = read_json(content)
    is_parts = isinstance(found, list) and any(not _PARTS.isdisjoint(as_object(part)) for part in found)
    return found if is_parts else content


def _join_message_keys(event: dict[str, Any]) -> dict[str, Any]:
    """Return a choice's message whose keys were joined by dots."""
    prefix = "message."
    return {key.removeprefix(prefix): value for key, value in event.items() if key.startswith(prefix)}


def find_last_prompt(messages: list[dict[str, Any]]) -> str | None:
    """Return the last user message; None where its text was not recorded."""
    said = (get_content(message) for message in reversed(messages) if get_role(message) == "user")
    asked = (join_text(content) for content in said if _has_text(content))
    return next((text for text in asked if isinstance(text, str)), None)


def _has_text(content: Any) -> bool:
    texts = (part.words for part in iter_parts(content) if part.kind == "text")
    return any(isinstance(text, str) and text.strip() for text in texts)


def find_last_results(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the tool messages after the last model reply."""
    answers: list[dict[str, Any]] = []
    for message in reversed(messages):
        if get_role(message) == "assistant":
            break
        if get_role(message) == "tool":
            answers.append(message)
    return answers[::-1]


def find_task(value: Any) -> str | None:
    """Return the task of an agent, from the input of its span."""
    given = read_json(value)
    if isinstance(given, dict):
        tasks = (as_text(given.get(key)) for key in _TASKS)
        messages = [as_object(message) for message in as_list(given.get("messages"))]
        return next((task for task in tasks if task), None) or find_last_prompt(messages)
    return as_text(given)
