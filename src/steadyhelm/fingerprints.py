"""The canonical form of a call and of its result, and a short hash of each.

Two calls are the same call when their fingerprints are equal, whatever the order of their
arguments. At most 8 KiB of a value are used.
"""

import math
from collections import deque
from collections.abc import Callable, Iterator
from hashlib import blake2b
from itertools import islice
from typing import Any, Final, NamedTuple

import msgspec

from steadyhelm import host_objects
from steadyhelm.events import TraceEvent
from steadyhelm.host_objects import MAX_ITEMS, cut_text, is_a, name_type
from steadyhelm.interrupts import pass_on_signal
from steadyhelm.object_descriptions import describe

MAX_CHARS: Final = host_objects.MAX_CHARS
_MAX_DEPTH: Final = 12
_MAX_PLAIN_DEPTH: Final = 64
_MIN_CUT_CHARS: Final = 64
_VALUE_CHARS: Final = 8
"""How many characters every value counts for, beside those of its text."""
_MAX_KEY_CHARS: Final = 200
_NATIVE_BITS: Final = 63
_READ_TRIES: Final = 3


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


_cached_arguments: tuple[TraceEvent, bytes] | None = None


def cache_arguments(event: TraceEvent, arguments: bytes) -> None:
    """Keep the canonical arguments of the latest event, so that they are not encoded again."""
    global _cached_arguments  # noqa: PLW0603 - a memo: without it they are encoded again, to the same
    _cached_arguments = (event, arguments)


def encode_arguments(event: TraceEvent) -> bytes:
    """Return the canonical arguments of an event; those of the latest one are at hand."""
    cached = _cached_arguments
    return cached[1] if cached is not None and cached[0] is event else encode_canonical(event.input_data)


def encode_canonical(value: Any) -> bytes:
    """Return any Python object as canonical JSON: keys in order, long fields cut. Never raises.

    >>> encode_canonical({"b": 1, "a": {2, 1}})
    b'{"a":[1,2],"b":1}'
    """
    try:
        kind = type(value)
        if kind is str:
            if len(value) <= MAX_CHARS:
                return _encode(value) if value else b""
        elif value is None or ((kind is dict or kind is list or kind is tuple) and not value):
            return b""
        elif _is_small(value):
            return _encode(value)
    except Exception as exc:  # noqa: BLE001 - half a surrogate pair, or changed by another thread
        pass_on_signal(exc)
    return _encode(to_plain_data(value))


def to_plain_data(value: Any, max_chars: int = MAX_CHARS) -> Any:
    """Return any object as plain JSON data, bounded in depth, values and length. Never raises.

    No code of the host runs, but that of the text of an exception; see `steadyhelm.host_objects`.
    """
    return _reduce(value, 0, _Remaining(max_chars))


def to_text(value: Any, max_chars: int = MAX_CHARS) -> str:
    """Return any object as one text, such as the key of a mapping. Never raises.

    >>> to_text(("a", 1)), to_text(None), to_text(object())
    ("('a', 1)", 'None', '<object>')
    """
    if is_a(value, str):
        return cut_text(value, max_chars)
    if type(value) is int and value.bit_length() <= _NATIVE_BITS:  # a mapping may have thousands of these
        return str(value)
    if is_a(value, tuple):
        return str(tuple(to_plain_data(list(islice(tuple.__iter__(value), MAX_ITEMS)), max_chars)))
    return str(to_plain_data(value, max_chars))


class _Remaining:
    """How much more of a value is read: an object that contains itself twice would never end."""

    __slots__ = ("characters",)

    def __init__(self, characters: int) -> None:
        self.characters = characters

    @property
    def is_used_up(self) -> bool:
        """Whether nothing more is read."""
        return self.characters <= 0


def _reduce(value: Any, depth: int, remaining: _Remaining) -> Any:  # noqa: PLR0911 - one place for all kinds
    try:
        kind = type(value)
        if issubclass(kind, str):
            return _shorten(value, remaining)
        remaining.characters -= _VALUE_CHARS
        if value is None or issubclass(kind, (int, float)):
            return _reduce_number(value)
        if depth >= _MAX_DEPTH:
            return "…"
        if issubclass(kind, dict):
            return _reduce_mapping(value, depth, remaining)
        collection = next((it for it in _COLLECTIONS if issubclass(kind, it)), None)
        if collection is None:
            return _reduce(describe(value), depth + 1, remaining)
        return _reduce_items(value, collection, depth, remaining)
    except Exception as exc:  # noqa: BLE001 - what cannot be read is named, and what is beside it is kept
        pass_on_signal(exc)
        return f"<{name_type(value)}>"


def _reduce_items(value: Any, kind: Any, depth: int, remaining: _Remaining) -> list[Any] | str:
    found = _read_items(lambda: kind.__iter__(value))
    if found is None:
        return _CHANGED_MARK
    items = []
    for item in found:
        if remaining.is_used_up:
            items.append(_describe_rest(kind.__len__(value)))
            break
        items.append(_reduce(item, depth + 1, remaining))
    return sorted(items, key=repr) if kind is set or kind is frozenset else items


def _reduce_mapping(value: Any, depth: int, remaining: _Remaining) -> dict[str, Any] | str:
    """Reduce in the order of the keys, so that what is cut does not depend on their order in the mapping."""
    found = _read_items(lambda: iter(dict.items(value)))
    if found is None:
        return _CHANGED_MARK
    entries = [
        (key if type(key) is str else to_text(key, _MAX_KEY_CHARS), name_type(key), item)
        for key, item in found
    ]
    plain: dict[str, Any] = {}
    for name, _, item in sorted(entries, key=lambda entry: entry[:2]):
        if remaining.is_used_up:
            plain["…"] = _describe_rest(dict.__len__(value))
            break
        key = _shorten(name, remaining)  # before its value, which may use up what remains
        plain[key] = _reduce(item, depth + 1, remaining)
    return plain


def _read_items(begin: Callable[[], Iterator[Any]]) -> list[Any] | None:
    """Return the first items of a collection; None when other threads change it again and again."""
    for _ in range(_READ_TRIES):
        try:
            return list(islice(begin(), MAX_ITEMS))
        except RuntimeError as exc:
            pass_on_signal(exc)
    return None


def _describe_rest(size: int) -> str:
    """Return the text for the part of a collection that is not read."""
    return f"[{size} in all]"


def _shorten(text: str, remaining: _Remaining) -> str:
    """Return a text as JSON can hold it; of a long one its beginning, its length and its end."""
    size = remaining.characters
    text = cut_text(text, size if size >= _MIN_CUT_CHARS else 0)
    remaining.characters -= len(text) + _VALUE_CHARS
    return text


def _reduce_number(value: Any) -> Any:
    if value is None or type(value) is bool:
        return value
    if is_a(value, float):
        number = float.__add__(value, 0.0)
        return number if math.isfinite(number) else float.__repr__(number)
    bits = int.bit_length(value)
    if bits <= _NATIVE_BITS:
        return int.__add__(value, 0)
    return int.__repr__(value) if bits < MAX_CHARS else f"<integer of {bits} bits>"


def _is_small(value: Any) -> bool:  # noqa: C901, PLR0912 - one flat loop: every event goes through it
    """Return whether a value is plain JSON data that fits as it is; stops as soon as that is known.

    Types are compared by identity: a metaclass of the host may have a hash and an equality of its own.
    """
    room, depth = MAX_CHARS, 0
    level = [value]
    while level:
        inner: list[Any] = []
        for item in level:
            kind = type(item)
            if kind is str:
                room -= len(item)
            elif kind is dict:
                room -= _VALUE_CHARS * len(item)
                if room < 0:
                    return False
                for key, held in item.items():
                    if type(key) is not str:
                        return False
                    room -= len(key)
                    kind = type(held)
                    if kind is str:
                        room -= len(held)
                    elif kind is not int and kind is not float and kind is not bool and held is not None:
                        inner.append(held)
            elif kind is list or kind is tuple:
                room -= _VALUE_CHARS * len(item)
                if room >= 0:
                    inner.extend(item)
            elif kind is not int and kind is not float and kind is not bool and item is not None:
                return False
            if room < 0:
                return False
        level, depth = inner, depth + 1
        if depth > _MAX_PLAIN_DEPTH:
            return False
    return True


_COLLECTIONS: Final[tuple[type, ...]] = (
    list, tuple, set, frozenset, deque, type({}.keys()), type({}.values()),
)  # fmt: skip
_CHANGED_MARK: Final = "<changed while it was read>"
_encode: Final = msgspec.json.Encoder(order="deterministic", enc_hook=describe).encode
