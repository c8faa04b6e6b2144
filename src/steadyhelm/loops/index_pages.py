"""Tell a list that is looked at again between its items from a look that only repeats.

An agent that opens one item after another returns to the list each time, and closes what it opened.
"""

import re
from typing import Any, Final
from zlib import crc32

from steadyhelm.loops.call_arguments import find_command, find_path

_MAX_CHARS: Final = 480
_WORD: Final = re.compile(r"[^\W\d_]{4,}|\d{2,}")
_ACKNOWLEDGED: Final = re.compile(
    r"[\W_]{0,12}(?:ok(?:ay)?|done|true|back|success(?:ful(?:ly)?)?"
    r"|(?:closed|dismissed|left|returned)(?: [\w ]{1,20})?)[\W_]{0,12}(?:true[\W_]{0,4})?\Z",
    re.IGNORECASE,
)

_WORD_IN_NAME: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_READING_WORDS: Final = frozenset(
    """
    cat describe fetch find get grep head less list load observe query read recall retrieve rg search see show
    tail view
    """.split()  # noqa: SIM905 - so many quoted words read worse
)
_READING_COMMAND: Final = re.compile(
    r"\s*(?:cd [^;&|]+ && )?(?:sudo )?(?:awk|bat|cat|curl|find|git|grep|head|jq|less|ls|more|nl|rg|sed"
    r"|stat|tail|tree|wc)\b"
)
_MAX_VERDICT_CHARS: Final = 60
_NEGATIVE: Final = re.compile(
    r"\b(?:no|not|none|nothing|never|nil|null|empty|unknown|missing|without|unchanged|cannot|un\w+able|still|wrong"
    r"|fail\w*|error\w*|denied|refused|rejected|invalid|expired|blocked|locked|pending|waiting)\b|n't\b|\[\]|\{\}|\d",
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


def is_verdict(answer: str) -> bool:
    """Return whether a short answer says something, and nothing that is measured, missing, wrong or awaited.

    >>> is_verdict("smoke test passed"), is_verdict("no entries"), is_verdict("412 ms")
    (True, False, False)
    """
    return 0 < len(answer) <= _MAX_VERDICT_CHARS and _NEGATIVE.search(answer) is None


def reads_content(tool: str, arguments: Any) -> bool:
    """Return whether a call reads something, so that its answer is content and no verdict.

    >>> reads_content("Bash", {"command": "cat a.py"}), reads_content("Bash", {"command": "./smoke.sh"})
    (True, False)
    """
    if find_path(arguments) is not None:
        return True
    command = find_command(arguments)
    if command is not None:
        return _READING_COMMAND.match(command[:_MAX_CHARS]) is not None
    return not _READING_WORDS.isdisjoint(word.lower() for word in _WORD_IN_NAME.findall(tool[:100]))
