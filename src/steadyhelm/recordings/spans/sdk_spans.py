"""Read OpenTelemetry's own span objects, and keep what later spans need to know about them."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from opentelemetry.sdk.trace import Event, ReadableSpan

from steadyhelm.engine.health import Health
from steadyhelm.recordings.spans.layouts import OWN_SCOPE, Span, parse_span
from steadyhelm.recordings.spans.steps import SpanKind, classify_span, get_name, get_session

MAX_TEXT_CHARACTERS: Final = 256 * 1024
_NS: Final = 1e9
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
        "start_time": span.start_time / _NS if span.start_time else None,
        "end_time": span.end_time / _NS if span.end_time else None,
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
