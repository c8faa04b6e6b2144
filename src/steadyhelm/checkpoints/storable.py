"""Whatever an agent's state is made of, as plain data that can be kept and handed back.

Unlike the canonical form of an event, which is there to be compared, nothing is cut here: a checkpoint is
kept whole or not at all. What has no plain form is kept as its fields or its words, and that is noted.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from steadyhelm.fingerprints import describe

_DEPTH: Final = 64
_PLACES: Final = 500_000
_NATIVE_BITS: Final = 63
_DECIMAL_BITS: Final = 8192
_NOTES: Final = 20
_NAMED_WITH: Final = 50
_SIMPLE: Final = frozenset({type(None), bool, float})

Place = tuple[Any, object]
"""Where in a value we are: the place around it, and the key or index there; put into words for a note."""


class TooLargeError(Exception):
    """More than may be kept; a keeper turns it into its answer."""


def clean_text(text: Any) -> str:
    """Any id as text that can be written down, the same for the same id."""
    try:
        words = text if type(text) is str else str(describe(text))
    except Exception:  # noqa: BLE001 - what it holds may do anything when it is asked for its words
        words = f"<{type(text).__name__}>"
    return words.encode("utf-8", "replace").decode("utf-8")


def is_utf8(text: str) -> bool:
    """Whether a text can be written down: half a surrogate pair cannot."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class Reduction:
    """Makes plain data of what it is given, and remembers what could not stay as it was.

    Text, numbers, bytes, lists, and dicts whose keys are text or whole numbers stay as they are.

    >>> reduction = Reduction(max_bytes=1000)
    >>> reduction.plain([{"role": "user", "content": ("a", 2.5)}], (None, "history"))
    [{'role': 'user', 'content': ['a', 2.5]}]
    >>> reduction.notes
    ('history[0].content: tuple kept as a list',)

    Args:
        max_bytes: How much text and bytes it takes before it gives up with TooLargeError.
    """

    def __init__(self, max_bytes: int) -> None:
        self._room = max_bytes
        self._places = _PLACES
        self._looking_into: set[int] = set()
        self._notes: list[str] = []
        self._more_notes = 0

    @property
    def notes(self) -> tuple[str, ...]:
        """What was changed and where: the first of many in words, the rest as a number."""
        rest = (f"and {self._more_notes} more",) if self._more_notes else ()
        return (*self._notes, *rest)

    def note(self, place: Place, what: str) -> None:
        """Remember a change."""
        if len(self._notes) < _NOTES:
            self._notes.append(clean_text(f"{_words(place)}: {what}"))
        else:
            self._more_notes += 1

    def spend(self, size: int) -> None:
        """Take up room; raises TooLargeError when there is none."""
        self._room -= size
        if self._room < 0:
            raise TooLargeError("It holds more text and bytes than may be kept.")

    def taken(self, values: Iterable[Any]) -> list[Any]:
        """All of a collection at once: another thread may be at work on it."""
        taken = list(islice(values, self._places + 1))
        self._places -= len(taken)
        if self._places < 0:
            raise TooLargeError(f"It holds more than {_PLACES} values.")
        return taken

    def plain(self, value: Any, place: Place, depth: int = 0) -> Any:
        """A value as plain data; `place` is what it is called in notes."""
        kind = type(value)
        if kind in _SIMPLE or (kind is int and value.bit_length() <= _NATIVE_BITS):
            return value
        if kind is str and value.isascii():
            self.spend(len(value))
            return value
        if depth >= _DEPTH or id(value) in self._looking_into:
            return self._instead(place, "…", "left out, it holds itself or is nested too deeply")
        self._looking_into.add(id(value))
        try:
            return self._looked_into(value, place, depth)
        except TooLargeError:
            raise
        except Exception:  # noqa: BLE001 - an agent's object may do anything when it is looked at
            return self._instead(place, f"<{kind.__name__}>", f"{kind.__name__} cannot be looked at")
        finally:
            self._looking_into.discard(id(value))

    def _looked_into(self, value: Any, place: Place, depth: int) -> Any:
        if isinstance(value, (dict, Mapping)):
            return self._mapping(value, place, depth)
        if isinstance(value, (str, bytes, bytearray, memoryview)):
            return self._text(value, place) if isinstance(value, str) else self._bytes(value, place)
        if isinstance(value, (list, set, frozenset, Sequence)):
            return self._items(value, place, depth)
        if isinstance(value, (int, float)):
            return self._number(value, place)
        described = describe(value)
        how = "words" if isinstance(described, str) else "fields"
        self.note(place, f"{type(value).__name__} kept as its {how}")
        return self.plain(described, place, depth + 1)

    def _mapping(self, value: Mapping[Any, Any], place: Place, depth: int) -> dict[Any, Any]:
        if not isinstance(value, dict):
            self.note(place, f"{type(value).__name__} kept as a dict")
        plain: dict[Any, Any] = {}
        for key, item in self.taken(value.items()):
            inside = (place, key)
            name = self._key(key, inside)
            if name in plain:
                self.note(inside, "two keys read the same, the later one kept")
            plain[name] = self.plain(item, inside, depth + 1)
        return plain

    def _key(self, key: Any, place: Place) -> Any:
        kind = type(key)
        if (kind is str and key.isascii()) or (kind is int and key.bit_length() <= _NATIVE_BITS):
            return key
        if isinstance(key, str):
            return self._text(key, place)
        self.note(place, f"key of type {type(key).__name__} kept as text")
        return self._text(str(describe(key)), place)

    def _items(self, value: Iterable[Any], place: Place, depth: int) -> list[Any]:
        if not isinstance(value, list):
            self.note(place, f"{type(value).__name__} kept as a list")
        taken = self.taken(value)
        if isinstance(value, (set, frozenset)):
            taken.sort(key=repr)
        return [self.plain(item, (place, number), depth + 1) for number, item in enumerate(taken)]

    def _text(self, value: str, place: Place) -> str:
        # A subclass may say something else when asked for its words.
        text = str.__str__(value)
        self.spend(len(text))
        if is_utf8(text):
            return text
        return self._instead(place, clean_text(text), "half a surrogate pair replaced")

    def _bytes(self, value: bytes | bytearray | memoryview, place: Place) -> bytes:
        if not isinstance(value, bytes):
            self.note(place, f"{type(value).__name__} kept as bytes")
        content = bytes(value)
        self.spend(len(content))
        return content

    def _number(self, value: float | int, place: Place) -> Any:  # noqa: PYI041 - the two are kept apart
        if isinstance(value, float):
            return float.__float__(value)
        whole = int.__int__(value)
        bits = whole.bit_length()
        if bits <= _NATIVE_BITS:
            return whole
        words = str(whole) if bits <= _DECIMAL_BITS else f"<integer of {bits} bits>"
        return self._instead(place, words, f"a number of {bits} bits kept as text")

    def _instead(self, place: Place, words: str, why: str) -> str:
        self.note(place, why)
        return words


def _words(place: Place) -> str:
    around, key = place
    if around is None:
        return str(key)
    if isinstance(key, str):
        return f"{_words(around)}.{str.__str__(key)[:_NAMED_WITH]}"
    small = type(key) is int and key.bit_length() <= _NATIVE_BITS
    return f"{_words(around)}[{key if small else type(key).__name__}]"
