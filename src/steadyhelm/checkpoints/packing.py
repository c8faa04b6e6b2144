"""Encode a checkpoint as bytes and back: a header, a checksum, and plain data.

::

    22 bytes   "steadyhelm checkpoint", newline
     2 bytes   version of the format, highest byte first
     8 bytes   length of what follows the checksum, highest byte first
    16 bytes   blake2b checksum of it
     the rest  the record as msgpack, one key per field; unknown keys are ignored
"""

import math
import operator
import os
from collections.abc import Mapping
from hashlib import blake2b
from struct import Struct as Layout
from typing import Any, Final, NamedTuple

import msgspec

from steadyhelm.checkpoint import BEFORE_ANY_EVENT, Checkpoint, FileContent
from steadyhelm.checkpoints.plain_data import (
    Location,
    PlainDataConverter,
    TooLargeError,
    is_utf8,
    read_bytes,
    read_pairs,
    to_utf8_text,
)
from steadyhelm.errors import FormatError
from steadyhelm.host_objects import has_base, is_a, name_type
from steadyhelm.interrupts import pass_on_signal

VERSION: Final = 1
_MAGIC: Final = b"steadyhelm checkpoint\n"
_HEADER: Final = Layout(">22sHQ16s")
PERMISSION_BITS: Final = 0o777
"""The bits of a file's mode that are stored: those that run a program with its owner's rights are not."""

_MAX_COUNT: Final = 1 << 62
_MAX_TIME: Final = 1e12
_MAX_EARLIER_NOTES: Final = 40


class PackedCheckpoint(NamedTuple):
    """A packed checkpoint: the record as it will be read back, and its bytes."""

    record: Checkpoint
    content: bytes


def pack(checkpoint: Checkpoint, *, max_bytes: int) -> PackedCheckpoint:
    """Return a checkpoint's bytes, whatever it holds. Raises TooLargeError above `max_bytes`."""
    record = copy_as_plain_data(checkpoint, max_bytes=max_bytes)
    body = msgspec.msgpack.encode(record)
    if len(body) + _HEADER.size > max_bytes:
        raise TooLargeError(f"The checkpoint takes {len(body)} bytes, {max_bytes} are allowed.")
    return PackedCheckpoint(record, _HEADER.pack(_MAGIC, VERSION, len(body), _compute_digest(body)) + body)


def unpack(content: bytes) -> Checkpoint:
    """Return the checkpoint in these bytes, a new one each time. Raises FormatError."""
    if len(content) < _HEADER.size or not content.startswith(_MAGIC):
        raise FormatError("This is not a checkpoint.")
    _, version, length, digest = _HEADER.unpack_from(content)
    if version != VERSION:
        raise FormatError(f"The checkpoint has version {version}, this Steadyhelm reads version {VERSION}.")
    body = memoryview(content)[_HEADER.size :]
    if len(body) != length or _compute_digest(body) != digest:
        raise FormatError(f"The checkpoint is damaged: it should hold {length} bytes, it has {len(body)}.")
    try:
        return msgspec.msgpack.decode(body, type=Checkpoint)
    except Exception as exc:  # foreign data can raise almost any error
        raise FormatError(f"The checkpoint cannot be read: {exc}.") from exc


def _compute_digest(body: bytes | memoryview) -> bytes:
    return blake2b(body, digest_size=16).digest()


def copy_as_plain_data(checkpoint: Checkpoint, *, max_bytes: int) -> Checkpoint:
    """Return a copy that can be encoded, with notes of what was changed. Raises TooLargeError."""
    converter = PlainDataConverter(max_bytes)
    fields: dict[str, Any] = {
        "checkpoint_id": _copy_text(checkpoint.checkpoint_id, converter),
        "agent_id": _copy_text(checkpoint.agent_id, converter),
        "run_id": _copy_text(checkpoint.run_id, converter),
        "turn": _copy_count(checkpoint.turn, 0),
        "seq": max(BEFORE_ANY_EVENT, _copy_count(checkpoint.seq, BEFORE_ANY_EVENT)),
        "taken_at": _copy_time(checkpoint.taken_at),
        "conversation_history": _copy_history(checkpoint.conversation_history, converter),
        "goal_tree": None
        if checkpoint.goal_tree is None
        else _copy_mapping(checkpoint.goal_tree, "goal_tree", converter),
        "state_files": _copy_files(checkpoint.state_files, converter),
        "file_modes": _copy_modes(checkpoint.file_modes),
        "session_state": _copy_state(checkpoint.session_state, converter),
        "label": _copy_text(checkpoint.label, converter),
        "in_incident": _to_flag(checkpoint.in_incident),
        "meta": _copy_mapping(checkpoint.meta, "meta", converter),
    }
    # One that was stored before and is stored again still has the notes of the first time.
    earlier = checkpoint.reduced[:_MAX_EARLIER_NOTES] if isinstance(checkpoint.reduced, tuple) else ()
    return Checkpoint(**fields, reduced=(*map(to_utf8_text, earlier), *converter.notes))


def _copy_history(value: Any, converter: PlainDataConverter) -> list[Any]:
    plain = converter.convert(value, (None, "conversation_history"))
    if isinstance(plain, list):
        return plain
    return [] if plain is None else [plain]


def _copy_mapping(value: Any, name: str, converter: PlainDataConverter) -> dict[Any, Any]:
    plain = converter.convert(value, (None, name))
    if isinstance(plain, dict):
        return plain
    return {} if plain is None else {"value": plain}


def _copy_files(value: Any, converter: PlainDataConverter) -> dict[str, FileContent]:
    """Return contents by path. A file is stored whole or not at all: half a file is a broken one."""
    root: Location = (None, "state_files")
    copied: dict[str, FileContent] = {}
    for path, content in _read_items(value, root, converter):
        location = (root, path)
        name = _decode_path(path)
        if name is None:
            converter.note(location, "left out, its path is not text")
            continue
        try:
            copied[name] = _copy_content(content, location, converter)
        except TooLargeError:
            raise
        except BaseException as exc:  # noqa: BLE001 - it may be anything
            pass_on_signal(exc)
            converter.note(location, f"left out, {name_type(content)} is not the contents of a file")
    return copied


def _decode_path(path: Any) -> str | None:
    try:
        name = str.__str__(os.fsdecode(path))
    except BaseException as exc:  # noqa: BLE001 - it may be anything
        pass_on_signal(exc)
        return None
    return name if is_utf8(name) else None


def _read_items(value: Any, location: Location, converter: PlainDataConverter) -> list[tuple[Any, Any]]:
    try:
        return converter.list_items(read_pairs(value))
    except TooLargeError:
        raise
    except BaseException as exc:  # noqa: BLE001 - it may be anything
        pass_on_signal(exc)
        converter.note(location, f"left out, {name_type(value)} is not a mapping of paths to contents")
        return []


def _copy_content(content: Any, location: Location, converter: PlainDataConverter) -> FileContent:
    if content is None:
        return None
    if is_a(content, dict) or has_base(content, Mapping):
        return {to_utf8_text(key): item for key, item in converter.convert(content, location).items()}
    if not is_a(content, (str, bytes, bytearray, memoryview)):
        raise TypeError(name_type(content))
    whole = str.__str__(content) if is_a(content, str) else read_bytes(content)
    converter.use_bytes(len(whole))
    if isinstance(whole, str) and not is_utf8(whole):
        # This is how Python returns the bytes of a text file that are not UTF-8: they are stored as bytes.
        return whole.encode("utf-8", "surrogateescape")
    return whole


def _copy_modes(value: Any) -> dict[str, int]:
    if not is_a(value, dict):
        return {}
    return {
        path: mode & PERMISSION_BITS
        for path, mode in list(dict.items(value))
        if type(path) is str and is_utf8(path) and type(mode) is int
    }


def _copy_state(value: Any, converter: PlainDataConverter) -> bytes:
    if not is_a(value, bytes):
        converter.note((None, "session_state"), f"left out, {name_type(value)} is not bytes")
        return b""
    content = read_bytes(value)
    converter.use_bytes(len(content))
    return content


def _copy_text(value: Any, converter: PlainDataConverter) -> str:
    text = to_utf8_text(value)
    converter.use_bytes(len(text))
    return text


def _copy_count(value: Any, default: int) -> int:
    try:
        count = operator.index(value)
    except Exception:  # noqa: BLE001 - it may be anything
        return default
    return max(-_MAX_COUNT, min(count, _MAX_COUNT))


def _copy_time(value: Any) -> float:
    try:
        seconds = float(value)
    except Exception:  # noqa: BLE001 - it may be anything
        return 0.0
    return max(0.0, min(seconds, _MAX_TIME)) if math.isfinite(seconds) else 0.0


def _to_flag(value: Any) -> bool:
    try:
        return bool(value)
    except Exception:  # noqa: BLE001 - it may be anything
        # When this is unknown, it is not one to return to.
        return True
