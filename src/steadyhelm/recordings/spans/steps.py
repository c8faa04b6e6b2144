"""Read an agent's step from a span, in any convention."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from msgspec import Struct, field

from steadyhelm.recordings.content import ContentPart, as_text, get_role
from steadyhelm.recordings.run_entries import Notes, parse_arguments, read_number
from steadyhelm.recordings.spans.layouts import Span
from steadyhelm.recordings.spans.messages import (
    find_last_prompt,
    find_last_results,
    find_task,
    read_inputs,
    read_json,
    read_outputs,
    read_tool_arguments,
    read_tool_result,
)

SpanKind = Literal["llm", "tool", "agent", "other"]

NOT_RECORDED: Final = "not_recorded"
"""The one argument of a call whose arguments and result were not recorded; its value differs every time."""

_OPENINFERENCE: Final[dict[str, SpanKind]] = {
    "LLM": "llm",
    "TOOL": "tool",
    "RETRIEVER": "tool",
    "AGENT": "agent",
}
_OPERATIONS: Final[dict[str, SpanKind]] = {
    "chat": "llm",
    "completion": "llm",
    "text_completion": "llm",
    "generate_content": "llm",
    "execute_tool": "tool",
    "retrieval": "tool",
    "invoke_agent": "agent",
}
_TRACELOOP: Final[dict[str, SpanKind]] = {"tool": "tool", "agent": "agent"}
_SESSIONS: Final = ("gen_ai.conversation.id", "session.id")
_MODELS: Final = ("gen_ai.response.model", "gen_ai.request.model", "llm.model_name")
_TOOLS: Final = ("gen_ai.tool.name", "tool.name", "traceloop.entity.name")
_AGENTS: Final = ("gen_ai.agent.name", "agent.name", "traceloop.entity.name")
_TOTALS: Final = ("llm.token_count.total", "gen_ai.usage.total_tokens", "llm.usage.total_tokens")
_INPUT_TOKENS: Final = ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt")
_OUTPUT_TOKENS: Final = (
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.completion_tokens",
    "llm.token_count.completion",
)
_ARGUMENTS: Final = (
    "gen_ai.tool.call.arguments",
    "input.value",
    "traceloop.entity.input",
    "tool.parameters",
    "tool_arguments",
)
_RESULTS: Final = ("gen_ai.tool.call.result", "output.value", "traceloop.entity.output", "tool_response")
_TASKS_IN: Final = ("input.value", "traceloop.entity.input")


class SpanStep(Struct, frozen=True, kw_only=True):
    """A model call, a tool call, or an agent.

    `prompt` is the last user message, `tool_messages` are the last tool results that a model received,
    `outputs` the messages it returned. Content is often not recorded: then all of them are empty.
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
    tool_messages: list[dict[str, Any]] = field(default_factory=list)
    outputs: list[dict[str, Any]] = field(default_factory=list)


def read_step(span: Span, *, with_inputs: bool = True) -> SpanStep:
    """Return the step of a span; a model's inputs, the history so far, may be left unread."""
    kind = classify_span(span.name, span.attributes)
    if kind == "other":
        return SpanStep(kind=kind, name=span.name)
    if kind == "llm":
        return _read_model_call(span, read_inputs(span) if with_inputs else [])
    args, result = parse_arguments(_find_attribute(span, _ARGUMENTS)), _find_attribute(span, _RESULTS)
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


def get_arguments(call: ContentPart, otherwise: str) -> Any:
    """Return the arguments of a call in a message; where they were not recorded, unique ones."""
    return call.args if call.args is not None else {NOT_RECORDED: call.call_id or otherwise}


def classify_span(name: str, attributes: Mapping[str, Any]) -> SpanKind:
    """Return the kind of a span: explicit in newer conventions, inferred from its keys in older ones."""
    if (said := as_text(attributes.get("openinference.span.kind"))) is not None:
        return _OPENINFERENCE.get(said.upper(), "other")
    if (said := as_text(attributes.get("gen_ai.operation.name"))) is not None:
        return _OPERATIONS.get(said, "other")
    if (said := as_text(attributes.get("traceloop.span.kind"))) is not None:
        return _TRACELOOP.get(said, "other")
    if "gen_ai.tool.name" in attributes or name.startswith("execute_tool "):
        return "tool"
    if "llm.request.type" in attributes or "gen_ai.request.model" in attributes:
        return "llm"
    return "agent" if name.startswith("invoke_agent ") else "other"


def get_name(kind: SpanKind, name: str, attributes: Mapping[str, Any]) -> str:
    """Return the name of a tool or an agent; other spans have their own names."""
    keys = _TOOLS if kind == "tool" else _AGENTS if kind == "agent" else ()
    return next((text for key in keys if (text := as_text(attributes.get(key))) is not None), name)


def get_session(attributes: Mapping[str, Any]) -> str | None:
    """Return the conversation of a span, where it is recorded."""
    return next((text for key in _SESSIONS if (text := as_text(attributes.get(key))) is not None), None)


def is_reported_by_parent(kind: SpanKind, name: str, above: SpanKind | None, above_name: str) -> bool:
    """Return whether the parent span is the same step: stacked libraries report it twice.

    >>> is_reported_by_parent("llm", "chat", "llm", "ChatOpenAI")
    True
    >>> is_reported_by_parent("tool", "ls", "tool", "bash")
    False
    """
    return above == kind and (kind == "llm" or (kind == "tool" and above_name == name))


def _read_model_call(span: Span, inputs: list[dict[str, Any]]) -> SpanStep:
    total, given, made = (_read_count(span, keys) for keys in (_TOTALS, _INPUT_TOKENS, _OUTPUT_TOKENS))
    return SpanStep(
        kind="llm",
        name=span.name,
        model=span.first_text(*_MODELS),
        # Input and output together; the cached part is in the input already.
        tokens=(given or 0) + (made or 0) if total is None else total,
        input_tokens=given or 0,
        output_tokens=made or 0,
        prompt=find_last_prompt(inputs),
        tool_messages=find_last_results(inputs),
        outputs=read_outputs(span) or _read_plain_output(span),
    )


def _find_attribute(span: Span, keys: Sequence[str]) -> Any:
    return next((span.attributes[key] for key in keys if key in span.attributes), None)


def _read_count(span: Span, keys: Sequence[str]) -> int | None:
    counts = (read_number(span.attributes.get(key), key, Notes()) for key in keys)
    return next((int(count) for count in counts if count is not None), None)


def _read_plain_output(span: Span) -> list[dict[str, Any]]:
    output = read_json(_find_attribute(span, _RESULTS))
    if isinstance(output, dict) and get_role(output) is not None:
        return [output]
    return [{"role": "assistant", "content": output}] if isinstance(output, str) else []
