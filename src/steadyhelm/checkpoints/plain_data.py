"""Convert an agent's state into plain data that can be stored and returned.

Unlike the canonical form of an event, which is used for comparison, nothing is cut here: a checkpoint is
stored whole or not at all. What has no plain form is stored as its fields or its text, with a note.
"""

from array import array
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import Any, Final

from steadyhelm.fingerprints import to_text
from steadyhelm.host_objects import has_base, is_a, name_type
from steadyhelm.interrupts import pass_on_signal
from steadyhelm.object_descriptions import describe

_MAX_DEPTH: Final = 64
_MAX_VALUES: Final = 500_000
_NATIVE_BITS: Final = 63
_DECIMAL_BITS: Final = 8192
_MAX_NOTES: Final = 20
_MAX_KEY_SHOWN: Final = 50
_PLAIN_TYPES: Final = (type(None), bool, float)
_COLLECTIONS: Final = (list, tuple, set, frozenset, deque, range, array)
"""Built-in types whose own methods read a value, also one of a class that inherits from them."""

Location = tuple[Any, object]
"""A position inside a value: the location of its container, and the key or index there. Used in notes."""


class TooLargeError(Exception):
    """The data is larger than allowed. A keeper turns it into its result."""


def to_utf8_text(text: Any) -> str:
    """Return any id as text that can be encoded, the same for the same id."""
    encodable = text if type(text) is str else to_text(text)
    return encodable.encode("utf-8", "replace").decode("utf-8")


def is_utf8(text: str) -> bool:
    """Return whether a text can be encoded: half a surrogate pair cannot."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def read_bytes(value: Any) -> bytes:
    """Return the bytes of a value by the methods of its built-in type; its own class may have others."""
    if is_a(value, bytes):
        return bytes.__getitem__(value, slice(None))
    return bytes(value) if is_a(value, memoryview) else bytes(bytearray.__getitem__(value, slice(None)))


def read_pairs(value: Any) -> Iterable[tuple[Any, Any]]:
    """Return the items of a mapping by the methods of its built-in type. Raises TypeError when it is none."""
    if is_a(value, MappingProxyType):
        return read_pairs(describe(value))
    if is_a(value, OrderedDict):
        return OrderedDict.items(value)
    if is_a(value, dict):
        return dict.items(value)
    if not has_base(value, Mapping):
        raise TypeError(name_type(value))
    pairs: Iterable[tuple[Any, Any]] = value.items()
    return pairs


class PlainDataConverter:
    """Converts values into plain data, and records what had to be changed.

    Text, numbers, bytes, lists, and dicts whose keys are text or integers stay as they are.

    >>> converter = PlainDataConverter(max_bytes=1000)
    >>> converter.convert([{"role": "user", "content": ("a", 2.5)}], (None, "history"))
    [{'role': 'user', 'content': ['a', 2.5]}]
    >>> converter.notes
    ('history[0].content: tuple kept as a list',)

    Args:
        max_bytes: The total size of text and bytes above which it raises TooLargeError.
    """

    def __init__(self, max_bytes: int) -> None:
        self._bytes_left = max_bytes
        self._values_left = _MAX_VALUES
        self._open_ids: set[int] = set()
        self._notes: list[str] = []
        self._further_notes = 0

    @property
    def notes(self) -> tuple[str, ...]:
        """What was changed and where: the first of many as text, the rest as a number."""
        rest = (f"and {self._further_notes} more",) if self._further_notes else ()
        return (*self._notes, *rest)

    def note(self, location: Location, what: str) -> None:
        """Record a change."""
        if len(self._notes) < _MAX_NOTES:
            self._notes.append(to_utf8_text(f"{_describe_location(location)}: {what}"))
        else:
            self._further_notes += 1

    def use_bytes(self, size: int) -> None:
        """Count bytes. Raises TooLargeError above the limit."""
        self._bytes_left -= size
        if self._bytes_left < 0:
            raise TooLargeError("It holds more text and bytes than allowed.")

    def list_items(self, values: Iterable[Any]) -> list[Any]:
        """Return all items of a collection at once, since another thread may change it, and count them.

        Raises TooLargeError above the limit.
        """
        taken = list(islice(values, self._values_left + 1))
        self._values_left -= len(taken)
        if self._values_left < 0:
            raise TooLargeError(f"It holds more than {_MAX_VALUES} values.")
        return taken

    def convert(self, value: Any, location: Location, depth: int = 0) -> Any:
        """Return a value as plain data. `location` is its name in notes."""
        kind = type(value)
        if any(kind is plain for plain in _PLAIN_TYPES) or (
            kind is int and value.bit_length() <= _NATIVE_BITS
        ):
            return value
        if kind is str and value.isascii():
            self.use_bytes(len(value))
            return value
        if depth >= _MAX_DEPTH or id(value) in self._open_ids:
            return self._replace(location, "…", "left out, it holds itself or is nested too deeply")
        self._open_ids.add(id(value))
        try:
            return self._convert_object(value, location, depth)
        except TooLargeError:
            raise
        except BaseException as exc:  # noqa: BLE001 - reading an agent's object may raise anything
            pass_on_signal(exc)
            return self._replace(location, f"<{name_type(value)}>", f"{name_type(value)} cannot be read")
        finally:
            self._open_ids.discard(id(value))

    def _convert_object(self, value: Any, location: Location, depth: int) -> Any:
        # What an object says of its class is not asked: that may be code of the agent, and may not be true.
        if is_a(value, (dict, MappingProxyType)) or has_base(value, Mapping):
            return self._convert_mapping(value, location, depth)
        if is_a(value, str):
            return self._convert_text(value, location)
        if is_a(value, (bytes, bytearray, memoryview)):
            return self._convert_bytes(value, location)
        if is_a(value, _COLLECTIONS) or has_base(value, Sequence):
            return self._convert_items(value, location, depth)
        if is_a(value, (int, float)):
            return self._convert_number(value, location)
        described = describe(value)
        form = "text" if type(described) is str else "fields"
        self.note(location, f"{name_type(value)} kept as its {form}")
        return self.convert(described, location, depth + 1)

    def _convert_mapping(self, value: Any, location: Location, depth: int) -> dict[Any, Any]:
        if not is_a(value, dict):
            self.note(location, f"{name_type(value)} kept as a dict")
        plain: dict[Any, Any] = {}
        for key, item in self.list_items(read_pairs(value)):
            inside = (location, key)
            name = self._convert_key(key, inside)
            if name in plain:
                self.note(inside, "two keys read the same, the later one kept")
            plain[name] = self.convert(item, inside, depth + 1)
        return plain

    def _convert_key(self, key: Any, location: Location) -> Any:
        kind = type(key)
        if (kind is str and key.isascii()) or (kind is int and key.bit_length() <= _NATIVE_BITS):
            return key
        if is_a(key, str):
            return self._convert_text(key, location)
        self.note(location, f"key of type {name_type(key)} kept as text")
        return self._convert_text(to_text(key), location)

    def _convert_items(self, value: Any, location: Location, depth: int) -> list[Any]:
        if not is_a(value, list):
            self.note(location, f"{name_type(value)} kept as a list")
        kind = next((kind for kind in _COLLECTIONS if is_a(value, kind)), None)
        taken = self.list_items(value if kind is None else kind.__iter__(value))
        plain = [self.convert(item, (location, number), depth + 1) for number, item in enumerate(taken)]
        return sorted(plain, key=repr) if is_a(value, (set, frozenset)) else plain

    def _convert_text(self, value: str, location: Location) -> str:
        # A subclass may return something else from __str__.
        text = str.__str__(value)
        self.use_bytes(len(text))
        if is_utf8(text):
            return text
        return self._replace(location, to_utf8_text(text), "half a surrogate pair replaced")

    def _convert_bytes(self, value: Any, location: Location) -> bytes:
        if not is_a(value, bytes):
            self.note(location, f"{name_type(value)} kept as bytes")
        content = read_bytes(value)
        self.use_bytes(len(content))
        return content

    def _convert_number(self, value: Any, location: Location) -> Any:
        if is_a(value, float):
            return float.__float__(value)
        whole = int.__int__(value)
        bits = whole.bit_length()
        if bits <= _NATIVE_BITS:
            return whole
        text = str(whole) if bits <= _DECIMAL_BITS else f"<integer of {bits} bits>"
        return self._replace(location, text, f"a number of {bits} bits kept as text")

    def _replace(self, location: Location, text: str, why: str) -> str:
        self.note(location, why)
        return text


def _describe_location(location: Location) -> str:
    container, key = location
    if container is None:
        return str(key)
    if is_a(key, str):
        return f"{_describe_location(container)}.{str.__str__(key)[:_MAX_KEY_SHOWN]}"
    small = type(key) is int and key.bit_length() <= _NATIVE_BITS
    return f"{_describe_location(container)}[{key if small else name_type(key)}]"
