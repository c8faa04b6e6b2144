"""Convert an agent's state into plain data that can be stored and returned.

Unlike the canonical form of an event, which is used for comparison, nothing is cut here: a checkpoint is
stored whole or not at all. What has no plain form is stored as its fields or its text, with a note.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from steadyhelm.fingerprints import to_text
from steadyhelm.host_objects import describe

_MAX_DEPTH: Final = 64
_MAX_VALUES: Final = 500_000
_NATIVE_BITS: Final = 63
_DECIMAL_BITS: Final = 8192
_MAX_NOTES: Final = 20
_MAX_KEY_SHOWN: Final = 50
_PLAIN_TYPES: Final = frozenset({type(None), bool, float})

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

    def take(self, values: Iterable[Any]) -> list[Any]:
        """Return all items of a collection at once: another thread may change it."""
        taken = list(islice(values, self._values_left + 1))
        self._values_left -= len(taken)
        if self._values_left < 0:
            raise TooLargeError(f"It holds more than {_MAX_VALUES} values.")
        return taken

    def convert(self, value: Any, location: Location, depth: int = 0) -> Any:
        """Return a value as plain data. `location` is its name in notes."""
        kind = type(value)
        if kind in _PLAIN_TYPES or (kind is int and value.bit_length() <= _NATIVE_BITS):
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
        except Exception:  # noqa: BLE001 - reading an agent's object may raise anything
            return self._replace(location, f"<{kind.__name__}>", f"{kind.__name__} cannot be read")
        finally:
            self._open_ids.discard(id(value))

    def _convert_object(self, value: Any, location: Location, depth: int) -> Any:
        if isinstance(value, (dict, Mapping)):
            return self._convert_mapping(value, location, depth)
        if isinstance(value, (str, bytes, bytearray, memoryview)):
            return (
                self._convert_text(value, location)
                if isinstance(value, str)
                else self._convert_bytes(value, location)
            )
        if isinstance(value, (list, set, frozenset, Sequence)):
            return self._convert_items(value, location, depth)
        if isinstance(value, (int, float)):
            return self._convert_number(value, location)
        described = describe(value)
        form = "text" if isinstance(described, str) else "fields"
        self.note(location, f"{type(value).__name__} kept as its {form}")
        return self.convert(described, location, depth + 1)

    def _convert_mapping(self, value: Mapping[Any, Any], location: Location, depth: int) -> dict[Any, Any]:
        if not isinstance(value, dict):
            self.note(location, f"{type(value).__name__} kept as a dict")
        plain: dict[Any, Any] = {}
        for key, item in self.take(value.items()):
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
        if isinstance(key, str):
            return self._convert_text(key, location)
        self.note(location, f"key of type {type(key).__name__} kept as text")
        return self._convert_text(to_text(key), location)

    def _convert_items(self, value: Iterable[Any], location: Location, depth: int) -> list[Any]:
        if not isinstance(value, list):
            self.note(location, f"{type(value).__name__} kept as a list")
        taken = self.take(value)
        if isinstance(value, (set, frozenset)):
            taken.sort(key=repr)
        return [self.convert(item, (location, number), depth + 1) for number, item in enumerate(taken)]

    def _convert_text(self, value: str, location: Location) -> str:
        # A subclass may return something else from __str__.
        text = str.__str__(value)
        self.use_bytes(len(text))
        if is_utf8(text):
            return text
        return self._replace(location, to_utf8_text(text), "half a surrogate pair replaced")

    def _convert_bytes(self, value: bytes | bytearray | memoryview, location: Location) -> bytes:
        if not isinstance(value, bytes):
            self.note(location, f"{type(value).__name__} kept as bytes")
        content = bytes(value)
        self.use_bytes(len(content))
        return content

    def _convert_number(self, value: float | int, location: Location) -> Any:  # noqa: PYI041 - the two are kept apart
        if isinstance(value, float):
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
    if isinstance(key, str):
        return f"{_describe_location(container)}.{str.__str__(key)[:_MAX_KEY_SHOWN]}"
    small = type(key) is int and key.bit_length() <= _NATIVE_BITS
    return f"{_describe_location(container)}[{key if small else type(key).__name__}]"
