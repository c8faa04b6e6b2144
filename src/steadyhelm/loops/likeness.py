"""How much two calls have in common, by their words."""

import re
from typing import Final
from zlib import crc32

_WORD: Final = re.compile(rb"[A-Za-z0-9_]+")
_WORDS_KEPT: Final = 200
_LOOKED_AT: Final = 8192


def words_of(asked: bytes) -> frozenset[bytes]:
    """The distinct words of canonical arguments."""
    return frozenset(_WORD.findall(asked.lower())[:_WORDS_KEPT])


def likeness(one: frozenset[bytes], other: frozenset[bytes]) -> float:
    """The share of words two calls have in common, of all they use.

    >>> likeness(words_of(b"find|pan|scroll"), words_of(b"scroll|find|pan"))
    1.0
    """
    common = len(one & other)
    either = len(one) + len(other) - common
    return common / either if either else 1.0


def text_key(text: str) -> int:
    """A number for a text; of a long one, for its beginning, its end and its length.

    >>> text_key("north") == text_key("north"), text_key("north") == text_key("south")
    (True, False)
    """
    if len(text) > _LOOKED_AT:
        half = _LOOKED_AT // 2
        text = f"{text[:half]}{len(text)}{text[-half:]}"
    return crc32(text.encode("utf-8", "replace"))
