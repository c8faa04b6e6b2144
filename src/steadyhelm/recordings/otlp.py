"""Decode what an OpenTelemetry exporter sends: OTLP traces as JSON or protobuf, plain or gzip.

Nothing listens here: the receiver of a request passes its body.
JSON needs no further package; protobuf needs the extra `otlp`.
"""

import base64
import binascii
import importlib
import zlib
from collections.abc import Callable, Iterator
from typing import Any, Final

from msgspec import Struct

from steadyhelm.errors import FormatError, MissingExtraError
from steadyhelm.recordings.content import as_list, as_object
from steadyhelm.recordings.run_entries import Notes
from steadyhelm.recordings.run_file import BrokenLine, ReadRun, decode_line
from steadyhelm.recordings.spans.layouts import OWN_SCOPE, Span, has_ids, iter_spans
from steadyhelm.recordings.spans.reader import Spans
from steadyhelm.recordings.transcript_reader import read_runs

BODY_LIMIT: Final = 64 << 20
_PROTOBUF_TYPES: Final = ("application/x-protobuf", "application/protobuf")
_JSON_TYPES: Final = ("application/json", "text/json")
_REQUEST_MODULE: Final = "opentelemetry.proto.collector.trace.v1.trace_service_pb2"
_ID_FIELDS: Final = ("traceId", "spanId", "parentSpanId")
_GZIP_WINDOW: Final = 31
_MAX_SHOWN_CHARACTERS: Final = 80


class DecodedSpans(Struct, frozen=True, kw_only=True):
    """The spans of one request.

    `rejected` counts those that could not be read, which belongs in the response to the sender;
    `problems` are the reasons. Steadyhelm's own spans are left out, and are no problem.
    """

    spans: list[Span]
    rejected: int = 0
    problems: list[str]

    def build_runs(self) -> list[ReadRun]:
        """Return the runs of these spans, as far as they are complete.

        An exporter sends a trace in pieces: to put it together, keep the spans and pass all of them to
        `build_runs`.
        """
        return build_runs(self.spans)


def decode_otlp(
    body: bytes,
    content_type: str = "application/json",
    *,
    content_encoding: str = "",
    limit: int = BODY_LIMIT,
) -> DecodedSpans:
    """Return the spans in the body of an `ExportTraceServiceRequest`.

    Raises FormatError, with the reason, for a body that cannot be read as what it says it is, and
    MissingExtraError for protobuf where its package is not installed.

    >>> span = b'{"traceId": "0A", "spanId": "0b", "name": "execute_tool ls", "kind": 1}'
    >>> body = b'{"resourceSpans": [{"scopeSpans": [{"spans": [' + span + b', {"name": "lost"}]}]}]}'
    >>> found = decode_otlp(body, "application/json; charset=utf-8")
    >>> [span.trace_id for span in found.spans], found.rejected
    (['0a'], 1)
    """
    kind = str(content_type).partition(";")[0].strip().lower()
    if kind not in (*_JSON_TYPES, *_PROTOBUF_TYPES):
        raise FormatError(
            f"OTLP comes as {_JSON_TYPES[0]} or {_PROTOBUF_TYPES[0]}, "
            f"got {str(content_type)[:_MAX_SHOWN_CHARACTERS]!r}."
        )
    plain = _unpack(body, content_encoding, limit)
    notes = Notes()
    if kind in _PROTOBUF_TYPES:
        value = _normalise_ids(_decode_protobuf(plain), _decode_base64_id)
    else:
        value = _normalise_ids(_decode_json(plain, notes), str.lower)
    rejected = sum(_is_not_span(raw) for raw in _iter_raw_spans(value))
    if rejected:
        notes.add(f"{rejected} spans have no trace id or no span id and were left out")
    return DecodedSpans(spans=list(iter_spans(value)), rejected=rejected, problems=notes.list_all())


def build_runs(spans: list[Span]) -> list[ReadRun]:
    """Return the runs of these spans, in any order; spans that came twice count once."""
    reader = Spans()
    reader.skip_line()
    for span in spans:
        if span.scope != OWN_SCOPE:
            reader.add(span)
    return [run for run in read_runs(reader, ()) if isinstance(run, ReadRun)]


def _unpack_gzip(body: bytes, limit: int) -> bytes:
    """Return at most one byte more than the limit."""
    unpacker = zlib.decompressobj(_GZIP_WINDOW)
    try:
        plain = unpacker.decompress(body, limit + 1)
    except zlib.error as exc:
        raise FormatError(f"The body is not gzip, or damaged: {exc}.") from exc
    if not unpacker.eof and len(plain) <= limit:
        raise FormatError("The body's gzip stream ends too early.")
    return plain


def _unpack(body: bytes, content_encoding: str, limit: int) -> bytes:
    encoding = str(content_encoding).strip().lower()
    if encoding not in ("", "identity", "gzip"):
        raise FormatError(
            f"OTLP comes plain or as gzip, got content-encoding {encoding[:_MAX_SHOWN_CHARACTERS]!r}."
        )
    plain = _unpack_gzip(bytes(body), limit) if encoding == "gzip" else bytes(body)
    if len(plain) > limit:
        raise FormatError(f"The body is larger than {limit:,} bytes. Send smaller batches.")
    return plain


def _decode_json(body: bytes, notes: Notes) -> Any:
    if not body.strip():
        return {}
    value = decode_line(body, 1, notes)
    if isinstance(value, BrokenLine):
        raise FormatError(f"The body cannot be read: {value.reason}.")
    if not isinstance(value, dict):
        raise FormatError(f"OTLP/JSON is an object with resourceSpans, got a {type(value).__name__}.")
    return value


def _decode_protobuf(body: bytes) -> Any:
    try:
        request = importlib.import_module(_REQUEST_MODULE).ExportTraceServiceRequest()
        json_format = importlib.import_module("google.protobuf.json_format")
        errors = importlib.import_module("google.protobuf.message")
    except ImportError as exc:
        raise MissingExtraError("decoder of OTLP/protobuf", extra="otlp") from exc
    try:
        request.ParseFromString(body)
        return json_format.MessageToDict(request)
    except (errors.Error, json_format.Error, ValueError, RecursionError) as exc:
        raise FormatError(
            f"The body is no ExportTraceServiceRequest: {str(exc)[:_MAX_SHOWN_CHARACTERS]}."
        ) from exc


def _iter_raw_spans(value: Any) -> Iterator[Any]:
    """Yield every value at the place of an OTLP span."""
    told = as_object(value)
    for batch in as_list(told.get("resourceSpans") or told.get("resource_spans")):
        scopes = as_object(batch)
        for scope in as_list(scopes.get("scopeSpans") or scopes.get("scope_spans")):
            yield from as_list(as_object(scope).get("spans"))


def _is_not_span(raw: Any) -> bool:
    return not isinstance(raw, dict) or not has_ids(raw)


def _normalise_ids(value: Any, read: Callable[[str], str]) -> Any:
    """Return the same value with ids in lower-case hexadecimal, so that spans find their parents."""
    for raw in _iter_raw_spans(value):
        for key in _ID_FIELDS if isinstance(raw, dict) else ():
            if isinstance(raw.get(key), str):
                raw[key] = read(raw[key])
    return value


def _decode_base64_id(written: str) -> str:
    # Protobuf's own JSON has bytes as base64, OTLP/JSON has these ids in hexadecimal.
    try:
        return base64.b64decode(written).hex()
    except (binascii.Error, ValueError):
        return ""
