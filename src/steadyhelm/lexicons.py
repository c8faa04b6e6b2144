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
Nothing is read at import. From each pattern the literals are derived of which every match contains one, so a
text without them never runs the pattern, nor compiles it.
"""

import pkgutil
import re
from collections.abc import Iterator, Sequence
from functools import cache, cached_property
from itertools import pairwise
from typing import Final, Literal

import msgspec
from msgspec import Struct

LEXICON_PACKAGES: Final = tuple(
    f"steadyhelm{folder}" for folder in ("", ".corrections", ".embedders", ".goals", ".style")
)
_GRAM_LENGTH: Final = 2
"""Characters by which a literal is looked up; an entry with a shorter literal is tried on every text."""

_PART: Final = re.compile(r"\{([a-z_]+)\}")
_FRAMES: Final = {
    "anywhere": "{after}{pattern}",
    "words": r"(?<![\w'])(?:{pattern})(?![\w'])",
    "start": r"^\W*{after}(?:{pattern})(?![\w'])",
}


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

    @cached_property
    def source(self) -> str:
        """The regular expression as one string."""
        if self.words:
            plain = "|".join(map(re.escape, sorted(self.words, key=len, reverse=True)))
            return _FRAMES["words"].replace("{pattern}", plain)
        pattern = self.pattern if isinstance(self.pattern, str) else "|".join(self.pattern)
        return _FRAMES[self.place].replace("{after}", self.after).replace("{pattern}", pattern)

    @cached_property
    def regex(self) -> re.Pattern[str]:
        """The compiled regular expression."""
        return re.compile(self.source, re.IGNORECASE if self.ignore_case else 0)

    @cached_property
    def literals(self) -> frozenset[str]:
        """Strings of which every match contains at least one; empty when there is none to rely on."""
        literals = find_literals(self.source)
        if not self.ignore_case:
            return literals
        # Outside ASCII a letter may have more than two forms.
        return frozenset(map(str.lower, literals)) if all(map(str.isascii, literals)) else _NONE

    @cached_property
    def word_set(self) -> frozenset[str]:
        """The words of a word list."""
        return frozenset(self.words)

    def can_match(self, text: str) -> bool:
        """Return False when a literal that every match needs is missing from the text."""
        if not self.literals or (self.ignore_case and not text.isascii()):
            return True
        if self.ignore_case:
            text = text.lower()
        for literal in self.literals:  # noqa: SIM110 - a generator costs more than the search it saves
            if literal in text:
                return True
        return False

    def search(self, text: str) -> re.Match[str] | None:
        """Return the first match in the text, if there is one."""
        return self.regex.search(text) if self.can_match(text) else None

    def count(self, text: str) -> int:
        """Return how many matches the text has."""
        return len(self.regex.findall(text)) if self.can_match(text) else 0


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    about: str
    entry: tuple[LexiconEntry, ...] = ()
    parts: dict[str, str] = {}
    parts_from: str = ""


class Lexicon:
    """The entries of one or more lexicon files by name, in the order of the files."""

    def __init__(self, entries: Sequence[LexiconEntry]) -> None:
        self.entries = {entry.name: entry for entry in entries}

    def __getitem__(self, name: str) -> LexiconEntry:
        return self.entries[name]

    def search_all(self, text: str) -> dict[str, re.Match[str]]:
        """Return the first match of every entry that matches the text, by name, in the order of the files."""
        candidates = self._find_candidates(text)
        tried = ((name, entry.regex.search(text)) for name, entry in candidates)
        return {name: match for name, match in tried if match}

    def _find_candidates(self, text: str) -> Iterator[tuple[str, LexiconEntry]]:
        always, index = self._index
        names = set(always)
        for gram in index.keys() & set(pairwise(text)):
            names.update(name for literal, name in index[gram] if name not in names and literal in text)
        return ((name, entry) for name, entry in self.entries.items() if name in names)

    @cached_property
    def _index(self) -> tuple[frozenset[str], dict[tuple[str, ...], list[tuple[str, str]]]]:
        """The entries to try on every text, and those to try where the start of a literal is in the text."""
        always: set[str] = set()
        index: dict[tuple[str, ...], list[tuple[str, str]]] = {}
        for name, entry in self.entries.items():
            if entry.ignore_case or min(map(len, entry.literals), default=0) < _GRAM_LENGTH:
                always.add(name)
                continue
            for literal in entry.literals:
                index.setdefault(tuple(literal[:_GRAM_LENGTH]), []).append((literal, name))
        return frozenset(always), index


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
        return _PART.sub(lambda match: parts[match[1]], _join_lines(text))

    pattern = join(entry.pattern) if isinstance(entry.pattern, str) else tuple(map(join, entry.pattern))
    return msgspec.structs.replace(entry, pattern=pattern, after=join(entry.after))


def _join_lines(text: str) -> str:
    return "".join(line.lstrip() for line in text.split("\n")) if "\n" in text else text


_PLAIN: Final = r"[^\\\[\](){}|?*+^$.]"
_TOKEN: Final = re.compile(
    rf"\(\?:{_PLAIN}+(?:\|{_PLAIN}+)*\)|{_PLAIN}+"
    r"|\\(?:u.{4}|x..|U.{8}|\d+|.)|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?(?:<?[=!]|:)|[()|]"
    r"|(?:[?*+]|\{\d*,?\d*\})\??|[\^$.]",
    re.DOTALL,
)
_OTHER_GROUP: Final = re.compile(r"\(\?(?!<?[=!]|:)")
_NONE: Final[frozenset[str]] = frozenset()


def find_literals(source: str) -> frozenset[str]:
    r"""Return strings of which every match of a regular expression contains one; none when unsure.

    >>> sorted(find_literals(r"\b(?:brok(?:e|en)|crash(?:es)?)\b"))
    ['brok', 'crash']
    >>> find_literals(r"\w+s?")
    frozenset()
    """
    if _OTHER_GROUP.search(source):  # flags, named groups, conditions
        return _NONE
    return _read_group(iter([*_TOKEN.findall(source), ")"]))


def _read_group(tokens: Iterator[str]) -> frozenset[str]:
    """Return the literals of all alternatives up to the closing bracket; none if one of them has none."""
    branches: list[frozenset[str]] = []
    items = _Items()
    for token in tokens:
        if token in {")", "|"}:
            branches.append(items.best())
            items = _Items()
            if token == ")":  # noqa: S105 - no password
                break
        elif token[0] in "?*+{":
            items.quantify(token)
        elif token[0] == "(" and token[-1] == ")":  # a group of plain alternatives
            items.add(frozenset(token[3:-1].split("|")))
        elif token[0] == "(":
            literals = _read_group(tokens)
            items.add(literals if token in {"(?:", "("} else _NONE)
        elif token[0] in "[^$." or (token[0] == "\\" and token[1].isalnum()):
            items.add(_NONE)
        else:
            items.add_text(token.removeprefix("\\") or "\\")
    return _NONE if _NONE in branches else _NONE.union(*branches)


class _Items:
    """The items of one alternative, each with the literals it needs; neighbouring characters are joined."""

    def __init__(self) -> None:
        self._needs: list[frozenset[str]] = []
        self._text = ""

    def add_text(self, text: str) -> None:
        self._text += text

    def add(self, literals: frozenset[str]) -> None:
        self._end_text()
        self._needs.append(literals)

    def quantify(self, quantifier: str) -> None:
        """Apply a quantifier to the last item, which is not needed when it may be absent."""
        is_optional = quantifier[0] in "?*" or quantifier[:2] in {"{0", "{,"}
        if self._text:
            self._text = self._text[:-1] if is_optional else self._text
            self._end_text()
        elif is_optional and self._needs:
            self._needs[-1] = _NONE

    def best(self) -> frozenset[str]:
        """Return the literals of the most telling item: the longest, and of these the fewest."""
        self._end_text()
        return max(self._needs, key=_measure_literals, default=_NONE)

    def _end_text(self) -> None:
        if self._text:
            self._needs.append(frozenset({self._text}))
            self._text = ""


def _measure_literals(literals: frozenset[str]) -> tuple[int, int]:
    return min(map(len, literals), default=0), -len(literals)
