"""Read several values behind one name: lists and objects in a text, blocks of lines, columns of tables."""

import re
from collections.abc import Iterator
from typing import Final

from steadyhelm.redaction.named_values import Name, is_likely_secret, is_secret_value
from steadyhelm.redaction.names import DESCRIPTIVE_MEMBERS, Strength, has_id_name
from steadyhelm.redaction.quoting import BREAK, OPERATOR, QUOTE, Value, read_value
from steadyhelm.redaction.tables import find_column, find_line
from steadyhelm.redaction.values import joins_words_and_number, looks_secret

_MAX_GROUP_CHARS: Final = 800
_MAX_LINES: Final = 50

_OPEN: Final = re.compile(
    rf"{QUOTE}?[\])]?[ \t]{{0,12}}(?:{OPERATOR})[ \t]{{0,12}}(?P<bracket>[\[({{])"
    rf"(?=\s{{0,8}}[bu]?{QUOTE}|\s{{0,8}}[\[({{])"
)
_LOGIN_ITEMS: Final = 2
"""Items of a login: a user and a password."""
_CLOSING: Final = {"[": "]", "(": ")", "{": "}"}
_ITEM: Final = re.compile(rf"{QUOTE}([^\"'`\\\r\n]{{1,400}}){QUOTE}(?P<colon>[ \t]{{0,4}}(?::|=>))?")
_JSON_TYPES: Final = re.compile(
    rf"{QUOTE}type{QUOTE}[ ]?:[ ]?{QUOTE}(?:string|object|array|integer|number|boolean)"
)
_JSON_VALUE: Final = re.compile(rf"{QUOTE}value{QUOTE}[ ]?:[ ]?{QUOTE}")
"""A member that no schema has: the object is a setting with its type."""
_BLOCK: Final = re.compile(
    rf"{QUOTE}?\*{{0,2}}(?P<colon>:?)\*{{0,2}}[ \t]{{0,8}}(?:[|>][+-]?)?[ \t]{{0,4}}"
    rf"(?:{BREAK}[ \t]{{0,40}}){{1,3}}"
)
_LINE: Final = re.compile(
    rf"(?P<indent>[ \t]{{0,40}})(?P<dash>-[ \t]{{1,4}}|:[ \t]{{1,4}})?"
    rf"(?:{QUOTE}?(?P<key>[\w.-]{{1,60}}){QUOTE}?:[ \t]{{1,8}})?(?=\S)"
)
_LINE_END: Final = re.compile(rf"{QUOTE}?[ \t]{{0,8}}(?:#[^\r\n\\]{{0,80}})?(?P<end>{BREAK}|[\"'}}\]]|\Z)")
_MAX_MANIFEST_CHARS: Final = 2000
_MIN_ENTRY_CHARS: Final = 4
_KIND_BEFORE: Final = re.compile(r"kind[\"'\\]{0,6}:[ ]?[\"'\\]{0,6}\Z")
_MANIFEST_DATA: Final = re.compile(
    rf"(?:(?<!\w)|(?<=\\n))(?:data|stringData):[ \t]{{0,4}}(?={BREAK}[ \t]{{1,8}}[\w.\"'#\\-])"
)
_MANIFEST_LINE: Final = re.compile(
    rf"{BREAK}(?P<indent>[ \t]{{0,24}})(?:{QUOTE}?(?P<key>[\w.-]{{1,80}}){QUOTE}?:[ \t]{{0,4}}"
    rf"(?:(?P<block>[|>][+-]?\d?)(?={BREAK}|[ \t]))?)?"
)
_MANIFEST_VALUE: Final = re.compile(r"(?!\$|\{\{|\[redacted|[|>])[^\s\"'\\#]{4,400}")
_BLOCK_LINE: Final = re.compile(r"(?!\$|\{\{|\[redacted)[^\r\n\"'\\]{4,400}")
_TEMPLATE_BEGINS: Final = ("$", "{{", "<", "[redacted")
_BREAK: Final = re.compile(BREAK)


def find_group(text: str, name: Name) -> Iterator[Value]:
    """Yield the values of a group that a name stands for, in order."""
    if name.strength is Strength.HEADER:
        return
    if name.text == "Secret":
        yield from _read_manifest(text, name)
    if name.strength is not Strength.WEAK or name.text.lower().endswith("auth"):
        yield from _read_items(text, name)
    if name.strength is not Strength.WEAK:
        yield from _read_block(text, name)
    yield from find_column(text, name)


def _read_items(text: str, name: Name) -> Iterator[Value]:
    """Yield the secrets of a list, a tuple or an object: `credentials = ("ann", "hunter2")`."""
    match = _OPEN.match(text, name.end)
    if not match:
        return
    end = text.find(_CLOSING[match["bracket"]], match.end(), match.end() + _MAX_GROUP_CHARS)
    end = min(len(text), match.end() + _MAX_GROUP_CHARS) if end < 0 else end
    if _JSON_TYPES.search(text, match.end(), end) and not _JSON_VALUE.search(text, match.end(), end):
        return
    key = ""
    items = list(_ITEM.finditer(text, match.end(), end))
    for item in items:
        if item["colon"]:
            key = item[1].lower()
            continue
        is_alone = len(items) == 1 and name.strength is not Strength.WEAK
        is_second = len(items) == _LOGIN_ITEMS and item is items[1] and name.text.lower().endswith("auth")
        is_secret = (
            is_secret_value(item[1], name.text, name.strength)
            if is_alone
            else is_likely_secret(item[1], name) or (is_second and joins_words_and_number(item[1]))
        )
        if is_secret and key not in DESCRIPTIVE_MEMBERS and not has_id_name(key):
            yield Value(*item.span(1), "")


def _read_block(text: str, name: Name) -> Iterator[Value]:
    """Yield the secrets of the lines behind a name that ends its line, one to a line."""
    match = _BLOCK.match(text, name.end)
    if not match:
        return
    at = find_line(text, name.end, match.end())
    indent: str | None = None
    for _ in range(_MAX_LINES):
        line = _LINE.match(text, at)
        value = read_value(text, line.end()) if line else None
        end = _LINE_END.match(text, value.end) if value else None
        if not line or not value or not end or (indent is not None and indent != line["indent"]):
            return
        is_nested = bool(line["indent"] or line["dash"]) or match.end() > at
        if line["key"] and not is_nested:
            return
        content = text[value.start : value.end]
        is_sure = bool(match["colon"] or line["dash"])
        is_secret = is_likely_secret(content, name) if is_sure else looks_secret(content)
        if is_secret and (line["key"] or "").lower() not in DESCRIPTIVE_MEMBERS:
            yield value
        if not is_nested or not _BREAK.fullmatch(end["end"]):
            return
        at, indent = end.end(), line["indent"]


def _read_manifest(text: str, name: Name) -> Iterator[Value]:
    """Yield the data of a Kubernetes secret, whatever their keys are, behind its kind or in front of it."""
    if not _KIND_BEFORE.search(text[max(0, name.start - 20) : name.start]):
        return
    data = _MANIFEST_DATA.search(
        text, max(0, name.start - _MAX_MANIFEST_CHARS), name.end + _MAX_MANIFEST_CHARS
    )
    if not data:
        return
    block: int | None = None  # the indentation of a key whose value is in the next lines
    for line in _MANIFEST_LINE.finditer(text, data.end(), data.end() + _MAX_MANIFEST_CHARS):
        indent = len(line["indent"])
        if not indent:
            return
        is_inside = block is not None and indent > block
        value = _read_block_line(text, line.end("indent")) if is_inside else _read_entry(text, line)
        if value:
            yield value
        if not is_inside:
            block = indent if line["block"] else None


def _read_block_line(text: str, start: int) -> Value | None:
    match = _BLOCK_LINE.match(text, start)
    return Value(*match.span(), "") if match else None


def _read_entry(text: str, line: re.Match[str]) -> Value | None:
    """Read the value of an entry of a manifest, with or without quotes."""
    if not line["key"] or line["block"]:
        return None
    plain = _MANIFEST_VALUE.match(text, line.end())
    if plain:
        return Value(*plain.span(), "")
    value = read_value(text, line.end())
    if not value or not value.quote or value.end - value.start < _MIN_ENTRY_CHARS:
        return None
    return None if text.startswith(_TEMPLATE_BEGINS, value.start) else value
