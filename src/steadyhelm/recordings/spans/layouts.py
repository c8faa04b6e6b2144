"""Find the spans in a JSON value, whatever its layout, with their attributes by full names."""

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from msgspec import Struct

from steadyhelm.recordings.content import as_list, as_object, as_text
from steadyhelm.recordings.run_entries import Notes, read_number
from steadyhelm.recordings.transcript_reader import parse_time

_BATCH_KEYS: Final = ("resourceSpans", "resource_spans", "batches")
_SCOPE_KEYS: Final = ("scopeSpans", "scope_spans", "instrumentationLibrarySpans")
_CHILD_KEYS: Final = ("child_spans", "children")
_START_KEYS: Final = ("startTimeUnixNano", "start_time_unix_nano", "start_time", "startTime", "timestamp")
_END_KEYS: Final = ("endTimeUnixNano", "end_time_unix_nano", "end_time", "endTime")
_ISO_DURATION: Final = re.compile(r"P(?:(\d+)D)?T?(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?")
_MAX_NESTING: Final = 8
_NANOSECONDS_PER_SECOND: Final = 1e9
_MAX_TIME_DIGITS: Final = 20
_UNNESTED_KEYS: Final = frozenset(
    {
        *("gen_ai.tool.call.arguments", "gen_ai.tool.call.result", "tool_arguments", "tool_response"),
        *("input.value", "output.value", "tool.parameters"),
    }
)
"""Attributes that are one value, even when it is an object."""

OWN_SCOPE: Final = "steadyhelm"
"""The instrumentation scope of Steadyhelm's own spans, which are never watched."""


class Span(Struct, frozen=True, kw_only=True):
    """One recorded span; `events` are the attributes of its events, with their names under `name`."""

    trace_id: str
    span_id: str
    parent_id: str | None
    name: str
    start: float | None
    end: float | None
    service: str | None
    error: str | None
    attributes: dict[str, Any]
    events: list[dict[str, Any]]
    scope: str | None = None

    def first_text(self, *keys: str) -> str | None:
        """Return the first of these attributes that is a text."""
        return _find_text(self.attributes, *keys)


def iter_spans(value: Any) -> Iterator[Span]:
    """Yield every span in the value: OTLP/JSON, a list of spans, an object with `spans`, nested spans.

    Steadyhelm's own spans are left out.
    """
    waiting: list[tuple[Any, _SpanContext]] = [(value, _SpanContext({}, None))]
    while waiting:
        found, around = waiting.pop()
        if isinstance(found, list):
            waiting += [(inner, around) for inner in reversed(found)]
        if not isinstance(found, dict):
            continue
        around = _read_context(found, around)
        span = parse_span(found, around.resource, around.scope)
        if span is not None and span.scope != OWN_SCOPE:
            yield span
        inside = _CHILD_KEYS if span is not None else (*_BATCH_KEYS, *_SCOPE_KEYS, "spans")
        waiting += [(found[key], around) for key in inside if isinstance(found.get(key), list)]


class _SpanContext(NamedTuple):
    """What many spans have in common: the process, and the instrumentation."""

    resource: dict[str, Any]
    scope: str | None


def _read_context(found: dict[str, Any], outer: _SpanContext) -> _SpanContext:
    told = as_object(found.get("resource")).get("attributes") or found.get("resource_attributes")
    scopes = (
        as_object(found.get(key)) for key in ("scope", "instrumentationLibrary", "instrumentation_scope")
    )
    name = next((name for scope in scopes if (name := as_text(scope.get("name")))), None)
    return _SpanContext(_flatten_attributes(told) or outer.resource, name or outer.scope)


def parse_span(raw: dict[str, Any], resource: dict[str, Any], scope: str | None = None) -> Span | None:
    """Return the span in an object; None when it is not a span."""
    trace_id, span_id = _read_ids(raw)
    if span_id is None or trace_id is None:
        return None
    attributes = _flatten_attributes(raw.get("attributes") or raw.get("span_attributes"))
    events = [as_object(event) for event in as_list(raw.get("events"))]
    told = [{**_flatten_attributes(event.get("attributes")), "name": event.get("name")} for event in events]
    start, end = _read_times(raw)
    return Span(
        trace_id=trace_id,
        span_id=span_id,
        parent_id=_find_text(raw, "parentSpanId", "parent_span_id", "parent_id"),
        name=_find_text(raw, "name", "span_name") or "span",
        start=start,
        end=end,
        service=_find_text(raw, "service_name") or _find_text(resource, "service.name"),
        error=_read_error(raw, attributes, told),
        attributes=attributes,
        events=told,
        scope=scope,
    )


def has_ids(raw: dict[str, Any]) -> bool:
    """Return whether an object has a trace id and a span id."""
    return None not in _read_ids(raw)


def _read_ids(raw: dict[str, Any]) -> tuple[str | None, str | None]:
    ids = {**as_object(raw.get("span_context")), **as_object(raw.get("context")), **raw}
    trace_id = _find_text(ids, "traceId", "trace_id", "context.trace_id")
    return trace_id, _find_text(ids, "spanId", "span_id", "context.span_id")


def _flatten_attributes(raw: Any) -> dict[str, Any]:
    """Return attributes by their full names, from OTLP's list of pairs or from a nested object."""
    if isinstance(raw, list):
        pairs = [(as_text(as_object(pair).get("key")), as_object(pair).get("value")) for pair in raw]
        return {key: _decode_otlp_value(value, _MAX_NESTING) for key, value in pairs if key is not None}
    flat: dict[str, Any] = {}
    waiting = [("", as_object(raw), _MAX_NESTING)]
    while waiting:
        prefix, level, depth = waiting.pop()
        for key, value in level.items():
            if isinstance(value, dict) and depth and f"{prefix}{key}" not in _UNNESTED_KEYS:
                waiting.append((f"{prefix}{key}.", value, depth - 1))
            else:
                flat[f"{prefix}{key}"] = value
    return flat


def _list_values(wrapped: Any) -> list[Any]:
    return as_list(as_object(wrapped).get("values"))


def _decode_otlp_value(value: Any, depth: int) -> Any:
    """Return the value in OTLP's typed wrapper; whole numbers are texts there."""
    wrapped = as_object(value)
    for key in ("stringValue", "boolValue", "doubleValue", "bytesValue"):
        if key in wrapped:
            return wrapped[key]
    if "intValue" in wrapped:
        return read_number(wrapped["intValue"], "intValue", Notes())
    if not depth:
        return None
    if "arrayValue" in wrapped:
        return [_decode_otlp_value(inner, depth - 1) for inner in _list_values(wrapped["arrayValue"])]
    if "kvlistValue" in wrapped:
        pairs = map(as_object, _list_values(wrapped["kvlistValue"]))
        return {str(pair.get("key")): _decode_otlp_value(pair.get("value"), depth - 1) for pair in pairs}
    return None


def _read_times(raw: dict[str, Any]) -> tuple[float | None, float | None]:
    start, end = _read_time(raw, _START_KEYS), _read_time(raw, _END_KEYS)
    if end is None and start is not None and isinstance(written := raw.get("duration"), str):
        found = _ISO_DURATION.fullmatch(written)
        if found:
            days, hours, minutes, secs = (float(part or 0) for part in found.groups())
            end = start + ((days * 24 + hours) * 60 + minutes) * 60 + secs
    return start, end


def _read_time(raw: dict[str, Any], keys: tuple[str, ...]) -> float | None:
    key = next((key for key in keys if raw.get(key)), None)
    if key is None:
        return None
    digits = str(raw[key])[: _MAX_TIME_DIGITS + 1]
    if key.lower().endswith("nano") and digits.isdecimal() and len(digits) <= _MAX_TIME_DIGITS:
        # The name says the unit: guessed from the size it is wrong for clocks that begin near zero.
        return parse_time(int(digits) / _NANOSECONDS_PER_SECOND)
    return parse_time(raw[key])


def _read_error(raw: dict[str, Any], attributes: dict[str, Any], events: list[dict[str, Any]]) -> str | None:
    """Return why the step failed, in words: the status message, else the exception."""
    status = raw.get("status")
    told = as_object(status)
    code = told.get("code", told.get("status_code", raw.get("status_code", status)))
    is_error = str(code).upper().removeprefix("STATUS_CODE_") in ("2", "ERROR")
    if not is_error and "error.type" not in attributes:
        return None
    message = _find_text(told, "message", "description") or _find_text(raw, "status_message")
    if message is not None:
        return message
    for event in events:
        if thrown := _find_text(event, "exception.message", "exception.type"):
            return thrown
    return _find_text(attributes, "error.type") or "error"


def _find_text(attributes: dict[str, Any], *keys: str) -> str | None:
    return next((text for key in keys if (text := as_text(attributes.get(key))) is not None), None)
