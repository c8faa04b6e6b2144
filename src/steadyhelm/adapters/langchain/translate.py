"""Read the messages of LangChain: goals, replies, requested calls and their results.

Everything is read by attribute, so that nothing of LangChain need be imported, and nothing fails on an object
that is not what it should be.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from steadyhelm.adapter import ModelReply, ToolResult
from steadyhelm.events import NotRun
from steadyhelm.host_objects import MISSING, is_a, read_field

_MAX_DEPTH: Final = 4
_GOAL_KEYS: Final = ("input", "query", "question", "task", "topic", "text", "content")


class RequestedToolCall(NamedTuple):
    """A call that a model asked for; `result` is set where the model's provider made the call itself."""

    call_id: str
    name: str
    args: Any
    result: ToolResult | None = None


def read_goal(given: Any) -> str:
    """Return what an agent is asked to do: the user's latest text in its input."""
    if is_a(given, str):
        return given
    update = getattr(given, "update", None)
    if not is_a(given, Mapping) and is_a(update, Mapping):
        given = update  # a Command that brings more than an answer
    messages = _field(given, "messages")
    if messages is not None:
        return _read_last_user_text(messages)
    for name in _GOAL_KEYS:
        text = _field(given, name)
        if is_a(text, str) and text:
            return text
    return _read_last_user_text(given)


def is_resumption(given: Any) -> bool:
    """Return whether this input only lets a paused graph go on."""
    return given is None or getattr(given, "resume", None) is not None


def read_reply(response: Any, model: str = "") -> ModelReply:
    """Return the model's reply in an LLMResult; `model` is its name where the reply has none."""
    generation = _first_generation(response)
    message = getattr(generation, "message", None)
    text = read_text(message) if message is not None else str(getattr(generation, "text", "") or "")
    usage = getattr(message, "usage_metadata", None)
    if not is_a(usage, Mapping):
        usage = _read_old_usage(getattr(response, "llm_output", None))
    metadata = getattr(message, "response_metadata", None)
    metadata = metadata if is_a(metadata, Mapping) else {}
    return ModelReply(
        text=text,
        model=str(metadata.get("model_name") or metadata.get("model") or model or ""),
        input_tokens=_read_count(usage, "input_tokens", "prompt_tokens"),
        output_tokens=_read_count(usage, "output_tokens", "completion_tokens"),
    )


def read_requested_calls(response: Any) -> list[RequestedToolCall]:
    """Return the calls in a model's reply, those first that its provider made itself."""
    message = getattr(_first_generation(response), "message", None)
    calls: list[RequestedToolCall] = []
    if is_a(getattr(message, "content", None), list):
        calls += _read_provider_calls(message)
    for call in getattr(message, "tool_calls", None) or ():
        if is_a(call, Mapping) and call.get("id"):
            calls.append(RequestedToolCall(str(call["id"]), str(call.get("name")), call.get("args")))
    return calls


def read_result(output: Any, call_id: str = "") -> ToolResult:
    """Return the result of a tool call in what its tool or its node returns."""
    if _is_tool_message(output):
        return _read_tool_message(output)
    for message in find_tool_messages(output):
        if not call_id or message.tool_call_id == call_id:
            return _read_tool_message(message)
    update = _read_held(output, "update")
    return ToolResult(value=output if update is None else update)


def find_tool_messages(output: Any) -> list[Any]:
    """Return the tool messages in what a node returns: a list, a state, a command, or several of them."""
    found: list[Any] = []
    waiting: list[tuple[Any, int]] = [(output, 0)]
    while waiting:
        part, depth = waiting.pop()
        inside: Any = None
        if is_a(part, (list, tuple)):
            waiting.extend(zip(reversed(part), itertools.repeat(depth + 1)) if depth < _MAX_DEPTH else ())
        elif is_a(part, dict):
            inside = dict.get(part, "messages")
        elif _is_tool_message(part) and _read_held(part, "tool_call_id") is not None:
            found.append(part)
        else:
            inside = _read_held(part, "update")
        if depth < _MAX_DEPTH and is_a(inside, (dict, list, tuple)):
            waiting.append((inside, depth + 1))
    return found


def find_refusal(
    call: RequestedToolCall, result: ToolResult, answer: bool | None, *, is_prebuilt: bool
) -> NotRun | None:
    """Return why no tool was called for a call that has a result; None where a node may have done its work.

    `answer` is what `read_structured_answer` returns, `is_prebuilt` whether the graph is one of
    `create_agent`, whose nodes call tools or leave a call to something else.
    """
    if answer is False:
        return "invalid arguments"
    error = result.error
    if is_a(error, str) and str.startswith(error, f"Error: {call.name} is not a valid tool"):
        return "no such tool"
    if not is_prebuilt:
        return None
    return "answered" if error is None else "refused"


def read_structured_answer(output: Any) -> bool | None:
    """Return whether the model's node of an agent gave the structured answer it must give.

    False when the answer did not fit the format, None where no such answer is asked for. The answer has the
    form of a tool call, which the node answers itself.
    """
    for part in output if is_a(output, (list, tuple)) else [output]:
        update = part if is_a(part, dict) else _read_held(part, "update")
        if is_a(update, dict) and "structured_response" in update and "messages" in update:
            return update["structured_response"] is not None
    return None


def _is_tool_message(output: Any) -> bool:
    kind = MISSING if is_a(output, dict) else read_field(output, "type")
    return type(kind) is str and kind == "tool"


def _read_held(output: Any, name: str) -> Any:
    """Return a field that an object holds. A tool may return anything, so that no code of it is called."""
    value = None if is_a(output, dict) else read_field(output, name)
    return None if value is MISSING else value


def read_text(message: Any) -> str:
    """Return the text of a message, whose content may be a text or a list of blocks."""
    content = getattr(message, "content", "")
    if is_a(content, str):
        return content
    parts = content if is_a(content, list) else []
    texts = (part if is_a(part, str) else _field(part, "text") for part in parts)
    return "".join(text for text in texts if is_a(text, str))


def _read_provider_calls(message: Any) -> Iterator[RequestedToolCall]:
    """Yield searches and the like, which are in the message with their results."""
    blocks = [it for it in getattr(message, "content_blocks", ()) if is_a(it, Mapping)]
    results = {it.get("tool_call_id"): it for it in blocks if it.get("type") == "server_tool_result"}
    for block in blocks:
        if block.get("type") != "server_tool_call":
            continue
        answer = results.get(block.get("id"), {})
        failed = answer.get("status") == "error"
        output = answer.get("output")
        result = ToolResult(value=None if failed else output, error=(output or "failed") if failed else None)
        yield RequestedToolCall(
            str(block.get("id")), str(block.get("name") or "tool"), block.get("args"), result
        )


def _read_tool_message(message: Any) -> ToolResult:
    content = getattr(message, "content", None)
    value = read_text(message) or content if is_a(content, list) else content
    if getattr(message, "status", "") == "error":
        return ToolResult(error=value or "failed")
    return ToolResult(value=value)


def _read_last_user_text(messages: Any) -> str:
    """Return the text of the user's last message; one may be an object, a dict, a pair or a text."""
    many = is_a(messages, Sequence) and not is_a(messages, (str, tuple))
    for message in reversed(messages if many else [messages]):
        if is_a(message, str):
            return message
        if is_a(message, tuple) and len(message) == 2:  # noqa: PLR2004 - role and text
            role, text = message
        elif is_a(message, Mapping):
            role = message.get("role") or message.get("type")
            text = message.get("content")
        else:
            role, text = getattr(message, "type", ""), read_text(message)
        if is_a(role, str) and role in {"human", "user"}:
            return text if is_a(text, str) else read_text(_Content(text))
    return ""


class _Content(NamedTuple):
    content: Any


def _read_old_usage(llm_output: Any) -> Mapping[str, Any]:
    usage = llm_output.get("token_usage") if is_a(llm_output, Mapping) else None
    return usage if is_a(usage, Mapping) else {}


def _read_count(usage: Mapping[str, Any], *names: str) -> int:
    for name in names:
        if is_a(usage.get(name), int):
            return max(0, int(usage[name]))
    return 0


def _first_generation(response: Any) -> Any:
    """Return the first generation of the first prompt in an LLMResult, or None."""
    found = getattr(response, "generations", None)
    for _ in range(2):
        found = found[0] if is_a(found, (list, tuple)) and found else None
    return found


def _field(thing: Any, name: str) -> Any:
    return thing.get(name) if is_a(thing, Mapping) else getattr(thing, name, None)
