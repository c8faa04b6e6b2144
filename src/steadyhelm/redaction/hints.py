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

_COMMON_LETTERS: Final = "etaoinsrhldcumfy"
_MAX_MOVED: Final = 3
"""So many words that start at a common letter may start at a letter of other words instead."""

_ANY_ENDING: Final = (("", ""),)
_ENDINGS: Final = {
    "|": (("[^A-Za-z0-9_]", ""),),
    ",": (("[ ]", ""), ("[\"'\\\\]", "(?:(?<=[\"'])|\\\\{0,7}[\"'])[,}]")),
}
"""What follows a word that is found only where it ends: a character, and what must come after that."""

_WORD_CHARACTERS: Final = bytes(
    0x61 if chr(byte) in string.ascii_letters + string.digits + "_.-" else 0x20 for byte in range(256)
)


class Word(NamedTuple):
    """A word of a text, with the signs that names are written with, and its place."""

    start: int
    end: int
    text: str


def find_words(data: bytes, lowered: bytes, *searches: re.Pattern[bytes]) -> Iterator[Word]:
    """Yield the words around what patterns find, once and in order, in a text of one byte a character."""
    hits = sorted(hit.start() for search in searches for hit in search.finditer(lowered))
    if not hits:
        return
    marks = data.translate(_WORD_CHARACTERS)
    behind = 0
    for hit in hits:
        if hit < behind:
            continue
        start = marks.rfind(b" ", 0, hit + 1) + 1
        end = marks.find(b" ", hit)
        behind = end = len(data) if end < 0 else end
        if start and data[start - 1] in b"\\%":
            start = min(start + _measure_escape(data, start), end)
        if start < end:
            yield Word(start, end, data[start:end].decode("latin-1"))


@cache
def compile_search(words: frozenset[str], *, is_whole: bool = True) -> re.Pattern[bytes]:
    """Return a pattern that finds any of these words, fast: it starts at the rarest letter of each.

    A word with a bar behind it is found only where it ends, one with a comma behind it only where it
    may be a command: before a space, or as an item of a list. Without `is_whole` it is also found where it
    goes on like a common word.

    An ordinary alternation tries every word at every second letter of a text; starting at the
    letters that are rare in texts, with the rest of the word matched around it, takes a third.
    What follows the letter is compared before what is in front of it: the engine passes over an
    alternative that begins with another character at once, but not over one that looks behind.
    """
    alternatives: dict[str, list[str]] = {}
    for given, letter in sorted(_choose_letters(drop_longer(words)).items()):
        word = given.rstrip("|,")
        at = word.index(letter)
        for end, last in _ENDINGS.get(given[-1], _ANY_ENDING):
            behind = f"(?<={re.escape(word)}{end})" if at else ""
            ending = f"(?!{_HARMLESS_ENDINGS[word]})" if is_whole and word in _HARMLESS_ENDINGS else last
            alternatives.setdefault(letter, []).append(re.escape(word[at + 1 :]) + end + behind + ending)
    groups = (f"{re.escape(letter)}(?:{'|'.join(rests)})" for letter, rests in alternatives.items())
    return re.compile("|".join(groups).encode())


def _choose_letters(words: frozenset[str]) -> dict[str, str]:
    """Return the letter of each word to start at: a rare one, and few different ones for all words."""
    chosen = {word: max(word.rstrip("|,"), key=_measure_rarity) for word in words}
    for letter in filter(set(chosen.values()).__contains__, _COMMON_LETTERS):
        own = [word for word in words if chosen[word] == letter]
        others = set(chosen.values()) - {letter}
        shared = [others.intersection(word.rstrip("|,")) for word in own]
        if len(own) <= _MAX_MOVED and all(shared):
            chosen |= {
                word: max(letters, key=_measure_rarity) for word, letters in zip(own, shared, strict=True)
            }
    return chosen


def _measure_rarity(letter: str) -> tuple[int, str]:
    return _CHARACTERS_BY_FREQUENCY.find(letter) % 64, letter


def drop_longer(words: Iterable[str]) -> frozenset[str]:
    """Return the words without those that contain another one."""
    kept: set[str] = set()
    for word in sorted(words, key=len):
        if not any(other in word for other in kept):
            kept.add(word)
    return frozenset(kept)


def _measure_escape(data: bytes, start: int) -> int:
    """Return how many letters of an escape a word begins with, as behind a backslash or a percent sign."""
    if data[start - 1 : start] == b"%":
        return 2
    letter = data[start : start + 1]
    return {b"u": 5, b"x": 3}.get(letter, 1 if letter in b"nrtbf" else 0)
