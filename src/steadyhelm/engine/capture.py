"""Turn what a caller passes into events: reduced, redacted and fingerprinted, once."""

from typing import Any, Final, Literal

import msgspec
from msgspec import structs

from steadyhelm.events import TraceEvent
from steadyhelm.fingerprints import encode_canonical, hash_bytes, hash_call
from steadyhelm.loops.steps import cache_arguments
from steadyhelm.redaction import Redactor
from steadyhelm.sink import RecordedEvent

PayloadMode = Literal["none", "hashes", "redacted", "full"]
PAYLOAD_MODES: Final = ("none", "hashes", "redacted", "full")

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

    def text(self, text: str) -> str:
        """Return a text to store, such as a goal, redacted like everything else."""
        whole = text.encode("utf-8", "replace").decode() if isinstance(text, str) else str(text)
        return self._redactor.redact_text(whole) if self._redacts and whole else whole

    def plain(self, value: Any) -> Any:
        """Return a value to store beside events, such as a run's metadata, reduced and redacted like them."""
        encoded = encode_canonical(value)
        if self._redacts:
            _, encoded = self._redactor.redact(value, encoded)
        return msgspec.json.decode(encoded) if encoded else None

    def encode(
        self, input_data: Any, output_data: Any, metadata: dict[str, Any] | None, error: str | None
    ) -> Payload:
        """Return the payload of an event, reduced and redacted. This may run the host's own code."""
        input_json, output_json = encode_canonical(input_data), encode_canonical(output_data)
        metadata_json = encode_canonical(metadata) if metadata else b""
        if self._redacts:
            if self._redactor.may_contain_secret(input_json + output_json):
                input_data, input_json = self._redactor.redact(input_data, input_json)
                output_data, output_json = self._redactor.redact(output_data, output_json)
            if metadata_json:
                metadata, metadata_json = self._redactor.redact(metadata, metadata_json)
            if error:
                error = self._redactor.redact_text(error)
        return input_data, input_json, output_data, output_json, metadata, metadata_json, error

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

    def strip(self, recorded: RecordedEvent) -> RecordedEvent:
        """Return the recorded event without what must not be stored."""
        if self.keeps_text:
            return recorded
        event = recorded.event
        stripped = structs.replace(
            event,
            input_data=None,
            output_data=None,
            metadata=None,
            error="error" if event.error else None,
            call_hash=event.call_hash if self._payloads == "hashes" else 0,
            result_hash=event.result_hash if self._payloads == "hashes" else 0,
        )
        return RecordedEvent(stripped)
