"""The canonical form of a call and of its result, and a short hash of each.

Two calls are the same call when their fingerprints are equal, whatever the order of their
arguments. At most 8 KiB of a value are used.
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

MAX_CHARS: Final = 8192
_MAX_DEPTH: Final = 12
_MAX_ITEMS: Final = 1000
_MAX_VALUES: Final = 4000
_MIN_CUT_CHARS: Final = 64
_NATIVE_BITS: Final = 63
_NUMBERS: Final = frozenset({int, float, bool, type(None)})


class Fingerprint(NamedTuple):
    """The identity of a step: a hash of the call, and a hash of its result."""

    call: int
    result: int


def fingerprint(event: TraceEvent) -> Fingerprint:
    """Return the fingerprint of an event: its own when it has one, else computed from its data."""
    if event.call_hash:
        return Fingerprint(event.call_hash, event.result_hash)
    result = event.error or event.output_data
    call = hash_call(event.action_name, encode_canonical(event.input_data))
    return Fingerprint(call, hash_bytes(encode_canonical(result)))


def hash_call(action_name: str, encoded: bytes) -> int:
    """Return the hash of a call: the name of the tool and its canonical arguments. Never 0."""
    digest = blake2b(encoded, digest_size=8, key=action_name.encode("utf-8", "replace")[:64]).digest()
    return int.from_bytes(digest, "little", signed=True) or 1


def hash_bytes(encoded: bytes) -> int:
    """Return the hash of a canonical text."""
    return int.from_bytes(blake2b(encoded, digest_size=8).digest(), "little", signed=True)


def encode_canonical(value: Any) -> bytes:
    """Return any Python object as canonical JSON: keys in order, long fields cut. Never raises.

    >>> encode_canonical({"b": 1, "a": {2, 1}})
    b'{"a":[1,2],"b":1}'
    """
    try:
        if value is None or (not value and isinstance(value, (str, dict, list, tuple))):
            return b""
        if _is_small(value):
            return _encode(value)
    except Exception:  # noqa: BLE001, S110 - an agent's object may raise anything when it is read
        pass
    return _encode(to_plain_data(value))


def to_plain_data(value: Any) -> Any:
    """Return any object as plain JSON data, bounded in depth, values and length. Never raises."""
    return _reduce(value, 0, _Remaining())


class _Remaining:
    """How much more of a value is read: an object that contains itself twice would never end."""

    __slots__ = ("characters", "values")

    def __init__(self) -> None:
        self.values = _MAX_VALUES
        self.characters = MAX_CHARS

    @property
    def is_used_up(self) -> bool:
        """Whether nothing more is read."""
        return self.values <= 0 or self.characters <= 0


def describe(value: Any) -> Any:
    """Return an object that JSON cannot represent as one that it can: its fields, or else its text."""
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
            return f"<{len(value)} bytes {hash_bytes(bytes(value)) & 0xFFFFFFFF:08x}>"
        text = str(value)
    except Exception:  # noqa: BLE001 - the object's own methods may raise anything
        text = f"<{type(value).__name__}>"
    # A memory address differs in every process: it is no part of the value.
    return f"<{type(value).__name__}>" if " at 0x" in text else text


def _reduce(value: Any, depth: int, remaining: _Remaining) -> Any:
    remaining.values -= 1
    try:
        if value is None or isinstance(value, (str, int, float)):
            return _shorten(value, remaining) if isinstance(value, str) else _plain_number(value)
        if depth >= _MAX_DEPTH or remaining.values <= 0:
            return "…"
        if isinstance(value, Mapping):
            return _reduce_mapping(value, depth, remaining)
        if isinstance(value, (list, tuple, set, frozenset)):
            return _reduce_items(value, depth, remaining)
        return _reduce(describe(value), depth + 1, remaining)
    except Exception:  # noqa: BLE001 - an agent's object may raise anything when it is read
        return f"<{type(value).__name__}>"


def _reduce_items(value: Collection[Any], depth: int, remaining: _Remaining) -> list[Any]:
    items = []
    for item in islice(value, _MAX_ITEMS):
        if remaining.is_used_up:
            items.append(_describe_rest(value))
            break
        items.append(_reduce(item, depth + 1, remaining))
    return sorted(items, key=repr) if isinstance(value, (set, frozenset)) else items


def _reduce_mapping(value: Mapping[Any, Any], depth: int, remaining: _Remaining) -> dict[str, Any]:
    """Reduce in the order of the keys, so that what is cut does not depend on their order in the mapping."""
    entries = [
        (key if isinstance(key, str) else str(describe(key)), type(key).__name__, item)
        for key, item in islice(value.items(), _MAX_ITEMS)
    ]
    plain: dict[str, Any] = {}
    for name, _, item in sorted(entries, key=lambda entry: entry[:2]):
        if remaining.is_used_up:
            plain["…"] = _describe_rest(value)
            break
        key = _shorten(name, remaining)  # before its value, which may use up what remains
        plain[key] = _reduce(item, depth + 1, remaining)
    return plain


def _describe_rest(value: Any) -> str:
    """Return the text for the part of a collection that is not read."""
    return f"[{len(value)} in all]"


def _shorten(text: str, remaining: _Remaining) -> str:
    """Return a text as JSON can hold it; of a long one its beginning, its length and its end."""
    size = min(MAX_CHARS, remaining.characters)
    if len(text) > size:
        half = size // 2 if size >= _MIN_CUT_CHARS else 0
        text = f"{text[:half]}…[{len(text)} characters]…{text[len(text) - half :]}"
    remaining.characters = max(0, remaining.characters - len(text))
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _plain_number(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > _NATIVE_BITS:
        return str(value) if value.bit_length() < MAX_CHARS else f"<integer of {value.bit_length()} bits>"
    return value


def _is_small(value: Any) -> bool:  # noqa: C901 - one flat loop: every event goes through it
    """Return whether a value is plain JSON data that fits as it is; stops as soon as that is known."""
    room = MAX_CHARS
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
