"""OpenTelemetry's own span objects: what is remembered of them, and how they are read."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from opentelemetry.sdk.trace import Event, ReadableSpan

from steadyhelm.engine.health import Health
from steadyhelm.recordings.span_layouts import OURS, Span, span_of
from steadyhelm.recordings.span_steps import Kind, kind_of, name_of, session_of

LONGEST_TEXT: Final = 256 * 1024
_NS: Final = 1e9
Key = tuple[int, int]


class Node:
    """A span, running or over: what those inside it need to know about it."""

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
        self.inside: tuple[Kind, str] | None = None
        self.started_seq: int | None = None
        self.look()

    def look(self) -> None:
        """See what the span says by now: attributes may be set at any time until it ends."""
        if self.live is not None:
            attributes = self.live.attributes or {}
            self.kind: Kind = kind_of(self.live.name, attributes)
            self.name = name_of(self.kind, self.live.name, attributes)
            self.session = session_of(attributes)

    def end(self) -> None:
        """Nothing changes any more; the span itself is let go."""
        self.look()
        self.is_over, self.live = True, None


def is_ours(span: ReadableSpan) -> bool:
    """Whether Steadyhelm itself made this span."""
    scope = span.instrumentation_scope
    return scope is not None and scope.name == OURS


def read_span(span: ReadableSpan, health: Health) -> Span:
    """The span as a record, running or over."""
    context, parent, status = span.get_span_context(), span.parent, span.status
    assert context is not None
    raw = {
        "trace_id": f"{context.trace_id:032x}",
        "span_id": f"{context.span_id:016x}",
        "parent_id": f"{parent.span_id:016x}" if parent is not None else None,
        "name": span.name,
        "start_time": span.start_time / _NS if span.start_time else None,
        "end_time": span.end_time / _NS if span.end_time else None,
        "attributes": _plain(span.attributes, health),
        "events": [{"name": it.name, "attributes": _plain(it.attributes, health)} for it in _events(span)],
        "status": {"code": status.status_code.name, "description": status.description},
    }
    read = span_of(raw, {})
    assert read is not None
    return read


def _events(span: ReadableSpan) -> Sequence[Event]:
    try:
        return span.events
    except RuntimeError:  # a span that still runs got another one at this moment
        return ()


def _plain(attributes: Mapping[str, Any] | None, health: Health) -> dict[str, Any]:
    """Attributes as JSON would have them; a text too long to be read on the agent's time is left out."""
    plain = {}
    for key, value in (attributes or {}).items():
        if isinstance(value, str) and len(value) > LONGEST_TEXT:
            health.count(f"span attribute longer than {LONGEST_TEXT:,} characters not read")
        else:
            plain[key] = _plain_value(value)
    return plain


def _plain_value(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain_value(inner) for key, inner in value.items()}
    return [_plain_value(inner) for inner in value] if isinstance(value, list | tuple) else value
