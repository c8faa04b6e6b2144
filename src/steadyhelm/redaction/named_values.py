"""Judge what is written behind the name of a secret: the secret itself, or an ordinary value."""

import re
from typing import Final, NamedTuple

from steadyhelm.redaction.names import Strength, judge_name, words_of
from steadyhelm.redaction.values import (
    holds_base64_pair,
    is_ordinary,
    is_short_number,
    joins_words_and_number,
    looks_dotted,
    looks_like_password,
    looks_made,
    looks_secret,
)

_MIN_PLAIN_NUMBER: Final = 6
_MAX_PIN_DIGITS: Final = 8
_RESOURCES: Final = ("tok", "secret", "key", "auth", "cred", "cookie", "bearer")
"""Words of what has a name or an id itself: `secret db-1`, `token 3f2a9c11`."""
_NAME_ENDINGS: Final = ("password", "passwd", "passphrase", "secret", "token", "key", "credentials")
_SHORT_PASSWORDS: Final = ("pass", "passe", "pw", "pwd", "mdp", "sandi", "khau", "laluan", "geslo")
_SHORT_SAID_PASSWORDS: Final = ("pw", "passe", "mdp", "sandi", "khau", "laluan", "geslo")
"""Words that name a password in a sentence, too; in English `pass` also names a step."""
_CARD_CODE: Final = re.compile(r"(?:cvv2?|cvc2?|csc|security_?code)\Z", re.IGNORECASE)
"""The name of the few digits on a card, which are a secret although they are a short number."""
_MIN_CARD_CODE_DIGITS: Final = 3
_NAME_SIGNS: Final = frozenset("/_.:")
_SCHEME: Final = re.compile(r"[A-Za-z][\w-]{1,20}[ \t]+(?=\S)")


class Name(NamedTuple):
    """A name in a text that says something about what follows: where it is, and how much it says."""

    start: int
    end: int
    text: str
    strength: Strength


def is_secret_value(value: str, name: str, strength: Strength) -> bool:
    """Return whether the value of a field is a secret, by its name and by what it looks like."""
    if strength is Strength.CERTAIN:
        return bool(value)
    if is_card_code(value, name):
        return True
    if strength is Strength.WEAK:
        return is_weak_secret(value, name)
    if name == "token" and value.isalpha() and value.istitle():
        return False  # the word in another language
    if strength is Strength.HEADER:
        value = _SCHEME.sub("", value, count=1)
    is_phrase = "phrase" in name.lower()
    return (
        not is_ordinary(value, is_phrase=is_phrase)
        and not is_small_number(value, name)
        and not names_a_secret(value, name)
    )


def is_weak_secret(value: str, name: str) -> bool:
    """Return whether a value is a secret although its name says little."""
    lowered = name.lower()
    if is_card_code(value, name):
        return True
    if lowered.endswith("pin"):
        return value.isdigit() and not is_short_number(value) and len(value) <= _MAX_PIN_DIGITS
    if looks_secret(value) or holds_base64_pair(value):
        return True
    if lowered.endswith(_SHORT_PASSWORDS) and (joins_words_and_number(value) or looks_made(value)):
        return True
    return not lowered.endswith(("key", "keys")) and looks_like_password(value)


def is_card_code(value: str, name: str) -> bool:
    """Return whether a value is the code of a card, by its name.

    >>> is_card_code("041", "cardCVV"), is_card_code("041", "count")
    (True, False)
    """
    return (
        value.isdigit()
        and _MIN_CARD_CODE_DIGITS <= len(value) <= _MAX_PIN_DIGITS
        and _CARD_CODE.search(name) is not None
    )


def is_likely_secret(value: str, name: Name) -> bool:
    """Return whether a value looks like a secret where it may be something else as well."""
    if looks_like_password(value) or looks_secret(value):
        return True
    if names_password(name) and looks_dotted(value):
        return True
    lowered = name.text.lower()
    is_password = name.strength > Strength.WEAK or lowered.endswith(_SHORT_SAID_PASSWORDS)
    if is_password and "tok" not in lowered and joins_words_and_number(value):
        return True
    return names_password(name) and looks_made(value)


def names_password(name: Name) -> bool:
    """Return whether a name is that of a password, and not of a secret or a token, which have names again."""
    lowered = name.text.lower()
    return name.strength > Strength.WEAK and not any(word in lowered for word in _RESOURCES)


def is_sent_password(word: str, following: str) -> bool:
    """Return whether what is sent behind PASS is a password, and not the name of a test or of a file."""
    is_line_end = following in {"", "\n", "\r", "\\", '"', "'"}
    return is_line_end and looks_like_password(word) and _NAME_SIGNS.isdisjoint(word)


def is_small_number(value: str, name: str) -> bool:
    """Return whether a value is a number too short to be a password, or too short to be a token."""
    if value.isdigit() and "tok" in name.lower():
        return len(value) < 2 * _MIN_PLAIN_NUMBER
    return is_short_number(value)


def names_a_secret(value: str, name: str = "") -> bool:
    """Return whether a value is a name again, and not a password like one: `token: access_token`.

    >>> [names_a_secret(value, "password") for value in ("db_password", "userPassword", "supersecret")]
    [True, True, False]
    """
    is_name = value.replace("_", "").replace("-", "").replace(".", "").isalpha()
    if not is_name or judge_name(value) is Strength.NONE:
        return False
    is_word = value.lower() in words_of("secret words")
    if is_word or not name or any(word in name.lower() for word in _RESOURCES):
        return True
    is_written_like_one = value.lower().endswith(_NAME_ENDINGS) or "_" in value
    return is_written_like_one and not (value.islower() and value.isalpha())
