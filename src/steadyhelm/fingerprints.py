"""Canonical form of what was asked and what came back, and a short hash of each.

Two calls are the same call when their fingerprints are equal, whatever the order of their
arguments; at most 8 KiB of each field is looked at, and 64 KiB of them all.
"""

import dataclasses
import enum
import math
from collections.abc import Collection, Mapping
from hashlib import blake2b
from itertools import islice
from typing import Any, Final, NamedTuple

import msgspec

from steadyhelm.events import TraceEvent

LOOKED_AT: Final = 8192
_LOOKED_AT_IN_ALL: Final = LOOKED_AT
_DEPTH: Final = 12
_ITEMS: Final = 1000
_PLACES: Final = 4000
_SHORTEST_CUT: Final = 64
_NATIVE_BITS: Final = 63
_NUMBERS: Final = frozenset({int, float, bool, type(None)})


class Fingerprint(NamedTuple):
    """What identifies a step: what was asked, and what came back."""

    call: int
    result: int


def fingerprint(event: TraceEvent) -> Fingerprint:
    """The event's fingerprint: its own when it carries one, else computed from its data."""
    if event.call_hash:
        return Fingerprint(event.call_hash, event.result_hash)
    result = event.error or event.output_data
    call = call_hash(event.action_name, canonical(event.input_data))
    return Fingerprint(call, text_hash(canonical(result)))


def call_hash(action_name: str, encoded: bytes) -> int:
    """A number that stands for one call: the tool's name and its canonical arguments."""
    digest = blake2b(encoded, digest_size=8, key=action_name.encode("utf-8", "replace")[:64]).digest()
    return int.from_bytes(digest, "little", signed=True) or 1


def text_hash(encoded: bytes) -> int:
    """A number that stands for one canonical text."""
    return int.from_bytes(blake2b(encoded, digest_size=8).digest(), "little", signed=True)


def canonical(value: Any) -> bytes:
    """Any Python object as canonical JSON: keys in order, long fields cut, never an error.

    >>> canonical({"b": 1, "a": {2, 1}})
    b'{"a":[1,2],"b":1}'
    """
    try:
        if value is None or (not value and isinstance(value, (str, dict, list, tuple))):
            return b""
        if _is_small(value):
            return _encode(value)
    except Exception:  # noqa: BLE001, S110 - an agent's object may do anything when it is looked at
        pass
    return _encode(reduced(value))


def reduced(value: Any) -> Any:
    """Any object as plain JSON data: bounded in depth, places and length, whatever it does when looked at."""
    return _reduced(value, 0, _Room())


class _Room:
    """How much more of a value is looked at: an object that holds itself twice would never end."""

    __slots__ = ("characters", "places")

    def __init__(self) -> None:
        self.places = _PLACES
        self.characters = _LOOKED_AT_IN_ALL

    @property
    def is_used_up(self) -> bool:
        """Whether nothing more is looked at."""
        return self.places <= 0 or self.characters <= 0


def describe(value: Any) -> Any:
    """An object JSON has no form for, as something it has: its fields if it has any, else its words."""
    try:
        if isinstance(value, enum.Enum):
            return value.value
        if isinstance(value, msgspec.Struct):
            return {name: getattr(value, name) for name in value.__struct_fields__}
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        for method in ("model_dump", "to_dict"):
            dump = getattr(value, method, None)
            if callable(dump) and not isinstance(value, type):
                return dump()
        if isinstance(value, (bytes, bytearray, memoryview)):
            return f"<{len(value)} bytes {text_hash(bytes(value)) & 0xFFFFFFFF:08x}>"
        words = str(value)
    except Exception:  # noqa: BLE001 - the object's own methods may do anything
        words = f"<{type(value).__name__}>"
    # An address in memory is another one in every process: it says nothing about the value.
    return f"<{type(value).__name__}>" if " at 0x" in words else words


def _reduced(value: Any, depth: int, room: _Room) -> Any:
    room.places -= 1
    try:
        if value is None or isinstance(value, (str, int, float)):
            return _shortened(value, room) if isinstance(value, str) else _plain_number(value)
        if depth >= _DEPTH or room.places <= 0:
            return "…"
        if isinstance(value, Mapping):
            return _reduced_mapping(value, depth, room)
        if isinstance(value, (list, tuple, set, frozenset)):
            return _reduced_items(value, depth, room)
        return _reduced(describe(value), depth + 1, room)
    except Exception:  # noqa: BLE001 - an agent's object may do anything when it is looked at
        return f"<{type(value).__name__}>"


def _reduced_items(value: Collection[Any], depth: int, room: _Room) -> list[Any]:
    items = []
    for item in islice(value, _ITEMS):
        if room.is_used_up:
            items.append(_rest(value))
            break
        items.append(_reduced(item, depth + 1, room))
    return sorted(items, key=repr) if isinstance(value, (set, frozenset)) else items


def _reduced_mapping(value: Mapping[Any, Any], depth: int, room: _Room) -> dict[str, Any]:
    """Taken in the order of its keys, so that what still finds room does not depend on who wrote it down."""
    entries = [
        (key if isinstance(key, str) else str(describe(key)), type(key).__name__, item)
        for key, item in islice(value.items(), _ITEMS)
    ]
    plain: dict[str, Any] = {}
    for name, _, item in sorted(entries, key=lambda entry: entry[:2]):
        if room.is_used_up:
            plain["…"] = _rest(value)
            break
        key = _shortened(name, room)  # before its value, which may use up the room
        plain[key] = _reduced(item, depth + 1, room)
    return plain


def _rest(value: Any) -> str:
    """What stands for the part of a collection that is not looked at."""
    return f"[{len(value)} in all]"


def _shortened(text: str, room: _Room) -> str:
    """A text as JSON can hold it; a long one's beginning, its length, and its end."""
    size = min(LOOKED_AT, room.characters)
    if len(text) > size:
        half = size // 2 if size >= _SHORTEST_CUT else 0
        text = f"{text[:half]}…[{len(text)} characters]…{text[len(text) - half :]}"
    room.characters = max(0, room.characters - len(text))
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _plain_number(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > _NATIVE_BITS:
        return str(value) if value.bit_length() < LOOKED_AT else f"<integer of {value.bit_length()} bits>"
    return value


def _is_small(value: Any) -> bool:  # noqa: C901 - one flat loop: every event goes through it
    """Whether a value is plain JSON data that fits as it is; stops looking as soon as it knows."""
    room = LOOKED_AT
    stack = [value]
    for item in stack:
        kind = type(item)
        if kind is str:
            room -= len(item)
        elif kind is dict:
            for key, inner in item.items():
                if type(key) is not str:
                    return False
                room -= len(key) + 8
                if type(inner) is str:
                    room -= len(inner)
                elif type(inner) not in _NUMBERS:
                    stack.append(inner)
        elif kind is list or kind is tuple:
            room -= 8 * len(item)
            stack.extend(item)
        elif kind not in _NUMBERS:
            return False
        if room < 0:
            return False
    return True


_encode: Final = msgspec.json.Encoder(order="deterministic", enc_hook=describe).encode
