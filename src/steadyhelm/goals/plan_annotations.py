"""Read the annotations in a line of a plan: its status, dependencies, effort and priority."""

import re
from typing import Any, Final, NamedTuple

from steadyhelm.goals.tree_nodes import MAX_EFFORT, GoalStatus
from steadyhelm.lexicons import load_lexicon

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
