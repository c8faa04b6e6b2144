"""Read a value from a text: in quotes of any escaping, or up to where it plainly ends."""

import re
from typing import Final, NamedTuple

QUOTE: Final = r"(?:\\{0,16}[\"'`]|[\u201c\u201d\u201e]|\\{1,4}u201[cde]|%2[27]|\\{1,4}u002[27])"
SPACE: Final = r"(?:[ \t\r\n]|\\{1,8}[nrt]|%20|%0[AaDd])"
BREAK: Final = r"(?:\r?\n|\\{1,4}r\\{1,4}n|\\{1,4}n)"
OPERATOR: Final = r"(?:=>|:=|\|\|=|\?\?=|\?=|={1,3}|::(?=[ ])|:(?!:)|\uff1a|%3[AaDd]|\\{1,4}u003[da])"

MAX_UNQUOTED_CHARS: Final = 400
_MAX_CHARS: Final = 4096
_QUOTE: Final = re.compile(
    rf"(?:[bfruBFRU@$]{{1,2}}(?=\\{{0,8}}[\"']))?(?:q(?=q\{{))?(''(?=[\w$])|q\{{(?=[^\s{{}}\"'\\]{{4,200}}\}})|\[\[(?=[^\s\[\]\"',]{{4,200}}\]\])|{QUOTE}(?:\"\"|'')?)"
)
_CLOSING: Final = {
    "q{": "}", "[[": "]]", "\u201c": "\u201d", "\u201e": "\u201c", "u201c": "u201d", "u201e": "u201c",
}  # fmt: skip
"""Quotes that another one closes, as they are and in escapes of JSON."""
_UNQUOTED: Final = re.compile(
    r"(?:[^\s\\&\"'`,;(){}\[\]<>|]|[\"'`](?=[^\s,;:)\]}>&\\])"
    r"|[&,;|(){}\[\]<>](?=[^\s\"'`\\\])},;&])(?![\w.-]{1,40}[=:])){1,400}"  # MAX_UNQUOTED_CHARS
)
_ESCAPE_CHARS: Final = 3
"""Characters of an escape in an address; one in front of a value says that what ends it is one, too."""
_URL_ENCODED_END: Final = re.compile(r"%(?:26|22|27|2C|7D|20|0A|0D)", re.IGNORECASE)


class Value(NamedTuple):
    """Where a value begins and ends, without its quotes, and the quote that opened it, if any."""

    start: int
    end: int
    quote: str


def read_value(text: str, start: int) -> Value | None:
    """Return the value at a place of a text; none when there is none.

    >>> [read_value(text, 2) for text in ('x="a b", y', "x=ab, y")]
    [Value(start=3, end=6, quote='"'), Value(start=2, end=4, quote='')]
    """
    opening = _QUOTE.match(text, start)
    if opening:
        end = _find_end(text, opening.end(), _find_closing(opening[1]))
        return Value(opening.end(), end, opening[1]) if end >= 0 else None
    match = _UNQUOTED.match(text, start)
    if not match:
        return None
    end = match.end()
    if "%" in match[0] and text.startswith("%", max(0, start - _ESCAPE_CHARS)):
        encoded_end = _URL_ENCODED_END.search(text, start, end)
        end = encoded_end.start() if encoded_end else end
    return Value(start, end, "")


def _find_closing(quote: str) -> str:
    for opening, closing in _CLOSING.items():
        if quote.endswith(opening):
            return quote.removesuffix(opening) + closing
    return quote


def _find_end(text: str, start: int, quote: str) -> int:
    """Return where the same quote comes again without a further backslash, else the end of the line."""
    limit = start + _MAX_CHARS
    end = text.find(quote, start, limit)
    while end > start and text[end - 1] == "\\":
        if not quote.startswith("\\") and _count_backslashes(text, end) % 2 == 0:
            break
        end = text.find(quote, end + 1, limit)
    if end >= 0:
        return end
    line = text.find("\n", start, limit)
    return line if line >= 0 else min(len(text), limit)


def _count_backslashes(text: str, end: int) -> int:
    count = 0
    while count < end and text[end - 1 - count] == "\\":
        count += 1
    return count
