"""Read a plan as a model writes it: a text with lists in any dress, or data."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from steadyhelm.fingerprints import LOOKED_AT, reduced
from steadyhelm.goals.lines import one_line
from steadyhelm.goals.plan_lines import HEADING, LINE_READ, PlanItem, item_of, items_of, take_asides
from steadyhelm.goals.plan_words import status_named
from steadyhelm.goals.tree_nodes import DEEPEST

ITEMS_READ: Final = 199
_DEEPEST_DATA: Final = 8

_FENCE: Final = re.compile(r"^\s*(?:```|~~~)")
_FENCED: Final = re.compile(r"(?:```|~~~)\w*\n(.*?)(?:```|~~~|\Z)", re.DOTALL)

_DESCRIPTIONS: Final = (
    *("description", "content", "step", "title", "task", "subject", "name", "text", "goal", "action"),
)
_STEPS: Final = ("steps", "children", "subtasks", "sub_tasks", "subgoals", "sub_goals", "substeps", "tasks")
_LISTS: Final = (*_STEPS, "plan", "goals", "todos", "task_list", "items")
_WAITS: Final = ("dependencies", "depends_on", "after", "blocked_by", "requires")
_CRITERIA: Final = ("success_criteria", "acceptance_criteria", "done_when")


class Plan(NamedTuple):
    """What was read, and what was not taken as written."""

    items: list[PlanItem]
    refused: list[str]


def read_plan(plan: Any) -> Plan:
    r"""The items of a plan, in order; none when there is nothing to read in it.

    >>> plan = read_plan("1. Read the code\n   - parser\n2. Fix it")
    >>> [(item.level, item.description) for item in plan.items]
    [(0, 'Read the code'), (1, 'parser'), (0, 'Fix it')]
    """
    refused = []
    if isinstance(plan, str):
        if len(plan) > LOOKED_AT:
            plan = plan[:LOOKED_AT].rpartition("\n")[0] or plan[:LOOKED_AT]
            refused.append(f"The plan was read up to character {len(plan)}.")
        items = list(_from_text(plan))
    else:
        data = reduced(plan)
        # Of an object that is no data, only its name is left: that is no plan.
        items = list(_from_data(_unwrapped(data))) if isinstance(data, (list, dict)) else []
    if len(items) > ITEMS_READ:
        refused.append(f"The plan has {len(items)} items; the first {ITEMS_READ} were taken.")
    return Plan(_settled(items[:ITEMS_READ]), refused)


def _settled(items: list[PlanItem]) -> list[PlanItem]:
    """Levels without gaps, none deeper than a step."""
    above = -1
    for item in items:
        item.level = above = min(item.level, above + 1, DEEPEST - 1)
    return items


def _from_text(text: str) -> Iterator[PlanItem]:
    data = _json_in(text)
    if data is not None:
        return _from_data(_unwrapped(data))
    items = list(items_of(_outside_fences(text)))
    if not items and (fenced := _FENCED.search(text)):
        items = list(items_of(line[:LINE_READ] for line in fenced[1].splitlines()))
    if items:
        return iter(items)
    # No list at all: every line is a step.
    lines = (line for line in _outside_fences(text) if not HEADING.match(line))
    return (item for line in lines if (item := item_of(line)))


def _json_in(text: str) -> Any:
    """The plan's data when it is JSON, bare or in a fence; None otherwise."""
    fenced = _FENCED.search(text)
    for part in (text, fenced[1] if fenced else ""):
        if part.lstrip()[:1] in {"[", "{"}:
            try:
                return msgspec.json.decode(part.encode("utf-8", "replace"))
            except (msgspec.DecodeError, RecursionError):
                continue
    return None


def _outside_fences(text: str) -> Iterator[str]:
    within = False
    for line in text.splitlines():
        if _FENCE.match(line):
            within = not within
        elif not within:
            yield line[:LINE_READ]


def _unwrapped(data: Any) -> Any:
    """The list a plan's outermost object holds; what that object says beside it is the plan's title."""
    listed = _first(data, _LISTS) if isinstance(data, Mapping) else None
    return listed if isinstance(listed, list) else data


def _from_data(data: Any, level: int = 0) -> Iterator[PlanItem]:
    if level > _DEEPEST_DATA:
        return
    if isinstance(data, Mapping):
        yield from _from_mapping(data, level)
    elif isinstance(data, list):
        for one in data:
            yield from _from_data(one, level + isinstance(one, list))
    elif isinstance(data, str) and (item := item_of(data)):
        item.level = level
        yield item


def _from_mapping(data: Mapping[str, Any], level: int) -> Iterator[PlanItem]:
    item = item_of(next((data[key] for key in _DESCRIPTIONS if isinstance(data.get(key), str)), ""))
    if item is not None:
        item.level = level
        item.number = one_line(data.get("id", data.get("number", "")), 40)
        item.status = status_named(data.get("status")) or item.status
        item.success_criteria = one_line(_first(data, _CRITERIA))
        item.waits_for += _names(_first(data, _WAITS))
        take_asides(item, f"(effort: {data.get('effort')}) (priority: {data.get('priority')})")
        item.step_budget = _count(data.get("step_budget"))
        item.token_budget = _count(data.get("token_budget"))
        yield item
    steps = _first(data, _STEPS)
    if isinstance(steps, list):
        yield from _from_data(steps, level + (item is not None))


def _first(data: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    return next((data[key] for key in keys if key in data), None)


def _names(value: Any) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [
        one_line(name, 100) for name in values if isinstance(name, (str, int)) and not isinstance(name, bool)
    ]


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
