"""Split a text into the words that say what it is about, as stems: `users` and `user` are one.

Words that every text contains, and words that agents use in every task (run, test, read, fix, file ...),
are no evidence for or against a topic and are left out.
"""

import functools
import re
from collections.abc import Iterable
from itertools import chain
from typing import Any, Final, NamedTuple

from steadyhelm import fingerprints
from steadyhelm.beyond_ascii import has_letters_beyond_ascii
from steadyhelm.lexicons import load_lexicon

CHARS_READ: Final = 512
MAX_CHARS_READ: Final = fingerprints.MAX_CHARS
_MIN_WORD_CHARS: Final = 3
_MAX_WORD_CHARS: Final = 40
_STEM_CACHE_SIZE: Final = 4096
_TEXTS_CACHED: Final = 16

_COMMON_WORD_CHARS, _USUAL_WORD_CHARS = 4, 6
# The weight of a stem by its length: without better knowledge, a longer word is taken for a rarer one.
WEIGHT_BY_LENGTH: Final = tuple(
    0.6 if size <= _COMMON_WORD_CHARS else 0.8 if size <= _USUAL_WORD_CHARS else 1.0
    for size in range(_MAX_WORD_CHARS + 2)
)

_WORD: Final = re.compile(r"[^\W\d_]+")
_LETTERS_ONLY: Final = bytes(code if chr(code).isalpha() else 32 for code in range(128)) + bytes(128)
_PART: Final = re.compile(r"[A-Z]?[^\W\d_A-Z]+|[A-Z]+(?![^\W\d_A-Z])")


COMMON_STEM_WEIGHT: Final = 0.2
"""The weight of a stem that agents of several kinds use, whatever its length."""


class Tokens(NamedTuple):
    """The stems of a text's content words, in order and each once, and the number of its plain words."""

    content: list[str]
    plain: int


def tokenize(text: str, max_chars: int = CHARS_READ) -> Tokens:
    """Return the content words of a text's first characters.

    >>> tokenize("Creating the database migrations for getUserName()")
    Tokens(content=['databas', 'migrat', 'user'], plain=3)
    """
    return _tokenize(text[:max_chars])


# Several readers ask for the words of a message, and of a path that is named by one call after the other.
@functools.lru_cache(maxsize=_TEXTS_CACHED)
def _tokenize(text: str) -> Tokens:
    found = list(map(_find_stems, _split_words(text)))
    content = dict.fromkeys(chain.from_iterable(found))
    content.pop("", None)
    return Tokens(list(content), found.count(()))


def map_spellings(text: str, max_chars: int = CHARS_READ) -> dict[str, str]:
    """Return the stems of a text's first characters, each with its first spelling, for display."""
    spellings: dict[str, str] = {}
    for raw in _split_words(text[:max_chars]):
        for stem in filter(None, _find_stems(raw)):
            part = next(part for part in _PART.findall(raw[:_MAX_WORD_CHARS]) if _stem_part(part) == stem)
            spellings.setdefault(stem, part.lower())
    return spellings


def find_work_words(text: str, max_chars: int = CHARS_READ) -> set[str]:
    """Return the stems that name a kind of work (fix, test, write) in a text's first characters."""
    return {stem_word(word.lower()) for word in _split_words(text[:max_chars])} & _load_work_stems()


def to_text(value: Any) -> str:
    """Return any value as text that can be stored, cut to the characters that are read."""
    if not isinstance(value, str):
        return fingerprints.encode_canonical(value)[:MAX_CHARS_READ].decode("utf-8", "replace")
    text = value[:MAX_CHARS_READ]
    # A lone surrogate, as in a broken transcript, cannot be stored.
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def sum_weights(stems: Iterable[str]) -> float:
    """Return the sum of the words' weights. A rare word weighs more than a common one."""
    return sum(WEIGHT_BY_LENGTH[len(stem)] for stem in stems)


def weigh_names(stems: Iterable[str]) -> float:
    """Return how much evidence the words of a task are that a step names: common ones are little."""
    common = _load_common_stems()
    return sum(COMMON_STEM_WEIGHT if stem in common else WEIGHT_BY_LENGTH[len(stem)] for stem in stems)


def stem_word(word: str) -> str:
    """Return a word without the English endings that change its form and not its subject.

    >>> [stem_word(word) for word in ("queries", "query", "migrating", "migrations", "planned", "classes")]
    ['queri', 'queri', 'migrat', 'migrat', 'plan', 'class']
    """
    if len(word) <= _MIN_WORD_CHARS:
        return word
    word = _strip_ending(_strip_plural(word))
    if len(word) > _MIN_WORD_CHARS and word[-1] == "e":
        return word[:-1]
    return f"{word[:-1]}i" if len(word) > _MIN_WORD_CHARS and word[-1] == "y" else word


def _strip_plural(word: str) -> str:
    if word.endswith("ies"):
        return f"{word[:-3]}y"
    if word.endswith(("sses", "xes", "ches", "shes")):
        return word[:-2]
    return word[:-1] if word[-1] == "s" and word[-2] not in "sui" else word


def _strip_ending(word: str) -> str:
    size = len(word)
    if size > 5 and word.endswith("ing"):  # noqa: PLR2004 - `running`, not `king`
        return _strip_doubled_letter(word[:-3])
    if size > 4 and word.endswith("ed"):  # noqa: PLR2004 - `added`, not `shed`
        return _strip_doubled_letter(word[:-2])
    if size > 7 and word.endswith("ment"):  # noqa: PLR2004 - `management`, not `comment`
        return word[:-4]
    if size > 5 and word.endswith(("tion", "sion")):  # noqa: PLR2004 - `migration`, not `lion`
        return word[:-3]
    if size > 5 and word.endswith(("ly", "er")):  # noqa: PLR2004 - `runner`, not `user`
        return _strip_doubled_letter(word[:-2])
    return word


def _strip_doubled_letter(word: str) -> str:
    doubled = len(word) > _MIN_WORD_CHARS and word[-1] == word[-2] and word[-1] not in "lsz"
    return word[:-1] if doubled else word


def _split_pairs(run: re.Match[str]) -> str:
    text = run.group()
    return " ".join(text[i : i + 2] for i in range(len(text) - 1))


@functools.cache
def _get_unspaced_pattern() -> re.Pattern[str]:
    """Return the pattern of letters in scripts without spaces. Compiled late: few texts need it."""
    return re.compile(r"[\u0e00-\u0eff\u2e80-\ua4cf\uf900-\ufaff]{2,}")


def _split_words(text: str) -> list[str]:
    if not has_letters_beyond_ascii(text):
        # Most texts have no others: this finds the same words in a quarter of the time.
        return text.encode("ascii", "replace").translate(_LETTERS_ONLY).decode().split()
    # Scripts without spaces are read in pairs of characters: most of their words are that long.
    return _WORD.findall(_get_unspaced_pattern().sub(_split_pairs, text))


@functools.lru_cache(maxsize=_STEM_CACHE_SIZE)
def _find_stems(word: str) -> tuple[str, ...]:
    """Return the stems of a word. An identifier is split where a small letter meets a capital.

    Empty for a plain word; an empty stem means a part that is too short to say anything.
    """
    plain = _load_plain_stems()
    stems = [stem for stem in map(_stem_part, _PART.findall(word[:_MAX_WORD_CHARS])) if stem not in plain]
    return tuple(stem if len(stem) >= _MIN_WORD_CHARS or not stem.isascii() else "" for stem in stems)


def _stem_part(part: str) -> str:
    # Cut after lowering: some letters become longer in lower case.
    return stem_word(part.lower()[:_MAX_WORD_CHARS])


@functools.cache
def _load_work_stems() -> frozenset[str]:
    """Return the stems of the words that name a kind of work."""
    return frozenset(map(stem_word, load_lexicon(__package__, "words")["work"].words))


@functools.cache
def _load_plain_stems() -> frozenset[str]:
    """Return the stems of the words that are no evidence for or against a topic."""
    plain = load_lexicon(__package__, "words")["plain"].words
    return frozenset(map(stem_word, plain)) | _load_work_stems()


@functools.cache
def _load_common_stems() -> frozenset[str]:
    """Return the stems that agents of several kinds use."""
    return frozenset(map(stem_word, load_lexicon(__package__, "words")["common"].words))
