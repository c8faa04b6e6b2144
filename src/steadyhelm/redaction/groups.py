"""Read several values behind one name: lists and objects in a text, blocks of lines, columns of tables."""

import re
from collections.abc import Iterator
from typing import Final

from steadyhelm.redaction.named_values import Name, is_likely_secret, is_secret_value
from steadyhelm.redaction.names import DESCRIPTIVE_MEMBERS, Strength
from steadyhelm.redaction.quoting import BREAK, OPERATOR, QUOTE, Value, read_value
from steadyhelm.redaction.values import looks_secret

_MAX_GROUP_CHARS: Final = 800
_MAX_LINES: Final = 50
_MAX_HEAD_CHARS: Final = 300
_MIN_COLUMNS: Final = 2

_OPEN: Final = re.compile(
    rf"{QUOTE}?[\])]?[ \t]{{0,12}}(?:{OPERATOR})[ \t]{{0,12}}(?P<bracket>[\[({{])"
    rf"(?=\s{{0,8}}[bu]?{QUOTE}|\s{{0,8}}[\[({{])"
)
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
_KIND_BEFORE: Final = re.compile(r"kind[\"'\\]{0,6}:[ ]?[\"'\\]{0,6}\Z")
_MANIFEST_DATA: Final = re.compile(rf"(?<!\w)(?:data|stringData):[ \t]{{0,4}}(?={BREAK}[ \t]{{1,8}}[\w.-])")
_MANIFEST_LINE: Final = re.compile(
    rf"{BREAK}(?P<indent>[ \t]{{0,8}})[\w.-]{{1,80}}:[ \t]{{0,4}}"
    r"(?P<value>(?![|>]|\$|\{\{)[^\s\"'\\#]{4,400})?"
)
_BREAK: Final = re.compile(BREAK)
_CELL: Final = re.compile(r"[\w ./#-]{1,40}\Z")
_CELL_SIGNS: Final = " \t\r\"'`\\|"
_ALIGNED_CELL: Final = re.compile(r"[^\s\"'\\]+(?:[ ][^\s\"'\\]+)*")
_STRING_BEGIN: Final = re.compile(r".{0,300}(?<![\\,;|])\"(?=[\w|\\ -])", re.DOTALL)
_STRING_END: Final = re.compile(r"(?<!\\)\\{0,2}\"[ ]?[}\],]")
_CODE: Final = re.compile(r"[=(){}\[\]]")
_RULER: Final = re.compile(r"[-+|:= \t]{3,400}\Z")
_SQL_VALUES: Final = re.compile(r"[\w\s,`\"\[\]]{0,200}\)\s{1,4}VALUES\s{0,4}\(", re.IGNORECASE)
_SQL_VALUE: Final = re.compile(r"\s{0,4}(?:N?\\{0,4}'([^'\\]{0,200})\\{0,4}'|[^,()']{0,100})\s{0,4}(?:,|\))")


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
    yield from _read_column(text, name)


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
        is_secret = (
            is_secret_value(item[1], name.text, name.strength)
            if is_alone
            else is_likely_secret(item[1], name)
        )
        if is_secret and key not in DESCRIPTIVE_MEMBERS:
            yield Value(*item.span(1), "")


def _read_block(text: str, name: Name) -> Iterator[Value]:
    """Yield the secrets of the lines behind a name that ends its line, one to a line."""
    match = _BLOCK.match(text, name.end)
    if not match:
        return
    at = _find_line(text, name.end, match.end())
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
    for line in _MANIFEST_LINE.finditer(text, data.end(), data.end() + _MAX_MANIFEST_CHARS):
        if not line["indent"]:
            return
        if line["value"]:
            yield Value(*line.span("value"), "")


def _read_column(text: str, name: Name) -> Iterator[Value]:
    """Yield the secrets of a column that a name is the head of, in a table or behind `VALUES` of SQL."""
    begin = max(0, name.start - _MAX_HEAD_CHARS)
    begin = max(begin, _find_line(text, begin, name.start))
    line_end = _BREAK.search(text, name.end, name.end + _MAX_HEAD_CHARS)
    if line_end and line_end[0].startswith("\\"):  # in a string of JSON, which begins the line
        opening = _STRING_BEGIN.match(text, begin, name.start)
        begin = opening.end() if opening else begin
    values = _SQL_VALUES.match(text, name.end)
    if values:
        column = text.count(",", max(0, text.rfind("(", begin, name.start)), name.start)
        yield from _read_sql_values(text, values.end(), column, name)
    if not line_end or values:
        return
    head = text[begin : line_end.start()]
    sign = next((sign for sign in ("|", "\\t", "\t", ",", ";") if sign in head), "")
    cells = head.split(sign) if sign else [head]
    column = head[: name.start - begin].count(sign) if sign else 0
    is_head = all(
        _CELL.match(cell.strip(_CELL_SIGNS)) or (sign == "|" and not cell.strip()) for cell in cells
    )
    if is_head and not sign:
        yield from _read_aligned(text, line_end.end(), (head, name.start - begin), name)
    if is_head and cells[column].strip(_CELL_SIGNS).lower().endswith(name.text.lower()):
        yield from _read_rows(text, line_end.end(), (sign, column, len(cells)), name)


def _find_line(text: str, begin: int, end: int) -> int:
    """Return where the last line begins in a part of a text, behind a line break that may be escaped."""
    escaped = text.rfind("\\n", begin, end)
    return max(begin, text.rfind("\n", begin, end) + 1, escaped + 2 if escaped >= 0 else 0)


def _read_rows(text: str, at: int, table: tuple[str, int, int], name: Name) -> Iterator[Value]:
    sign, column, width = table
    has_ruler = False
    for _ in range(_MAX_LINES):
        line_end = _BREAK.search(text, at, at + 4 * _MAX_HEAD_CHARS)
        end = line_end.start() if line_end else min(len(text), at + 4 * _MAX_HEAD_CHARS)
        if text.startswith("\\", end) or text.startswith(
            "n", at - 1
        ):  # in a string of JSON, which ends the row
            closing = _STRING_END.search(text, at, end)
            end = closing.start() if closing else end
        row = text[at:end]
        cells = row.split(sign) if sign else [row]
        if _RULER.match(row):
            has_ruler = True
        elif len(cells) != width or not (has_ruler or width >= _MIN_COLUMNS):
            return
        else:
            cell = cells[column]
            content = cell.strip(_CELL_SIGNS)
            start = at + sum(len(other) + len(sign) for other in cells[:column]) + cell.find(content)
            if is_likely_secret(content, name) and not _CODE.search(content):
                yield Value(start, start + len(content), "")
        if not line_end:
            return
        at = line_end.end()


def _read_aligned(text: str, at: int, place: tuple[str, int], name: Name) -> Iterator[Value]:
    """Yield the secrets of a column of a table whose columns have two spaces between them, or more."""
    head, offset = place
    heads = list(_ALIGNED_CELL.finditer(head))
    column = next((index for index, cell in enumerate(heads) if cell.end() > offset), 0)
    if len(heads) < _MIN_COLUMNS or not heads[column][0].lower().endswith(name.text.lower()):
        return
    for _ in range(_MAX_LINES):
        line_end = _BREAK.search(text, at, at + _MAX_HEAD_CHARS)
        end = line_end.start() if line_end else min(len(text), at + _MAX_HEAD_CHARS)
        cells = list(_ALIGNED_CELL.finditer(text, at, end))
        if len(cells) != len(heads):
            return
        if is_likely_secret(cells[column][0], name):
            yield Value(*cells[column].span(), "")
        if not line_end:
            return
        at = line_end.end()


def _read_sql_values(text: str, at: int, column: int, name: Name) -> Iterator[Value]:
    for index in range(column + 1):
        item = _SQL_VALUE.match(text, at)
        if not item:
            return
        if index == column and item[1] and is_likely_secret(item[1], name):
            yield Value(*item.span(1), "'")
        at = item.end()
