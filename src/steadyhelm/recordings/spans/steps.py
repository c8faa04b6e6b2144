"""Read an agent's step from a span, in any convention, with the messages in it."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct, field

from steadyhelm.recordings.content import (
    ContentPart,
    as_list,
    as_object,
    as_text,
    get_content,
    get_role,
    iter_parts,
    join_text,
)
from steadyhelm.recordings.run_entries import Notes, parse_arguments, read_number
from steadyhelm.recordings.spans.layouts import Span

SpanKind = Literal["llm", "tool", "agent", "other"]

NO_TOOL_CONTENT: Final = "no tool content in spans"
"""Why calls of tools, or whether they repeat, cannot be checked."""
_CONTENT_SETTINGS: Final = (
    ("openinference.", "OPENINFERENCE_HIDE_INPUTS=false and OPENINFERENCE_HIDE_OUTPUTS=false"),
    ("traceloop.", "TRACELOOP_TRACE_CONTENT=true"),
    ("llm.request.type", "TRACELOOP_TRACE_CONTENT=true"),
)
_GENAI_CONTENT_SETTING: Final = (
    "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=span_only and "
    "OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_latest_experimental"
)

NOT_RECORDED: Final = "not_recorded"
"""The one argument of a call whose arguments and result were not recorded; its value differs every time."""

_OPENINFERENCE_KINDS: Final[dict[str, SpanKind]] = {
    "LLM": "llm",
    "TOOL": "tool",
    "RETRIEVER": "tool",
    "AGENT": "agent",
}
_OPERATION_KINDS: Final[dict[str, SpanKind]] = {
    "chat": "llm",
    "completion": "llm",
    "text_completion": "llm",
    "generate_content": "llm",
    "execute_tool": "tool",
    "retrieval": "tool",
    "invoke_agent": "agent",
}
_TRACELOOP_KINDS: Final[dict[str, SpanKind]] = {"tool": "tool", "agent": "agent"}
_SESSION_ATTRIBUTES: Final = ("gen_ai.conversation.id", "session.id")
_MODEL_ATTRIBUTES: Final = ("gen_ai.response.model", "gen_ai.request.model", "llm.model_name")
_TOOL_NAME_ATTRIBUTES: Final = ("gen_ai.tool.name", "tool.name", "traceloop.entity.name")
_AGENT_NAME_ATTRIBUTES: Final = ("gen_ai.agent.name", "agent.name", "traceloop.entity.name")
_NAME_SOURCES: Final[dict[SpanKind, tuple[Sequence[str], str]]] = {
    "tool": (_TOOL_NAME_ATTRIBUTES, "execute_tool "),
    "agent": (_AGENT_NAME_ATTRIBUTES, "invoke_agent "),
}
_TOTAL_TOKENS: Final = ("llm.token_count.total", "gen_ai.usage.total_tokens", "llm.usage.total_tokens")
_INPUT_TOKENS: Final = ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt")
_OUTPUT_TOKENS: Final = (
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.completion_tokens",
    "llm.token_count.completion",
)
_ARGUMENT_ATTRIBUTES: Final = (
    "gen_ai.tool.call.arguments",
    "input.value",
    "traceloop.entity.input",
    "tool.parameters",
    "tool_arguments",
)
_RESULT_ATTRIBUTES: Final = (
    "gen_ai.tool.call.result",
    "output.value",
    "traceloop.entity.output",
    "tool_response",
)
_TASKS_IN: Final = ("input.value", "traceloop.entity.input")


class SpanStep(Struct, frozen=True, kw_only=True):
    """A model call, a tool call, or an agent.

    `prompt` is the last user message, `inputs` are the messages that a model received, `tool_messages` the
    last tool results among them, `outputs` the messages it returned. Content is often not recorded: then all
    of them are empty.
    `is_recorded` is False for a call without recorded arguments and result: whether it repeats another one
    is unknown, so its arguments are made to differ from every other call's.
    """

    kind: SpanKind
    name: str
    model: str | None = None
    tokens: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    call_id: str | None = None
    args: Any = None
    result: Any = None
    is_recorded: bool = True
    prompt: str | None = None
    inputs: list[dict[str, Any]] = field(default_factory=list)
    tool_messages: list[dict[str, Any]] = field(default_factory=list)
    outputs: list[dict[str, Any]] = field(default_factory=list)


def read_step(span: Span, *, with_inputs: bool = True) -> SpanStep:
    """Return the step of a span; a model's inputs, the history so far, may be left unread."""
    kind = classify_span(span.name, span.attributes)
    if kind == "other":
        return SpanStep(kind=kind, name=span.name)
    if kind == "llm":
        return _read_model_call(span, read_inputs(span) if with_inputs else [])
    args, result = (
        parse_arguments(_find_attribute(span, _ARGUMENT_ATTRIBUTES)),
        _find_attribute(span, _RESULT_ATTRIBUTES),
    )
    if kind == "tool":
        args = parse_arguments(read_tool_arguments(span)) if args is None else args
        result = read_tool_result(span) if result is None else result
    is_recorded = args is not None or result is not None
    return SpanStep(
        kind=kind,
        name=get_name(kind, span.name, span.attributes),
        call_id=span.first_text("gen_ai.tool.call.id", "tool_call.id", "tool.id") if kind == "tool" else None,
        args=args if is_recorded else {NOT_RECORDED: span.span_id},
        result=result,
        is_recorded=is_recorded,
        prompt=(find_last_prompt(read_inputs(span)) or find_task(_find_attribute(span, _TASKS_IN)))
        if kind == "agent"
        else None,
    )


def describe_missing_content(attributes: Mapping[str, Any]) -> str:
    """Return why calls cannot be checked, with the setting of the instrumentation that would change it.

    >>> describe_missing_content({"traceloop.span.kind": "tool"})
    'no tool content in spans: set TRACELOOP_TRACE_CONTENT=true'
    """
    found = (
        setting for prefix, setting in _CONTENT_SETTINGS if any(key.startswith(prefix) for key in attributes)
    )
    return f"{NO_TOOL_CONTENT}: set {next(found, _GENAI_CONTENT_SETTING)}"


def get_arguments(call: ContentPart, otherwise: str) -> Any:
    """Return the arguments of a call in a message; where they were not recorded, unique ones."""
    return call.args if call.args is not None else {NOT_RECORDED: call.call_id or otherwise}


def classify_span(name: str, attributes: Mapping[str, Any]) -> SpanKind:
    """Return the kind of a span: explicit in newer conventions, inferred from its keys in older ones."""
    if (said := as_text(attributes.get("openinference.span.kind"))) is not None:
        return _OPENINFERENCE_KINDS.get(said.upper(), "other")
    if (said := as_text(attributes.get("gen_ai.operation.name"))) is not None:
        return _OPERATION_KINDS.get(said, "other")
    if (said := as_text(attributes.get("traceloop.span.kind"))) is not None:
        return _TRACELOOP_KINDS.get(said, "other")
    if "gen_ai.tool.name" in attributes or name.startswith("execute_tool "):
        return "tool"
    if "llm.request.type" in attributes or "gen_ai.request.model" in attributes:
        return "llm"
    return "agent" if name.startswith("invoke_agent ") else "other"


def get_name(kind: SpanKind, name: str, attributes: Mapping[str, Any]) -> str:
    """Return the name of a tool or an agent, by its attribute or its span's name; others have their own.

    >>> get_name("tool", "execute_tool ls", {}), get_name("llm", "chat gpt", {})
    ('ls', 'chat gpt')
    """
    keys, operation = _NAME_SOURCES.get(kind, ((), ""))
    found = (text for key in keys if (text := as_text(attributes.get(key))) is not None)
    return next(found, name.removeprefix(operation))


def read_agent_name(span: Span) -> str | None:
    """Return the name of the agent that a span says it belongs to, or is."""
    keys, operation = _NAME_SOURCES["agent"]
    if classify_span(span.name, span.attributes) != "agent":
        return span.first_text("gen_ai.agent.name", "agent.name")
    said = span.name.removeprefix(operation) if span.name.startswith(operation) else None
    return span.first_text(*keys) or said


def get_session(attributes: Mapping[str, Any]) -> str | None:
    """Return the conversation of a span, where it is recorded."""
    return next(
        (text for key in _SESSION_ATTRIBUTES if (text := as_text(attributes.get(key))) is not None), None
    )


def is_reported_by_parent(kind: SpanKind, name: str, above: SpanKind | None, above_name: str) -> bool:
    """Return whether the parent span is the same step: stacked libraries report it twice.

    >>> is_reported_by_parent("llm", "chat", "llm", "ChatOpenAI")
    True
    >>> is_reported_by_parent("tool", "ls", "tool", "bash")
    False
    """
    return above == kind and (kind == "llm" or (kind == "tool" and above_name == name))


def _read_model_call(span: Span, inputs: list[dict[str, Any]]) -> SpanStep:
    total, given, made = (_read_count(span, keys) for keys in (_TOTAL_TOKENS, _INPUT_TOKENS, _OUTPUT_TOKENS))
    return SpanStep(
        kind="llm",
        name=span.name,
        model=span.first_text(*_MODEL_ATTRIBUTES),
        # Input and output together; the cached part is in the input already.
        tokens=(given or 0) + (made or 0) if total is None else total,
        input_tokens=given or 0,
        output_tokens=made or 0,
        prompt=find_last_prompt(inputs),
        inputs=inputs,
        tool_messages=find_last_results(inputs),
        outputs=read_outputs(span) or _read_plain_output(span),
    )


def _find_attribute(span: Span, keys: Sequence[str]) -> Any:
    return next((span.attributes[key] for key in keys if key in span.attributes), None)


def _read_count(span: Span, keys: Sequence[str]) -> int | None:
    counts = (read_number(span.attributes.get(key), key, Notes()) for key in keys)
    return next((int(count) for count in counts if count is not None), None)


def _read_plain_output(span: Span) -> list[dict[str, Any]]:
    output = read_json(_find_attribute(span, _RESULT_ATTRIBUTES))
    if isinstance(output, dict) and get_role(output) is not None:
        return [output]
    return [{"role": "assistant", "content": output}] if isinstance(output, str) else []


# Read the messages in a span: as a list, as JSON in a text, key by key, or one per event.

_INPUT_ATTRIBUTES: Final = ("gen_ai.input.messages", "llm.input_messages", "gen_ai.prompt")
_OUTPUT_ATTRIBUTES: Final = ("gen_ai.output.messages", "llm.output_messages", "gen_ai.completion")
_TASK_KEYS: Final = ("task", "input", "question", "query", "prompt", "goal")
_CHOICE_EVENT: Final = "gen_ai.choice"
_TOOL_MESSAGE: Final = "gen_ai.tool.message"
_DETAILS_EVENT: Final = "gen_ai.client.inference.operation.details"
_MAX_DEPTH: Final = 12
_PART_KEYS: Final = frozenset({"type", "text", "toolUse", "toolResult"})


def read_inputs(span: Span) -> list[dict[str, Any]]:
    """Return the messages that a model or an agent received."""
    return _find_messages(span, _INPUT_ATTRIBUTES) or _read_events(span, is_output=False)


def read_outputs(span: Span) -> list[dict[str, Any]]:
    """Return the messages that a model returned."""
    return _find_messages(span, _OUTPUT_ATTRIBUTES) or _read_events(span, is_output=True)


def read_tool_arguments(span: Span) -> Any:
    """Return a tool's arguments from an event of its span; None where no event has them."""
    return next((event.get("content") for event in span.events if event.get("name") == _TOOL_MESSAGE), None)


def read_tool_result(span: Span) -> Any:
    """Return a tool's result from an event of its span; None where no event has it."""
    told = (event.get("message") for event in span.events if event.get("name") == _CHOICE_EVENT)
    return join_text(_parse_parts(next(told, None)))


def _find_messages(span: Span, keys: Sequence[str]) -> list[dict[str, Any]]:
    """Return messages of the span, or of the one event that newer emitters put them on."""
    details = (event for event in span.events if event.get("name") == _DETAILS_EVENT)
    for attributes in (span.attributes, *details):
        for key in keys:
            found = read_json(attributes.get(key))
            if not isinstance(found, list):
                found = _join_keys(attributes, f"{key}.")
            if found:
                return [_unwrap(message) for message in found]
    return []


def read_json(value: Any) -> Any:
    """Return the data in a text that is JSON; any other value as it is."""
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
        if is_output and name == _CHOICE_EVENT:
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
    is_parts = isinstance(found, list) and any(not _PART_KEYS.isdisjoint(as_object(part)) for part in found)
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
        tasks = (as_text(given.get(key)) for key in _TASK_KEYS)
        messages = [as_object(message) for message in as_list(given.get("messages"))]
        return next((task for task in tasks if task), None) or find_last_prompt(messages)
    return as_text(given)
