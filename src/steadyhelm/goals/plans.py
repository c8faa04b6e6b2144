"""Read a plan as a model writes it: text with lists of any kind, or data."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from steadyhelm.fingerprints import MAX_CHARS, to_plain_data
from steadyhelm.goals.plan_annotations import parse_status
from steadyhelm.goals.plan_lines import (
    HEADING,
    LINE_CHARS_READ,
    PlanItem,
    apply_remarks,
    parse_item,
    parse_items,
)
from steadyhelm.goals.single_line import to_single_line
from steadyhelm.goals.tree_nodes import MAX_DEPTH

MAX_ITEMS: Final = 199
_MAX_DATA_DEPTH: Final = 8

_FENCE: Final = re.compile(r"^\s*(?:```|~~~)")
_FENCED: Final = re.compile(r"(?:```|~~~)\w*\n(.*?)(?:```|~~~|\Z)", re.DOTALL)

_DESCRIPTION_KEYS: Final = (
    *("description", "content", "step", "title", "task", "subject", "name", "text", "goal", "action"),
)
_STEP_KEYS: Final = (
    "steps",
    "children",
    "subtasks",
    "sub_tasks",
    "subgoals",
    "sub_goals",
    "substeps",
    "tasks",
)
_LIST_KEYS: Final = (*_STEP_KEYS, "plan", "goals", "todos", "task_list", "items")
_DEPENDENCY_KEYS: Final = ("dependencies", "depends_on", "after", "blocked_by", "requires")
_CRITERIA_KEYS: Final = ("success_criteria", "acceptance_criteria", "done_when")


class Plan(NamedTuple):
    """The items that were read, and messages about what was refused."""

    items: list[PlanItem]
    refused: list[str]


def read_plan(plan: Any) -> Plan:
    r"""Return the items of a plan, in order; none when it contains nothing to read.

    >>> plan = read_plan("1. Read the code\n   - parser\n2. Fix it")
    >>> [(item.level, item.description) for item in plan.items]
    [(0, 'Read the code'), (1, 'parser'), (0, 'Fix it')]
    """
    refused = []
    if isinstance(plan, str):
        if len(plan) > MAX_CHARS:
            plan = plan[:MAX_CHARS].rpartition("\n")[0] or plan[:MAX_CHARS]
            refused.append(f"The plan was read up to character {len(plan)}.")
        items = list(_parse_text(plan))
    else:
        data = to_plain_data(plan)
        # An object that is no data is reduced to its name, which is no plan.
        items = list(_iter_items(_unwrap_list(data))) if isinstance(data, (list, dict)) else []
    if len(items) > MAX_ITEMS:
        refused.append(f"The plan has {len(items)} items; the first {MAX_ITEMS} were taken.")
    return Plan(_normalize_levels(items[:MAX_ITEMS]), refused)


def _normalize_levels(items: list[PlanItem]) -> list[PlanItem]:
    """Make levels free of gaps and none deeper than a step."""
    above = -1
    for item in items:
        item.level = above = min(item.level, above + 1, MAX_DEPTH - 1)
    return items


def _parse_text(text: str) -> Iterator[PlanItem]:
    data = _decode_json(text)
    if data is not None:
        return _iter_items(_unwrap_list(data))
    items = list(parse_items(_iter_unfenced_lines(text)))
    if not items and (fenced := _FENCED.search(text)):
        items = list(parse_items(line[:LINE_CHARS_READ] for line in fenced[1].splitlines()))
    if items:
        return iter(items)
    # No list at all: every line is a step.
    lines = (line for line in _iter_unfenced_lines(text) if not HEADING.match(line))
    return (item for line in lines if (item := parse_item(line)))


def _decode_json(text: str) -> Any:
    """Return the data of a plan in JSON, bare or in a fence; None for other text."""
    fenced = _FENCED.search(text)
    for part in (text, fenced[1] if fenced else ""):
        if part.lstrip()[:1] in {"[", "{"}:
            try:
                return msgspec.json.decode(part.encode("utf-8", "replace"))
            except (msgspec.DecodeError, RecursionError):
                continue
    return None


def _iter_unfenced_lines(text: str) -> Iterator[str]:
    within = False
    for line in text.splitlines():
        if _FENCE.match(line):
            within = not within
        elif not within:
            yield line[:LINE_CHARS_READ]


def _unwrap_list(data: Any) -> Any:
    """Return the list in a plan's outermost object; its other fields are the plan's title."""
    listed = _get_first(data, _LIST_KEYS) if isinstance(data, Mapping) else None
    return listed if isinstance(listed, list) else data


def _iter_items(data: Any, level: int = 0) -> Iterator[PlanItem]:
    if level > _MAX_DATA_DEPTH:
        return
    if isinstance(data, Mapping):
        yield from _iter_mapping_items(data, level)
    elif isinstance(data, list):
        for one in data:
            yield from _iter_items(one, level + isinstance(one, list))
    elif isinstance(data, str) and (item := parse_item(data)):
        item.level = level
        yield item


def _iter_mapping_items(data: Mapping[str, Any], level: int) -> Iterator[PlanItem]:
    item = parse_item(next((data[key] for key in _DESCRIPTION_KEYS if isinstance(data.get(key), str)), ""))
    if item is not None:
        item.level = level
        item.number = to_single_line(data.get("id", data.get("number", "")), 40)
        item.status = parse_status(data.get("status")) or item.status
        item.success_criteria = to_single_line(_get_first(data, _CRITERIA_KEYS))
        item.waits_for += _read_names(_get_first(data, _DEPENDENCY_KEYS))
        apply_remarks(item, f"(effort: {data.get('effort')}) (priority: {data.get('priority')})")
        item.step_budget = _read_count(data.get("step_budget"))
        item.token_budget = _read_count(data.get("token_budget"))
        yield item
    steps = _get_first(data, _STEP_KEYS)
    if isinstance(steps, list):
        yield from _iter_items(steps, level + (item is not None))


def _get_first(data: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    return next((data[key] for key in keys if key in data), None)


def _read_names(value: Any) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [
        to_single_line(name, 100)
        for name in values
        if isinstance(name, (str, int)) and not isinstance(name, bool)
    ]


def _read_count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
