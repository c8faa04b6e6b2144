"""Read from a regular expression what every match of it contains, and what every match starts with.

A text without that need not be searched, so that most patterns are never run and never compiled.
Where a pattern uses what is not understood here, the result is empty: nothing can be relied on.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

_PLAIN: Final = r"[^\\\[\](){}|?*+^$.]"
_TOKEN: Final = re.compile(
    rf"\(\?:{_PLAIN}+(?:\|{_PLAIN}+)*\)|{_PLAIN}+"
    r"|\\(?:u.{4}|x..|U.{8}|\d+|.)|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?(?:<?[=!]|:)|[()|]"
    r"|(?:[?*+]|\{\d*,?\d*\})\??|[\^$.]",
    re.DOTALL,
)
_OTHER_GROUP: Final = re.compile(r"\(\?(?!<?[=!]|:)")
_LINE_START: Final = r"(?:^|\n)"
_WORD_BOUNDARY: Final = "\\b"
_NO_WIDTH: Final = frozenset({_WORD_BOUNDARY, "\\B", "\\A", "\\Z", "^", "$"})
_NONE: Final[frozenset[str]] = frozenset()
_SOURCES_CACHED: Final = 4
"""What is read from one pattern is asked for in succession."""

_MAX_CLASS_CHARS: Final = 20
_CLASS_ESCAPE: Final = re.compile(r"\\(?=\W)")
_START_CHARS: Final = 4
"""A start of as many characters is telling enough; a shorter one is continued by what follows."""


class _Item(NamedTuple):
    """A part of a pattern: a text, a group of alternatives, or anything else, as its `token` says."""

    token: str = ""
    text: str = ""
    branches: tuple[tuple["_Item", ...], ...] = ()
    has_width: bool = True
    is_optional: bool = False
    may_repeat: bool = False


_Branches = tuple[tuple[_Item, ...], ...]


def find_literals(source: str) -> frozenset[str]:
    r"""Return strings of which every match of a regular expression contains one; none when unsure.

    >>> sorted(find_literals(r"\b(?:brok(?:e|en)|crash(?:es)?)\b"))
    ['brok', 'crash']
    >>> find_literals(r"\w+s?")
    frozenset()
    """
    return _collect_literals(_parse(source))


def find_starts(source: str, *, at_word: bool = False) -> frozenset[str]:
    r"""Return strings of which every match starts with one, if all matches start at a word; none when unsure.

    `at_word` means that the pattern is used where a word starts; else it must say so by `\b`.

    >>> sorted(find_starts(r"\b(?:(?:not )?yet|still)\b"))
    ['not ', 'still', 'yet']
    >>> find_starts("yet|still")
    frozenset()
    """
    branches = _parse(source)
    if not at_word and any(not items or items[0].token != _WORD_BOUNDARY for items in branches):
        return _NONE
    starts = {start.text for items in branches for start in _collect_starts(items)}
    is_sure = all(start and (start[0].isalnum() or start[0] == "_") for start in starts)
    return frozenset(starts) if is_sure else _NONE


class Prefixes(NamedTuple):
    """What every match starts with: one of `at_words` where a word starts, or one of `elsewhere`.

    With `or_start` a match at the start of the text may start with anything.
    """

    at_words: frozenset[str] = _NONE
    elsewhere: frozenset[str] = _NONE
    or_start: bool = False


def find_prefixes(source: str) -> Prefixes | None:
    r"""Return what the matches of a regular expression start with; None when unsure.

    >>> prefixes = find_prefixes(r"\b(?:not|never)\b|n't|[,;] no|^\W*no")
    >>> sorted(prefixes.at_words), sorted(prefixes.elsewhere), prefixes.or_start
    (['never', 'not'], [', no', '; no', "n't"], True)
    """
    branches = _parse(source)
    free = [items for items in branches if not _is_at_start(items)]
    starts = {start for items in free for start in _collect_starts(items)}
    if not branches or not all(start.text for start in starts):
        return None
    return Prefixes(
        frozenset({start.text for start in starts if start.at_word}),
        frozenset({start.text[:_START_CHARS] for start in starts if not start.at_word}),
        or_start=len(free) < len(branches),
    )


def is_anchored(source: str) -> bool:
    r"""Return whether a match can only be at the start of a text.

    >>> is_anchored(r"^\W*yes|^no"), is_anchored("^yes|no")
    (True, False)
    """
    branches = _parse(source)
    return bool(branches) and all(map(_is_at_start, branches))


def is_at_lines(source: str) -> bool:
    r"""Return whether a match can only be at the start of a line, as `(?:^|\n)` says.

    >>> is_at_lines(r"(?:^|\n)- "), is_at_lines(r"(?:^|\n)- |no")
    (True, False)
    """
    return source.startswith(_LINE_START) and len(_parse(source)) == 1


def _is_at_start(items: tuple["_Item", ...]) -> bool:
    return bool(items) and items[0].token == "^"  # noqa: S105 - no password


@lru_cache(maxsize=_SOURCES_CACHED)
def _parse(source: str) -> _Branches:
    """Return the alternatives of a pattern; none when it has flags, named groups or conditions."""
    if _OTHER_GROUP.search(source):
        return ()
    return _parse_group(iter([*_TOKEN.findall(source), ")"]))


def _parse_group(tokens: Iterator[str]) -> _Branches:
    """Return the alternatives up to the closing bracket."""
    branches: list[tuple[_Item, ...]] = []
    items: list[_Item] = []
    for token in tokens:
        if token in {")", "|"}:
            branches.append(tuple(items))
            items = []
            if token == ")":  # noqa: S105 - no password
                break
        elif token[0] in "?*+{":
            _quantify(items, token)
        elif token[0] == "(" and token[-1] == ")":  # a group of plain alternatives
            parts = token[3:-1].split("|")
            items.append(_Item(token, branches=tuple((_Item(text=part),) for part in parts)))
        elif token[0] == "(":
            items.append(_Item(token, branches=_parse_group(tokens), has_width=token in {"(?:", "("}))
        elif token[0] == "[" and (characters := _list_class(token)):
            items.append(_Item(token, branches=tuple((_Item(text=it),) for it in characters)))
        elif token[0] in "[^$." or (token[0] == "\\" and token[1].isalnum()):
            items.append(_Item(token, has_width=token not in _NO_WIDTH))
        else:
            _add_text(items, token.removeprefix("\\") or "\\")
    return tuple(branches)


def _list_class(token: str) -> str:
    """Return the characters of a class that lists a few of them; empty for any other."""
    characters = _CLASS_ESCAPE.sub("", token[1:-1])
    is_list = characters[:1] != "^" and "\\" not in characters and "-" not in token.replace("\\-", "")
    return characters if is_list and len(characters) <= _MAX_CLASS_CHARS else ""


def _add_text(items: list[_Item], text: str) -> None:
    if items and items[-1].text and not items[-1].is_optional:
        text = items.pop().text + text
    items.append(_Item(text=text))


def _quantify(items: list[_Item], quantifier: str) -> None:
    """Apply a quantifier to the last item, or to the last character of a text."""
    is_optional = quantifier[0] in "?*" or quantifier[:2] in {"{0", "{,"}
    if not items:
        return
    last = items.pop()
    may_repeat = quantifier[0] != "?"
    if not last.text:
        items.append(last._replace(is_optional=is_optional, may_repeat=may_repeat))
    elif is_optional:
        items += [_Item(text=last.text[:-1])] if last.text[1:] else []
        items.append(_Item(text=last.text[-1], is_optional=True, may_repeat=may_repeat))
    else:  # what follows the repeated character is a text of its own
        items += [last, _Item(quantifier, has_width=False, may_repeat=True)]


def _collect_literals(branches: _Branches) -> frozenset[str]:
    """Return the literals of all alternatives; none if one of them has none."""
    found = [
        max(
            map(_find_needed, items),
            key=lambda literals: (min(map(len, literals), default=0), -len(literals)),
        )
        if items
        else _NONE
        for items in branches
    ]
    return _NONE if _NONE in found else _NONE.union(*found)


def _find_needed(item: _Item) -> frozenset[str]:
    if item.is_optional or not item.has_width:
        return _NONE
    return frozenset({item.text}) if item.text else _collect_literals(item.branches)


class _Start(NamedTuple):
    """What a match starts with; `is_whole` when it is all that the items match.

    `at_word` is whether it starts where a word does.
    """

    text: str
    is_whole: bool
    at_word: bool = False

    def put_at_word(self) -> "_Start":
        is_word = self.text[:1].isalnum() or self.text[:1] == "_"
        return self._replace(at_word=True) if is_word else self


def _collect_starts(items: tuple[_Item, ...]) -> set[_Start]:
    """Return what every match of these items starts with one of; an empty text when nothing is certain."""
    if not items:
        return {_Start("", is_whole=True)}
    item, rest = items[0], items[1:]
    if not item.has_width:
        found = {_Start("", is_whole=False)} if item.may_repeat else _collect_starts(rest)
        return {start.put_at_word() for start in found} if item.token == _WORD_BOUNDARY else found
    starts = {_Start("", is_whole=False)}
    if item.text:
        starts = {_Start(item.text, is_whole=True)}
    elif item.branches:
        starts = {start for branch in item.branches for start in _collect_starts(branch)}
    if item.may_repeat:
        starts = {start._replace(is_whole=False) for start in starts}
    if item.is_optional:
        starts.add(_Start("", is_whole=True))
    if all(len(start.text) >= _START_CHARS or not start.is_whole for start in starts):
        return {start._replace(is_whole=False) for start in starts}
    found = set()
    following = _collect_starts(rest)
    for start in starts:
        if start.is_whole and len(start.text) < _START_CHARS:
            found |= {_join(start, more) for more in following}
        else:
            found.add(start._replace(is_whole=False))
    return found


def _join(start: _Start, more: _Start) -> _Start:
    at_word = start.at_word if start.text else more.at_word
    return _Start(start.text + more.text, more.is_whole, at_word)
