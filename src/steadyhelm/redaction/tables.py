"""Read the columns of a table that the name of a secret is the head of, in a text."""

import re
from collections.abc import Iterator
from typing import Final

from steadyhelm.redaction.named_values import Name, is_likely_secret, is_secret_value
from steadyhelm.redaction.quoting import BREAK, Value

_MAX_LINES: Final = 50
_MAX_HEAD_CHARS: Final = 300
_MIN_COLUMNS: Final = 2

_BREAK: Final = re.compile(BREAK)
_CELL: Final = re.compile(r"[\w ./#-]{1,40}\Z")
_LINES: Final = frozenset("|\u2502\u2503")
"""Signs that are also at the beginning and at the end of a row."""
_CELL_SIGNS: Final = " \t\r\"'`\\|\u2502\u2503"
_CELL_BEGINS: Final = re.compile(
    r"(?:(?P<line>[\n\r]|\\[nr]|(?:\A|[\n\r\"']|\\[nr])[ \t]{0,4}[|\u2502\u2503]{1,2})|[|\u2502\u2503])"
    r"[ \t]{0,8}[*`]{0,3}\Z"
)
"""What is in front of the cell of a name; in the first cell of its row, the beginning of the line."""
_MAX_CELL_BEGIN_CHARS: Final = 20
_CELL_BEHIND: Final = re.compile(
    r"[*`]{0,3}[ \t]{0,40}[|\u2502\u2503]{1,2}[ \t]{0,40}"
    r"[*`]{0,3}([^\s|\u2502\u2503\"'`\\]{6,200}?)[*`]{0,3}[ \t]{0,40}(?=[|\u2502\u2503\n\r\"'\\]|\Z)"
)
_ALIGNED_CELL: Final = re.compile(r"[^\s\"'\\]+(?:[ ][^\s\"'\\]+)*")
_STRING_BEGIN: Final = re.compile(r".{0,300}(?<![\\,;|])[\"'](?=[\w|\\ -])", re.DOTALL)
_STRING_END: Final = re.compile(r"(?<!\\)\\{0,2}[\"'][ ]?[}\],]")
_CODE: Final = re.compile(r"[=(){}\[\]]")
_RULER: Final = re.compile(r"[-+|:= \t\u2500-\u257f]{3,400}\Z")
_SQL_VALUES: Final = re.compile(r"[\w\s,`\"\[\]]{0,200}\)\s{1,4}VALUES\s{0,4}\(", re.IGNORECASE)
_SQL_VALUE: Final = re.compile(r"\s{0,4}(?:N?\\{0,4}'([^'\\]{0,200})\\{0,4}'|[^,()']{0,100})\s{0,4}(?:,|\))")
_INSERTED: Final = re.compile(
    r"\(([\w\s,`\"\[\]]{1,400})\)\s{0,4}VALUES\s{0,4}\(([^()]{1,400})\)", re.IGNORECASE
)
_PARAMETER: Final = re.compile(r"\?|%s|\$\d|:\w|@\w")
_COMPARED: Final = re.compile(
    r"(?<!\w)(\w{1,40})[`\"\]]?\s{0,4}[=<>]{1,2}\s{0,4}(?:\w{1,20}\()?(?:\?|%s|\$\d|:\w|@\w)"
)
_NAME_SIGNS: Final = ' \t\r\n`"[]'
_MARKUP_HEAD: Final = re.compile(r"<tr[^<>]{0,80}>(?:(?!</?tr).){0,600}?\Z", re.DOTALL)
_MARKUP_ROW: Final = re.compile(r"<tr[^<>]{0,80}>((?:(?!</tr).){1,1000})", re.DOTALL)
_MARKUP_CELL: Final = re.compile(r"<t[hd][^<>]{0,80}>((?:(?!</?t[hd])[^\r\n]){0,200})")


def find_line(text: str, begin: int, end: int) -> int:
    """Return where the last line begins in a part of a text, behind a line break that may be escaped."""
    escaped = text.rfind("\\n", begin, end)
    return max(begin, text.rfind("\n", begin, end) + 1, escaped + 2 if escaped >= 0 else 0)


def find_column(text: str, name: Name) -> Iterator[Value]:
    """Yield the secrets of a column that a name is the head of, in a table or behind `VALUES` of SQL."""
    if text.startswith(("</th>", "</td>", "<\\/th>"), name.end):
        yield from _read_markup(text, name)
        return
    begin = max(0, name.start - _MAX_HEAD_CHARS)
    begin = max(begin, find_line(text, begin, name.start))
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
    sign = next((sign for sign in ("|", "\u2502", "\u2503", "\\t", "\t", ",", ";") if sign in head), "")
    cells = head.split(sign) if sign else [head]
    column = head[: name.start - begin].count(sign) if sign else 0
    is_head = all(
        _CELL.match(cell.strip(_CELL_SIGNS)) or (sign in _LINES and not cell.strip()) for cell in cells
    )
    if is_head and not sign:
        yield from _read_aligned(text, line_end.end(), (head, name.start - begin), name)
    if is_head and cells[column].strip(_CELL_SIGNS).lower().endswith(name.text.lower()):
        yield from _read_rows(text, line_end.end(), (sign, column, len(cells)), name)


def read_cell(text: str, name: Name) -> Value | None:
    """Read the secret in the cell behind that of a name, in a row with lines: `|password|x9fK2mQ7|`."""
    behind = _CELL_BEHIND.match(text, name.end)
    if not behind or not is_likely_secret(behind[1], name) or _CODE.search(behind[1]):
        return None
    before = _CELL_BEGINS.search(text[max(0, name.start - _MAX_CELL_BEGIN_CHARS) : name.start])
    if not before:
        return None
    if not before["line"] and (
        text[behind.end() : behind.end() + 1] not in _LINES or _is_head(text, behind.end())
    ):
        return None  # not the first cell of its row, which may be the head of a table
    return Value(*behind.span(1), "")


def _is_head(text: str, at: int) -> bool:
    """Return whether the row that a place of a text is in is the head of a table: a ruler is below it."""
    end = _BREAK.search(text, at, at + _MAX_HEAD_CHARS)
    next_end = _BREAK.search(text, end.end(), end.end() + _MAX_HEAD_CHARS) if end else None
    return bool(end and next_end and _RULER.match(text[end.end() : next_end.start()]))


def read_parameters(sql: str) -> list[str]:
    """Return the names of the columns that the parameters of a statement are for, in order.

    >>> read_parameters("INSERT INTO users (name, password) VALUES (?, ?)")
    ['name', 'password']
    """
    inserted = _INSERTED.search(sql)
    if inserted:
        columns, values = (inserted[group].split(",") for group in (1, 2))
        pairs = zip(columns, values, strict=False)
        return [column.strip(_NAME_SIGNS) for column, value in pairs if _PARAMETER.search(value)]
    return [match[1] for match in _COMPARED.finditer(sql)]


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
        number = len(cells) - len(heads)  # 1 where each row has a number, which no head is above
        if number not in {0, 1}:
            return
        cell = cells[column + number]
        if is_likely_secret(cell[0], name):
            yield Value(*cell.span(), "")
        if not line_end:
            return
        at = line_end.end()


def _read_sql_values(text: str, at: int, column: int, name: Name) -> Iterator[Value]:
    for index in range(column + 1):
        item = _SQL_VALUE.match(text, at)
        if not item:
            return
        if index == column and item[1] and is_secret_value(item[1], name.text, name.strength):
            yield Value(*item.span(1), "'")
        at = item.end()


def _read_markup(text: str, name: Name) -> Iterator[Value]:
    """Yield the secrets of a column of a table in HTML."""
    before = text[max(0, name.start - _MAX_HEAD_CHARS) : name.start]
    head = _MARKUP_HEAD.search(before)
    if not head:
        return
    column = len(_MARKUP_CELL.findall(head[0])) - 1
    for row in _MARKUP_ROW.finditer(text, name.end, name.end + _MAX_LINES * _MAX_HEAD_CHARS):
        cells = list(_MARKUP_CELL.finditer(text, *row.span(1)))
        if 0 <= column < len(cells) and is_likely_secret(cells[column][1].strip(), name):
            yield Value(*cells[column].span(1), "<")
