"""Read the layout of TRAIL: OpenTelemetry spans of a trace in one file, its annotation in another."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from steadyhelm.errors import FormatError
from steadyhelm.lab.importers.documents import Document, Entries, parse_json_text

_DURATION: Final = re.compile(r"PT(?:(\d+)H)?(?:(\d+)M)?(?:([\d.]+)S)?")
_CODE: Final = re.compile(r"```(?:py|python)?\s*\n(.*?)\n?```", re.DOTALL)
_KINDS: Final = {
    "goal deviation": "goal_deviation",
    "resource abuse": "resource_abuse",
    "instruction non-compliance": "instruction_noncompliance",
    "formatting errors": "formatting",
    "task orchestration": "task_orchestration",
    "task orchestration errors": "task_orchestration",
    "tool-related": "tool_hallucination",
    "language-only": "hallucination",
    "context handling failures": "context_handling",
    "context handling failure": "context_handling",
    "incorrect memory usage": "context_handling",
    "tool selection errors": "tool_selection",
    "tool selection": "tool_selection",
    "poor information retrieval": "poor_retrieval",
    "incorrect problem identification": "problem_misidentified",
    "tool output misinterpretation": "tool_misread",
    "resource not found": "dead_end",
    "environment setup errors": "system_error",
    "authentication errors": "system_error",
    "tool definition issues": "system_error",
    "service errors": "system_error",
}
_MAY_BE_LOOPS: Final = frozenset(
    {"resource_abuse", "context_handling", "task_orchestration", "poor_retrieval"}
)
_LOOP_WORDS: Final = re.compile(r"repeated|redundan|identical|similar (?:specific )?quer", re.IGNORECASE)


def read_runs(found: list[Document]) -> Iterator[dict[str, Any]]:
    """Yield a run for every trace; annotations are found by their trace id."""
    traces = [
        doc for doc in found if isinstance(doc.value, dict) and isinstance(doc.value.get("spans"), list)
    ]
    notes = {
        doc.value.get("trace_id"): doc.value
        for doc in found
        if isinstance(doc.value, dict) and isinstance(doc.value.get("errors"), list)
    }
    if not traces:
        raise FormatError(f"{str(found[0].file)!r} is not in the layout of TRAIL: no list under `spans`.")
    for file, trace in traces:
        trace_id = trace.get("trace_id") or file.stem
        yield _convert_run(str(trace_id), trace, notes.get(trace_id, {}))


def _convert_run(trace_id: str, trace: Mapping[str, Any], note: Mapping[str, Any]) -> dict[str, Any]:
    walk = _SpanReader()
    for span in trace["spans"]:
        walk.add_span(span, ())
    return {
        "run_id": f"trail-{trace_id}",
        "source": "trail",
        "goal": walk.goal,
        "events": walk.entries.all,
        "labels": [label for error in note.get("errors", []) for label in _convert_error(error, walk.places)],
        "meta": {"scores": next(iter(note.get("scores", [])), {})},
    }


def _convert_error(error: Mapping[str, Any], places: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return the annotator's category, and a `loop` label where the description mentions repetition."""
    original = str(error.get("category", ""))
    kind = _KINDS.get(original.lower(), original.lower().replace(" ", "_"))
    note = f"{error.get('description', '')} | evidence: {error.get('evidence', '')}"
    label = {
        "kind": kind,
        "original": original,
        "at": places.get(str(error.get("location"))),
        "note": note,
        "by": "human",
        "derived": False,
        "impact": error.get("impact"),
    }
    if kind in _MAY_BE_LOOPS and _LOOP_WORDS.search(note):
        return [label, {**label, "kind": "loop", "derived": True}]
    return [label]


class _SpanReader:
    """One pass over the tree of spans, in the order of their start times."""

    def __init__(self) -> None:
        self.entries = Entries()
        self.places: dict[str, int] = {}
        self.goal = ""

    def add_span(self, span: Mapping[str, Any], agents: tuple[str, ...]) -> None:
        """Add the entries of a span and of everything below it."""
        attributes = span.get("span_attributes") or {}
        kind = attributes.get("openinference.span.kind")
        before = len(self.entries.all)
        if kind == "AGENT":
            agents = (str(span.get("span_name", "")).split(".")[0], *agents)
            self._add_task(attributes, agents)
        who = "/".join(agents) or None
        if kind == "LLM":
            self._add_reply(span, attributes, who)
        elif kind == "TOOL":
            self._add_tool(span, attributes, who, agents)
        elif kind == "CHAIN":
            self._add_step(span, attributes, who, agents)
        else:
            self._add_children(span, agents)
        self._add_failure(span, who)
        if len(self.entries.all) > before:
            self.places[str(span.get("span_id"))] = before

    def _add_children(self, span: Mapping[str, Any], agents: tuple[str, ...]) -> None:
        for child in sorted(span.get("child_spans") or (), key=lambda child: str(child.get("timestamp"))):
            self.add_span(child, agents)

    def _add_task(self, attributes: Mapping[str, Any], agents: tuple[str, ...]) -> None:
        given = parse_json_text(attributes.get("input.value"))
        task = given.get("task") if isinstance(given, dict) else given
        if len(agents) > 1:
            self.entries.add("state", name="subagent_start", text=str(task), agent="/".join(agents))
        else:
            self.goal = str(task or "")
            self.entries.add("user_message", text=self.goal)

    def _add_reply(self, span: Mapping[str, Any], attributes: Mapping[str, Any], who: str | None) -> None:
        self.entries.add(
            "llm_output",
            name=attributes.get("llm.model_name"),
            text=_get_reply(attributes),
            tokens=_parse_count(attributes.get("llm.token_count.total")),
            duration_ms=_parse_duration_ms(span),
            agent=who,
        )

    def _add_tool(
        self,
        span: Mapping[str, Any],
        attributes: Mapping[str, Any],
        who: str | None,
        agents: tuple[str, ...],
    ) -> None:
        name = attributes.get("tool.name") or span.get("span_name")
        self.entries.add("tool_call", name=name, args=_get_arguments(attributes), agent=who)
        self._add_children(span, agents)
        self.entries.add(
            "tool_result",
            name=name,
            text=_to_text(attributes.get("output.value")),
            duration_ms=_parse_duration_ms(span),
            agent=who,
        )

    def _add_step(
        self,
        span: Mapping[str, Any],
        attributes: Mapping[str, Any],
        who: str | None,
        agents: tuple[str, ...],
    ) -> None:
        """Add a step: the model's text, the code in it as a call, and the result of that call."""
        children = sorted(span.get("child_spans") or (), key=lambda child: str(child.get("timestamp")))
        code = None
        for child in children:
            self.add_span(child, agents)
            said = _get_reply(child.get("span_attributes") or {}) or ""
            written = _CODE.search(said) if agents and agents[0] == "CodeAgent" else None
            if written and code is None:
                code = written[1]
                self.entries.add("tool_call", name="python_interpreter", args={"code": code}, agent=who)
        outcome = {"text": _to_text(attributes.get("output.value")), "duration_ms": _parse_duration_ms(span)}
        if code is not None:
            self.entries.add("tool_result", name="python_interpreter", agent=who, **outcome)
        else:
            self.entries.add("state", name=span.get("span_name"), agent=who, **outcome)

    def _add_failure(self, span: Mapping[str, Any], who: str | None) -> None:
        if span.get("status_code") == "Error" and span.get("status_message"):
            self.entries.add("error", name=span.get("span_name"), text=span["status_message"], agent=who)


def _get_reply(attributes: Mapping[str, Any]) -> str | None:
    """Return the text of a model's reply, else the calls it asked for."""
    words = attributes.get("llm.output_messages.0.message.content")
    if words:
        return str(words)
    answer = parse_json_text(attributes.get("output.value"))
    calls = answer.get("tool_calls") if isinstance(answer, dict) else None
    return json.dumps(calls) if calls else None


def _get_arguments(attributes: Mapping[str, Any]) -> Any:
    given = parse_json_text(attributes.get("input.value"))
    if not isinstance(given, dict):
        return None
    named, unnamed = given.get("kwargs"), given.get("args")
    return named if named or not isinstance(unnamed, Sequence) or not unnamed else {"_args": unnamed}


def _to_text(value: Any) -> str | None:
    return None if value is None else str(value)


def _parse_count(value: Any) -> int | None:
    text = str(value)
    return int(text) if text.isdecimal() else None


def _parse_duration_ms(span: Mapping[str, Any]) -> float | None:
    match = _DURATION.fullmatch(str(span.get("duration", "")))
    if match is None:
        return None
    hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return round((hours * 3600 + minutes * 60 + seconds) * 1000, 1)
