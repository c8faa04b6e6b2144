"""What can happen to the goals of a tree: they begin, wait, are reached, fail, and cost something."""

from typing import Any, Final

from steadyhelm.errors import SettingsError
from steadyhelm.goals.tree_nodes import (
    DEEPEST,
    GoalNode,
    GoalStatus,
    Nodes,
    in_circle,
    leaves,
    lineage,
    unmet,
)

MOST_COUNTED: Final = 1 << 53


def place(nodes: dict[str, GoalNode], node: GoalNode) -> None:
    """Put a new goal under its parent; refused where the tree would be no sound one any more."""
    above = nodes[node.parent]
    if not node.description:
        raise SettingsError("A goal needs words, got an empty description.")
    if len(list(lineage(nodes, above))) > DEEPEST:
        raise SettingsError(f"Goal {node.parent!r} is a step already: a tree is goal, sub-goals and steps.")
    nodes[node.node_id] = node
    above.children.append(node.node_id)
    if in_circle(nodes):
        above.children.pop()
        del nodes[node.node_id]
        raise SettingsError(
            f"A step of {node.parent!r} cannot wait for {node.dependencies!r}: that waits for it."
        )


def tie(nodes: Nodes, node: GoalNode, other: GoalNode) -> None:
    """Let one goal wait for another; refused where they would wait for each other."""
    if other.node_id in node.dependencies:
        return
    node.dependencies.append(other.node_id)
    if in_circle(nodes):
        node.dependencies.pop()
        raise SettingsError(
            f"Goal {node.node_id!r} cannot wait for {other.node_id!r}: they would wait for each other."
        )


def begin(nodes: Nodes, node: GoalNode) -> None:
    """Make a goal's first open step the active one; blocked when all of them wait for something."""
    steps = [leaf for leaf in leaves(nodes, node.node_id) if leaf is node or leaf.status.is_open]
    ready = next((leaf for leaf in steps if not unmet(nodes, leaf)), None)
    for leaf in steps if ready is None else [ready]:
        leaf.status = GoalStatus.BLOCKED if ready is None else GoalStatus.ACTIVE
        leaf.error = ""


def settle(nodes: Nodes, node: GoalNode, status: GoalStatus, error: str = "") -> None:
    """Give a step its status; for a goal with steps, those of them that are still open."""
    for leaf in leaves(nodes, node.node_id):
        if leaf is node or leaf.status.is_open:
            leaf.status, leaf.error = status, error


def release(nodes: Nodes) -> bool:
    """Free the steps that waited for others which are done by now; says whether there were any.

    One that is blocked from outside keeps its reason, and waits until somebody begins it.
    """
    freed = [
        leaf
        for leaf in leaves(nodes)
        if leaf.status is GoalStatus.BLOCKED and not leaf.error and not unmet(nodes, leaf)
    ]
    for leaf in freed:
        leaf.status = GoalStatus.PENDING
    return bool(freed)


def charge(nodes: Nodes, node: GoalNode, tokens_used: Any) -> None:
    """Count one step and its tokens for a goal and all above it."""
    tokens = tokens_used if isinstance(tokens_used, int) and tokens_used > 0 else 0
    for one in lineage(nodes, node):
        one.steps_taken = min(MOST_COUNTED, one.steps_taken + 1)
        one.tokens_used = min(MOST_COUNTED, one.tokens_used + tokens)


def whole(name: str, value: int | None, least: int | None = None, most: int | None = None) -> int | None:
    """A number somebody gave for a goal, within what it may be."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise SettingsError(f"{name} must be a whole number, got {value!r}.")
    if (least is not None and value < least) or (most is not None and value > most):
        allowed = f"{least} or more" if most is None else f"from {least} to {most}"
        raise SettingsError(f"{name} must be {allowed}, got {value!r}.")
    return value
