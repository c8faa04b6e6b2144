"""Find the turn a message is about, by what it names and whether it points back."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from steadyhelm.corrections.messages import MAX_REPLY_CHARS, PACKAGE, find_topics, find_words, parse_message
from steadyhelm.lexicons import load_lexicon

_MAX_TEXT_CHARS: Final = 2048
_MAX_NAMES: Final = 2000
_MIN_COMMON_WORDS: Final = 2
_MAX_EVIDENCE: Final = 3
_MAX_NAMES_IN_WRITTEN_LINE: Final = 3

_TICKED: Final = re.compile(r"`([^`\n]{2,80})`")
_CLOCK: Final = re.compile(r"\d\d:\d\d:\d\d")


class TurnContent(NamedTuple):
    """What identifies a turn: the names in it, and the stems of its other words."""

    names: frozenset[str] = frozenset()
    words: frozenset[str] = frozenset()


class TurnMatch(NamedTuple):
    """The turn a message is about, counted back from the latest, and the words that show it."""

    turns_back: int = 0
    evidence: tuple[str, ...] = ()


LATEST_TURN: Final = TurnMatch()


def collect_content(texts: Iterable[str]) -> TurnContent:
    """Return what is named and said in the texts of a turn; the beginning and the end of each are read."""
    names: set[str] = set()
    words: set[str] = set()
    half = _MAX_TEXT_CHARS // 2
    for text in texts:
        part = text if len(text) <= _MAX_TEXT_CHARS else f"{text[:half]} {text[-half:]}"
        if len(names) < _MAX_NAMES:
            names.update(find_names(part))
            words |= find_topics(find_words(part.lower()))
    return TurnContent(frozenset(names), frozenset(words))


def find_names(text: str) -> Iterator[str]:
    """Yield every file, identifier and ticked text, folded so that a path and its last part are equal.

    >>> sorted(find_names("in src/app/main.go:12 the call to `get user` in parseArgs"))
    ['get user', 'main.go', 'parseargs']
    """
    for ticked in _TICKED.findall(text):
        yield _fold_name(ticked)
    for match in load_lexicon(PACKAGE, "attribution")["name"].regex.finditer(text):
        name = _fold_name(match.group())
        if name:
            yield name


def find_texts(value: Any) -> Iterator[str]:
    """Yield the strings among a call's arguments, one level deep."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from (part for part in value.values() if isinstance(part, str))
    elif isinstance(value, list | tuple):
        yield from (part for part in value if isinstance(part, str))


def find_turn(message: str, turns: Sequence[TurnContent]) -> TurnMatch:
    """Return the turn a message is about: the latest, unless there is evidence for an earlier one.

    Evidence is a name that an earlier turn has and the latest has not, while nothing of the latest is named
    and the message's words fit the latest turn less well, or not at all;
    or pointing back at earlier work, with a name or two words that only an earlier turn has.

    >>> turns = [collect_content(["edit parser.py"]), collect_content(["edit cache.py"])]
    >>> find_turn("parser.py is broken now", turns)
    TurnMatch(turns_back=1, evidence=('parser.py',))
    >>> find_turn("this is broken now", turns)
    TurnMatch(turns_back=0, evidence=())
    """
    if len(turns) < 2:  # noqa: PLR2004 - nothing to choose from
        return LATEST_TURN
    text = message[:MAX_REPLY_CHARS]
    parsed = parse_message(text)
    latest, topics = turns[-1], find_topics(parsed.words)
    points_back = load_lexicon(PACKAGE, "attribution")["points back"].search(parsed.prose) is not None
    names = frozenset(name for name in _find_written_names(text) if name in parsed.prose)
    if points_back or not names & latest.names:
        match = _find_best_turn(names - latest.names, [turn.names for turn in turns], minimum=1)
        fit_of_latest = len(topics & latest.words)
        fits_better = len(topics & turns[-1 - match.turns_back].words) > fit_of_latest
        if match.turns_back and (points_back or not fit_of_latest or fits_better):
            return match
    if not points_back:
        return LATEST_TURN
    return _find_best_turn(topics - latest.words, [turn.words for turn in turns], minimum=_MIN_COMMON_WORDS)


def _find_written_names(message: str) -> Iterator[str]:
    """Yield the names in the lines that a person wrote: one with a clock or many names in it was pasted."""
    for line in message.splitlines():
        names = list(find_names(line))
        if len(names) <= _MAX_NAMES_IN_WRITTEN_LINE and not _CLOCK.search(line):
            yield from names


def _find_best_turn(wanted: frozenset[str], turns: Sequence[frozenset[str]], *, minimum: int) -> TurnMatch:
    """Return the earlier turn that has most of what is wanted; of several the latest."""
    best = LATEST_TURN
    for turns_back, known in enumerate(reversed(turns)):
        common = wanted & known
        if turns_back and len(common) >= minimum and len(common) > len(best.evidence):
            best = TurnMatch(turns_back, tuple(sorted(common)))
    return best._replace(evidence=best.evidence[:_MAX_EVIDENCE])


def _fold_name(name: str) -> str:
    return name.strip().rstrip("/.").rpartition("/")[2].lower()
