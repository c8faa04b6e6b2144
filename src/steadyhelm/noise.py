"""Mask what differs in a text although nothing has changed: durations, clocks, ids, process numbers.

Only named things are masked. A bare number stays: "step 3 of 9" and "step 4 of 9" differ, and that is
progress.
"""

import functools
import re
from itertools import islice
from typing import Final

_UUID: Final = r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
_ANYWHERE_IN_DIGITS: Final = (
    r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?",
    r"\d{1,2}:\d\d(?::\d\d(?:[.,]\d+)?(?: ?[AP]M)?| ?[AP]M\b)",
    _UUID,
    r"0x[0-9a-fA-F]{4,}",
)
_DURATION: Final = r"(?:ms|µs|us|ns|msecs?|secs?|seconds?|mins?|minutes?|s)\b"
_RATE: Final = r"(?:[kKMG]i?B|bytes)/s\b"
_AGE: Final = r"(?:hours?|hrs?|h|days?|d|weeks?|months?|years?) ago\b"
_MONTH: Final = r"(?:Jan|Feb|Mar|Apr|May|June?|July?|Aug|Sept?|Oct|Nov|Dec)[a-z]{0,6}\.?"
# A duration such as 1.5 s or 5m12s, a rate or an age, a day of a named year, seconds since 1970, a counter
# such as "3x".
_WHOLE_NUMBERS: Final = (
    rf"\d+(?:\.\d+)? ?(?:{_DURATION}|{_RATE}|{_AGE})",
    r"(?:\d+[dhm] ?){1,3}\d+[hms]\b",
    rf"\d{{1,2}} {_MONTH},? \d{{4}}\b",
    r"\b1[4-9]\d{8}(?:\d{3}|\.\d+)?\b",
    r"\b\d+x\b",
)
# A name followed by its number: "pid 4001", "session sess-3", "elapsed_s": 300, "request id: ab12".
_NUMBER_OF_NAME: Final = (
    r"(?i:[ _-]?(?:id|no|number|s|ms|secs?|seconds?|count))?[\"']? ?[=:#]? ?[\"']?"
    r"(?:[A-Za-z]{1,5}[-_])?[0-9a-fA-F-]*\d[0-9a-fA-F-]*(?:\.\d+)?(?: ?(?:ms|s|secs?|seconds?|min)\b)?"
)
_NAMED_NUMBER: Final = (
    r"(?i:\b(?:p?pid|tid|sess(?:ion)?|elapsed|duration|latency|took|uptime|timestamp|nonce|attempt|retry|ref"
    rf"|uid)|(?<![a-z])(?:id|ms|ts)){_NUMBER_OF_NAME}"
)
_NUMBER_OF_ID: Final = rf"(?<=[a-z])Id{_NUMBER_OF_NAME}"
# A name followed by what a machine made up for this one request: "request": "97d3ac36", etag="db598738".
_NAMED_RANDOM: Final = (
    r"(?i:\b(?:request|trace|span|correlation|e?tag|rid|csrf|sig|signature|nonce|operation|reference)"
    r"(?:[ _-]?(?:id|token|key))?[\"']? ?[=:#]? ?[\"']?(?:[a-z]{1,5}[-_])?)"
    r"(?=[a-fA-F-]*\d)(?=[\d-]*[a-fA-F])[0-9a-fA-F-]{6,64}\b"
)
# What is left of a limit on requests, and how old or how lasting an answer is.
_QUOTA: Final = (
    r"(?i:\b(?:x[_-])?rate[_ -]?limit(?:s|ing)?[\"']?[ :]{1,3}\{[^{}]{0,120}\}"
    r"|\b(?:(?:x[_-])?rate[_ -]?limit|quota|requests|credits|calls)[_ -](?:remaining|left|used)[\"']? ?[=:] ?"
    r"[\"']?\d+"
    r"|\b(?:cache[_ -]?age|ttl|expires[_ -]in)(?:_(?:s|ms|seconds))?[\"']? ?[=:] ?[\"']?\d+)"
)
_TEMPORARY_PATH: Final = r"(?:/private)?(?:/tmp|/var/folders|/var/tmp)/[^\s\"'<>,;:)\]]+"
# The characters around are tested before anything else: most places begin none of them. Names begin a word,
# and of what begins within one the first letter is known.
_NUMERIC: Final = "|".join((*_ANYWHERE_IN_DIGITS, rf"(?<!\d)(?:{'|'.join(_WHOLE_NUMBERS)})"))
_AT_WORD: Final = (
    rf"(?=[adeilmnprstuADEILMNPRSTU]){_NAMED_NUMBER}|(?=[a-fA-F]){_UUID}"
    rf"|(?=[cenorstCENORST]){_NAMED_RANDOM}|(?=[ceqrtxCEQRTX]){_QUOTA}"
)
_IN_WORD: Final = rf"(?=I){_NUMBER_OF_ID}|(?=[a-fA-F]){_UUID}"
_VOLATILE: Final = re.compile(
    rf"(?=[A-Za-z])(?:(?<![A-Za-z])(?:{_AT_WORD})|(?<=[A-Za-z])(?:{_IN_WORD}))"
    rf"|(?=/){_TEMPORARY_PATH}|(?=\d)(?:{_NUMERIC})"
)
MADE_UP_CHARACTERS: Final = b"0123456789abcdefABCDEF:.-+TZPM"
"""What times and identifiers consist of: the other letters of a text tell whether it has changed."""

_MAX_CACHED_CHARS: Final = 512
_TEXTS_CACHED: Final = 32
_NUMBER: Final = re.compile(r"(?<![0-9a-fA-F])[a-fA-F]*\d[0-9a-fA-F]*")
_CONTEXT_CHARS: Final = 48


def mask_noise(text: str) -> str:
    """Return the text with everything volatile replaced by one mark.

    >>> mask_noise("12 dashboards [exit 0, 83ms, pid 4001]")
    '12 dashboards [exit 0, ~, ~]'
    >>> mask_noise("step 3 of 9")
    'step 3 of 9'
    """
    # Two detectors and both sides of a comparison ask for the same few results, call after call.
    return _mask_short_text(text) if len(text) <= _MAX_CACHED_CHARS else _VOLATILE.sub("~", text)


@functools.lru_cache(maxsize=_TEXTS_CACHED)
def _mask_short_text(text: str) -> str:
    return _VOLATILE.sub("~", text)


def find_volatile_parts(text: str, limit: int = 5) -> tuple[str, ...]:
    """Return what `mask_noise` replaces in a text, the first few of it.

    >>> find_volatile_parts("12 dashboards [exit 0, 83ms, pid 4001]")
    ('83ms', 'pid 4001')
    """
    return tuple(found[0] for found in islice(_VOLATILE.finditer(text), limit))


def mask_numbers(text: str) -> str:
    """Return the text with all its numbers replaced by 0, decimal and hexadecimal.

    >>> mask_numbers("line 9: 3fa2 is no name") == mask_numbers("line 10: b7c01 is no name")
    True
    """
    return _NUMBER.sub("0", text)


def find_difference(one: str, other: str) -> int:
    """Return how many characters two texts have in common at their beginning."""
    same, end = 0, min(len(one), len(other))
    while same < end:
        middle = (same + end) // 2 + 1
        if one[same:middle] == other[same:middle]:
            same = middle
        else:
            end = middle - 1
    return same


def is_equal_without_noise(one: str, other: str) -> bool:
    """Return whether two texts are equal except for noise.

    Cheap where they are not: the first difference is checked first, and if nothing volatile is there, the
    texts differ.

    >>> is_equal_without_noise("ran 9.8s, ok", "ran 10.2s, ok")
    True
    >>> is_equal_without_noise("step 3 of 9", "step 4 of 9")
    False
    """
    is_short = max(len(one), len(other)) <= _MAX_CACHED_CHARS
    return _is_short_pair_equal(one, other) if is_short else _is_pair_equal(one, other)


def _is_pair_equal(one: str, other: str) -> bool:
    place = find_difference(one, other)
    return _is_volatile(one, place) and _is_volatile(other, place) and mask_noise(one) == mask_noise(other)


# The same two results are compared by each detector that asks whether a call has repeated.
_is_short_pair_equal: Final = functools.lru_cache(maxsize=_TEXTS_CACHED)(_is_pair_equal)


def _is_volatile(text: str, place: int) -> bool:
    """Return whether something volatile is at that place of a text."""
    start = max(0, place - _CONTEXT_CHARS)
    return any(
        found.start() <= place - start <= found.end()
        for found in _VOLATILE.finditer(text[start : place + _CONTEXT_CHARS])
    )
