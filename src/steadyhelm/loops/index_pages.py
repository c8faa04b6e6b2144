"""Tell a list that is looked at again between its items from a look that only repeats.

Whoever opens one item after another comes back to the list each time, and closes what was opened.
"""

import re
from typing import Final
from zlib import crc32

_MAX_CHARS: Final = 480
_WORD: Final = re.compile(r"[^\W\d_]{4,}|\d{2,}")
_ACKNOWLEDGED: Final = re.compile(
    r"[\W_]{0,12}(?:ok(?:ay)?|done|true|back|success(?:ful(?:ly)?)?"
    r"|(?:closed|dismissed|left|returned)(?: [\w ]{1,20})?)[\W_]{0,12}(?:true[\W_]{0,4})?\Z",
    re.IGNORECASE,
)


def hash_item_words(page: str, arguments: bytes, item: str) -> int:
    """Return a checksum of the words that a page shares with an item opened from it; 0 for none.

    `arguments` are what the item was opened with.

    >>> hash_item_words("Results: kettle, anchor", b'{"n":2}', "anchor, 12 EUR") != 0
    True
    >>> hash_item_words("Results: kettle, anchor", b'{"city":"Graz"}', "Rain")
    0
    """
    opened = f"{arguments.decode('utf-8', 'replace')} {item[:_MAX_CHARS]}"
    shared = {*_WORD.findall(page[:_MAX_CHARS].lower())} & {*_WORD.findall(opened.lower())}
    return crc32(" ".join(sorted(shared)).encode("utf-8", "replace")) if shared else 0


def is_acknowledgement(answer: str) -> bool:
    """Return whether an answer says no more than that a call was carried out.

    >>> is_acknowledgement("closed"), is_acknowledgement("Closed the tab."), is_acknowledgement("no entries")
    (True, True, False)
    """
    return _ACKNOWLEDGED.match(answer) is not None
