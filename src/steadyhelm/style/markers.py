"""Find the terms of a profile's lexicons in a reply, as whole words, plain and ambiguous ones apart."""

import re
from collections.abc import Mapping, Sequence
from itertools import compress, count, pairwise
from typing import Final, NamedTuple

from msgspec import Struct

from steadyhelm.lexicons import load_lexicon
from steadyhelm.style.prose import Prose, WordSpans, fold_words

HEDGES: Final = "hedges"
FILLER: Final = "filler"
HYPE: Final = "hype"
META: Final = "meta"

# Within a phrase only spaces, a comma, a hyphen or marks of emphasis may separate two words.
_BETWEEN_WORDS: Final = re.compile(r"[\s,*_\"-]*")


# What follows or precedes a word that is part of a name: summarize.go, just_run, maybe().
_NAME_CONTINUES: Final = re.compile(r"[._][^\W_]|[_(=]|-[^\W_]|/")
_NAME_CONTINUES_WITH: Final = frozenset("._(=-/")
_BEFORE_NAME: Final = frozenset("._/@#$-")


class MarkerTerms(Struct, frozen=True, kw_only=True):
    """One class of markers: terms that count by themselves, and ambiguous ones that need others.

    A term is ambiguous when it also has a plain meaning: a robust estimator, just one file. It counts only
    with a plain term, with two others of its class, or in a reply that is too long.
    """

    words: tuple[str, ...] = ()
    ambiguous: tuple[str, ...] = ()


def load_english_terms() -> dict[str, MarkerTerms]:
    """Return the English markers by class."""
    lexicon = load_lexicon(__package__, "markers")
    return {
        name: MarkerTerms(words=lexicon[name].words, ambiguous=lexicon[f"{name} ambiguous"].words)
        for name in (HEDGES, FILLER, HYPE, META)
    }


class LexiconMarker(Struct, frozen=True, kw_only=True):
    """A term of a lexicon and its position in the reply: `reply[start:end]`."""

    component: str
    term: str
    start: int
    end: int


class _Term(NamedTuple):
    words: tuple[str, ...]
    text: str
    component: str
    ambiguous: bool


class FoundMarkers(NamedTuple):
    """The markers in a reply: plain ones, and ambiguous ones that count only together with others."""

    plain: tuple[LexiconMarker, ...] = ()
    ambiguous: tuple[LexiconMarker, ...] = ()


class MarkerIndex:
    """The terms of one profile: single words, and phrases by their first two words, the longest first."""

    def __init__(self, lexicons: Mapping[str, MarkerTerms]) -> None:
        self._singles: dict[str, _Term] = {}
        self._phrases: dict[tuple[str, str], list[_Term]] = {}
        for component, lexicon in lexicons.items():
            for ambiguous, terms in ((False, lexicon.words), (True, lexicon.ambiguous)):
                for term in terms:
                    words = fold_words(term)
                    self._add(_Term(words, " ".join(words), component, ambiguous))
        self._seconds: dict[str, set[str]] = {}
        for first, second in self._phrases:
            self._seconds.setdefault(first, set()).add(second)
        self._firsts = frozenset((*self._singles, *self._seconds))
        for phrases in self._phrases.values():
            phrases.sort(key=lambda term: (-len(term.words), term.ambiguous))

    def _add(self, term: _Term) -> None:
        if len(term.words) == 1:
            self._singles.setdefault(term.words[0], term)
        elif term.words:
            self._phrases.setdefault((term.words[0], term.words[1]), []).append(term)

    def find(self, prose: Prose) -> FoundMarkers:
        """Return all markers from left to right. Of several at one position, the longest is taken."""
        words, singles, seconds = prose.words, self._singles, self._seconds
        # Few words begin a term: the others are passed over without a step of the interpreter.
        padded = [*words, ""]
        places = [
            place
            for place in compress(count(), map(self._firsts.__contains__, words))
            if words[place] in singles or padded[place + 1] in seconds[words[place]]
        ]
        spans: WordSpans | None = None
        plain: list[LexiconMarker] = []
        ambiguous: list[LexiconMarker] = []
        free = 0
        for place in places:
            if place < free or not (terms := self._find_terms(words, place)):
                continue
            spans = spans or prose.find_spans()
            term = next(
                (term for term in terms if _is_joined(prose.text, spans.take(place, len(term.words)))), None
            )
            if term is None:
                continue
            free = place + len(term.words)
            taken = spans.take(place, len(term.words))
            start, end = taken[0][0], taken[-1][1]
            if not _is_code_name(prose.text, start, end):
                marker = LexiconMarker(component=term.component, term=term.text, start=start, end=end)
                (ambiguous if term.ambiguous else plain).append(marker)
        return FoundMarkers(tuple(plain), tuple(ambiguous))

    def _find_terms(self, words: Sequence[str], place: int) -> list[_Term]:
        """Return the terms whose words are at this place, the longest phrase first, a single word last."""
        single = self._singles.get(words[place])
        phrases = self._phrases.get((words[place], words[place + 1])) if place + 1 < len(words) else None
        if phrases is None:
            return [single] if single else []
        found = [term for term in phrases if tuple(words[place : place + len(term.words)]) == term.words]
        return [*found, single] if single else found


def _is_joined(text: str, spans: Sequence[tuple[int, int]]) -> bool:
    return all(_BETWEEN_WORDS.fullmatch(text, before[1], after[0]) for before, after in pairwise(spans))


def _is_code_name(text: str, start: int, end: int) -> bool:
    """Return whether the text is part of a name in code."""
    if text[start - 1 : start] in _BEFORE_NAME:
        return True
    return text[end : end + 1] in _NAME_CONTINUES_WITH and _NAME_CONTINUES.match(text, end) is not None
