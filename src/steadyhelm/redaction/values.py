"""Judge a value: it is a secret, or a placeholder, a type, code, a path or a word about one."""

import binascii
import math
import re
from collections import Counter
from functools import cache
from typing import Final

from steadyhelm.lexicons import LexiconEntry, load_lexicon
from steadyhelm.redaction.names import judge_name

_MAX_JUDGED_CHARS: Final = 400
_MIN_SECRET_CHARS: Final = 3
_MIN_WEAK_CHARS: Final = 16
_MIN_PASSWORD_CHARS: Final = 6
_MIN_NUMBER_DIGITS: Final = 4
MIN_MIXING: Final = 0.26
_MIN_ENTROPY_BITS: Final = 3.9
_MIN_BLOB_CHARS: Final = 200

_WORD: Final = re.compile(r"[A-Za-z]{1,40}\Z")
_NUMBER: Final = re.compile(r"[\d._,-]{1,40}\Z")
_HEX: Final = re.compile(r"(?:[0-9a-f]{20,200}|[0-9A-F]{20,200})\Z")
_TOKEN_CHARS: Final = re.compile(r"[A-Za-z0-9_+/=.~$!@#%^&*-]{8,400}\Z")
_ENCODING: Final = re.compile(r"\A\{(?:noop|plain|clear|cleartext)\}|\{(?:enter|tab)\}\Z", re.IGNORECASE)
"""What a store writes before a password that it did not hash, and a script behind one that it types."""
_SYMBOL: Final = re.compile(r"[!@#$%^&*?~+=|]")
_CASES: Final = bytes.maketrans(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789", b"U" * 26 + b"l" * 26 + b"0" * 10
)
_CHANGES: Final = (b"lU", b"l0", b"U0", b"0l", b"0U")
"""Changes of kind between neighbours; a capital before a small letter is how words begin, and is left out."""
_MADE_PASSWORD: Final = re.compile(
    r"(?:[a-z]{3,12}[-_.]){3,7}[a-z]{3,12}\Z|[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\Z|[0-9]{6,12}\Z"
)
_WORDS_AND_NUMBER: Final = re.compile(r"[a-z]{3,20}(?:[-_.][a-z]{3,20}){1,4}[-_.]\d{1,4}\Z")
_ABBREVIATIONS: Final = re.compile(
    r"b(?:ase)?(?:32|64)|(?:[iI]18[nN]|l10n|k8s|e2e|p2p|[sS]3|[eE][cC]2|[oO][aA]uth2?|x509|md5|sha\d{1,3}|utf_?(?:8|16)"
    r"|web3|h2|v\d{1,2}|u2f|rds\d?|float\d\d|int\d\d)(?![a-z0-9])"
)
"""Parts of names of code that have digits in them."""
_MIN_DOTTED_MIXING: Final = 0.25
_MIN_LONG_MIXING: Final = 0.2
"""With several digits."""
_MIN_LETTERS_MIXING: Final = 0.18
_MIN_DOTTED_DIGITS: Final = 2
_INNER_SIGN: Final = re.compile(r"[a-z][A-Z]|[A-Za-z]_[A-Za-z]")
"""A capital or an underscore between the words of one name, as code joins them."""
_BASE64_PAIR: Final = re.compile(r"[A-Za-z0-9+/]{6,2000}={0,2}\Z")


def is_ordinary(
    value: str, *, is_quoted: bool = True, is_phrase: bool = False, is_literal: bool = False
) -> bool:
    """Return whether a value is no secret although its name says so; a phrase may be several words.

    A literal value is in a place where no code refers to a member, although it has no quotes.

    >>> [is_ordinary(value) for value in ("${TOKEN}", "str", "hunter2", "correct horse battery")]
    [True, True, False, False]
    """
    value = _ENCODING.sub("", value.strip()[:_MAX_JUDGED_CHARS])
    if (
        len(value) < _MIN_SECRET_CHARS
        or value.lower().rstrip(".,;:!?)") in _entry("word about a secret").word_set
    ):
        return True
    if _matches("placeholder", value):
        return True
    if _matches("path or address", value) and (value.islower() or not _is_mixed(value)):
        return True
    if " " in value:
        words = "words in a message" if is_phrase else "words in a sentence"
        return not _entry(words).word_set.isdisjoint(value.lower().split())
    if is_quoted:
        return _is_name_of_secret(value)
    is_code = _matches("code", value) or is_reference(value, is_literal=is_literal)
    return is_code and not _is_mixed(value)


def is_reference(value: str, *, is_literal: bool = False) -> bool:
    """Return whether a value names a member that holds the secret; a password may be written alike.

    >>> [is_reference(value) for value in ("self.password", "s3.apiKey", "tIZPh5.nsgf3O", "Otter42.maple")]
    [True, True, False, True]
    >>> texts = ("config.value", "row.passwordHash", "event.detail", "Otter42.maple", "blue.harbor")
    >>> [is_reference(text, is_literal=True) for text in texts]
    [True, True, True, False, False]
    """
    if not _matches("reference", value):
        return False
    parts = value.rstrip(";,)]!").split(".")
    if "->" in value or "::" in value or parts[0].lower() in _entry("word about a secret").word_set:
        return True
    plain = _ABBREVIATIONS.sub("", value)
    has_digits = any(map(str.isdigit, plain))
    if parts[-1].replace("_", "").isalpha() and judge_name(parts[-1]):
        return True
    if is_literal:
        return not has_digits and _names_code(parts)
    is_long = sum(map(str.isdigit, plain)) >= _MIN_DOTTED_DIGITS
    return not has_digits or measure_mixing(plain) < (_MIN_LONG_MIXING if is_long else _MIN_DOTTED_MIXING)


def _names_code(parts: list[str]) -> bool:
    """Return whether words joined by dots are code for sure, and not a password of such words."""
    if any(_INNER_SIGN.search(part) for part in parts):
        return True
    objects, members = _entry("object in code").word_set, _entry("member in code").word_set
    return parts[0].lower() in objects or parts[-1].lower() in members


def is_of_words(value: str) -> bool:
    """Return whether a value is made of words alone, as a token never is, but a password may be.

    >>> is_of_words("blue.harbor"), is_of_words("tIZPh5.nsgf3O")
    (True, False)
    """
    return not any(map(str.isdigit, value)) and measure_mixing(value) < _MIN_LETTERS_MIXING


def is_short_number(value: str) -> bool:
    """Return whether a value is a number too short to be a password, or no whole number."""
    return bool(_NUMBER.match(value)) and (len(value) < _MIN_NUMBER_DIGITS or not value.isdigit())


def is_identifier(value: str) -> bool:
    """Return whether a value is an identifier, a date or the name of a test."""
    return _matches("identifier", value)


def is_plain_word(value: str) -> bool:
    """Return whether a value is made of letters alone."""
    return bool(_WORD.match(value))


def looks_secret(value: str) -> bool:
    """Return whether a value looks like a key or a password, whatever its name.

    >>> [looks_secret(value) for value in ("q8Zt3LmX0vB2nR5k", "src/main.py", "item-12", "2024-01-01")]
    [True, False, False, False]
    """
    if len(value) < _MIN_WEAK_CHARS or not _TOKEN_CHARS.match(value) or is_ordinary(value, is_quoted=False):
        return False
    if is_identifier(value):
        return False
    return bool(_HEX.match(value)) or (measure_mixing(value) >= MIN_MIXING and not value.isalpha())


def looks_like_password(value: str) -> bool:
    """Return whether a short value looks like a password: letters mixed with digits or signs."""
    if (
        not _MIN_PASSWORD_CHARS <= len(value) <= _MAX_JUDGED_CHARS
        or " " in value
        or is_ordinary(value, is_quoted=False)
    ):
        return False
    if is_identifier(value) or is_short_number(value):
        return False
    has_letter = any(map(str.isalpha, value))
    return has_letter and (any(map(str.isdigit, value)) or bool(_SYMBOL.search(value)))


def looks_made(value: str) -> bool:
    """Return whether a value looks as a program makes a password: words, hex digits or digits.

    Elsewhere an identifier looks like this.
    """
    return _MADE_PASSWORD.match(value) is not None


def joins_words_and_number(value: str) -> bool:
    """Return whether a value is words and a number, as people choose a password: `otter-maple-1234`.

    Elsewhere an identifier looks like this.
    """
    return _WORDS_AND_NUMBER.match(value) is not None


def looks_dotted(value: str) -> bool:
    """Return whether a value looks like a password with a dot in it where no code is: `Otter42.maple`."""
    return (
        len(value) >= _MIN_PASSWORD_CHARS
        and sum(map(str.isdigit, value)) >= _MIN_DOTTED_DIGITS
        and _matches("reference", value)
        and not is_reference(value, is_literal=True)
        and not is_ordinary(value)
    )


def looks_random(run: str) -> bool:
    """Return whether a long run of letters and digits looks drawn at random; a plain hash does not."""
    if len(run) > _MIN_BLOB_CHARS or run.isupper() or run.islower() or run.isalpha() or run.isdigit():
        return False
    return measure_mixing(run) >= MIN_MIXING and _measure_entropy(run) >= _MIN_ENTROPY_BITS


def measure_mixing(text: str) -> float:
    """Return how often neighbours change between small letters, capitals and digits: .45 at random.

    >>> measure_mixing("TestCreateUserWithEmail") < 0.26 < measure_mixing("q8Zt3LmX0vB2nR5k")
    True
    """
    kinds = text.encode("ascii", "replace").translate(_CASES)
    return sum(map(kinds.count, _CHANGES)) / max(len(kinds), 1)


def holds_base64_pair(value: str) -> bool:
    """Return whether a value is `user:password` in base64.

    >>> holds_base64_pair("YW5uOmh1bnRlcjI="), holds_base64_pair("authentication")
    (True, False)
    """
    if not _BASE64_PAIR.match(value):
        return False
    text = decode_base64(value)
    return b":" in text[1:] and text.isascii() and text.decode().isprintable()


def decode_base64(text: str) -> bytes:
    """Return what a base64 text stands for; nothing when it is none."""
    try:
        return binascii.a2b_base64(text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4))
    except ValueError:
        return b""


def _is_mixed(value: str) -> bool:
    return len(value) >= _MIN_WEAK_CHARS and measure_mixing(value) >= MIN_MIXING


def _is_name_of_secret(value: str) -> bool:
    """Return whether a quoted value is itself the name of a setting: `"token": "GITHUB_TOKEN"`."""
    return value.isupper() and "_" in value and _matches("code", value) and not any(map(str.isdigit, value))


def _measure_entropy(text: str) -> float:
    return -sum(n / len(text) * math.log2(n / len(text)) for n in Counter(text).values())


@cache
def _entry(name: str) -> LexiconEntry:
    return load_lexicon("steadyhelm.redaction", "values")[name]


def _matches(name: str, value: str) -> bool:
    return _entry(name).regex.match(value) is not None
