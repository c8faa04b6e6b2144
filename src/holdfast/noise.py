"""What changes in a text although nothing has changed: durations, clocks, ids, process numbers.

Only named things are taken out. A bare number stays: "step 3 of 9" and "step 4 of 9" differ, and that is
progress.
"""

import re
from typing import Final

_KINDS: Final = (
    ("time", r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?"),
    ("time", r"\d{1,2}:\d\d:\d\d(?:[.,]\d+)?(?: ?[AP]M)?"),
    ("id", r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"),
    ("address", r"0x[0-9a-fA-F]{4,}"),
    ("duration", r"\d+(?:\.\d+)? ?(?:ms|µs|us|ns|msecs?|secs?|seconds?|mins?|minutes?|s)\b"),
    ("rate", r"\d+(?:\.\d+)? ?(?:[kKMG]i?B|bytes)/s\b"),
    ("epoch", r"\b1[4-9]\d{8}(?:\d{3}|\.\d+)?\b"),
    ("counter", r"\b\d+x\b"),
)
# A name followed by its number: "pid 4001", "session sess-3", "elapsed_s": 300, "request id: ab12".
_NAMED: Final = (
    r"(?i:\b(?:pid|tid|ppid|session|sess|elapsed|duration|took|uptime|timestamp|nonce|attempt|retry|ref"
    r"|uid|(?:\w{0,20}[_-])?id|(?-i:[a-z]\w{0,20}Id))"
    r"(?:[ _-]?(?:id|no|number|s|ms|secs?|seconds?|count))?[\"']? ?[=:#]? ?[\"']?)"
    r"(?:[A-Za-z]{1,5}[-_])?[0-9a-fA-F-]*\d[0-9a-fA-F-]*(?:\.\d+)?(?: ?(?:ms|s|secs?|seconds?|min)\b)?"
)
_TEMPORARY: Final = r"(?:/private)?(?:/tmp|/var/folders|/var/tmp)/[^\s\"'<>,;:)\]]+"
_ALL: Final = re.compile("|".join([_NAMED, _TEMPORARY, *(f"(?:{pattern})" for _, pattern in _KINDS)]))
_NUMBER: Final = re.compile(r"[0-9a-fA-F]*\d[0-9a-fA-F]*")
_HEXADECIMAL: Final = frozenset("0123456789abcdefABCDEF")
_PLACE_WITHIN: Final = 40


def stable(text: str) -> str:
    """The text with everything volatile replaced by one mark.

    >>> stable("12 dashboards [exit 0, 83ms, pid 4001]")
    '12 dashboards [exit 0, ~, ~]'
    >>> stable("step 3 of 9")
    'step 3 of 9'
    """
    return _ALL.sub("~", text)


def skeleton(text: str) -> str:
    """The text with all its numbers made alike, decimal and hexadecimal.

    >>> skeleton("line 9: 3fa2 is no name") == skeleton("line 10: b7c01 is no name")
    True
    """
    return _NUMBER.sub("0", text)


def may_be_alike(one: str, other: str) -> bool:
    """Whether two texts may be the same but for noise: they part in a number, or in a temporary path.

    Cheap, so that `stable` need not look at texts that have nothing in common.

    >>> may_be_alike("ran 9.8s, ok", "ran 10.2s, ok"), may_be_alike("Kim was here", "Lee was here")
    (True, False)
    """
    same, end = 0, min(len(one), len(other))
    while same < end:
        middle = (same + end) // 2 + 1
        if one[same:middle] == other[same:middle]:
            same = middle
        else:
            end = middle - 1
    first, second = one[same : same + 1], other[same : same + 1]
    if first.isdigit() or second.isdigit() or (first in _HEXADECIMAL and second in _HEXADECIMAL):
        return True
    before = one[max(0, same - _PLACE_WITHIN) : same]
    return "/tmp" in before or "/var/" in before  # noqa: S108 - a text that names it, not a file of ours
