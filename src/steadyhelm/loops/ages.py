"""How long something has been there: it grows by itself while an agent waits, and is no progress."""

import re
from typing import Final

from steadyhelm.noise import mask_noise

_MAX_LENGTH_DIFFERENCE: Final = 16

_SPAN: Final = r"\d{1,4}(?:\.\d)? ?(?:[smhd]|mins?|minutes?|hours?|hrs?|days?)(?: ?\d{1,2} ?[smh])?"
_AGE: Final = re.compile(
    # A column of a table: "ingest-0   0/1   Pending   0   4m".
    r"(?:(?<=[ \t]{2})|(?<=\t))\d{1,4}[smhd](?:\d{1,2}[smh])?(?=[ \t]{0,40}(?:\n|\Z)|[ \t]{2}|\t)"
    rf"|(?i:(?<=\bage)|(?<=\bfor)|(?<=\bup)|(?<=\bsince)|(?<=uptime)|(?<=\bwaited)|(?<=\bwaiting)|(?<=\bqueued))"
    rf"[\"']?(?: ?[=:])? ?[\"']?{_SPAN}(?![\w.])"
)
_SHRINKS: Final = re.compile(r"(?i)\b(?:eta|left|remain\w*|to go|due|expires?)\b")


def is_equal_but_age(one: str, other: str) -> bool:
    """Return whether two texts differ in nothing but noise and how long something has been there.

    >>> is_equal_but_age("ingest-0   0/1   Pending   0   1m", "ingest-0   0/1   Pending   0   3m")
    True
    >>> is_equal_but_age("pending for 2h", "pending for 3h"), is_equal_but_age("4m left", "3m left")
    (True, False)
    """
    if abs(len(one) - len(other)) > _MAX_LENGTH_DIFFERENCE or _SHRINKS.search(other) is not None:
        return False
    return _mask_age(one) == _mask_age(other)


def _mask_age(text: str) -> str:
    return mask_noise(_AGE.sub("~", text))
