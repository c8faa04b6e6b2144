"""Find which of many hints are in a text, by the words of the text: most of them were looked at before."""

import re
import string
from collections.abc import Collection, Iterable
from itertools import filterfalse
from typing import Final

from steadyhelm.redaction.hints import compile_search

_WORDS_KEPT: Final = 16_384
_MAX_KEPT_CHARS: Final = 40
_HEAD_CHARS: Final = 2
"""Characters by which the anchors are looked up; none is shorter."""
_LETTERS: Final = bytes(code if chr(code) in string.ascii_lowercase else 32 for code in range(256))
_RUN: Final = re.compile("[a-z]+")
_COMMON_WORDS: Final = frozenset(
    {"as", "begin", "by", "code", "create", "for", "in", "insert", "is", "new", "time", "use", "with", "your"}
)
"""Words that many texts contain: another word of a hint says more."""


class HintIndex:
    """Finds the hints that are in a text.

    Agents use the same words again and again, and searching a text for hundreds of hints costs much more
    than splitting it. So each word is searched once, for a part of each hint that is made of letters alone,
    and its answer is kept.

    Args:
        hints: Texts in small letters; see `compile_search` for a sign at their end.
    """

    def __init__(self, hints: Collection[str]) -> None:
        anchors = {hint: _find_anchor(hint) for hint in sorted(hints)}
        self._by_head: dict[bytes, list[tuple[bytes, str]]] = {}
        for hint, anchor in anchors.items():
            if anchor:
                head = anchor[:_HEAD_CHARS].encode()
                self._by_head.setdefault(head, []).append((anchor.encode(), hint))
        self._in_words = frozenset(filter(_RUN.fullmatch, hints))
        self._as_bytes = {hint: hint.encode() for hint in hints if not hint.endswith(("|", ","))}
        by_character: dict[bytes, list[str]] = {}
        for hint, anchor in anchors.items():
            if not anchor:
                by_character.setdefault(_find_character(hint), []).append(hint)
        # A character of one hint alone says less than the whole of it.
        self._by_character = [
            (self._as_bytes.get(hints[0], character) if len(hints) == 1 else character, hints)
            for character, hints in by_character.items()
        ]
        self._may_have_anchor = compile_search(frozenset(filter(None, anchors.values())), is_whole=False)
        # Words without a hint, and the hints that other words are a part of.
        self._harmless: set[bytes] = set()
        self._telling: dict[bytes, tuple[str, ...]] = {}

    def find(self, lowered: bytes) -> set[str]:
        """Return the hints that are in a text in small letters."""
        words = lowered.translate(_LETTERS).split()
        possible: set[str] = set()
        for character, hints_with_it in self._by_character:
            if character in lowered:
                possible.update(hints_with_it)
        if not self._harmless.issuperset(words):
            new = []
            for word in set(filterfalse(self._harmless.__contains__, words)):
                hints = self._telling.get(word)
                if hints is None:
                    new.append(word)
                else:
                    possible.update(hints)
            if new:
                possible.update(self._learn(new))
        if not possible:
            return possible
        # What is made of letters alone was found in a word: that is all of it.
        return {hint for hint in possible if hint in self._in_words or self._is_in(hint, lowered)}

    def _is_in(self, hint: str, lowered: bytes) -> bool:
        plain = self._as_bytes.get(hint)
        return search_hint(hint).search(lowered) is not None if plain is None else plain in lowered

    def _learn(self, words: Iterable[bytes]) -> set[str]:
        """Search new words, and return the hints that they are a part of."""
        if len(self._harmless) + len(self._telling) >= _WORDS_KEPT:
            self._harmless.clear()
            self._telling.clear()
        found: set[str] = set()
        likely = self._find_words_with_anchor(b" %b " % b" ".join(words))
        for word in words:
            hints = self._judge(word) if word in likely else ()
            found.update(hints)
            if len(word) > _MAX_KEPT_CHARS:
                continue
            if hints:
                self._telling[word] = hints
            else:
                self._harmless.add(word)
        return found

    def _find_words_with_anchor(self, text: bytes) -> set[bytes]:
        """Return the words of a text that an anchor is in; around each word is a space."""
        starts = (text.rfind(b" ", 0, hit.start()) + 1 for hit in self._may_have_anchor.finditer(text))
        return {text[start : text.index(b" ", start)] for start in starts}

    def _judge(self, word: bytes) -> tuple[str, ...]:
        """Return the hints that a word is a part of."""
        bounded = b" %b " % word
        return tuple(
            hint
            for at in range(len(bounded) - 1)
            for anchor, hint in self._by_head.get(bounded[at : at + _HEAD_CHARS], ())
            if bounded.startswith(anchor, at)
            and (hint not in self._in_words or search_hint(hint).search(word))
        )


def search_hint(hint: str) -> re.Pattern[bytes]:
    """Return a pattern that finds one hint; compiled when a text may contain it."""
    return compile_search(frozenset({hint}))


def _find_anchor(hint: str) -> str:
    """Return letters of which every text with the hint has a run, with a space where the run ends there.

    A single letter with signs around it has none: too many texts have it.

    >>> [_find_anchor(hint) for hint in ("token", "sudo -s", "npm,", "7z,", "$2a$", "$5$")]
    ['token', 'sudo ', 'npm ', ' z ', '', '']
    """
    text = hint.rstrip("|,")
    is_ended = text != hint
    anchors = []
    for run in _RUN.finditer(text):
        is_end = run.end() == len(text) and not is_ended
        if is_ended or len(run[0]) > 1:
            anchors.append(f"{' ' if run.start() else ''}{run[0]}{'' if is_end else ' '}")
    return max(anchors, key=lambda it: (it.strip() not in _COMMON_WORDS, len(it)), default="")


def _find_character(hint: str) -> bytes:
    """Return a character of a hint that is neither a letter nor a digit; its first one where it has none."""
    return next((it for it in hint if not it.isalnum()), hint[:1]).encode()
