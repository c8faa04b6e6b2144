"""Find the words of a text that hint at a secret: every other rule starts from them."""

import re
import string
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Final, NamedTuple

_CHARACTERS_BY_FREQUENCY: Final = ' ",.:=_-/0123456789()}etaoinsrhldcumfpgwybv'
"""Characters by how common they are in agents' texts, most common first; one not listed is the rarest."""

_HARMLESS_ENDINGS: Final = {
    "pass": "ed|es|ing|age|iv|eng",
    "auth": "or(?!i)",
    "cred": "it|ib|o",
    "key": "board|word|stroke|frame|pad|note",
    "secret": "ar",
    "token": "iz|is",
    "pw": "m|r",
}
"""How common words go on that begin like the name of a secret: passed, author, keyboard."""

_WORD_CHARACTERS: Final = bytes(
    0x61 if chr(byte) in string.ascii_letters + string.digits + "_.-" else 0x20 for byte in range(256)
)


class Word(NamedTuple):
    """A word of a text, with the signs that names are written with, and its place."""

    start: int
    end: int
    text: str


def find_words(data: bytes, lowered: bytes, search: re.Pattern[bytes]) -> Iterator[Word]:
    """Yield the words around what a pattern finds, each once, in a text of one byte a character."""
    hit = search.search(lowered)
    if not hit:
        return
    marks = data.translate(_WORD_CHARACTERS)
    while hit:
        start = marks.rfind(b" ", 0, hit.start() + 1) + 1
        end = marks.find(b" ", hit.start())
        end = len(data) if end < 0 else end
        if start and data[start - 1] in b"\\%":
            start = min(start + _measure_escape(data, start), end)
        if start < end:
            yield Word(start, end, data[start:end].decode("latin-1"))
        hit = search.search(lowered, max(end, hit.end()))


@cache
def compile_search(words: frozenset[str]) -> re.Pattern[bytes]:
    """Return a pattern that finds any of these words, fast: it starts at the rarest letter of each.

    An ordinary alternation tries every word at every second letter of a text; starting at the
    letters that are rare in texts, with the rest of the word matched around it, takes a third.
    What follows the letter is compared before what is in front of it: the engine passes over an
    alternative that begins with another character at once, but not over one that looks behind.
    """
    by_letter: dict[str, list[str]] = {}
    for word in sorted(_drop_longer(words)):
        at = max(range(len(word)), key=lambda i: _CHARACTERS_BY_FREQUENCY.find(word[i]) % 64)
        behind = f"(?<={re.escape(word)})" if at else ""
        ending = f"(?!{_HARMLESS_ENDINGS[word]})" if word in _HARMLESS_ENDINGS else ""
        by_letter.setdefault(word[at], []).append(re.escape(word[at + 1 :]) + behind + ending)
    alternatives = [f"{re.escape(letter)}(?:{'|'.join(rests)})" for letter, rests in by_letter.items()]
    return re.compile("|".join(alternatives).encode())


def _drop_longer(words: Iterable[str]) -> set[str]:
    """Return the words without those that contain another one."""
    kept: set[str] = set()
    for word in sorted(words, key=len):
        if not any(other in word for other in kept):
            kept.add(word)
    return kept


def _measure_escape(data: bytes, start: int) -> int:
    """Return how many letters of an escape a word begins with, as behind a backslash or a percent sign."""
    if data[start - 1 : start] == b"%":
        return 2
    letter = data[start : start + 1]
    return {b"u": 5, b"x": 3}.get(letter, 1 if letter in b"nrtbf" else 0)
