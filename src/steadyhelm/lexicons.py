r"""Word lists and patterns as data: read from TOML files in the package, compiled when a text may match.

A lexicon file is `patterns/<name>.toml` beside the code that uses it:

    about = "How users say that something is broken."

    [parts]                                  # optional: pieces that several patterns share,
    not = "(?:not|n't|never)"                # here, or in the file named by `parts_from`

    [[entry]]
    name = "does not work"
    why = "The plainest way to report that a change had no effect."
    pattern = ['{not} (?:work|load)', 'nothing happens']
    place = "words"
    weight = 1.6
    example = "it does not work"
    counter_example = "a lot of work"

`name`, `why`, `example` and `counter_example` are required, and either `pattern` or `words`.

* `pattern` is a regular expression, or a list of alternatives. `{part}` inserts a shared piece. A line break
  in it is dropped, with the indentation after it.
* `parts_from` is the name of a file in the same package, or `package:name`.
* `words` is a list of plain words or phrases, matched as whole words.
* `place` says where a pattern may match: "anywhere" (the default: the pattern itself says where it begins and
  ends), "words" (only whole words) or "start" (the first words of a text, with `after` before them).
* `ignore_case` makes upper and lower case equal. `weight` is a number for the reader of the file.

`example` must match and `counter_example` must not: `tests/test_lexicons.py` checks every file.
Nothing is read at import. From each pattern the literals are derived of which every match contains one, and
where possible the strings with which every match starts, so a text without them never runs the pattern, nor
compiles it.
"""

import pkgutil
import re
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from typing import Final, Literal, NamedTuple

import msgspec
from msgspec import Struct

from steadyhelm.lazy_properties import lazy_property
from steadyhelm.regex_literals import (
    Prefixes,
    find_literals,
    find_prefixes,
    find_starts,
    is_anchored,
    is_at_lines,
)

LEXICON_PACKAGES: Final = tuple(
    f"steadyhelm{folder}" for folder in ("", ".corrections", ".embedders", ".goals", ".redaction", ".style")
)
_START_CHARS: Final = 4
_WORD: Final = re.compile(r"\w+")
_WORD_MASK: Final = bytes(119 if _WORD.match(chr(code)) else 32 for code in range(128)) + bytes(128)
"""An ASCII text as a mask: w for a character of a word, a space for any other."""

_STARTS_CACHED: Final = 4096

_PART_REFERENCE: Final = re.compile(r"\{([a-z_]+)\}")
_PATTERN_FRAMES: Final = {
    "anywhere": "{after}{pattern}",
    "words": r"(?<![\w'])(?:{pattern})(?![\w'])",
    "start": r"^\W{0,40}{after}(?:{pattern})(?![\w'])",
}


_NONE: Final[frozenset[str]] = frozenset()
_LINE_STARTS: Final = Prefixes(elsewhere=frozenset({"\n"}), or_start=True)
_MAX_PREFIXES: Final = 24
"""Each is searched for by itself: more of them cost as much as the pattern does."""


class LexiconEntry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """One named pattern or word list of a lexicon file, with its reason and its two examples."""

    name: str
    why: str
    example: str
    counter_example: str
    pattern: str | tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    place: Literal["anywhere", "words", "start"] = "anywhere"
    after: str = ""
    ignore_case: bool = False
    weight: float = 0.0

    @lazy_property
    def source(self) -> str:
        """The regular expression as one string."""
        if self.words:
            plain = "|".join(map(re.escape, sorted(self.words, key=len, reverse=True)))
            return _PATTERN_FRAMES["words"].replace("{pattern}", plain)
        pattern = self.pattern if isinstance(self.pattern, str) else "|".join(self.pattern)
        return _PATTERN_FRAMES[self.place].replace("{after}", self.after).replace("{pattern}", pattern)

    @lazy_property
    def regex(self) -> re.Pattern[str]:
        """The compiled regular expression."""
        return re.compile(self.source, re.IGNORECASE if self.ignore_case else 0)

    @lazy_property
    def literals(self) -> frozenset[str]:
        """Strings of which every match contains at least one; empty when there is none to rely on."""
        literals = find_literals(self.source)
        if not self.ignore_case:
            return literals
        # Outside ASCII a letter may have more than two forms.
        return frozenset(map(str.lower, literals)) if all(map(str.isascii, literals)) else _NONE

    @lazy_property
    def _is_anchored(self) -> bool:
        return not self.words and is_anchored(self.source)

    @lazy_property
    def _ascii_literals(self) -> frozenset[str]:
        return frozenset(filter(str.isascii, self.literals))

    @lazy_property
    def _is_at_lines(self) -> bool:
        return not self.words and is_at_lines(self.source)

    @lazy_property
    def prefixes(self) -> Prefixes | None:
        """What every match starts with; None where that cannot be relied on.

        A pattern with a place has another sign before each word: see `starts`.
        """
        if self.ignore_case or self.words or self.place != "anywhere":
            return None
        if self._is_at_lines:
            return _LINE_STARTS
        return find_prefixes(self.source)

    @lazy_property
    def starts(self) -> frozenset[str]:
        """Strings of which every match starts with one, at the start of a word; empty when there are none.

        A pattern with the place "start" may have other signs before them.
        """
        if self.ignore_case or self.words:
            return _NONE
        pattern = self.pattern if isinstance(self.pattern, str) else "|".join(self.pattern)
        if self.place == "anywhere":
            return find_starts(self.after + pattern)
        return find_starts(f"{self.after if self.place == 'start' else ''}(?:{pattern})", at_word=True)

    @lazy_property
    def word_set(self) -> frozenset[str]:
        """The words of a word list."""
        return frozenset(self.words)

    def can_match(self, text: str) -> bool:
        """Return False when a literal that every match needs is missing from the text."""
        is_ascii = text.isascii()
        if not self.literals or (self.ignore_case and not is_ascii):
            return True
        if self.ignore_case:
            text = text.lower()
        for literal in self._ascii_literals if is_ascii else self.literals:  # noqa: SIM110 - a generator costs more than the search it saves
            if literal in text:
                return True
        return False

    def search(self, text: str) -> re.Match[str] | None:
        """Return the first match in the text, if there is one."""
        if self._is_anchored:  # cheaper than looking for its literals
            return self.regex.match(text)
        if self._is_at_lines:
            return self.search_elsewhere(text, _LINE_STARTS)
        return self.regex.search(text) if self.can_match(text) else None

    def search_elsewhere(self, text: str, prefixes: Prefixes) -> re.Match[str] | None:
        """Return the first match that does not start at a word. Plain searches find where to try it."""
        places = [0] if prefixes.or_start else []
        for prefix in prefixes.elsewhere:
            if prefix in text:  # costs half as much as to ask where
                places += _find_all(prefix, text)
        places.sort()
        for place in places:
            match = self.regex.match(text, place)
            if match:
                return match
        return None

    def count(self, text: str) -> int:
        """Return how many matches the text has."""
        return len(self.regex.findall(text)) if self.can_match(text) else 0


def _find_all(part: str, text: str) -> list[int]:
    places, place = [], text.find(part)
    while place >= 0:
        places.append(place)
        place = text.find(part, place + 1)
    return places


def _find_word_starts(text: str) -> list[int]:
    """Return the places where a word starts."""
    if not text.isascii():
        return [word.start() for word in _WORD.finditer(text)]
    # Plain searches in a mask of the text: a match object for each word costs ten times as much.
    mask = b" " + text.encode().translate(_WORD_MASK)
    places, place = [], mask.find(b" w")
    while place >= 0:
        places.append(place)
        place = mask.find(b" w", place + 1)
    return places


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    about: str
    entry: tuple[LexiconEntry, ...] = ()
    parts: dict[str, str] = {}
    parts_from: str = ""


class _StartIndex:
    """Entries by the first characters of their matches."""

    def __init__(self) -> None:
        self._by_start: dict[str, list[LexiconEntry]] = {}
        self.find = lru_cache(maxsize=_STARTS_CACHED)(self._find)

    def add(self, entry: LexiconEntry, starts: Iterable[str]) -> None:
        for start in sorted({start[:_START_CHARS] for start in starts}):
            self._by_start.setdefault(start, []).append(entry)

    def _find(self, text: str) -> tuple[LexiconEntry, ...]:
        """Return the entries that may match a text that starts with these four characters."""
        sizes = range(1, len(text) + 1)
        return tuple(
            {entry.name: entry for size in sizes for entry in self._by_start.get(text[:size], ())}.values()
        )


class _Index(NamedTuple):
    """How the entries of a lexicon are found.

    Matches of those in `elsewhere` need not start at a word; `others` are searched for one by one.
    """

    places: dict[str, int]
    at_words: _StartIndex
    at_first_word: _StartIndex
    elsewhere: list[tuple[LexiconEntry, Prefixes]]
    others: list[LexiconEntry]


class Lexicon:
    """The entries of one or more lexicon files by name, in the order of the files."""

    def __init__(self, entries: Sequence[LexiconEntry]) -> None:
        self.entries = {entry.name: entry for entry in entries}

    def __getitem__(self, name: str) -> LexiconEntry:
        return self.entries[name]

    def search_all(self, text: str) -> dict[str, re.Match[str]]:
        """Return the first match of every entry that matches the text, by name, in the order of the files."""
        index = self._index
        found = {entry.name: match for entry in index.others if (match := entry.search(text))}
        places = _find_word_starts(text)
        for entry in index.at_first_word.find(text[places[0] :][:_START_CHARS]) if places else ():
            match = entry.regex.match(text)
            if match:
                found[entry.name] = match
        find = index.at_words.find
        for place in places:
            for entry in find(text[place : place + _START_CHARS]):
                if entry.name not in found:
                    match = entry.regex.match(text, place)
                    if match:
                        found[entry.name] = match
        for entry, prefixes in index.elsewhere:
            match = entry.search_elsewhere(text, prefixes)
            if match and (entry.name not in found or match.start() < found[entry.name].start()):
                found[entry.name] = match
        return {name: found[name] for name in sorted(found, key=index.places.__getitem__)}

    @lazy_property
    def _index(self) -> _Index:
        places = {name: place for place, name in enumerate(self.entries)}
        index = _Index(places, _StartIndex(), _StartIndex(), [], [])
        for entry in self.entries.values():
            prefixes = entry.prefixes
            if entry.starts and entry.place == "start":
                index.at_first_word.add(entry, entry.starts)
            elif entry.starts:
                index.at_words.add(entry, entry.starts)
            elif prefixes is None or len(prefixes.elsewhere) > _MAX_PREFIXES:
                index.others.append(entry)
            else:
                index.at_words.add(entry, prefixes.at_words)
                index.elsewhere.append((entry, prefixes))
        return index


@cache
def load_lexicon(package: str, *names: str) -> Lexicon:
    """Return the entries of these files in a package's `patterns` folder. Each file is read once."""
    return Lexicon([entry for name in names for entry in _read_entries(package, name)])


@cache
def _read_entries(package: str, name: str) -> tuple[LexiconEntry, ...]:
    file = _read_file(package, name)
    other, _, parts_file = file.parts_from.rpartition(":")
    raw = _read_file(other or package, parts_file).parts if file.parts_from else file.parts
    parts = {part: _join_lines(pattern) for part, pattern in raw.items()}
    return tuple(_join_pattern(entry, parts) for entry in file.entry)


@cache
def read_lexicon_file(package: str, name: str) -> bytes:
    """Return the content of a file. Each is read once: what was read before waits for no disk."""
    data = pkgutil.get_data(package, f"patterns/{name}.toml")
    if data is None:  # a loader that has no data files
        raise FileNotFoundError(f"{package} has no file patterns/{name}.toml")
    return data


@cache
def _read_file(package: str, name: str) -> _File:
    return msgspec.toml.decode(read_lexicon_file(package, name), type=_File)


def _join_pattern(entry: LexiconEntry, parts: dict[str, str]) -> LexiconEntry:
    """Return the entry with its pattern on one line and the shared parts in it."""

    def join(text: str) -> str:
        return _PART_REFERENCE.sub(lambda match: parts[match[1]], _join_lines(text))

    pattern = join(entry.pattern) if isinstance(entry.pattern, str) else tuple(map(join, entry.pattern))
    return msgspec.structs.replace(entry, pattern=pattern, after=join(entry.after))


def _join_lines(text: str) -> str:
    return "".join(line.lstrip() for line in text.split("\n")) if "\n" in text else text
