"""Find tokens with a known prefix, and long runs of letters and digits that look drawn at random."""

import re
import string
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from hashlib import blake2b
from typing import AnyStr, Final, NamedTuple

from steadyhelm.lexicons import load_lexicon
from steadyhelm.redaction.names import words_of
from steadyhelm.redaction.values import looks_random, measure_mixing


class SecretSpan(NamedTuple):
    """A secret in a text: where it begins and ends, and the rule that found it."""

    start: int
    end: int
    rule: str


_ID_KEY: Final = b"steadyhelm: a token in an id"
"""The key is fixed, so that every process that writes to a database, wherever it is mounted or moved to,
hides an id in the same way without asking the database first. It need not be secret: what is hashed is a
token with a known prefix, which has at least 80 random bits and cannot be found by trying."""
_ID_HASH_BYTES: Final = 12
_HEAD_CHARS: Final = 2
"""Characters by which the shapes of a prefix are looked up."""
_MIN_TOKEN_CHARS: Final = 20
_MIN_RANDOM_CHARS: Final = 32
_MIN_PART_MIXING: Final = 0.22
_MIN_DIGITS: Final = 5
_MIN_DIFFERENT_CHARS: Final = 4
_MIN_GATE_MIXING: Final = 0.18
"""A random run of 32 characters reaches it with up to 15 others in front, such as an escape."""
_MIN_PREFIXED_MIXING: Final = 0.15
_RUNS_KEPT: Final = 2048
_MAX_KEPT_CHARS: Final = 200
_SECRET_KEY_CHARS: Final = 40
"""Characters of a secret key of AWS, the best known one that may contain a slash."""

_ALPHANUMERIC: Final = frozenset(string.ascii_letters + string.digits)
_WORDS: Final = bytes(0x61 if chr(byte) in _ALPHANUMERIC | set("_.-") else 0x20 for byte in range(256))
_BASE64: Final = bytes(0x61 if chr(byte) in _ALPHANUMERIC | set("_+/=-") else 0x20 for byte in range(256))
_ESCAPE: Final = re.compile(r"(?:\\[nrtbf]|%[0-9A-Fa-f]{2}|\\x[0-9A-Fa-f]{2}|\\u[0-9A-Fa-f]{4})\Z")
_VARIED: Final = re.compile(r"[0-9]|[A-Z][A-Za-z.]{0,12}[_-]|[_-][A-Za-z.]{0,12}[A-Z]|[A-Za-z]{20}")
"""A token has a digit in it, capitals beside the sign behind its prefix, or more letters than a word."""
_LONGEST_WORD_CHARS: Final = 19
_LITERAL: Final = re.compile(r"(?:[A-Za-z0-9_@-]|\\\.)+(?![*?{+])")
_LOOK_BEHIND: Final = re.compile(r"^\(\?<[=!][^()]{1,40}\)")
_PART: Final = re.compile(r"[A-Za-z0-9]{8,}")
_WITH_SLASHES: Final = ("whsec_", "glc_", "fm2_", "fm1a_", "fm1r_", "ptr_", "ABSK", "bedrock-api-key-")
"""Prefixes of tokens whose random part may have slashes in it."""
_WORD_IN_PATH: Final = re.compile(r"[a-z]{6}")
_FILE_ENDING: Final = re.compile(r"\.[a-z][a-z0-9]{1,4}(?![A-Za-z0-9])")
_ID_BEFORE: Final = re.compile(
    r"(?:(?:[iI][dD]|hash|sha\d{0,3}|SHA\d{1,3}|digest|checksum|etag|ETag|cursor|integrity|h1|base64|fingerprint|version|commit|rev"
    r"|nonce|signature|Signature|resolved|content|bitcoin"
    r"|(?:[nN]ext|[pP]age|[cC]ontinuation|[sS]ync)\w{0,16}[tT]oken)"
    r"[\"'\\]{0,4}[ \t]{0,2}[:=,-][ \t]{0,2}[\"'\\]{0,4}"
    r"|ssh-[a-z0-9-]{2,20} |[/?&.@~]|%2F|\w/)\Z"
)
_MAX_BLOCK_CHARS: Final = 8000
_PUBLIC_BLOCK: Final = re.compile(
    r"BEGIN (?:[A-Z0-9 ]{0,12}PUBLIC KEY(?: BLOCK)?|(?:TRUSTED |X509 )?CERTIFICATE(?: REQUEST)?"
    r"|[A-Z]{3} SIGNATURE)\Z"
)
_SEEN_BEFORE: Final = 32
_HEX_TOKEN_CHARS: Final = 32
_NUMBERS_BEFORE: Final = re.compile(r"[0-9]/[0-9]{12,18}:\Z")
_KEY_WITH_PARTS: Final = re.compile(r"[0-9a-f]{32}-(?:us[0-9]{1,2}|[0-9a-f]{8}-[0-9a-f]{8})")


def find_tokens(text: str, data: bytes | None = None) -> Iterator[SecretSpan]:
    """Yield the tokens with a known prefix, in order; `data` is the text with one byte a character.

    >>> [span.rule for span in find_tokens("export T=ghp_0aB1cD2eF3gH4iJ5kL6mN7oP8qR9sT0u")]
    ['GitHub token']
    """
    at = 0
    shapes = _load_shapes()
    for begin, end in _find_runs(data or to_bytes(text), _WORDS, _MIN_TOKEN_CHARS):
        before = begin - 1 if begin and text[begin - 1] in "\\%" else begin
        if end - begin >= _HEX_TOKEN_CHARS and begin >= at and _has_hex_token(text, begin, end):
            yield SecretSpan(2 * begin - before, end, "token of a service")
            at = end
            continue
        if not _may_have_token(text[before:end]):
            continue
        for head in shapes.heads.finditer(text, begin, end):
            start = head.start()
            if start < at or not _begins_token(text, start):
                continue
            for rule, regex in shapes.by_head[text[start : start + _HEAD_CHARS]]:
                match = regex.match(text, start)
                if match and _has_random_part(match[0]):
                    yield SecretSpan(start, match.end(), rule)
                    at = match.end()
                    break


def find_random_text(text: str) -> Iterator[SecretSpan]:
    """Yield the long runs that look random, in order."""
    for start, end in _find_runs(to_bytes(text), _BASE64, _MIN_RANDOM_CHARS):
        run = text[start:end]
        name, _, value = run.rpartition("/") if "/ptr_" in run else run.partition("=")
        # `name=value`, and not the signs at the end of base64
        at, run = (start + len(name) + 1, value) if value.strip("=") else (start, run)
        if len(run) >= _MIN_RANDOM_CHARS:
            yield from _judge_run(text, at, run)


def may_have_random_text(data: bytes) -> bool:
    """Return whether encoded text has a run that may look random, with an escape in front of it."""
    for start, end in _find_runs(data, _BASE64, _MIN_RANDOM_CHARS):
        if _may_have_random_part(data[start:end]):
            return True
    return False


def to_bytes(text: str) -> bytes:
    """Return a text with one byte a character: places in one are places in the other."""
    return text.encode("latin-1", "replace")


def _find_runs(data: bytes, table: bytes, least: int) -> Iterator[tuple[int, int]]:
    """Yield where the text has at least so many characters of an alphabet in a row."""
    marks = data.translate(table)
    probe = b"a" * least
    start = marks.find(probe)
    while start >= 0:
        end = marks.find(b" ", start + least)
        end = len(marks) if end < 0 else end
        yield start, end
        start = marks.find(probe, end)


def _begins_token(text: str, start: int) -> bool:
    """Return whether a token may begin here: at a word, or behind an escape that is written with letters."""
    return (
        not start
        or text[start - 1] not in _ALPHANUMERIC
        or _ESCAPE.search(text[max(0, start - 6) : start]) is not None
    )


def _keep_answers(judge: Callable[[AnyStr], bool]) -> Callable[[AnyStr], bool]:
    """Keep the answers about runs: agents name the same files, modules and tests again and again."""
    judge_short = lru_cache(maxsize=_RUNS_KEPT)(judge)
    return lambda run: judge_short(run) if len(run) <= _MAX_KEPT_CHARS else judge(run)


def _has_hex_token(text: str, begin: int, end: int) -> bool:
    """Return whether a run is a token of hex digits without a prefix: `1/12000000001:<hex>`, `<hex>-us14`.

    Behind a backslash the letter of an escape is in front of it.
    """
    if end - begin == _HEX_TOKEN_CHARS:
        return (
            text[begin - 1 : begin] == ":"
            and _NUMBERS_BEFORE.search(text[max(0, begin - 24) : begin]) is not None
        )
    dash = text.find("-", begin + _HEX_TOKEN_CHARS, begin + _HEX_TOKEN_CHARS + 2)
    if dash < 0:
        return False
    start = begin + (text[begin - 1 : begin] == "\\")
    return dash - start == _HEX_TOKEN_CHARS and _KEY_WITH_PARTS.fullmatch(text, start, end) is not None


@_keep_answers
def _may_have_token(run: str) -> bool:
    """Return whether a known prefix is in a run, where a token may begin.

    A backslash or a percent sign in front of the run comes with it: an escape may end in the run.
    """
    if not _VARIED.search(run):
        return False
    return any(_begins_token(run, head.start()) for head in _load_shapes().heads.finditer(run))


def _has_random_part(token: str) -> bool:
    if sum(map(str.isdigit, token[_HEAD_CHARS:])) >= _MIN_DIGITS:
        return True
    for part in _PART.findall(token[_HEAD_CHARS:]):
        if len(set(part)) < _MIN_DIFFERENT_CHARS:  # `xxxxxxxx` in place of the token
            continue
        digits = sum(map(str.isdigit, part))
        if (
            len(part) > _LONGEST_WORD_CHARS
            or digits > 1
            or (digits and not part.islower())
            or measure_mixing(part) >= _MIN_PART_MIXING
        ):
            return True
    return False


@_keep_answers
def _may_have_random_part(run: bytes) -> bool:
    """Return whether a run, or what is between two slashes of it, may look random."""
    text = run.decode()
    return (
        _may_look_random(text)
        or ("/" in text and any(map(_may_look_random, text.split("/"))))
        or ("=" in text and _may_look_random(text.partition("=")[2]))
    )


def _may_look_random(run: str) -> bool:
    if len(run) < _MIN_RANDOM_CHARS or run.islower() or run.isupper():
        return False
    if any(prefix in run for prefix in _WITH_SLASHES):  # judged by nothing else
        return measure_mixing(run) >= _MIN_PREFIXED_MIXING
    return not run.isalpha() and measure_mixing(run) >= _MIN_GATE_MIXING


def _judge_run(text: str, start: int, run: str) -> Iterator[SecretSpan]:
    if run.startswith(_WITH_SLASHES):
        yield SecretSpan(start, start + len(run), "token with slashes")
        return
    before = text[max(0, start - _SEEN_BEFORE) : start]
    end = start + len(run)
    if not looks_random(run) or _ID_BEFORE.search(before) or _FILE_ENDING.match(text, end):
        return
    if _is_in_public_block(text, start):
        return
    if "/" in run and (len(run) != _SECRET_KEY_CHARS or _WORD_IN_PATH.search(run)):
        return
    prefix = re.split(r"[_-]", run, maxsplit=1)[0]
    if prefix.lower() in words_of("id prefixes"):
        return
    yield SecretSpan(start, end, "random text")


def _is_in_public_block(text: str, start: int) -> bool:
    """Return whether a place is inside a certificate, a public key or a signature between lines of dashes."""
    dashes = text.rfind("-----", max(0, start - _MAX_BLOCK_CHARS), start)
    return dashes > 0 and _PUBLIC_BLOCK.search(text[max(0, dashes - _SEEN_BEFORE) : dashes]) is not None


class _Shapes(NamedTuple):
    """The shapes of tokens by the first characters of their prefix, and a pattern that finds any prefix."""

    heads: re.Pattern[str]
    by_head: dict[str, list[tuple[str, re.Pattern[str]]]]


@cache
def _load_shapes() -> _Shapes:
    by_head: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
    prefixes: dict[str, list[str]] = {}
    for entry in load_lexicon("steadyhelm.redaction", "vendor_tokens").entries.values():
        sources: dict[str, list[str]] = {}
        for pattern in (entry.pattern,) if isinstance(entry.pattern, str) else entry.pattern:
            prefix = _read_prefix(pattern)
            sources.setdefault(prefix[:_HEAD_CHARS], []).append(pattern)
            prefixes.setdefault(prefix[0], []).append(re.escape(prefix[1:]))
        for head, patterns in sources.items():
            by_head.setdefault(head, []).append((entry.name, re.compile("|".join(patterns), re.ASCII)))
    heads = "|".join(f"{first}(?:{'|'.join(sorted(set(rest)))})" for first, rest in prefixes.items())
    return _Shapes(re.compile(heads), by_head)


def _read_prefix(pattern: str) -> str:
    """Return the characters that a pattern begins with."""
    match = _LITERAL.match(_LOOK_BEHIND.sub("", pattern))
    assert match, f"{pattern} has no prefix"
    return match[0].replace("\\", "")


def hide_tokens(text: str) -> str:
    """Return an id with a hash in place of each token with a known prefix. Other ids stay.

    >>> hide_tokens("toolu_01A09q90qw90lq917835lq9")
    'toolu_01A09q90qw90lq917835lq9'
    >>> hide_tokens("run of ghp_0aB1cD2eF3gH4iJ5kL6mN7oP8qR9sT0u")
    'run of redacted-344e33f7d0eac8a42548f78f'
    """
    if len(text) < _MIN_TOKEN_CHARS:
        return text
    parts: list[str] = []
    at = 0
    for start, end, _ in find_tokens(text):
        digest = blake2b(text[start:end].encode(), key=_ID_KEY, digest_size=_ID_HASH_BYTES).hexdigest()
        parts += text[at:start], f"redacted-{digest}"
        at = end
    return "".join((*parts, text[at:])) if parts else text
