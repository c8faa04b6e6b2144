"""Turn what a caller passes into events: reduced, redacted and fingerprinted, once."""

from typing import Any, Final, Literal

import msgspec
from msgspec import structs

from steadyhelm.engine.coercion import to_error_text, to_text
from steadyhelm.events import JUDGED, STATE_TRANSITION, TraceEvent
from steadyhelm.fingerprints import cache_arguments, encode_canonical, hash_bytes, hash_call
from steadyhelm.host_objects import MAX_CHARS, cut_text, is_a, name_type
from steadyhelm.incidents import Incident
from steadyhelm.judge import read_judged
from steadyhelm.redaction import Redactor, hide_tokens
from steadyhelm.sink import DailyGrant, Record, RecordedEvent

PayloadMode = Literal["none", "hashes", "redacted", "full"]
PAYLOAD_MODES: Final = ("none", "hashes", "redacted", "full")
MAX_NAME_CHARS: Final = 200
MAX_ID_CHARS: Final = 200
_NAMES_KEPT: Final = 1024

Payload = tuple[Any, bytes, Any, bytes, dict[str, Any] | None, bytes, str | None]
"""Arguments, result and metadata, each with its JSON, and the error."""


class Capture:
    """Makes the event that detectors see and the record that is stored.

    Args:
        redactor: Removes secrets.
        payloads: What is stored of arguments and results: nothing, only their fingerprints, both
            without secrets, or everything as it came.
    """

    def __init__(self, redactor: Redactor, payloads: PayloadMode = "redacted") -> None:
        self._redactor = redactor
        self._payloads = payloads
        self._redacts = payloads != "full"
        self.keeps_text = payloads in {"redacted", "full"}
        self._names: dict[str, str] = {}

    def text(self, text: object) -> str:
        """Return a text to store, such as a goal, cut and redacted like everything else."""
        whole = _clean(cut_text(text) if is_a(text, str) else to_text(text))
        return self._redactor.redact_text(whole) if self._redacts and whole else whole

    def redact(self, text: str) -> str:
        """Return a text without secrets, whatever may be stored: for what leaves this machine."""
        return self._redactor.redact_text(text) if text else text

    def name(self, name: object) -> str:
        """Return the name of a tool, an agent, a task type or a version: short and redacted."""
        if type(name) is str and len(name) <= MAX_NAME_CHARS:
            known = self._names.get(name)
            if known is not None:
                return known
        short = to_text(name, MAX_NAME_CHARS)
        short = short if is_a(name, str) else short[:MAX_NAME_CHARS]
        clean = self._redactor.redact_text(_clean(short)) if self._redacts else _clean(short)
        if type(name) is str and len(name) <= MAX_NAME_CHARS:
            if len(self._names) >= _NAMES_KEPT:
                self._names.clear()
            self._names[name] = clean
        return clean

    def identify(self, given: object) -> str:
        """Return the id of a run, a call or an event as text: the same for the same id, different for others.

        Ids are texts, numbers or UUIDs. An object of an unknown type is the id of itself alone.
        A token with a known prefix is replaced by its hash; no other id is changed.
        """
        text = to_id(given)
        return hide_tokens(text) if self._redacts else text

    def plain(self, value: Any) -> Any:
        """Return a value to store beside events, such as arguments, reduced and redacted like them."""
        encoded = encode_canonical(value)
        if self._redacts:
            _, encoded = self._redactor.redact(value, encoded)
        return _decode_json(encoded) if encoded else None

    def details(self, metadata: Any) -> dict[str, Any] | None:
        """Return the metadata of a run, reduced and redacted like those of an event; None for none."""
        plain = None if metadata is None else self.plain(metadata)
        return plain if plain is None or type(plain) is dict else {"value": plain}

    def encode(self, input_data: Any, output_data: Any, metadata: Any, error: object) -> Payload:
        """Return the payload of an event, reduced and redacted: nothing in it refers to the host's objects.

        The only code of the host that runs here is the text of an exception. No lock may be held.
        """
        text = None if error is None else to_error_text(error)
        text = _clean(text) if text else text
        input_json, output_json = encode_canonical(input_data), encode_canonical(output_data)
        metadata_json = b"" if metadata is None else encode_canonical(metadata)
        input_data, output_data = _copy(input_data, input_json), _copy(output_data, output_json)
        details = _decode_json(metadata_json) if metadata_json else None
        if metadata_json and type(details) is not dict:
            details = {"value": details}
            metadata_json = encode_canonical(details)
        if self._redacts:
            if self._redactor.may_contain_secret(input_json + output_json):
                input_data, input_json = self._redactor.redact_suspicious(input_data, input_json)
                output_data, output_json = self._redactor.redact_suspicious(output_data, output_json)
            if metadata_json:
                details, metadata_json = self._redactor.redact(details, metadata_json)
            if text:
                text = self._redactor.redact_text(text)
        return input_data, input_json, output_data, output_json, details, metadata_json, text

    # Every field by name: gathering them into a dict and spreading it again costs as much as both hashes.
    def build(
        self,
        payload: Payload,
        *,
        agent_id: str,
        run_id: str,
        action_type: str,
        action_name: str,
        timestamp: float,
        event_id: str,
        seq: int,
        token_count: int = 0,
        duration_ms: float = 0.0,
        started_seq: int | None = None,
        call_id: str | None = None,
        parent_run_id: str | None = None,
        cost_usd: float | None = None,
    ) -> RecordedEvent:
        """Return the event with its payload as it will be stored."""
        input_data, input_json, output_data, output_json, metadata, metadata_json, error = payload
        event = TraceEvent(
            agent_id=agent_id,
            run_id=run_id,
            action_type=action_type,
            action_name=action_name,
            timestamp=timestamp,
            event_id=event_id,
            token_count=token_count,
            input_data=input_data,
            output_data=output_data,
            duration_ms=duration_ms,
            metadata=metadata,
            seq=seq,
            started_seq=started_seq,
            call_id=call_id,
            parent_run_id=parent_run_id,
            error=error,
            cost_usd=cost_usd,
            call_hash=hash_call(action_name, input_json),
            result_hash=hash_bytes(error.encode("utf-8", "replace") if error else output_json),
        )
        cache_arguments(event, input_json)
        if self.keeps_text:
            return RecordedEvent(event, input_json or None, output_json or None, metadata_json or None)
        return RecordedEvent(event)

    def strip(self, record: Record) -> Record:
        """Return a record without what must not be stored.

        Guidance quotes plans and messages, and what a grant is for is the host's text. What a judge answered
        is no payload: a replay needs it. Its quote is.
        """
        if self.keeps_text:
            return record
        if isinstance(record, RecordedEvent):
            event = self._strip_event(record.event)
            verdict = encode_canonical(event.metadata) or None
            return RecordedEvent(event, metadata_json=verdict, drift=record.drift, limits=record.limits)
        if isinstance(record, Incident):
            return record.drop_texts()
        if isinstance(record, DailyGrant):
            return structs.replace(record, reason="")
        return record

    def _strip_event(self, event: TraceEvent) -> TraceEvent:
        return structs.replace(
            event,
            input_data=None,
            output_data=None,
            metadata=_strip_verdict(event),
            error="error" if event.error else None,
            call_hash=event.call_hash if self._payloads == "hashes" else 0,
            result_hash=event.result_hash if self._payloads == "hashes" else 0,
        )


def _strip_verdict(event: TraceEvent) -> dict[str, Any] | None:
    """Return what a judge answered, without words of the run; None for every other event."""
    if event.action_name != JUDGED or event.action_type != STATE_TRANSITION:
        return None
    report = read_judged(event.metadata)
    return None if report is None else structs.replace(report, quote="").to_metadata()


def to_id(given: object) -> str:
    """Return an id as text, as it is kept in memory; `Capture.identify` returns it as it is stored."""
    if type(given) is str and len(given) <= MAX_ID_CHARS:
        return given if given.isascii() and "\0" not in given else _clean(cut_text(given))
    if is_a(given, str):
        ends = cut_text(given)
        return _clean(ends[: MAX_ID_CHARS // 2]) + f"…{hash_bytes(ends.encode()) & 0xFFFFFFFFFFFFFFFF:016x}"
    text = to_text(given, MAX_ID_CHARS)
    is_unknown = text == name_type(given)
    return f"<{text} {id(given):x}>" if is_unknown else _clean(text[:MAX_ID_CHARS])


def _copy(value: Any, encoded: bytes) -> Any:
    """Return what is stored of a value, as an object that the host cannot change."""
    if type(value) is str and len(value) <= MAX_CHARS and value.isascii():
        return value  # nothing of it was cut or replaced
    return _decode_json(encoded) if encoded else _EMPTY_BY_TYPE.get(id(type(value)))


def _clean(text: str) -> str:
    """Return a text that every store can hold."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}") if "\0" in text else text


_decode_json: Final = msgspec.json.Decoder().decode
_EMPTY_BY_TYPE: Final[dict[int, Any]] = {id(str): "", id(dict): {}, id(list): [], id(tuple): []}
