"""What the words of a plan's line say beside what is to be done: how it stands, what it waits for."""

import re
from typing import Any, Final, NamedTuple

from steadyhelm.goals.tree_nodes import HARDEST, GoalStatus

MARKS: Final = {
    GoalStatus.PENDING: " ",
    GoalStatus.ACTIVE: ">",
    GoalStatus.COMPLETE: "x",
    GoalStatus.BLOCKED: "?",
    GoalStatus.FAILED: "!",
    GoalStatus.SKIPPED: "-",
}
_BY_MARK: Final = {mark: status for status, mark in MARKS.items() if mark != " "} | {
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
_BY_NAME: Final = {
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
_LEVELS: Final = {"low": 1, "medium": 3, "normal": 3, "high": 5, "critical": 5}
_PRIORITIES: Final = {"low": -1, "medium": 0, "normal": 0, "high": 1, "critical": 2, "urgent": 2}
_MOST_URGENT: Final = 1000

_TOLD: Final = re.compile(
    r"\s*(?:[-\u2013—:]\s*|[(\[])(done|completed?|finished|skipped|failed|blocked|in progress)[)\]]?"
    r"\s*[.!]?\s*$",
    re.IGNORECASE,
)
_STRUCK: Final = re.compile(r"^~~(.+?)~~\s*$")
_ASIDE: Final = re.compile(
    r"\s*[(\[]\s*(depends on|dependenc(?:y|ies)|after|requires|blocked by|effort|priority)\s*[:=]?\s*"
    r"([^()\[\]]{1,80})[)\]]",
    re.IGNORECASE,
)
_REFERENCE: Final = re.compile(r"\d{1,3}(?:\.\d{1,3})*")
_BETWEEN_REFERENCES: Final = re.compile(r"(?:steps?|tasks?|and|[#&,\s])*", re.IGNORECASE)


class Aside(NamedTuple):
    """One remark in brackets."""

    waits_for: list[str]
    effort: int | None = None
    priority: int | None = None


def status_named(name: Any) -> GoalStatus | None:
    """The status a plan tool means by a word; None for a word we do not know.

    >>> status_named("In Progress"), status_named("done"), status_named("later")
    (<GoalStatus.ACTIVE: 'active'>, <GoalStatus.COMPLETE: 'complete'>, None)
    """
    if isinstance(name, bool):
        return GoalStatus.COMPLETE if name else GoalStatus.PENDING
    if not isinstance(name, str):
        return None
    return _BY_NAME.get(name[:40].strip().lower().replace(" ", "_").replace("-", "_"))


def status_in(words: str, mark: str) -> tuple[GoalStatus | None, str]:
    """What a line says about how it stands, by its box, a sign, or a last word; and the line without that."""
    words = words.strip()
    if mark:
        return _BY_MARK.get(mark, GoalStatus.PENDING), words
    if words[:1] in _BY_MARK and not words[:1].isascii():
        return _BY_MARK[words[0]], words[1:].lstrip("\ufe0f ")
    if struck := _STRUCK.match(words):
        return GoalStatus.SKIPPED, struck[1]
    if told := _TOLD.search(words):
        return status_named(told[1]), words[: told.start()]
    if words[-1:] in _BY_MARK and not words[-1:].isascii():
        return _BY_MARK[words[-1]], words[:-1].rstrip()
    return None, words


def asides(words: str) -> tuple[str, list[Aside]]:
    """The remarks in brackets that say how a goal is to be taken, and the words without them.

    >>> asides("Write tests (depends on 1, 2.1) (effort: high) (see the wiki)")
    ('Write tests (see the wiki)', [Aside(waits_for=['1', '2.1'], effort=None, priority=None), \
Aside(waits_for=[], effort=5, priority=None)])
    """
    found = []
    for remark in list(_ASIDE.finditer(words)):
        aside = _aside(remark[1].lower(), remark[2].strip())
        if aside is not None:
            found.append(aside)
            words = words.replace(remark[0], "", 1)
    return words.strip(), found


def _aside(kind: str, value: str) -> Aside | None:
    if kind == "effort":
        effort = _LEVELS.get(value.lower()) or _whole(value)
        return None if effort is None else Aside([], effort=max(1, min(HARDEST, effort)))
    if kind == "priority":
        priority = _PRIORITIES.get(value.lower(), _whole(value))
        bounded = None if priority is None else max(-_MOST_URGENT, min(_MOST_URGENT, priority))
        return None if bounded is None else Aside([], priority=bounded)
    # "(after the release)" names no step: it stays part of the words.
    references = _REFERENCE.findall(value)
    rest = _REFERENCE.sub("", value)
    return Aside(references) if references and _BETWEEN_REFERENCES.fullmatch(rest) else None


def _whole(value: str) -> int | None:
    match = re.fullmatch(r"(-?\d{1,4})(?:\.0)?(?:\s*/\s*5)?", value)
    return int(match[1]) if match else None
