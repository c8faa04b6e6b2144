"""Turn a plan into the nodes of a tree, keeping what the old tree knew about goals of the same words."""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from steadyhelm.goals.plan_lines import PlanItem
from steadyhelm.goals.tree_nodes import ROOT, GoalNode, GoalStatus, Nodes, in_circle, next_id

_DEPENDENCIES_TAKEN: Final = 200
_REFUSALS_KEPT: Final = 20
_WORD: Final = re.compile(r"\w+")
# Words a model leaves out or puts in when it writes the same step again.
_FILLERS: Final = frozenset(
    {"a", "an", "the", "of", "for", "to", "in", "on", "and", "then", "all", "again", "with"}
)
_KEPT: Final = frozenset({GoalStatus.COMPLETE, GoalStatus.SKIPPED, GoalStatus.ACTIVE})


class Planted(NamedTuple):
    """The nodes of a new tree, and what of the plan was not taken."""

    nodes: dict[str, GoalNode]
    refused: list[str]


def words_key(description: str) -> str:
    """What makes two descriptions the same step: their words, whatever stands between them.

    >>> words_key("Write the tests.") == words_key("write tests")
    True
    """
    words = _WORD.findall(description.lower())
    return " ".join(word for word in words if word not in _FILLERS) or " ".join(words) or description


def planted(items: Iterable[PlanItem], old: Nodes) -> Planted:
    """The tree a plan describes, under the root of the old one."""
    root = old[ROOT]
    nodes = {ROOT: GoalNode(node_id=ROOT, description=root.description)}
    carry_over(root, nodes[ROOT])
    known = _by_words(old)
    placed: list[tuple[PlanItem, str]] = []
    parents = [ROOT]
    for item in items:
        del parents[item.level + 1 :]
        node = _grown(nodes, parents[-1], item)
        before = known.get(words_key(item.description))
        if before:
            carry_over(before.pop(0), node)
        if item.status is not None and not node.status.is_done:
            node.status = item.status
        parents.append(node.node_id)
        placed.append((item, node.node_id))
    return Planted(nodes, _wire(nodes, placed))


def carry_over(before: GoalNode, node: GoalNode) -> None:
    """What was done and spent is not forgotten; what failed or was blocked may be tried anew."""
    if before.status in _KEPT:
        node.status = before.status
    node.steps_taken, node.tokens_used = before.steps_taken, before.tokens_used
    node.artifacts = list(before.artifacts)
    node.success_criteria = node.success_criteria or before.success_criteria
    node.effort = node.effort or before.effort
    node.step_budget = node.step_budget or before.step_budget
    node.token_budget = node.token_budget or before.token_budget


def _by_words(old: Nodes) -> dict[str, list[GoalNode]]:
    """The old goals by their words, in order: each is carried over once."""
    known: dict[str, list[GoalNode]] = {}
    for node in old.values():
        if node.node_id != ROOT:
            known.setdefault(words_key(node.description), []).append(node)
    return known


def _grown(nodes: dict[str, GoalNode], parent: str, item: PlanItem) -> GoalNode:
    node = GoalNode(
        node_id=next_id(nodes, parent),
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


def _wire(nodes: dict[str, GoalNode], placed: list[tuple[PlanItem, str]]) -> list[str]:
    """Tie the dependencies a plan names; one that names nothing, or closes a circle, is left out and told."""
    refused, ties = [], []
    called = _by_name(placed)
    for item, node_id in placed:
        for name in dict.fromkeys(item.waits_for):
            other = _meant(nodes, called, name, node_id)
            if other is None:
                refused.append(f"{node_id} waits for {name!r}, which the plan does not have.")
            else:
                ties.append((node_id, other))
    refused += _tied(nodes, ties[:_DEPENDENCIES_TAKEN])
    if len(ties) > _DEPENDENCIES_TAKEN:
        refused.append(f"The first {_DEPENDENCIES_TAKEN} of {len(ties)} dependencies were taken.")
    return refused[:_REFUSALS_KEPT]


def _tied(nodes: dict[str, GoalNode], ties: list[tuple[str, str]]) -> list[str]:
    """Let goals wait for others, all at once where that is sound; else one by one, telling what is not."""
    for node_id, other in ties:
        nodes[node_id].dependencies.append(other)
    if not in_circle(nodes):
        return []
    for node_id, _ in ties:
        nodes[node_id].dependencies.clear()
    refused = []
    for node_id, other in ties:
        nodes[node_id].dependencies.append(other)
        if in_circle(nodes):
            nodes[node_id].dependencies.pop()
            refused.append(f"{node_id} cannot wait for {other}: they would wait for each other.")
    return refused


def _by_name(placed: list[tuple[PlanItem, str]]) -> dict[str, list[str]]:
    """What a plan may call a goal: its number or id, its words, and the place it has in the tree."""
    called: dict[str, list[str]] = {}
    for item, node_id in placed:
        for name in dict.fromkeys((item.number, words_key(item.description))):
            called.setdefault(name, []).append(node_id)
    for _, node_id in placed:
        called.setdefault(node_id, []).append(node_id)
    return called


def _meant(nodes: Nodes, called: dict[str, list[str]], name: str, node_id: str) -> str | None:
    """The goal a plan means by a name: a sibling of that name first, else the first so named."""
    named = [other for key in (name, words_key(name)) for other in called.get(key, ()) if other != node_id]
    siblings = [other for other in named if nodes[other].parent == nodes[node_id].parent]
    return next(iter([*siblings, *named]), None)
