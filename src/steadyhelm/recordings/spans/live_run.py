"""Record a live run from OpenTelemetry's own spans: each step as soon as its span has ended."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from opentelemetry.sdk.trace import Event, ReadableSpan

from steadyhelm.engine.health import Health
from steadyhelm.engine.monitor import Monitor
from steadyhelm.events import LLM_REQUEST, STATE_TRANSITION, TOOL_CALL, USER_MESSAGE
from steadyhelm.recordings.content import ContentPart, as_text, get_content, iter_calls, iter_parts, join_text
from steadyhelm.recordings.run_events import wrap_text
from steadyhelm.recordings.spans.layouts import OWN_SCOPE, Span, parse_span
from steadyhelm.recordings.spans.steps import (
    SpanKind,
    SpanStep,
    classify_span,
    describe_missing_content,
    get_arguments,
    get_name,
    get_session,
)

_MAX_OPEN_CALLS: Final = 256
_MAX_CALLS: Final = 1024
_MAX_TRACES: Final = 1024


class LiveSpanRun:
    """What is known about one run besides what the monitor keeps.

    Where tools have no spans of their own, their calls are read from the models' messages: from the reply
    that requests them and the next model call, which contains their results.

    Args:
        monitor: The monitor that records the run.
        run_id: The id of the run there.
        is_ours: Whether the spans began this run, not the host.
        lasts: Whether it continues after its trace, as a conversation does.
    """

    def __init__(self, monitor: Monitor, run_id: str, *, is_ours: bool, lasts: bool) -> None:
        self.run_id = run_id
        self.is_ours = is_ours
        self.lasts = lasts
        self.has_tools = False
        self._known_traces: set[str] = set()
        self._prompted_traces: set[str] = set()
        self._monitor = monitor
        self._steps = 0
        self._last_error: str | None = None
        self._open: OrderedDict[str, ContentPart] = OrderedDict()
        self._calls: OrderedDict[str, float] = OrderedDict()

    @property
    def seen(self) -> int | None:
        """The number of steps the agent has seen by now; None where others record steps of this run too."""
        return self._steps if self.is_ours else None

    def needs_inputs(self, trace_id: str) -> bool:
        """Return whether a model's inputs contain anything that is not known without them."""
        return not self.has_tools or trace_id not in self._prompted_traces

    def note_trace(self, trace_id: str) -> bool:
        """Remember the trace, and return whether a step of it came before."""
        return not _note_once(self._known_traces, trace_id)

    def skip_prompt(self, trace_id: str) -> None:
        """Record no user message for a trace: what the user said was recorded with an earlier one."""
        _note_once(self._prompted_traces, trace_id)

    def record_prompt(self, text: str, span: Span) -> None:
        """Record a user message, once per trace."""
        if _note_once(self._prompted_traces, span.trace_id):
            self._record(USER_MESSAGE, "user", timestamp=span.start, input_data={"text": text})

    def record_model_call(self, step: SpanStep, span: Span) -> None:
        """Record a model call that has ended, with its reply or its error."""
        self._record_results(step, span)
        if not self.has_tools and not step.inputs and not step.outputs and span.error is None:
            self._note_missing_content(span)
        said = [part.words for message in step.outputs for part in iter_parts(get_content(message))
                if part.kind == "text"]  # fmt: skip
        metadata = {
            "model": step.model,
            "input_tokens": step.input_tokens,
            "output_tokens": step.output_tokens,
        }
        self._record(
            LLM_REQUEST,
            step.model or "llm",
            timestamp=_get_end_time(span),
            token_count=step.tokens,
            output_data={"text": "\n".join(said)} if said else None,
            duration_ms=_compute_duration_ms(span),
            metadata={**{key: value for key, value in metadata.items() if value}, "span_id": span.span_id},
            error=span.error,
        )
        for message in step.outputs if not self.has_tools else ():
            for call in iter_calls(message):
                self._open[call.call_id or f"{span.span_id}.{len(self._open)}"] = call
                if len(self._open) > _MAX_OPEN_CALLS:
                    self._open.popitem(last=False)

    def record_tool_call(self, step: SpanStep, span: Span, started_seq: int | None) -> None:
        """Record a tool call that has ended, with its result or its error."""
        self.has_tools = True
        self._open.clear()
        if step.call_id is not None and self._is_repeated(step.call_id, span):
            return
        if not step.is_recorded:
            self._note_missing_content(span)
        self._record(
            TOOL_CALL,
            step.name,
            timestamp=_get_end_time(span),
            input_data=step.args,
            output_data=wrap_text(step.result),
            duration_ms=_compute_duration_ms(span),
            metadata={"span_id": span.span_id},
            started_seq=started_seq,
            call_id=step.call_id or span.span_id,
            error=span.error,
        )

    def record_failure(self, name: str, span: Span) -> None:
        """Record an error of the agent itself, unless it is that of its last step."""
        if span.error is not None and span.error != self._last_error:
            self._record(STATE_TRANSITION, f"{name}_error", timestamp=_get_end_time(span), error=span.error)

    def end(self, outcome: str, span: Span) -> None:
        """End the run after its last span, with open calls recorded as made."""
        self._record_open_calls(span)
        if self.is_ours:
            self._monitor.end_run(self.run_id, outcome=outcome)

    def _note_missing_content(self, span: Span) -> None:
        """Count a step whose content is not in its span, and say so among what was not checked."""
        reason = describe_missing_content(span.attributes)
        self._monitor.health.count(reason)
        recorder = self._monitor.runs.get(self.run_id)
        if recorder is not None:
            recorder.unseen["tool calls"] = reason

    def _is_repeated(self, call_id: str, span: Span) -> bool:
        """Return whether another span at the same time has this call id; later it is another attempt."""
        until = self._calls.get(call_id, -1.0)
        self._calls[call_id] = max(until, _get_end_time(span) or 0.0)
        if len(self._calls) > _MAX_CALLS:
            self._calls.popitem(last=False)
        return (span.start or 0.0) < until

    def _record_results(self, step: SpanStep, span: Span) -> None:
        """Record the results in a model's inputs; a model is not called before all are there."""
        if self.has_tools or not self._open:
            return
        for message in step.tool_messages:
            results = [part for part in iter_parts(get_content(message)) if part.kind == "result"]
            if (call_id := as_text(message.get("tool_call_id"))) is not None:
                results = [ContentPart(kind="result", words=join_text(get_content(message)), call_id=call_id)]
            for result in results:
                call = self._open.pop(result.call_id or "", None)
                if call is not None:
                    self._record_call(call, span, result.words, is_error=result.is_error)
        self._record_open_calls(span)

    def _record_open_calls(self, span: Span) -> None:
        """Record the calls whose results never came."""
        while self._open:
            self._record_call(self._open.popitem(last=False)[1], span, None, is_error=False)

    def _record_call(self, call: ContentPart, span: Span, result: Any, *, is_error: bool) -> None:
        error = (as_text(result) or "error") if is_error else None
        at = span.start
        if call.args is None:
            self._note_missing_content(span)
        args = get_arguments(call, str(self._steps))
        data = {"input_data": args, "output_data": wrap_text(result), "error": error}
        self._record(TOOL_CALL, str(call.name or "tool"), timestamp=at, call_id=call.call_id, **data)

    def _record(self, action_type: str, name: str, **fields: Any) -> None:
        self._last_error = fields.get("error") or self._last_error
        self._steps += 1
        self._monitor.record_event(action_type, name, run_id=self.run_id, **fields)


def _note_once(known: set[str], trace_id: str) -> bool:
    """Return whether this trace comes for the first time, and remember it; the memory is bounded."""
    if trace_id in known:
        return False
    if len(known) > _MAX_TRACES:
        known.clear()
    known.add(trace_id)
    return True


def _get_end_time(span: Span) -> float | None:
    return span.end if span.start is None or span.end is None else max(span.start, span.end)


def _compute_duration_ms(span: Span) -> float:
    return max(0.0, span.end - span.start) * 1000 if span.end and span.start else 0.0


# Read OpenTelemetry's own span objects, and keep what later spans need to know about them.

MAX_TEXT_CHARACTERS: Final = 256 * 1024
_NANOSECONDS_PER_SECOND: Final = 1e9
Key = tuple[int, int]


class SpanNode:
    """A span, running or ended, with what the spans inside it need to know."""

    __slots__ = (
        "inside",
        "is_last",
        "is_over",
        "key",
        "kind",
        "live",
        "name",
        "parent",
        "session",
        "started_seq",
    )

    def __init__(self, span: ReadableSpan) -> None:
        context, parent = span.get_span_context(), span.parent
        assert context is not None
        self.key: Key = (context.trace_id, context.span_id)
        is_local = parent is not None and not parent.is_remote
        self.parent: Key | None = (parent.trace_id, parent.span_id) if parent and is_local else None
        self.live: ReadableSpan | None = span
        self.is_over = False
        self.is_last = False
        self.inside: tuple[SpanKind, str] | None = None
        self.started_seq: int | None = None
        self.refresh()

    def refresh(self) -> None:
        """Read the span again: attributes may be set at any time until it ends."""
        if self.live is not None:
            attributes = self.live.attributes or {}
            self.kind: SpanKind = classify_span(self.live.name, attributes)
            self.name = get_name(self.kind, self.live.name, attributes)
            self.session = get_session(attributes)

    def end(self) -> None:
        """Read the span for the last time and release it."""
        self.refresh()
        self.is_over, self.live = True, None


def is_ours(span: ReadableSpan) -> bool:
    """Return whether Steadyhelm itself made this span."""
    scope = span.instrumentation_scope
    return scope is not None and scope.name == OWN_SCOPE


def read_span(span: ReadableSpan, health: Health) -> Span:
    """Return the span as a record, running or ended."""
    context, parent, status = span.get_span_context(), span.parent, span.status
    assert context is not None
    raw = {
        "trace_id": f"{context.trace_id:032x}",
        "span_id": f"{context.span_id:016x}",
        "parent_id": f"{parent.span_id:016x}" if parent is not None else None,
        "name": span.name,
        "start_time": span.start_time / _NANOSECONDS_PER_SECOND if span.start_time else None,
        "end_time": span.end_time / _NANOSECONDS_PER_SECOND if span.end_time else None,
        "attributes": _to_plain_attributes(span.attributes, health),
        "events": [
            {"name": it.name, "attributes": _to_plain_attributes(it.attributes, health)}
            for it in _get_events(span)
        ],
        "status": {"code": status.status_code.name, "description": status.description},
    }
    read = parse_span(raw, {})
    assert read is not None
    return read


def _get_events(span: ReadableSpan) -> Sequence[Event]:
    try:
        return span.events
    except RuntimeError:  # a span that still runs got another one at this moment
        return ()


def _to_plain_attributes(attributes: Mapping[str, Any] | None, health: Health) -> dict[str, Any]:
    """Return attributes as in JSON; a text too long to read on the agent's thread is left out."""
    plain = {}
    for key, value in (attributes or {}).items():
        if isinstance(value, str) and len(value) > MAX_TEXT_CHARACTERS:
            health.count(f"span attribute longer than {MAX_TEXT_CHARACTERS:,} characters not read")
        else:
            plain[key] = _to_plain_value(value)
    return plain


def _to_plain_value(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _to_plain_value(inner) for key, inner in value.items()}
    return [_to_plain_value(inner) for inner in value] if isinstance(value, list | tuple) else value
