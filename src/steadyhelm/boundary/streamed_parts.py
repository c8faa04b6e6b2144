"""What flowed through a stream, as much of it as is recorded: a stream may be longer than memory."""

from typing import Any, Final

from steadyhelm.fingerprints import MAX_CHARS, encode_canonical, to_plain_data
from steadyhelm.host_objects import MAX_ITEMS, is_a

_END_CHARS: Final = 4000
"""How much of the beginning and of the end of a long text is kept."""


class StreamedParts:
    """The parts of one stream: as one text where all of them are text, else as a list.

    >>> parts = StreamedParts()
    >>> parts.add("forty"), parts.add("-two")
    (None, None)
    >>> parts.join()
    'forty-two'
    """

    def __init__(self) -> None:
        self._count = 0
        self._is_text = True
        self._head = ""
        self._tail = ""
        self._length = 0
        self._items: list[Any] = []
        self._room = MAX_CHARS

    def add(self, part: Any) -> None:
        """Keep a part, or count it where there is no more room."""
        self._count += 1
        if self._room > 0 and len(self._items) < MAX_ITEMS:
            plain = to_plain_data(part)
            self._items.append(plain)
            self._room -= len(encode_canonical(plain)) + 1
        if not self._is_text:
            return
        self._is_text = is_a(part, str)
        if self._is_text:
            self._add_text(part)

    def join(self) -> Any:
        """Return the text, with its length in place of what was left out; or the list of parts."""
        if self._count and self._is_text:
            if self._length <= 2 * _END_CHARS:
                return self._head + self._tail
            return f"{self._head}…[{self._length} characters]…{self._tail}"
        if self._count > len(self._items):
            return [*self._items, f"[{self._count} in all]"]
        return self._items

    def _add_text(self, text: str) -> None:
        size = str.__len__(text)
        self._length += size
        # Slices of the text as it came: it may be long, and its class may have methods of its own.
        taken = min(size, _END_CHARS - len(self._head))
        self._head += str.__getitem__(text, slice(taken))
        if taken < size:
            last = str.__getitem__(text, slice(max(taken, size - _END_CHARS), size))
            self._tail = (self._tail + last)[-_END_CHARS:]
