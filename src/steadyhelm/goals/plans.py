"""Read a plan as a model writes it, text with lists of any kind or data, and build a tree's nodes from it."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from steadyhelm.fingerprints import MAX_CHARS, to_plain_data
from steadyhelm.goals.plan_lines import (
    HEADING,
    LINE_CHARS_READ,
    PlanItem,
    move_remarks_to,
    parse_item,
    parse_items,
    parse_status,
)
from steadyhelm.goals.tree_nodes import (
    MAX_DEPTH,
    ROOT,
    GoalNode,
    GoalStatus,
    Nodes,
    find_cycle,
    make_child_id,
    to_single_line,
)
from steadyhelm.lexicons import load_lexicon

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
        move_remarks_to(item, f"(effort: {data.get('effort')}) (priority: {data.get('priority')})")
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


# Build the nodes of a tree from a plan, keeping the state of old goals with the same description.

_MAX_DEPENDENCIES: Final = 200
_REFUSALS_KEPT: Final = 20
_WORD: Final = re.compile(r"\w+")
_CARRIED_STATUSES: Final = frozenset({GoalStatus.COMPLETE, GoalStatus.SKIPPED, GoalStatus.ACTIVE})


class RebuiltTree(NamedTuple):
    """The nodes of a new tree, and the parts of the plan that were refused."""

    nodes: dict[str, GoalNode]
    refused: list[str]


def normalize_description(description: str) -> str:
    """Return the words of a description without fillers and punctuation, to find the same step again.

    >>> normalize_description("Write the tests.") == normalize_description("write tests")
    True
    """
    words = _WORD.findall(description.lower())
    fillers = load_lexicon(__package__, "words")["fillers"].word_set
    return " ".join(word for word in words if word not in fillers) or " ".join(words) or description


def build_nodes(items: Iterable[PlanItem], old: Nodes) -> RebuiltTree:
    """Return the nodes that a plan describes, under the root of the old tree."""
    root = old[ROOT]
    nodes = {ROOT: GoalNode(node_id=ROOT, description=root.description)}
    carry_over(root, nodes[ROOT])
    known = _group_by_description(old)
    placed: list[tuple[PlanItem, str]] = []
    parents = [ROOT]
    for item in items:
        del parents[item.level + 1 :]
        node = _add_node(nodes, parents[-1], item)
        before = known.get(normalize_description(item.description))
        if before:
            carry_over(before.pop(0), node)
        if item.status is not None and not node.status.is_done:
            node.status = item.status
        parents.append(node.node_id)
        placed.append((item, node.node_id))
    return RebuiltTree(nodes, _link_dependencies(nodes, placed))


def carry_over(before: GoalNode, node: GoalNode) -> None:
    """Copy what was done and spent to a new node. A failed or blocked step may be tried again."""
    if before.status in _CARRIED_STATUSES:
        node.status = before.status
    node.steps_taken, node.tokens_used = before.steps_taken, before.tokens_used
    node.artifacts = list(before.artifacts)
    node.success_criteria = node.success_criteria or before.success_criteria
    node.effort = node.effort or before.effort
    node.step_budget = node.step_budget or before.step_budget
    node.token_budget = node.token_budget or before.token_budget


def _group_by_description(old: Nodes) -> dict[str, list[GoalNode]]:
    """Return the old goals by description, in order: each is carried over once."""
    known: dict[str, list[GoalNode]] = {}
    for node in old.values():
        if node.node_id != ROOT:
            known.setdefault(normalize_description(node.description), []).append(node)
    return known


def _add_node(nodes: dict[str, GoalNode], parent: str, item: PlanItem) -> GoalNode:
    node = GoalNode(
        node_id=make_child_id(nodes, parent),
        description=item.description,
        parent=parent,
        success_criteria=item.success_criteria,
        effort=item.effort,
        priority=item.priority or 0,
        step_budget=item.step_budget,
        token_budget=item.token_budget,
    )
    nodes[parent].children.append(node.node_id)
    nodes[node.node_id] = node
    return node


def _link_dependencies(nodes: dict[str, GoalNode], placed: list[tuple[PlanItem, str]]) -> list[str]:
    """Add the dependencies that a plan names; return those that name no goal or close a cycle."""
    refused, ties = [], []
    called = _index_names(placed)
    for item, node_id in placed:
        for name in dict.fromkeys(item.waits_for):
            other = _resolve_name(nodes, called, name, node_id)
            if other is None:
                refused.append(f"{node_id} waits for {name!r}, which the plan does not have.")
            else:
                ties.append((node_id, other))
    refused += _add_dependencies(nodes, ties[:_MAX_DEPENDENCIES])
    if len(ties) > _MAX_DEPENDENCIES:
        refused.append(f"The first {_MAX_DEPENDENCIES} of {len(ties)} dependencies were taken.")
    return refused[:_REFUSALS_KEPT]


def _add_dependencies(nodes: dict[str, GoalNode], ties: list[tuple[str, str]]) -> list[str]:
    """Add dependencies, all at once if there is no cycle, else one by one; return the refused ones."""
    for node_id, other in ties:
        nodes[node_id].dependencies.append(other)
    if not find_cycle(nodes):
        return []
    for node_id, _ in ties:
        nodes[node_id].dependencies.clear()
    refused = []
    for node_id, other in ties:
        nodes[node_id].dependencies.append(other)
        if find_cycle(nodes):
            nodes[node_id].dependencies.pop()
            refused.append(f"{node_id} cannot wait for {other}: they would wait for each other.")
    return refused


def _index_names(placed: list[tuple[PlanItem, str]]) -> dict[str, list[str]]:
    """Return goal ids by what a plan may call a goal: its number, its description, its place in the tree."""
    called: dict[str, list[str]] = {}
    for item, node_id in placed:
        for name in dict.fromkeys((item.number, normalize_description(item.description))):
            called.setdefault(name, []).append(node_id)
    for _, node_id in placed:
        called.setdefault(node_id, []).append(node_id)
    return called


def _resolve_name(nodes: Nodes, called: dict[str, list[str]], name: str, node_id: str) -> str | None:
    """Return the goal that a plan refers to: a sibling of that name first, else the first so named."""
    named = [
        other
        for key in (name, normalize_description(name))
        for other in called.get(key, ())
        if other != node_id
    ]
    siblings = [other for other in named if nodes[other].parent == nodes[node_id].parent]
    return next(iter([*siblings, *named]), None)
