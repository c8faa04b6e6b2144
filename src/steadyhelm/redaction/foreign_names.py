"""Find what is assigned to the word for a password in languages that are not written in ASCII."""

import re
from collections.abc import Iterator
from functools import cache
from typing import Final

from steadyhelm.redaction.names import words_of
from steadyhelm.redaction.tokens import SecretSpan
from steadyhelm.redaction.values import is_ordinary, joins_words_and_number, looks_like_password, looks_made

_BEHIND: Final = (
    r"[a-z\u00df-\u017f]{0,4}[\"'\\*\u300d]{0,6}(?P<op>(?:\s\w{1,12}){0,3}?(?:\s|\\{1,4}u00a0){0,4}(?:[:=\uff1a\uff1d\u2192\u2013\u2014]{1,2}|(?<=\s)-{1,2}(?=\s)|\\{1,4}uff1a|\\{1,4}u201[34])"
    r"|\s?(?:\u662f|\u4e3a|\u306f|\ub294|\ub97c|\\{1,4}u(?:662f|4e3a|306f|b294|b97c))|(?:\s\w{1,12}){0,4}?:?\s(?=\S{0,200}[0-9]|(?:[a-z]{3,12}-){3}))"
    r"\s{0,4}[\"'\\`\u300c]{0,6}(?P<value>(?:(?![\"'\\,;`])[!-~]){4,200})"
)
"""What is between the word and the value: a sign, or a word such as `is`."""

_MIN_DIGITS: Final = 3
"""Fewer are at the end of the name of a machine: `worker-node-12`."""
_ASCII: Final = bytes(range(128))
_LOOKALIKES: Final = ("\N{KELVIN SIGN}".encode(), "\N{LATIN CAPITAL LETTER I WITH DOT ABOVE}".encode())
"""Letters that are no ASCII letters and have one as their small letter."""


def may_have_foreign_name(encoded: bytes, *, has_escapes: bool = True) -> bool:
    """Return whether canonical JSON may contain a word for a password that is not written in ASCII.

    Without `has_escapes` it is known that no letter is written as an escape.
    """
    has_letters = False
    if not encoded.isascii():  # of most texts little is outside ASCII: that is searched first
        rest = encoded.translate(None, _ASCII)
        if any(letter in rest for letter in _LOOKALIKES):
            return True
        has_letters = not _load_first_letters().isdisjoint(rest.decode("utf-8", "replace"))
    if not has_letters and not (has_escapes and b"\\u" in encoded and _load_escapes().search(encoded)):
        return False
    return _load_pattern().search(encoded.decode("utf-8", "replace")) is not None


def find_foreign_assigned(text: str) -> Iterator[SecretSpan]:
    """Yield the values assigned to such a word, in order.

    >>> text = "mein L\u00f6senord: hunter2"
    >>> [text[start:end] for start, end, _ in find_foreign_assigned(text)]
    ['hunter2']
    """
    if not may_have_foreign_name(text.encode("utf-8", "replace")):
        return
    for match in _load_assignment().finditer(text):
        value = match["value"].rstrip(".!?)")
        is_plain = match["op"].strip()[:1] in tuple(":=\uff1a\uff1d")
        if (
            not is_ordinary(value)
            and value.isascii()
            and (is_plain or looks_like_password(value) or looks_made(value) or _is_chosen(value))
        ):
            yield SecretSpan(match.start("value"), match.end("value"), "assigned secret")


def _is_chosen(value: str) -> bool:
    return joins_words_and_number(value) and sum(map(str.isdigit, value)) >= _MIN_DIGITS


def is_foreign_name(name: str) -> bool:
    """Return whether the name of a field contains such a word."""
    return not name.isascii() and _load_pattern().search(name) is not None


@cache
def _load_first_letters() -> frozenset[str]:
    """Return letters of which every word that is not in escapes has one: its first one beyond ASCII."""
    words = words_of("words in other scripts")
    firsts = (next(letter for letter in word if not letter.isascii()) for word in words)
    return frozenset(form for letter in firsts for form in letter.lower() + letter.upper())


@cache
def _load_escapes() -> re.Pattern[bytes]:
    """Return a pattern that finds the first letter beyond ASCII of any word, in an escape of JSON."""
    codes = {f"{ord(letter):04x}" for letter in _load_first_letters()}
    return re.compile(rf"\\u(?:{'|'.join(sorted(codes))})".encode())


@cache
def _load_pattern() -> re.Pattern[str]:
    words = sorted(words_of("words in other scripts"))
    firsts = {form for word in words for form in (word[0].lower(), word[0].upper())}
    # The first letter is tested before the words: at most places none of them begins.
    first = rf"(?=[\\{''.join(map(re.escape, sorted(firsts)))}])(?!\\[^u])"
    plain = "|".join(_write_word(word) for word in words if word[0].isascii())
    foreign = "|".join(_write_word(word) for word in words if not word[0].isascii())
    return re.compile(rf"{first}(?:{plain}|(?![\x00-\[\]-\x7f])(?:{foreign}))")


@cache
def _load_assignment() -> re.Pattern[str]:
    return re.compile(_load_pattern().pattern + _BEHIND)


def _write_word(word: str) -> str:
    """Return a pattern for a word in small or large letters, as they are or in escapes of JSON."""
    parts = []
    for at, letter in enumerate(word):
        forms = {letter.lower(), letter.upper()}
        escapes = [f"u{ord(form):04x}" for form in sorted(forms) if not form.isascii()]
        plain = f"[{''.join(map(re.escape, sorted(forms)))}]"
        backslashes = r"\\{1,8}" if at else r"\\"
        parts.append(f"(?:{plain}|{backslashes}(?:{'|'.join(escapes)}))" if escapes else plain)
    return "".join(parts)
