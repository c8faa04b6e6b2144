"""Judge the name of a field, variable, flag or header: whether it holds a secret."""

import enum
import re
from functools import cache, lru_cache
from typing import Final

from steadyhelm.lexicons import load_lexicon

MAX_NAME_CHARS: Final = 128
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\dA-Za-z_]+")


DESCRIPTIVE_MEMBERS: Final = frozenset(
    {"type", "name", "description", "title", "kind", "provider", "scope", "url", "host", "region", "label",
     "status", "username", "user", "login", "email", "port", "path", "expires", "algorithm",
     "format", "required"}
)  # fmt: skip
"""Members that say something about a secret and are none."""


CURSORS: Final = frozenset(
    {"next", "page", "continuation", "sync", "cursor", "pagination", "cancellation", "resume"}
)
"""Words that make a token a place in a list."""


_CODE_WORDS: Final = (["code"], ["codes"])


class Strength(enum.IntEnum):
    """How much a name alone says about its value."""

    NONE = 0
    WEAK = 1
    """The value is a secret when it looks like one."""
    STRONG = 2
    """The value is a secret unless it is a placeholder, a type or code."""
    HEADER = 3
    """The same, and the value goes on to the end of the line."""
    CERTAIN = 4
    """The value is a secret, whatever it is: the user said so."""


@lru_cache(maxsize=4096)
def judge_name(name: str) -> Strength:
    """Return how much a name says about its value.

    >>> [judge_name(name).name for name in ("DB_PASSWORD", "total_token_count", "key", "Set-Cookie")]
    ['STRONG', 'NONE', 'WEAK', 'HEADER']
    """
    name = name[-MAX_NAME_CHARS:]
    whole = (
        name.strip("-._$:").removeprefix("D").lower()
        if name.startswith("-D")
        else name.strip("-._$:").lower()
    )
    if whole in words_of("whole names") or name.lower() in words_of("whole names"):
        return Strength.STRONG
    words = [word.lower() for word in _WORD.findall(name)]
    if words[-1:] in _CODE_WORDS and not words_of("code kinds").isdisjoint(words[-2:-1]):
        return Strength.STRONG
    for at in range(len(words) - 1, -1, -1):
        if _is_telling(words[at]):
            return _judge_words(words, at)
    return Strength.NONE


def has_id_name(name: str) -> bool:
    """Return whether a field of this name holds an identifier or a checksum."""
    words = [word.lower() for word in _WORD.findall(name)[-3:]]
    if not words:
        return False
    return words[-1] in words_of("id names") or (words[-1] == "token" and not CURSORS.isdisjoint(words))


@cache
def words_of(entry: str) -> frozenset[str]:
    """Return the words of an entry of `names.toml`."""
    return load_lexicon("steadyhelm.redaction", "names")[entry].word_set


@cache
def _endings() -> tuple[str, ...]:
    return tuple(words_of("secret endings"))


def _is_telling(word: str) -> bool:
    return (
        word in words_of("secret words")
        or word in words_of("short words")
        or word in words_of("header names")
        or word == "tokens"
        or word.endswith(_endings())
    )


def _judge_words(words: list[str], at: int) -> Strength:
    word, before, after = words[at], words[:at], words[at + 1 :]
    if not words_of("harmless after").isdisjoint(after):
        return Strength.NONE
    if word in {"key", "keys"}:
        return _judge_key(before, after)
    if word in {"token", "tokens"}:
        return _judge_token(word, before)
    if word in words_of("header names"):
        return Strength.NONE if after else Strength.HEADER
    if word in words_of("short words"):
        helped = before and before[-1] in words_of("owners")
        return Strength.STRONG if helped and not after else Strength.WEAK
    return Strength.STRONG if words_of("harmless before").isdisjoint(before) else Strength.WEAK


def _judge_key(before: list[str], after: list[str]) -> Strength:
    if before and before[-1] in words_of("key kinds"):
        return Strength.STRONG if words_of("harmless before").isdisjoint(before) else Strength.WEAK
    if after or (before and before[-1] in words_of("harmless before a key")):
        return Strength.NONE
    return Strength.WEAK


def _judge_token(word: str, before: list[str]) -> Strength:
    if before and before[-1] in words_of("harmless before a token"):
        return Strength.NONE
    if word == "tokens" and not (before and before[-1] in words_of("key kinds")):
        return Strength.NONE
    return Strength.STRONG if words_of("harmless before").isdisjoint(before) else Strength.WEAK
