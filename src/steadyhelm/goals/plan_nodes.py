"""Build the nodes of a tree from a plan, keeping the state of old goals with the same description."""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from steadyhelm.goals.plan_lines import PlanItem
from steadyhelm.goals.tree_nodes import ROOT, GoalNode, GoalStatus, Nodes, find_cycle, make_child_id
from steadyhelm.lexicons import load_lexicon

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
