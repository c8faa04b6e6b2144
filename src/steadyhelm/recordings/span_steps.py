"""What a span tells about an agent's step, in the words of any convention."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from msgspec import Struct, field

from steadyhelm.recordings.content import Part, as_text, opened, role_of
from steadyhelm.recordings.run_entries import Notes, number
from steadyhelm.recordings.span_layouts import Span
from steadyhelm.recordings.span_messages import (
    answered_of,
    asked_of,
    inputs_of,
    last_answers,
    last_asked,
    outputs_of,
    read_json,
    task_in,
)

Kind = Literal["llm", "tool", "agent", "other"]

NOT_RECORDED: Final = "not_recorded"
"""The one argument of a call whose arguments and result were not recorded; its value differs every time."""

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
_SESSIONS: Final = ("gen_ai.conversation.id", "session.id")
_MODELS: Final = ("gen_ai.response.model", "gen_ai.request.model", "llm.model_name")
_TOOLS: Final = ("gen_ai.tool.name", "tool.name", "traceloop.entity.name")
_AGENTS: Final = ("gen_ai.agent.name", "agent.name", "traceloop.entity.name")
_TOTALS: Final = ("llm.token_count.total", "gen_ai.usage.total_tokens", "llm.usage.total_tokens")
_GIVEN: Final = ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt")
_MADE: Final = ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion")
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
    """A model's call, a tool's, or an agent's.

    `asked` is what the user said last, `answers` are the tools' messages that a model was given last,
    `outputs` the messages it gave. Content is often not recorded: then all of them are empty.
    `is_recorded` is False for a call of which neither arguments nor result were: nobody can say whether
    it repeats another one, so its arguments are made to differ from every other call's.
    """

    kind: Kind
    name: str
    model: str | None = None
    tokens: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    call_id: str | None = None
    args: Any = None
    result: Any = None
    is_recorded: bool = True
    asked: str | None = None
    answers: list[dict[str, Any]] = field(default_factory=list)
    outputs: list[dict[str, Any]] = field(default_factory=list)


def step_of(span: Span, *, with_inputs: bool = True) -> SpanStep:
    """What the span tells; a model's inputs, the history so far, may be left unread."""
    kind = kind_of(span.name, span.attributes)
    if kind == "other":
        return SpanStep(kind=kind, name=span.name)
    if kind == "llm":
        return _model_call(span, inputs_of(span) if with_inputs else [])
    args, result = opened(_present(span, _ARGUMENTS)), _present(span, _RESULTS)
    if kind == "tool":
        args = opened(asked_of(span)) if args is None else args
        result = answered_of(span) if result is None else result
    is_recorded = args is not None or result is not None
    return SpanStep(
        kind=kind,
        name=name_of(kind, span.name, span.attributes),
        call_id=span.first("gen_ai.tool.call.id", "tool_call.id", "tool.id") if kind == "tool" else None,
        args=args if is_recorded else {NOT_RECORDED: span.span_id},
        result=result,
        is_recorded=is_recorded,
        asked=(last_asked(inputs_of(span)) or task_in(_present(span, _TASKS_IN)))
        if kind == "agent"
        else None,
    )


def known_args(call: Part, otherwise: str) -> Any:
    """The arguments of a call in a message; where they were not recorded, such as no other call has."""
    return call.args if call.args is not None else {NOT_RECORDED: call.call_id or otherwise}


def kind_of(name: str, attributes: Mapping[str, Any]) -> Kind:
    """What a span is of: said outright in newer conventions, to be guessed from its keys in older ones."""
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


def name_of(kind: Kind, name: str, attributes: Mapping[str, Any]) -> str:
    """What a tool or an agent is called; other spans have their own names."""
    keys = _TOOLS if kind == "tool" else _AGENTS if kind == "agent" else ()
    return next((text for key in keys if (text := as_text(attributes.get(key))) is not None), name)


def session_of(attributes: Mapping[str, Any]) -> str | None:
    """The conversation a span belongs to, where it says so."""
    return next((text for key in _SESSIONS if (text := as_text(attributes.get(key))) is not None), None)


def is_told_above(kind: Kind, name: str, above: Kind | None, above_name: str) -> bool:
    """Whether the span directly above tells of the same step: libraries that build on each other do.

    >>> is_told_above("llm", "chat", "llm", "ChatOpenAI"), is_told_above("tool", "ls", "tool", "bash")
    (True, False)
    """
    return above == kind and (kind == "llm" or (kind == "tool" and above_name == name))


def _model_call(span: Span, inputs: list[dict[str, Any]]) -> SpanStep:
    total, given, made = (_counted(span, keys) for keys in (_TOTALS, _GIVEN, _MADE))
    return SpanStep(
        kind="llm",
        name=span.name,
        model=span.first(*_MODELS),
        # Input and output together; the cached part is in the input already.
        tokens=(given or 0) + (made or 0) if total is None else total,
        input_tokens=given or 0,
        output_tokens=made or 0,
        asked=last_asked(inputs),
        answers=last_answers(inputs),
        outputs=outputs_of(span) or _plain_output(span),
    )


def _present(span: Span, keys: Sequence[str]) -> Any:
    return next((span.attributes[key] for key in keys if key in span.attributes), None)


def _counted(span: Span, keys: Sequence[str]) -> int | None:
    counts = (number(span.attributes.get(key), key, Notes()) for key in keys)
    return next((int(count) for count in counts if count is not None), None)


def _plain_output(span: Span) -> list[dict[str, Any]]:
    output = read_json(_present(span, _RESULTS))
    if isinstance(output, dict) and role_of(output) is not None:
        return [output]
    return [{"role": "assistant", "content": output}] if isinstance(output, str) else []
