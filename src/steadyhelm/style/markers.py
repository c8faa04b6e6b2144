"""Find the words of the lexicons in a reply, whole words only, the ambiguous apart from the plain."""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise, zip_longest
from typing import Final, NamedTuple

from msgspec import Struct

from steadyhelm.style.lexicons import Lexicon
from steadyhelm.style.prose import Prose, folded

# Within a phrase only spaces, a comma, a hyphen or marks of emphasis may stand between two words.
_JOINED: Final = re.compile(r"[\s,*_\"-]*")


# What follows or precedes a word that is part of a name: summarize.go, just_run, maybe().
_NAMED: Final = re.compile(r"[._][^\W_]|[_(=]|-[^\W_]|/")
_MAY_GO_ON: Final = frozenset("._(=-/")
_IN_A_NAME: Final = frozenset("._/@#$-")


class Marker(Struct, frozen=True, kw_only=True):
    """One word or phrase of a lexicon where it stands in the reply: `reply[start:end]`."""

    component: str
    term: str
    start: int
    end: int


class _Term(NamedTuple):
    words: tuple[str, ...]
    text: str
    component: str
    ambiguous: bool


class Found(NamedTuple):
    """What of the lexicons a reply holds: markers that stand for themselves, and those that need company."""

    plain: tuple[Marker, ...] = ()
    ambiguous: tuple[Marker, ...] = ()


class MarkerIndex:
    """The lexicons of one profile: single words, and phrases by their first two words, the longest first."""

    def __init__(self, lexicons: Mapping[str, Lexicon]) -> None:
        self._singles: dict[str, _Term] = {}
        self._phrases: dict[tuple[str, str], list[_Term]] = {}
        for component, lexicon in lexicons.items():
            for ambiguous, terms in ((False, lexicon.words), (True, lexicon.ambiguous)):
                for term in terms:
                    words = folded(term)
                    self._add(_Term(words, " ".join(words), component, ambiguous))
        for phrases in self._phrases.values():
            phrases.sort(key=lambda term: (-len(term.words), term.ambiguous))

    def _add(self, term: _Term) -> None:
        if len(term.words) == 1:
            self._singles.setdefault(term.words[0], term)
        elif term.words:
            self._phrases.setdefault((term.words[0], term.words[1]), []).append(term)

    def find(self, prose: Prose) -> Found:
        """Every marker, from left to right; where several begin, the longest counts."""
        words, singles, phrases = prose.words, self._singles, self._phrases
        places = [
            place
            for place, pair in enumerate(zip_longest(words, words[1:]))
            if pair[0] in singles or pair in phrases
        ]
        if not places:
            return Found()
        plain: list[Marker] = []
        ambiguous: list[Marker] = []
        spans = prose.spans()
        free = 0
        for place in places:
            term = self._term_at(place, prose, spans) if place >= free else None
            if term is None:
                continue
            free = place + len(term.words)
            start, end = spans[place][0], spans[free - 1][1]
            if not _is_named(prose.text, start, end):
                marker = Marker(component=term.component, term=term.text, start=start, end=end)
                (ambiguous if term.ambiguous else plain).append(marker)
        return Found(tuple(plain), tuple(ambiguous))

    def _term_at(self, place: int, prose: Prose, spans: Sequence[tuple[int, int]]) -> _Term | None:
        words = prose.words
        pair = (words[place], words[place + 1]) if place + 1 < len(words) else ("", "")
        for term in self._phrases.get(pair, ()):
            end = place + len(term.words)
            # Most phrases stand there letter by letter, with one space between two words.
            if end <= len(words) and prose.text[spans[place][0] : spans[end - 1][1]] == term.text:
                return term
            if tuple(words[place:end]) == term.words and _is_joined(prose.text, spans[place:end]):
                return term
        return self._singles.get(words[place])


def _is_joined(text: str, spans: Sequence[tuple[int, int]]) -> bool:
    return all(_JOINED.fullmatch(text, before[1], after[0]) for before, after in pairwise(spans))


def _is_named(text: str, start: int, end: int) -> bool:
    """Whether the words are part of a name in code rather than words."""
    if text[start - 1 : start] in _IN_A_NAME:
        return True
    return text[end : end + 1] in _MAY_GO_ON and _NAMED.match(text, end) is not None
