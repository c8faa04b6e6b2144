"""Texts that differ in nothing but names made up afresh: ids, temporary names, codes.

A made-up name is recognised by its form, or because it stood in a result before it was used: the number of
an order that the agent was told to handle is none.
"""

import functools
import re
from collections.abc import Iterator
from typing import Final

_MIN_HEX_CHARS: Final = 5
_MIN_LONG_CHARS: Final = 8
_MIN_TURNS: Final = 3
_MAX_COUNTER_DIGITS: Final = 3
_TEXTS_CACHED: Final = 64
"""Rounds are compared call by call: each call of a round is read again with the next."""

_UUID: Final = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
_NAME: Final = re.compile(
    rf"({_UUID.pattern}"
    r"|\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d)?(?:[.,]\d+)?Z?|\d{1,2}:\d\d(?::\d\d)?|[A-Za-z0-9]+)"
)
# What may be made up: a word of letters and digits, a long number. Most words of a command are neither.
_MAYBE_MADE_UP: Final = re.compile(
    rf"{_UUID.pattern}|(?<![A-Za-z0-9])(?=\d{{10}}|[A-Za-z]{{0,20}}\d)(?=\d{{10}}|\d{{0,20}}[A-Za-z])[A-Za-z0-9]{{5,64}}"
)
_CLOCK: Final = re.compile(r"(?:\d{4}-\d\d-\d\dT)?\d{1,2}:\d\d")
_HEX: Final = re.compile(r"[0-9a-f]+|[0-9A-F]+")
_TURN: Final = re.compile(r"[A-Za-z]+|\d+")
# A letter and a number name one of several things: a12, 12b.
_LETTER_AND_NUMBER: Final = re.compile(r"[a-fA-F]\d+|\d+[a-fA-F]")
_TIMESTAMP: Final = re.compile(r"1[4-9]\d{8}(?:\d{3})?|20\d{12}")
_COUNTED: Final = re.compile(r"([A-Za-z]*)(\d+)")
_ATTEMPT_WORDS: Final = frozenset(
    {"attempt", "draft", "rev", "retry", "round", "take", "temp", "tmp", "trial", "try", "v", "version"}
)


@functools.lru_cache(maxsize=_TEXTS_CACHED)
def split_names(text: str) -> tuple[str, ...]:
    """Return a text as what lies between names and the names, in turn.

    >>> split_names("rm /tmp/env_9704")
    ('', 'rm', ' /', 'tmp', '/', 'env', '_', '9704', '')
    """
    return tuple(_NAME.split(text))


@functools.lru_cache(maxsize=_TEXTS_CACHED)
def list_names(text: str) -> frozenset[str]:
    """Return the names of a text that hold a digit and more than one character.

    >>> sorted(list_names("job 31 of 4 in env_9704"))
    ['31', '9704']
    """
    found: Iterator[str] = (name[0] for name in _NAME.finditer(text))
    return frozenset(name for name in found if len(name) > 1 and any(map(str.isdigit, name)))


def find_renamed(one: str, other: str) -> list[tuple[str, str, str]] | None:
    """Return the names that replace others, each with the word before it; None where more differs.

    >>> find_renamed("rm job-1149a", "rm job-93fa8")
    [('1149a', '93fa8', 'job')]
    >>> find_renamed("rm job-1149a", "rm -f job-93fa8") is None
    True
    """
    if one == other:
        return []
    before, now = split_names(one), split_names(other)
    if len(before) != len(now) or before[::2] != now[::2]:
        return None
    return [
        (before[place], now[place], before[place - 2] if place > 1 else "")
        for place in range(1, len(before), 2)
        if before[place] != now[place]
    ]


def is_made_up(name: str) -> bool:
    """Return whether a machine made up a name, by its form.

    >>> [is_made_up(name) for name in ("9704011a", "a389f", "x7Kd92Lq", "a12", "b2024", "5001", "report2")]
    [True, True, True, False, False, False, False]
    """
    if _TIMESTAMP.fullmatch(name):
        return True
    if len(name) < _MIN_HEX_CHARS or name.isalpha() or name.isdigit():
        return False
    if _UUID.fullmatch(name):
        return True
    if _HEX.fullmatch(name):
        return len(name) >= _MIN_LONG_CHARS or _LETTER_AND_NUMBER.fullmatch(name) is None
    return name.isalnum() and len(name) >= _MIN_LONG_CHARS and len(_TURN.findall(name)) > _MIN_TURNS


def mask_made_up_names(text: str) -> str:
    """Return a text without the names that a machine made up, by their form.

    >>> mask_made_up_names("python -m venv /tmp/env_9704011a"), mask_made_up_names("pytest -k test_2")
    ('python -m venv /tmp/env_~', 'pytest -k test_2')
    """
    return _MAYBE_MADE_UP.sub(lambda found: "~" if is_made_up(found[0]) else found[0], text)


def are_made_up(one: str, other: str) -> bool:
    """Return whether two names were made up alike: by chance one of them may be all digits or all letters.

    >>> are_made_up("a389f", "40317"), are_made_up("5001", "5002")
    (True, False)
    """
    if len(one) != len(other) or not (is_made_up(one) or is_made_up(other)):
        return False
    if _HEX.fullmatch(one) and _HEX.fullmatch(other):
        return True
    return any(map(str.isdigit, one)) and any(map(str.isdigit, other)) and not one.isdigit()


def are_attempts(one: str, other: str, label: str) -> bool:
    """Return whether two names count attempts at one thing.

    >>> are_attempts("1", "2", "try"), are_attempts("try1", "try2", ""), are_attempts("1", "2", "test")
    (True, True, False)
    """
    first, second = _COUNTED.fullmatch(one), _COUNTED.fullmatch(other)
    if first is None or second is None or first[1] != second[1]:
        return False
    if max(len(first[2]), len(second[2])) > _MAX_COUNTER_DIGITS or int(second[2]) != int(first[2]) + 1:
        return False
    return (first[1] or label).lower() in _ATTEMPT_WORDS


def are_clocks(one: str, other: str) -> bool:
    """Return whether two names are times of the day."""
    return _CLOCK.match(one) is not None and _CLOCK.match(other) is not None
