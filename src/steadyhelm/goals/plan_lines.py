"""Read the lists of a text: bullets, numbers and boxes, nested by indentation, number or heading."""

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from msgspec import Struct, field

from steadyhelm.goals.plan_annotations import split_remarks, split_status
from steadyhelm.goals.single_line import to_single_line
from steadyhelm.goals.tree_nodes import GoalStatus
from steadyhelm.lexicons import LexiconEntry, load_lexicon

LINE_CHARS_READ: Final = 600

HEADING: Final = re.compile(r"^\s{0,3}(?:#{1,6}\s+(.+?)#*|\*\*([^*]+)\*\*:?)\s*$")
_BULLET: Final = re.compile(r"[-*+•\u2013◦▪]\s+")
_NUMBER: Final = re.compile(
    r"(?:(?:step|phase|task|stage|part)\s+)?\(?(\d{1,3}(?:\.\d{1,3})*)(?:[.):]|\s*[-\u2013—])\s+"
    r"|(\d{1,3}(?:\.\d{1,3})+)\s+",
    re.IGNORECASE,
)
_BOX: Final = re.compile(r"\[(.)\]\s*")


class PlanItem(Struct, kw_only=True):
    """One line of a plan: `number` is its own number in the plan, `waits_for` the numbers it depends on."""

    description: str
    level: int = 0
    number: str = ""
    status: GoalStatus | None = None
    success_criteria: str = ""
    effort: int | None = None
    priority: int | None = None
    step_budget: int | None = None
    token_budget: int | None = None
    waits_for: list[str] = field(default_factory=list)


class _Line(NamedTuple):
    """A line of a list: its indentation, its number, the mark in its box, and its text."""

    indent: int
    number: str
    mark: str
    words: str


def parse_item(text: str) -> PlanItem | None:
    """Return a text as one item, without list marks; None when it has no letters."""
    return _build_item(_split_line(text) or _Line(0, "", "", text))


def parse_items(lines: Iterable[str]) -> Iterator[PlanItem]:
    """Yield the items of all lists in a text. Items below one of several headings are its steps."""
    sections = list(_iter_sections(lines))
    titled = sum(bool(heading) for heading, _ in sections)
    for heading, items in sections:
        # A single heading is the plan's title, not a goal in it.
        named = parse_item(heading) if heading and titled > 1 else None
        if named is not None:
            yield named
        for item in items:
            item.level += named is not None
            yield item


def apply_remarks(item: PlanItem, words: str) -> str:
    """Apply the remarks in brackets to an item; return the text without them."""
    bare, found = split_remarks(words)
    for aside in found:
        item.waits_for += aside.waits_for
        item.effort = item.effort if aside.effort is None else aside.effort
        item.priority = item.priority if aside.priority is None else aside.priority
    return bare


def _split_line(text: str) -> _Line | None:
    """Return the parts of a line; None when it belongs to no list."""
    whole = text[:LINE_CHARS_READ].expandtabs(4)
    bare = whole.lstrip("> ")
    indent, number, mark, found = len(whole) - len(bare), "", "", False
    for _ in range(3):
        if bullet := _BULLET.match(bare):
            bare, found = bare[bullet.end() :], True
        elif not number and (numbered := _NUMBER.match(bare)):
            number, bare, found = numbered[1] or numbered[2], bare[numbered.end() :], True
        elif not mark and (box := _BOX.match(bare)):
            mark, bare, found = box[1], bare[box.end() :], True
    return _Line(indent, number, mark, bare) if found else None


def _build_item(line: _Line) -> PlanItem | None:
    status, words = split_status(" ".join(line.words[:LINE_CHARS_READ].split()), line.mark)
    item = PlanItem(description="", number=line.number, status=status)
    item.description = to_single_line(apply_remarks(item, words).replace("**", "").strip(" :"))
    return item if any(map(str.isalpha, item.description)) else None


def _iter_sections(lines: Iterable[str]) -> Iterator[tuple[str, list[PlanItem]]]:
    """Yield each heading that has list items below it, with them; the first may be empty."""
    reader, heading = _ListReader(), ""
    for line in lines:
        title = HEADING.match(line)
        if title is None:
            reader.read_line(line)
            continue
        if reader.items and not _find_pattern("section without steps").search(heading):
            yield heading, reader.items
        reader, heading = _ListReader(), (title[1] or title[2]).strip()
    if reader.items and not _find_pattern("section without steps").search(heading):
        yield heading, reader.items


class _ListReader:
    """Reads the items of one list, nested by number or by indentation."""

    def __init__(self) -> None:
        self.items: list[PlanItem] = []
        self._indents: list[int] = []
        self._numbered_at = -1

    def read_line(self, text: str) -> None:
        line = _split_line(text)
        words = (line.words if line else text).strip(" *_")
        criteria = _find_pattern("success criteria").search(words)
        if criteria and self.items:
            self.items[-1].success_criteria = to_single_line(words[criteria.end() :].strip("* "))
            return
        item = line and _build_item(line)
        if line is not None and item is not None:
            item.level = self._find_level(line)
            self.items.append(item)

    def _find_level(self, line: _Line) -> int:
        if line.number:
            self._numbered_at = line.indent
        elif line.indent < self._numbered_at:
            self._numbered_at = -1
        while self._indents and line.indent < self._indents[-1]:
            self._indents.pop()
        if not self._indents or line.indent > self._indents[-1]:
            self._indents.append(line.indent)
        by_indent = len(self._indents) - 1
        if "." in line.number:
            return max(by_indent, line.number.count("."))
        # Models often omit the indentation: a bullet below a number is one of its steps.
        return by_indent + (not line.number and line.indent == self._numbered_at)


def _find_pattern(name: str) -> LexiconEntry:
    return load_lexicon(__package__, "plans")[name]
