"""Find credentials in addresses, and private keys in any escaping."""

import re
from collections.abc import Iterator
from typing import Final

from steadyhelm.redaction.tokens import SecretSpan
from steadyhelm.redaction.values import decode_base64, measure_mixing

_MIN_TOKEN_CHARS: Final = 16
_MIN_PLAIN_TOKEN_CHARS: Final = 20
_MIN_MIXING: Final = 0.1
_MAX_KEY_CHARS: Final = 20_000

_USER_INFO: Final = re.compile(
    r"(?:://|(?<=\bsip:))([^\s/:@\"'<>\\]{0,200})"
    r"(?::((?!\d{1,5}[/?#\s\"'\\])(?:(?!://)[^\s@\"<>]){0,200}(?:@[^\s@\"<>:]{1,100}){0,3}))?@(?=[\w.\[{$<-])",
    re.ASCII,
)
_DATA_SOURCE: Final = re.compile(
    r"(?<![\w/:])[\w.-]{1,64}:([^\s:@/\"'<>]{1,100})@(?:(?=(?:tcp|udp|unix)\()|(?=/\w))", re.ASCII
)
_ENCODED_USER_INFO: Final = re.compile(
    r"%3A%2F%2F[\w.~-]{0,60}%3A((?:[\w.~!*-]|%(?!40|2F|3A)[0-9A-F]{2}){1,200}?)%40", re.IGNORECASE
)
_PASSWORD_FILE: Final = re.compile(
    r"(?<![\w.*-])[\w.*-]{1,80}:(?:\d{4}|\*):[\w*-]{1,60}:[\w*.-]{1,60}:([^\s:\"'\\]{3,100})", re.ASCII
)
"""A line of `.pgpass`: host, port, database, user and password."""
_KEY_BEGIN: Final = re.compile(
    r"-{4,5} ?BEGIN(?:[ +_]|%20|[A-Za-z0-9]){1,40}?"
    r"(?:PRIVATE(?:[ +_]|%20)KEY|Static key V1)(?:(?:[ +_]|%20)BLOCK)?(?: ?-{4,5})"
)
_KEY_END: Final = re.compile(
    r"-{4,5} ?END(?:[ +_]|%20|[A-Za-z0-9]){1,60}-{4,5}|Private-MAC:[ ]?[0-9a-f]{40,64}"
)
_PUTTY_BEGIN: Final = re.compile(r"Private-Lines:[ ]?\d{1,4}")
_CUT_KEY_END: Final = re.compile(
    r"-{4,5} ?END(?:[ +_]|%20|[A-Z0-9]){1,40}?PRIVATE(?:[ +_]|%20)KEY(?:(?:[ +_]|%20)BLOCK)?-{4,5}"
)
KEY_HINTS: Final = ("PRIVATE", "Private-Lines", "Static key")
"""Texts without which no key in a text begins."""
_TEMPLATES: Final = frozenset({"password", "pass", "passwd", "pwd", "secret", "token", "xxx", "xxxx", "pw"})
_CUT: Final = "characters]…"
_MAX_TAIL_CHARS: Final = 8000
_BREAK_BACKWARDS: Final = r"(?:\n\r?|n\\{1,8}(?:r\\{1,8})?)[ \t]{0,8}"
_TAIL_BACKWARDS: Final = re.compile(
    rf"{_BREAK_BACKWARDS}=?=?[A-Za-z0-9+/]{{1,100}}(?:{_BREAK_BACKWARDS}[A-Za-z0-9+/]{{40,100}}){{0,200}}"
)
"""The lines of a key in front of its end, read from the end."""
_ENCODED_KEY: Final = re.compile(r"LS0tLS1CRUdJTi[A-Za-z0-9+/=]{40,20000}")


def find_url_credentials(text: str, *, is_gate: bool = False) -> Iterator[SecretSpan]:
    """Yield passwords and tokens in front of the host of an address; for a first look, all that may be some.

    >>> [text[a:b] for text in ["https://ann:hunter2@example.org"] for a, b, _ in find_url_credentials(text)]
    ['ann:hunter2']
    """
    if "%40" in text:
        yield from _find_groups(_ENCODED_USER_INFO, text)
    if ":5432:" in text or ":*:" in text:
        yield from _find_groups(_PASSWORD_FILE, text)
    if "@" not in text:
        return
    if "@tcp(" in text or "@unix(" in text or "@/" in text:
        yield from _find_groups(_DATA_SOURCE, text)
    if "://" not in text and "sip:" not in text:
        return
    for match in _USER_INFO.finditer(text):
        user, password = match[1], match[2]
        if not password:
            if _is_token_user(user):
                yield SecretSpan(*match.span(1), "URL credentials")
        elif is_gate or not _is_template(password):
            yield SecretSpan(match.start(1), match.end(2), "URL credentials")


def find_private_keys(text: str) -> Iterator[SecretSpan]:
    """Yield private keys, also where the text was cut in the middle of one."""
    at = 0
    if any(hint in text for hint in KEY_HINTS):
        for match in sorted((*_KEY_BEGIN.finditer(text), *_PUTTY_BEGIN.finditer(text)), key=re.Match.start):
            if match.start() < at:
                continue
            end = _KEY_END.search(text, match.end(), match.end() + _MAX_KEY_CHARS)
            at = end.end() if end else len(text)
            yield SecretSpan(match.start(), at, "private key")
        yield from _find_cut_key(text, at)
    if "LS0tLS1CRUdJTi" in text:
        for match in _ENCODED_KEY.finditer(text):
            if b"PRIVATE KEY" in decode_base64(match[0][:80]):
                yield SecretSpan(*match.span(), "private key")


def _find_cut_key(text: str, at: int) -> Iterator[SecretSpan]:
    """Yield the end of a key whose beginning was cut away, or was never read."""
    cut = text.find(_CUT, at)
    end = _CUT_KEY_END.search(text, at if cut < 0 else cut)
    if not end:
        return
    if cut < 0:
        before = text[max(at, end.start() - _MAX_TAIL_CHARS) : end.start()]
        tail = _TAIL_BACKWARDS.match(before[::-1])
        if tail:
            yield SecretSpan(end.start() - tail.end(), end.end(), "private key")
    elif "-----" not in text[cut : end.start()]:
        yield SecretSpan(cut + len(_CUT), end.end(), "private key")


def _find_groups(pattern: re.Pattern[str], text: str) -> Iterator[SecretSpan]:
    return (SecretSpan(*match.span(1), "URL credentials") for match in pattern.finditer(text))


def _is_template(password: str) -> bool:
    return password.startswith(("[redacted", "$", "{", "<", "%(", "*")) or password.lower() in _TEMPLATES


def _is_token_user(user: str) -> bool:
    has_both = any(map(str.isdigit, user)) and any(map(str.isalpha, user))
    return (
        len(user) >= _MIN_TOKEN_CHARS
        and has_both
        and (measure_mixing(user) >= _MIN_MIXING or len(user) >= _MIN_PLAIN_TOKEN_CHARS)
    )
