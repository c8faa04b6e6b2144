"""Read a text without what programs show it with: colours, signs written for HTML, numbers of lines."""

import re
from collections.abc import Iterable
from itertools import takewhile
from typing import Final

from steadyhelm.fingerprints import encode_canonical

_COLOUR: Final = re.compile(r"(?:\x1b|\\{1,8}u001b)\[[0-9;]{0,16}[mK]")
"""What a terminal is told about the colour of a text; programs write it around names and values."""
_ENCODED_COLOUR: Final = re.compile(rb"\\{1,8}u001b\[[0-9;]{0,16}[mK]")
_ENTITY: Final = re.compile(r"&(?:amp;){0,4}(quot|apos|lt|gt|amp|#(?:[0-9]{2,3}|[xX]0{0,2}[0-9A-Fa-f]{2}));")
"""A sign as HTML and XML write it; quotes and brackets are written so where a page shows code."""
_CHARACTERS: Final = {"quot": '"', "apos": "'", "lt": "<", "gt": ">", "amp": "&"}
_ENCODED_ENTITY: Final = re.compile(_ENTITY.pattern.encode())
_LINE_PREFIX: Final = re.compile(
    r"\n(?:[ \t]{0,8}[0-9]{1,6}(?:\t|\u2192|[ ]?[|\u2502][ ]?|:[ ](?=[ ]{2}|-[ ]))"
    r"|>[ ]?|[\w./-]{1,200}[.][a-z]{1,6}[:-][0-9]{1,6}[:-])"
)
"""What is in front of a line in a listing, in a quotation or among the matches of a search."""
_CHANGE_PREFIX: Final = re.compile(r"\n[+ -]")
_CHANGES: Final = "\n@@ -"
"""The beginning of a part of a diff."""
_LINES_LOOKED_AT: Final = 4
"""A listing has numbers from one of its first lines on."""


def strip_signs(text: str) -> str:
    r"""Return a text without colours, and with signs in place of their entities.

    >>> strip_signs("\x1b[1mpassword\x1b[0m=&quot;hunter2&quot;")
    'password="hunter2"'
    """
    if "&" in text:
        plain = _ENTITY.sub(_decode_entity, text)
        text = text if plain == text else plain
    return _COLOUR.sub("", text) if "\x1b[" in text or "u001b[" in text else text


def strip_encoded_signs(encoded: bytes) -> bytes:
    """Return a text that is encoded as JSON without colours and entities."""
    if b"u001b[" in encoded:
        encoded = _ENCODED_COLOUR.sub(b"", encoded)
    return _ENCODED_ENTITY.sub(_encode_entity, encoded) if b"&" in encoded else encoded


def strip_prefixes(text: str) -> str:
    r"""Return a text of several lines without what is in front of them.

    >>> strip_prefixes("1\tpassword: |\n2\t  hunter2")
    'password: |\n  hunter2'
    """
    pattern = _find_prefix(f"\n{text}") if "\n" in text else None
    plain = text if pattern is None else pattern.sub("\n", f"\n{text}")[1:]
    return text if plain == text else plain


def restore_prefixes(redacted: str, plain: str, text: str) -> str:
    r"""Return a redacted text with what was in front of the lines of the text that it was made from.

    Where it has fewer lines, those that changed and those between them begin without.

    >>> restore_prefixes("password: |\n  *", "password: |\n  hunter2", "1\tpassword: |\n2\t  hunter2")
    '1\tpassword: |\n2\t  *'
    """
    lines, before, shown = redacted.split("\n"), plain.split("\n"), text.split("\n")
    prefixes = [line[: len(line) - len(rest)] for line, rest in zip(shown, before, strict=True)]
    if len(lines) != len(before):
        first = next(at for at, (line, old) in enumerate(zip(lines, before, strict=False)) if line != old)
        last = min(len(lines) - first, _count_equal(reversed(lines), reversed(before)))
        between = [""] * (len(lines) - first - last)
        prefixes = [*prefixes[:first], *between, *prefixes[len(before) - last :]]
    return "\n".join(map("".join, zip(prefixes, lines, strict=True)))


def _count_equal(lines: Iterable[str], others: Iterable[str]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(lines, others, strict=False)))


def _find_prefix(text: str) -> re.Pattern[str] | None:
    """Return what to look for in front of the lines of a text that begins with a line break."""
    if _CHANGES in text:
        return _CHANGE_PREFIX
    at = 0
    for _ in range(_LINES_LOOKED_AT):
        if _LINE_PREFIX.match(text, at):
            return _LINE_PREFIX
        at = text.find("\n", at + 1)
        if at < 0:
            break
    return None


def _decode_entity(match: re.Match[str]) -> str:
    return _find_character(match[1])


def _encode_entity(match: re.Match[bytes]) -> bytes:
    return encode_canonical(_find_character(match[1].decode()))[1:-1]


def _find_character(code: str) -> str:
    """Return the character that an entity stands for, by its name or its number."""
    if code in _CHARACTERS:
        return _CHARACTERS[code]
    number = code.removeprefix("#")
    return chr(int(number[1:], 16) if number[0] in "xX" else int(number))
