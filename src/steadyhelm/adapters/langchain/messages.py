"""What stands in the messages of LangChain: goals, replies, calls and what came of them.

Everything is read by attribute, so that nothing of LangChain need be imported, and nothing fails on an object
that is not what it should be.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from steadyhelm.adapter import ModelReply, ToolResult

_NESTED: Final = 4
_GOALS: Final = ("input", "query", "question", "task", "topic", "text", "content")


class Asked(NamedTuple):
    """A call that a model asked for, and what came of it where the model's provider made it itself."""

    call_id: str
    name: str
    args: Any
    result: ToolResult | None = None


def goal_of(given: Any) -> str:
    """What an agent is asked to do: the user's latest words in what it is given."""
    if isinstance(given, str):
        return given
    update = getattr(given, "update", None)
    if not isinstance(given, Mapping) and isinstance(update, Mapping):
        given = update  # a Command that brings more than an answer
    messages = _field(given, "messages")
    if messages is not None:
        return _last_human(messages)
    for name in _GOALS:
        words = _field(given, name)
        if isinstance(words, str) and words:
            return words
    return _last_human(given)


def is_continued(given: Any) -> bool:
    """Whether this input only lets a graph go on that has paused."""
    return given is None or getattr(given, "resume", None) is not None


def reply_of(response: Any, model: str = "") -> ModelReply:
    """What a model answered, out of an LLMResult."""
    generation = _first(_first(getattr(response, "generations", None)))
    message = getattr(generation, "message", None)
    text = words_of(message) if message is not None else str(getattr(generation, "text", "") or "")
    usage = getattr(message, "usage_metadata", None)
    if not isinstance(usage, Mapping):
        usage = _old_usage(getattr(response, "llm_output", None))
    told = getattr(message, "response_metadata", None)
    told = told if isinstance(told, Mapping) else {}
    return ModelReply(
        text=text,
        model=str(told.get("model_name") or told.get("model") or model or ""),
        input_tokens=_count(usage, "input_tokens", "prompt_tokens"),
        output_tokens=_count(usage, "output_tokens", "completion_tokens"),
    )


def asked_in(response: Any) -> list[Asked]:
    """The calls a model asked for, those first that its provider made itself."""
    message = getattr(_first(_first(getattr(response, "generations", None))), "message", None)
    calls = [it for it in getattr(message, "tool_calls", None) or () if isinstance(it, Mapping)]
    wanted = [Asked(str(it["id"]), str(it.get("name")), it.get("args")) for it in calls if it.get("id")]
    return [*_made_by_provider(message), *wanted]


def result_of(output: Any, call_id: str = "") -> ToolResult:
    """What came of a tool call, out of what its tool or its node gives back."""
    if getattr(output, "type", None) == "tool":
        return _result_in(output)
    for message in tool_messages_in(output):
        if not call_id or message.tool_call_id == call_id:
            return _result_in(message)
    update = getattr(output, "update", None)
    return ToolResult(value=update if not isinstance(output, Mapping) and update is not None else output)


def tool_messages_in(output: Any, depth: int = 0) -> Iterator[Any]:
    """The tool messages in what a node gives back: a list, a state, a command, or several of them."""
    if getattr(output, "type", None) == "tool" and hasattr(output, "tool_call_id"):
        yield output
    elif depth < _NESTED and isinstance(output, list | tuple):
        for part in output:
            yield from tool_messages_in(part, depth + 1)
    elif depth < _NESTED:
        inside = (
            _field(output, "messages") if isinstance(output, Mapping) else getattr(output, "update", None)
        )
        if isinstance(inside, Mapping | list | tuple):
            yield from tool_messages_in(inside, depth + 1)


def words_of(message: Any) -> str:
    """The text of a message; content may be a text or a list of blocks."""
    content = getattr(message, "content", "")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = (part if isinstance(part, str) else _field(part, "text") for part in parts)
    return "".join(text for text in texts if isinstance(text, str))


def _made_by_provider(message: Any) -> Iterator[Asked]:
    """Searches and the like, which are in the message whole: asked for, made and answered."""
    if not isinstance(getattr(message, "content", None), list):
        return
    blocks = [it for it in getattr(message, "content_blocks", ()) if isinstance(it, Mapping)]
    results = {it.get("tool_call_id"): it for it in blocks if it.get("type") == "server_tool_result"}
    for block in blocks:
        if block.get("type") != "server_tool_call":
            continue
        came = results.get(block.get("id"), {})
        failed = came.get("status") == "error"
        output = came.get("output")
        result = ToolResult(value=None if failed else output, error=(output or "failed") if failed else None)
        yield Asked(str(block.get("id")), str(block.get("name") or "tool"), block.get("args"), result)


def _result_in(message: Any) -> ToolResult:
    content = getattr(message, "content", None)
    value = words_of(message) or content if isinstance(content, list) else content
    if getattr(message, "status", "") == "error":
        return ToolResult(error=value or "failed")
    return ToolResult(value=value)


def _last_human(messages: Any) -> str:
    """The words of the user's last message; one may be an object, a dict, a pair or a text."""
    many = isinstance(messages, Sequence) and not isinstance(messages, str | tuple)
    for message in reversed(messages if many else [messages]):
        if isinstance(message, str):
            return message
        if isinstance(message, tuple) and len(message) == 2:  # noqa: PLR2004 - role and words
            role, words = message
        elif isinstance(message, Mapping):
            role = message.get("role") or message.get("type")
            words = message.get("content")
        else:
            role, words = getattr(message, "type", ""), words_of(message)
        if isinstance(role, str) and role in {"human", "user"}:
            return words if isinstance(words, str) else words_of(_Content(words))
    return ""


class _Content(NamedTuple):
    content: Any


def _old_usage(llm_output: Any) -> Mapping[str, Any]:
    usage = llm_output.get("token_usage") if isinstance(llm_output, Mapping) else None
    return usage if isinstance(usage, Mapping) else {}


def _count(usage: Mapping[str, Any], *names: str) -> int:
    found = next((usage[name] for name in names if isinstance(usage.get(name), int)), 0)
    return max(0, int(found))


def _first(several: Any) -> Any:
    return several[0] if isinstance(several, list | tuple) and several else None


def _field(thing: Any, name: str) -> Any:
    return thing.get(name) if isinstance(thing, Mapping) else getattr(thing, name, None)
