"""Compare texts by their words, and reduce a text to a number."""

import re
from typing import Final
from zlib import crc32

_WORD: Final = re.compile(rb"[A-Za-z0-9_]+")
_MAX_WORDS: Final = 200
_MAX_CHARS: Final = 8192


def split_words(arguments: bytes) -> frozenset[bytes]:
    """Return the distinct words of canonical arguments, in lower case."""
    return frozenset(_WORD.findall(arguments.lower())[:_MAX_WORDS])


def word_overlap(one: frozenset[bytes], other: frozenset[bytes]) -> float:
    """Return the share of words that two sets have in common, of all words in either; 1.0 for two empty sets.

    >>> word_overlap(split_words(b"find|pan|scroll"), split_words(b"scroll|find|pan"))
    1.0
    """
    common = len(one & other)
    either = len(one) + len(other) - common
    return common / either if either else 1.0


def hash_text(text: str) -> int:
    """Return a checksum of a text; of a long one, of its beginning, its end and its length.

    >>> hash_text("north") == hash_text("north"), hash_text("north") == hash_text("south")
    (True, False)
    """
    if len(text) > _MAX_CHARS:
        half = _MAX_CHARS // 2
        text = f"{text[:half]}{len(text)}{text[-half:]}"
    return crc32(text.encode("utf-8", "replace"))
