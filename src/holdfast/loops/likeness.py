"""How much two calls have in common, by their words."""

import re
from typing import Final
from zlib import crc32

_WORD: Final = re.compile(rb"[A-Za-z0-9_]+")
_WORDS_KEPT: Final = 200


def words_of(asked: bytes) -> list[int]:
    """The distinct (hashed) words of canonical arguments, in order."""
    return sorted({crc32(word) for word in _WORD.findall(asked.lower())[:_WORDS_KEPT]})


def likeness(one: list[int], other: list[int]) -> float:
    """The share of words two calls have in common, of all they use.

    >>> likeness(words_of(b"find|pan|scroll"), words_of(b"scroll|find|pan"))
    1.0
    """
    first, second = set(one), set(other)
    return len(first & second) / len(first | second) if first or second else 1.0
