"""What changes in a text although nothing has changed: durations, clocks, ids, process numbers.

Only named things are taken out. A bare number stays: "step 3 of 9" and "step 4 of 9" differ, and that is
progress.
"""

import re
from itertools import islice
from typing import Final

_ID: Final = r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
_KINDS: Final = (
    ("time", r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?"),
    ("time", r"\d{1,2}:\d\d:\d\d(?:[.,]\d+)?(?: ?[AP]M)?"),
    ("id", _ID),
    ("address", r"0x[0-9a-fA-F]{4,}"),
    ("duration", r"\d+(?:\.\d+)? ?(?:ms|µs|us|ns|msecs?|secs?|seconds?|mins?|minutes?|s)\b"),
    ("rate", r"\d+(?:\.\d+)? ?(?:[kKMG]i?B|bytes)/s\b"),
    ("epoch", r"\b1[4-9]\d{8}(?:\d{3}|\.\d+)?\b"),
    ("counter", r"\b\d+x\b"),
)
# A name followed by its number: "pid 4001", "session sess-3", "elapsed_s": 300, "request id: ab12".
_NAMED: Final = (
    r"(?:(?i:\b(?:p?pid|tid|sess(?:ion)?|elapsed|duration|took|uptime|timestamp|nonce|attempt|retry|ref|uid)"
    r"|(?<![a-z])id)|(?<=[a-z])Id)"
    r"(?i:[ _-]?(?:id|no|number|s|ms|secs?|seconds?|count))?[\"']? ?[=:#]? ?[\"']?"
    r"(?:[A-Za-z]{1,5}[-_])?[0-9a-fA-F-]*\d[0-9a-fA-F-]*(?:\.\d+)?(?: ?(?:ms|s|secs?|seconds?|min)\b)?"
)
_TEMPORARY: Final = r"(?:/private)?(?:/tmp|/var/folders|/var/tmp)/[^\s\"'<>,;:)\]]+"
# Told apart by their first character before anything else is tried: most characters begin none of them.
_NUMERIC: Final = "|".join(f"(?:{pattern})" for _, pattern in _KINDS)
_ALL: Final = re.compile(rf"(?=[A-Za-z])(?:{_NAMED}|{_ID})|(?=/){_TEMPORARY}|(?=\d)(?:{_NUMERIC})")
_NUMBER: Final = re.compile(r"[0-9a-fA-F]*\d[0-9a-fA-F]*")
_NAME_WITHIN: Final = 28


def stable(text: str) -> str:
    """The text with everything volatile replaced by one mark.

    >>> stable("12 dashboards [exit 0, 83ms, pid 4001]")
    '12 dashboards [exit 0, ~, ~]'
    >>> stable("step 3 of 9")
    'step 3 of 9'
    """
    return _ALL.sub("~", text)


def volatile_parts(text: str, most: int = 5) -> tuple[str, ...]:
    """What `stable` takes out of a text, the first few of it.

    >>> volatile_parts("12 dashboards [exit 0, 83ms, pid 4001]")
    ('83ms', 'pid 4001')
    """
    return tuple(found[0] for found in islice(_ALL.finditer(text), most))


def skeleton(text: str) -> str:
    """The text with all its numbers made alike, decimal and hexadecimal.

    >>> skeleton("line 9: 3fa2 is no name") == skeleton("line 10: b7c01 is no name")
    True
    """
    return _NUMBER.sub("0", text)


def alike(one: str, other: str) -> bool:
    """Whether two texts are the same but for noise.

    Cheap where they are not: the place at which they part is looked at first, and if nothing volatile
    stands there, that is the answer.

    >>> alike("ran 9.8s, ok", "ran 10.2s, ok"), alike("step 3 of 9", "step 4 of 9")
    (True, False)
    """
    place = _parted_at(one, other)
    return _is_volatile(one, place) and _is_volatile(other, place) and stable(one) == stable(other)


def _parted_at(one: str, other: str) -> int:
    """How many characters two texts have in common at their beginning."""
    same, end = 0, min(len(one), len(other))
    while same < end:
        middle = (same + end) // 2 + 1
        if one[same:middle] == other[same:middle]:
            same = middle
        else:
            end = middle - 1
    return same


def _is_volatile(text: str, place: int) -> bool:
    """Whether something volatile stands at that place of a text."""
    start = max(0, place - _NAME_WITHIN)
    return any(
        found.start() <= place - start <= found.end()
        for found in _ALL.finditer(text[start : place + _NAME_WITHIN])
    )
