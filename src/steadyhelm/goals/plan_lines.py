"""Read the lists of a text: bullets, numbers and boxes, nested by indentation, number or heading,
with the annotations in each line: its status, dependencies, effort and priority.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from msgspec import Struct, field

from steadyhelm.goals.tree_nodes import MAX_EFFORT, GoalStatus, to_single_line
from steadyhelm.lexicons import LexiconEntry, load_lexicon

LINE_CHARS_READ: Final = 600

HEADING: Final = re.compile(r"^\s{0,3}(?:#{1,6}\s+(.+?)#*|\*\*([^*]+)\*\*:?)\s*$")
_BULLET: Final = re.compile(r"[-*+•\u2013◦▪]\s+")
_NUMBER: Final = re.compile(
    r"(?:(?:step|phase|task|stage|part)\s+)?\(?(\d{1,3}(?:\.\d{1,3}){0,9})(?:[.):]|\s{0,8}[-\u2013—])\s+"
    r"|(\d{1,3}(?:\.\d{1,3}){1,9})\s+",
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
    if not text or text.isspace():
        return None
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


def move_remarks_to(item: PlanItem, words: str) -> str:
    """Apply the remarks in brackets to an item; return the text without them."""
    bare, found = split_remarks(words)
    for aside in found:
        item.waits_for += aside.waits_for
        item.effort = item.effort if aside.effort is None else aside.effort
        item.priority = item.priority if aside.priority is None else aside.priority
    return bare


def _split_line(text: str) -> _Line | None:
    """Return the parts of a line; None when it belongs to no list."""
    if not text or text.isspace():
        return None
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
    item.description = to_single_line(move_remarks_to(item, words).replace("**", "").strip(" :"))
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


# Read the annotations in a line of a plan: its status, dependencies, effort and priority.

STATUS_MARKS: Final = {
    GoalStatus.PENDING: " ",
    GoalStatus.ACTIVE: ">",
    GoalStatus.COMPLETE: "x",
    GoalStatus.BLOCKED: "?",
    GoalStatus.FAILED: "!",
    GoalStatus.SKIPPED: "-",
}
_STATUS_BY_MARK: Final = {mark: status for status, mark in STATUS_MARKS.items() if mark != " "} | {
    "X": GoalStatus.COMPLETE,
    "✓": GoalStatus.COMPLETE,
    "✔": GoalStatus.COMPLETE,
    "✅": GoalStatus.COMPLETE,
    "☑": GoalStatus.COMPLETE,
    "/": GoalStatus.ACTIVE,
    "~": GoalStatus.ACTIVE,
    "⏳": GoalStatus.ACTIVE,
    "🔄": GoalStatus.ACTIVE,
    "✗": GoalStatus.FAILED,
    "✘": GoalStatus.FAILED,
    "❌": GoalStatus.FAILED,
    "⏭": GoalStatus.SKIPPED,
    "🚫": GoalStatus.BLOCKED,
}
_STATUS_BY_NAME: Final = {
    "pending": GoalStatus.PENDING,
    "todo": GoalStatus.PENDING,
    "open": GoalStatus.PENDING,
    "not_started": GoalStatus.PENDING,
    "active": GoalStatus.ACTIVE,
    "in_progress": GoalStatus.ACTIVE,
    "doing": GoalStatus.ACTIVE,
    "running": GoalStatus.ACTIVE,
    "complete": GoalStatus.COMPLETE,
    "completed": GoalStatus.COMPLETE,
    "done": GoalStatus.COMPLETE,
    "finished": GoalStatus.COMPLETE,
    "blocked": GoalStatus.BLOCKED,
    "failed": GoalStatus.FAILED,
    "error": GoalStatus.FAILED,
    "skipped": GoalStatus.SKIPPED,
    "cancelled": GoalStatus.SKIPPED,
    "canceled": GoalStatus.SKIPPED,
    "deleted": GoalStatus.SKIPPED,
}
_EFFORT_BY_NAME: Final = {"low": 1, "medium": 3, "normal": 3, "high": 5, "critical": 5}
_PRIORITY_BY_NAME: Final = {"low": -1, "medium": 0, "normal": 0, "high": 1, "critical": 2, "urgent": 2}
_MAX_PRIORITY: Final = 1000

_STRUCK_THROUGH: Final = re.compile(r"^~~(.+?)~~\s*$")
_REFERENCE: Final = re.compile(r"\d{1,3}(?:\.\d{1,3})*")
_BETWEEN_REFERENCES: Final = re.compile(r"(?:steps?|tasks?|and|[#&,\s])*", re.IGNORECASE)


class PlanRemark(NamedTuple):
    """A remark in brackets: dependencies, effort or priority."""

    waits_for: list[str]
    effort: int | None = None
    priority: int | None = None


def parse_status(name: Any) -> GoalStatus | None:
    """Return the status that a plan tool means by a word; None for an unknown word.

    >>> parse_status("In Progress"), parse_status("done"), parse_status("later")
    (<GoalStatus.ACTIVE: 'active'>, <GoalStatus.COMPLETE: 'complete'>, None)
    """
    if isinstance(name, bool):
        return GoalStatus.COMPLETE if name else GoalStatus.PENDING
    if not isinstance(name, str):
        return None
    return _STATUS_BY_NAME.get(name[:40].strip().lower().replace(" ", "_").replace("-", "_"))


def split_status(words: str, mark: str) -> tuple[GoalStatus | None, str]:
    """Return the status in a line, by its box, a sign or its last word, and the line without it."""
    words = words.strip()
    if mark:
        return _STATUS_BY_MARK.get(mark, GoalStatus.PENDING), words
    if words[:1] in _STATUS_BY_MARK and not words[:1].isascii():
        return _STATUS_BY_MARK[words[0]], words[1:].lstrip("\ufe0f ")
    if struck := _STRUCK_THROUGH.match(words):
        return GoalStatus.SKIPPED, struck[1]
    if status := load_lexicon(__package__, "plans")["status at the end"].search(words):
        return parse_status(status[1]), words[: status.start()]
    if words[-1:] in _STATUS_BY_MARK and not words[-1:].isascii():
        return _STATUS_BY_MARK[words[-1]], words[:-1].rstrip()
    return None, words


def split_remarks(words: str) -> tuple[str, list[PlanRemark]]:
    """Return a line without the remarks in brackets that annotate a goal, and those remarks.

    >>> split_remarks("Write tests (depends on 1, 2.1) (effort: high) (see the wiki)")
    ('Write tests (see the wiki)', [PlanRemark(waits_for=['1', '2.1'], effort=None, priority=None), \
PlanRemark(waits_for=[], effort=5, priority=None)])
    """
    found = []
    for remark in list(load_lexicon(__package__, "plans")["remark"].regex.finditer(words)):
        aside = _parse_remark(remark[1].lower(), remark[2].strip())
        if aside is not None:
            found.append(aside)
            words = words.replace(remark[0], "", 1)
    return words.strip(), found


def _parse_remark(kind: str, value: str) -> PlanRemark | None:
    if kind == "effort":
        effort = _EFFORT_BY_NAME.get(value.lower()) or _parse_whole_number(value)
        return None if effort is None else PlanRemark([], effort=max(1, min(MAX_EFFORT, effort)))
    if kind == "priority":
        priority = _PRIORITY_BY_NAME.get(value.lower(), _parse_whole_number(value))
        bounded = None if priority is None else max(-_MAX_PRIORITY, min(_MAX_PRIORITY, priority))
        return None if bounded is None else PlanRemark([], priority=bounded)
    # "(after the release)" names no step: it stays part of the description.
    references = _REFERENCE.findall(value)
    rest = _REFERENCE.sub("", value)
    return PlanRemark(references) if references and _BETWEEN_REFERENCES.fullmatch(rest) else None


def _parse_whole_number(value: str) -> int | None:
    match = re.fullmatch(r"(-?\d{1,4})(?:\.0)?(?:\s*/\s*5)?", value)
    return int(match[1]) if match else None
