"""Which turn a message is about: what it names, and whether it points back."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from steadyhelm.corrections.reading import REPLY_LOOKED_AT, read
from steadyhelm.corrections.topics import topics

_LOOKED_AT: Final = 2048
_MOST_NAMES: Final = 2000
_FEWEST_WORDS: Final = 2
_SHOWN: Final = 3

_WORD: Final = re.compile(r"[^\W\d][\w']*")
_TICKED: Final = re.compile(r"`([^`\n]{2,80})`")
# What people call by its name: a path, a file, an identifier, an option, a number of an issue.
# Each begins where its run of characters begins and is bounded, so a long word is gone through once.
_NAME: Final = re.compile(
    r"(?:(?<![\w.~@-])[\w.~@-]{1,120})?(?:/[\w.@-]{1,120}){1,40}"
    r"|(?<![\w-])\w[\w-]{0,80}\.[A-Za-z]\w{0,7}\b"
    r"|(?<!\w)\w[^\W_]{0,80}_\w{1,120}"
    r"|(?<![a-z])[a-z]{1,80}[A-Z]\w{1,120}|[A-Z][a-z0-9]{1,80}[A-Z]\w{0,120}"
    r"|(?<!\S)--[a-z][\w-]{1,80}|(?<![\w/])#\d{1,12}"
)
_CLOCK: Final = re.compile(r"\d\d:\d\d:\d\d")
_WORK: Final = (
    r"(?:changes?|commits?|edits?|fix(?:es)?|versions?|attempts?|answers?|plans?|implementation|refactor\w*"
    r"|patch(?:es)?|drafts?|steps?|turns?|tests?|code|files?|functions?)"
)
_POINTS_BACK: Final = re.compile(
    rf"\b(?:earlier|original|initial|first|older|previous)\s+(?:\w+\s+)?{_WORK}\b"
    r"|\byou\b[^.?!\n]{0,60}\b(?:earlier|previously|before that|originally|initially|at first|a while ago"
    rf"|(?:two|three|a few|some|several)\s+{_WORK}\s+(?:ago|back))\b"
    r"|\bwhat you did (?:to|with|in)\b"
)


class Traces(NamedTuple):
    """What a turn can be known by: the names in it, and the stems of its other words."""

    names: frozenset[str] = frozenset()
    words: frozenset[str] = frozenset()


class About(NamedTuple):
    """Which of the turns before a message it is about, counted from the latest, and by what."""

    back: int = 0
    by: tuple[str, ...] = ()


JUST_BEFORE: Final = About()


def traces_of(texts: Iterable[str]) -> Traces:
    """What is named and said in the texts of a turn; of each the beginning and the end are looked at."""
    names: set[str] = set()
    words: set[str] = set()
    for text in texts:
        part = text if len(text) <= _LOOKED_AT else f"{text[: _LOOKED_AT // 2]} {text[-_LOOKED_AT // 2 :]}"
        if len(names) < _MOST_NAMES:
            names.update(names_in(part))
            words |= topics(_WORD.findall(part.lower()))
    return Traces(frozenset(names), frozenset(words))


def names_in(text: str) -> Iterator[str]:
    """Everything called by its name, folded so that a path and its last part are one.

    >>> sorted(names_in("in src/app/main.go:12 the call to `get user` in parseArgs"))
    ['get user', 'main.go', 'parseargs']
    """
    for ticked in _TICKED.findall(text):
        yield _folded(ticked)
    for match in _NAME.finditer(text):
        name = _folded(match.group())
        if name:
            yield name


def texts_in(value: Any) -> Iterator[str]:
    """The texts among a call's arguments, one level deep."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from (part for part in value.values() if isinstance(part, str))
    elif isinstance(value, list | tuple):
        yield from (part for part in value if isinstance(part, str))


def about(message: str, turns: Sequence[Traces]) -> About:
    """The turn a message is about: the latest, unless it says otherwise.

    It says otherwise by naming what an earlier turn has and the latest has not, and nothing of the latest,
    while its words fit the latest turn less well, or not at all;
    or by pointing back at earlier work, with a name or two words that only an earlier turn has.

    >>> turns = [traces_of(["edit parser.py"]), traces_of(["edit cache.py"])]
    >>> about("parser.py is broken now", turns)
    About(back=1, by=('parser.py',))
    >>> about("this is broken now", turns)
    About(back=0, by=())
    """
    if len(turns) < 2:  # noqa: PLR2004 - nothing to choose from
        return JUST_BEFORE
    reading = read(message[:REPLY_LOOKED_AT])
    latest, said = turns[-1], topics(reading.words)
    points_back = _POINTS_BACK.search(reading.prose) is not None
    named = frozenset(name for name in _written_names(message[:REPLY_LOOKED_AT]) if name in reading.prose)
    if points_back or not named & latest.names:
        found = _most(named - latest.names, [turn.names for turn in turns], least=1)
        here = len(said & latest.words)
        fits = not here or len(said & turns[-1 - found.back].words) > here
        if found.back and (points_back or fits):
            return found
    if not points_back:
        return JUST_BEFORE
    return _most(said - latest.words, [turn.words for turn in turns], least=_FEWEST_WORDS)


def _written_names(message: str) -> Iterator[str]:
    """The names in the lines that a person wrote: one with a clock or many names in it was pasted."""
    for line in message.splitlines():
        names = list(names_in(line))
        if len(names) <= _SHOWN and not _CLOCK.search(line):
            yield from names


def _most(wanted: frozenset[str], turns: Sequence[frozenset[str]], *, least: int) -> About:
    """The turn that has most of what is wanted; of several the latest."""
    best = JUST_BEFORE
    for back, known in enumerate(reversed(turns)):
        common = wanted & known
        if back and len(common) >= least and len(common) > len(best.by):
            best = About(back, tuple(sorted(common)))
    return best._replace(by=best.by[:_SHOWN])


def _folded(name: str) -> str:
    return name.strip().rstrip("/.").rpartition("/")[2].lower()
