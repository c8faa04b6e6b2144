"""What a span tells about an agent's step, in the words of any convention."""

from collections.abc import Sequence
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct, field

from holdfast.adapters.content import as_list, as_object, as_text, content_of, opened, role_of, words_of
from holdfast.adapters.run_entries import Notes, number
from holdfast.adapters.span_layouts import Span

Kind = Literal["llm", "tool", "agent", "other"]

_OPENINFERENCE: Final[dict[str, Kind]] = {"LLM": "llm", "TOOL": "tool", "RETRIEVER": "tool", "AGENT": "agent"}
_OPERATIONS: Final[dict[str, Kind]] = {
    "chat": "llm",
    "completion": "llm",
    "text_completion": "llm",
    "generate_content": "llm",
    "execute_tool": "tool",
    "retrieval": "tool",
    "invoke_agent": "agent",
}
_TRACELOOP: Final[dict[str, Kind]] = {"tool": "tool", "agent": "agent"}
_INPUTS: Final = ("gen_ai.input.messages", "llm.input_messages", "gen_ai.prompt")
_OUTPUTS: Final = ("gen_ai.output.messages", "llm.output_messages", "gen_ai.completion")
_TOTALS: Final = ("llm.token_count.total", "gen_ai.usage.total_tokens", "llm.usage.total_tokens")
_IN_AND_OUT: Final = (
    ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt"),
    ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion"),
)
_ARGUMENTS: Final = ("gen_ai.tool.call.arguments", "input.value", "traceloop.entity.input", "tool.parameters")
_RESULTS: Final = ("gen_ai.tool.call.result", "output.value", "traceloop.entity.output")
_TASKS: Final = ("task", "input", "question", "query", "prompt", "goal")
_CHOICE: Final = "gen_ai.choice"
_DEEP: Final = 12


class SpanStep(Struct, frozen=True, kw_only=True):
    """A model's call, a tool's, or an agent's.

    `asked` is what the user said last, `answers` are the tools' messages that a model was given last,
    `outputs` the messages it gave. Content is often not recorded: then all of them are empty.
    """

    kind: Kind
    name: str
    model: str | None = None
    tokens: int = 0
    call_id: str | None = None
    args: Any = None
    result: Any = None
    asked: str | None = None
    answers: list[dict[str, Any]] = field(default_factory=list)
    outputs: list[dict[str, Any]] = field(default_factory=list)


def step_of(span: Span) -> SpanStep:
    """What the span tells."""
    kind = _kind(span)
    if kind == "tool":
        return SpanStep(
            kind=kind,
            name=span.first("gen_ai.tool.name", "tool.name", "traceloop.entity.name") or span.name,
            call_id=span.first("gen_ai.tool.call.id", "tool_call.id", "tool.id"),
            args=opened(_present(span, _ARGUMENTS)),
            result=_present(span, _RESULTS),
        )
    if kind == "other":
        return SpanStep(kind=kind, name=span.name)
    inputs = _messages(span, _INPUTS) or _from_events(span, is_output=False)
    if kind == "agent":
        return SpanStep(
            kind=kind,
            name=span.first("gen_ai.agent.name", "agent.name", "traceloop.entity.name") or span.name,
            asked=_last_asked(inputs) or _task(_present(span, ("input.value", "traceloop.entity.input"))),
            args=opened(_present(span, _ARGUMENTS)),
            result=_present(span, _RESULTS),
        )
    return SpanStep(
        kind=kind,
        name=span.name,
        model=span.first("gen_ai.response.model", "gen_ai.request.model", "llm.model_name"),
        tokens=_tokens(span),
        asked=_last_asked(inputs),
        answers=_last_answers(inputs),
        outputs=_messages(span, _OUTPUTS) or _from_events(span, is_output=True) or _plain_output(span),
    )


def _kind(span: Span) -> Kind:
    """What a span is of: said outright in newer conventions, to be guessed from its keys in older ones."""
    if (said := span.first("openinference.span.kind")) is not None:
        return _OPENINFERENCE.get(said.upper(), "other")
    if (said := span.first("gen_ai.operation.name")) is not None:
        return _OPERATIONS.get(said, "other")
    if (said := span.first("traceloop.span.kind")) is not None:
        return _TRACELOOP.get(said, "other")
    if "gen_ai.tool.name" in span.attributes or span.name.startswith("execute_tool "):
        return "tool"
    if "llm.request.type" in span.attributes or "gen_ai.request.model" in span.attributes:
        return "llm"
    return "agent" if span.name.startswith("invoke_agent ") else "other"


def _present(span: Span, keys: Sequence[str]) -> Any:
    return next((span.attributes[key] for key in keys if key in span.attributes), None)


def _tokens(span: Span) -> int:
    """Input and output together; the cached part is in the input already."""

    def counted(keys: Sequence[str]) -> float | None:
        counts = (number(span.attributes.get(key), key, Notes()) for key in keys)
        return next((count for count in counts if count is not None), None)

    total = counted(_TOTALS)
    return int(sum(counted(keys) or 0 for keys in _IN_AND_OUT) if total is None else total)


def _messages(span: Span, keys: Sequence[str]) -> list[dict[str, Any]]:
    """Messages as a list, as JSON in a text, or with every leaf under a key of its own."""
    for key in keys:
        found = _json(span.attributes.get(key))
        if not isinstance(found, list):
            found = _gathered(span.attributes, f"{key}.")
        if found:
            return [_unwrapped(message) for message in found]
    return []


def _json(value: Any) -> Any:
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
    return {**message, "content": _json(message["content"])} if _holds_parts(message) else message


def _holds_parts(message: dict[str, Any]) -> bool:
    content = message.get("content")
    return isinstance(content, str) and content.startswith("[{") and '"type"' in content[:200]


def _from_events(span: Span, *, is_output: bool) -> list[dict[str, Any]]:
    """Messages as the older convention has them: an event each, its role in the event's name."""
    found = []
    for event in span.events:
        name = as_text(event.get("name")) or ""
        body = as_object(_json(event.get("gen_ai.event.content"))) or event
        if is_output and name == _CHOICE:
            message = as_object(_json(body.get("message")))
            found.append({"role": "assistant", **(message or _gathered_message(body) or body)})
        elif not is_output and name.startswith("gen_ai.") and name.endswith(".message"):
            role = name.removeprefix("gen_ai.").removesuffix(".message")
            about = {"tool_call_id": body.get("id")} if role == "tool" else {}
            found.append({**body, "role": role, **about})
    return found


def _gathered_message(event: dict[str, Any]) -> dict[str, Any]:
    """A choice's message whose keys were joined by dots."""
    prefix = "message."
    return {key.removeprefix(prefix): value for key, value in event.items() if key.startswith(prefix)}


def _plain_output(span: Span) -> list[dict[str, Any]]:
    output = _json(_present(span, _RESULTS))
    if isinstance(output, dict) and role_of(output) is not None:
        return [output]
    return [{"role": "assistant", "content": output}] if isinstance(output, str) else []


def _last_asked(messages: list[dict[str, Any]]) -> str | None:
    asked = (words_of(content_of(message)) for message in reversed(messages) if role_of(message) == "user")
    return next((text for text in asked if isinstance(text, str) and text.strip()), None)


def _last_answers(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The tools' messages since the model last spoke; those before it were given then."""
    answers: list[dict[str, Any]] = []
    for message in reversed(messages):
        if role_of(message) == "assistant":
            break
        if role_of(message) == "tool":
            answers.append(message)
    return answers[::-1]


def _task(value: Any) -> str | None:
    """What an agent was given to do, from the input of its span."""
    given = _json(value)
    if isinstance(given, dict):
        tasks = (as_text(given.get(key)) for key in _TASKS)
        messages = [as_object(message) for message in as_list(given.get("messages"))]
        return next((task for task in tasks if task), None) or _last_asked(messages)
    return as_text(given)
