"""Turn records into frames and back: each has a length and a checksum, so that damage is recognised."""

import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Struct

from steadyhelm.events import RunInfo, RunSummary, TraceEvent
from steadyhelm.findings import DriftEvent
from steadyhelm.incidents import Incident
from steadyhelm.sink import (
    BudgetLimits,
    DailyGrant,
    DriftPoint,
    Loss,
    PinnedBaseline,
    Record,
    RecordedEvent,
    SavedState,
    make_storable,
    to_unicode,
)

_FRAME_MARK: Final = b"\xf5\x9d"
_FRAME_HEADER: Final = struct.Struct("<2sHII")
_MAX_RECORDS: Final = 0xFFFF
_READ_BYTES: Final = 1 << 20
_LEAST_RECORD_BYTES: Final = 8
_HELD: Final = "\x00"
_WITHDRAWN: Final = "\x01"


Entry = tuple[str, Record]
"""The epoch of a run, and a record that belongs to it."""


class Damage(NamedTuple):
    """A frame that cannot be read, and how many records it held."""

    records: int


class Held(NamedTuple):
    """Records of a run that waits for its saved state: stored unless they are withdrawn behind them."""

    entries: list[Entry]


class Withdrawal(NamedTuple):
    """What is held of the run with this epoch is recorded in another way."""

    epoch: str


Found = list[Entry] | Held | Withdrawal | Damage
"""What a frame holds."""


class _StoredEvent(Struct, array_like=True):
    """An event as it is in a frame: its payload is JSON, the agent's own objects are left out."""

    agent_id: str
    run_id: str
    action_type: str
    action_name: str
    timestamp: float
    event_id: str
    token_count: int
    duration_ms: float
    seq: int
    started_seq: int | None
    call_id: str | None
    parent_run_id: str | None
    error: str | None
    cost_usd: float | None
    call_hash: int
    result_hash: int
    tool_kind: str
    input_json: bytes | None
    output_json: bytes | None
    metadata_json: bytes | None
    drift: DriftPoint | None = None
    limits: BudgetLimits | None = None


_EVENT: Final = "event"
_EVENT_FIELDS: Final = _StoredEvent.__struct_fields__[:-5]
_RECORD_TYPES: Final[dict[str, type]] = {
    kind.__name__: kind
    for kind in (RunInfo, DriftEvent, Incident, RunSummary, Loss, SavedState, PinnedBaseline, DailyGrant)
}
_encoder: Final = msgspec.msgpack.Encoder()
_frame_decoder: Final = msgspec.msgpack.Decoder(tuple[str, list[tuple[str, msgspec.Raw]]])
_event_decoder: Final = msgspec.msgpack.Decoder(_StoredEvent, strict=False)
_decoders: Final[dict[str, msgspec.msgpack.Decoder[Any]]] = {
    name: msgspec.msgpack.Decoder(kind, strict=False) for name, kind in _RECORD_TYPES.items()
}


def encode_held(epoch: str, records: Sequence[Record]) -> bytes:
    """Return a frame with records that may be withdrawn."""
    return encode_frame(_HELD + epoch, records)


def encode_withdrawal(epoch: str) -> bytes:
    """Return a frame that withdraws what is held of the run with this epoch."""
    return encode_frame(_WITHDRAWN + epoch, ())


def encode_frame(epoch: str, records: Sequence[Record]) -> bytes:
    """Return one frame with these records. A value that cannot be encoded is replaced by one that can."""
    try:
        body = _encoder.encode((epoch, tuple(map(_describe, records))))
    except (TypeError, ValueError, OverflowError, RecursionError):
        fitting = [_describe(make_storable(record)) for record in records]
        body = msgspec.msgpack.encode((to_unicode(epoch), fitting), enc_hook=repr)
    count = min(len(records), _MAX_RECORDS)
    return _FRAME_HEADER.pack(_FRAME_MARK, count, len(body), zlib.crc32(body, count)) + body


def _describe(record: Record) -> tuple[str, Any]:
    if type(record) is not RecordedEvent:
        return type(record).__name__, record
    event = record.event
    return _EVENT, (
        event.agent_id,
        event.run_id,
        event.action_type,
        event.action_name,
        event.timestamp,
        event.event_id,
        event.token_count,
        event.duration_ms,
        event.seq,
        event.started_seq,
        event.call_id,
        event.parent_run_id,
        event.error,
        event.cost_usd,
        event.call_hash,
        event.result_hash,
        event.tool_kind,
        record.input_json,
        record.output_json,
        record.metadata_json,
        record.drift,
        record.limits,
    )


def _decode(body: bytes) -> tuple[int, list[Entry] | Held | Withdrawal]:
    """Return how many records there are, and what they are."""
    epoch, described = _frame_decoder.decode(body)
    if epoch.startswith(_WITHDRAWN):
        return len(described), Withdrawal(epoch[len(_WITHDRAWN) :])
    is_held = epoch.startswith(_HELD)
    epoch = epoch.removeprefix(_HELD)
    entries = [(epoch, _decode_record(name, raw)) for name, raw in described]
    return len(described), Held(entries) if is_held else entries


def _decode_record(name: str, raw: msgspec.Raw) -> Record:
    if name != _EVENT:
        record: Record = _decoders[name].decode(raw)
        return record
    stored = _event_decoder.decode(raw)
    event = TraceEvent(**{field: getattr(stored, field) for field in _EVENT_FIELDS})
    return RecordedEvent(
        event, stored.input_json, stored.output_json, stored.metadata_json, stored.drift, stored.limits
    )


class _Window:
    """A file read in large pieces: beside a busy agent every system call of another thread is slow."""

    def __init__(self, descriptor: int, end: int) -> None:
        self._descriptor = descriptor
        self.end = end
        self._piece = b""
        self._start = 0

    def get(self, at: int, size: int) -> bytes:
        """Return the bytes there; fewer at the end."""
        size = max(0, min(size, self.end - at))
        if at < self._start or at + size > self._start + len(self._piece):
            wanted = min(max(size, _READ_BYTES), self.end - at)
            self._piece, self._start = os.pread(self._descriptor, wanted, at), at
        offset = at - self._start
        return self._piece[offset : offset + size]


def scan_frames(descriptor: int, start: int, end: int) -> Iterator[tuple[int, Found]]:
    """Yield what each frame holds, with the place behind it.

    An unfinished frame at the end is left out: its append never returned. Behind a damaged frame, reading
    goes on at the next whole one.
    """
    window = _Window(descriptor, end)
    at = start
    while at < end:
        behind = _find_end(window, at)
        found = None if behind is None else _read_whole(window, at, behind)
        if found is not None and behind is not None:
            at = behind
            yield at, found
            continue
        following = _find_whole(window, at + 1)
        if following is None and behind is None:
            return
        place, at = at, end if following is None else following
        yield at, Damage(_count_records(window, place, at))


def _find_end(window: _Window, at: int) -> int | None:
    """Return the place behind the frame; None when there is no frame, or the file ends before it does."""
    head = window.get(at, _FRAME_HEADER.size)
    if len(head) < _FRAME_HEADER.size:
        return None
    mark, _, length, _ = _FRAME_HEADER.unpack(head)
    behind: int = at + _FRAME_HEADER.size + length
    return behind if mark == _FRAME_MARK and behind <= window.end else None


def _count_records(window: _Window, at: int, behind: int) -> int:
    """Return how many records a damaged frame held: by what follows its head, else as its head says."""
    frame = window.get(at, behind - at)
    body = frame[_FRAME_HEADER.size :]
    try:
        return max(1, _decode(body)[0])
    except (msgspec.MsgspecError, KeyError, UnicodeDecodeError):
        pass
    _, count, length, _ = (
        _FRAME_HEADER.unpack_from(frame) if len(frame) >= _FRAME_HEADER.size else (b"", 1, 0, 0)
    )
    # A head whose length is wrong may have any count.
    return max(1, min(count, length // _LEAST_RECORD_BYTES)) if length == len(body) else 1


def _read_whole(window: _Window, at: int, behind: int) -> list[Entry] | Held | Withdrawal | None:
    frame = window.get(at, behind - at)
    _, count, _, checksum = _FRAME_HEADER.unpack_from(frame)
    body = frame[_FRAME_HEADER.size :]
    try:
        records, found = _decode(body)
    except (msgspec.MsgspecError, KeyError, UnicodeDecodeError):
        return None
    # Where the count alone is damaged, the records are whole.
    is_whole = zlib.crc32(body, count) == checksum or zlib.crc32(body, records) == checksum
    return found if is_whole else None


def _find_whole(window: _Window, at: int) -> int | None:
    """Return the place of the next frame that can be read."""
    while at < window.end:
        found = window.get(at, _READ_BYTES).find(_FRAME_MARK)
        if found < 0:
            at += _READ_BYTES - 1
            continue
        at += found
        behind = _find_end(window, at)
        if behind is not None and _read_whole(window, at, behind) is not None:
            return at
        at += 1
    return None
