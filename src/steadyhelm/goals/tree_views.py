"""Render a goal tree as text for people and models: one line per goal, marked with its status."""

from collections.abc import Iterator

from steadyhelm.goals.plan_annotations import STATUS_MARKS
from steadyhelm.goals.tree_nodes import ROOT, GoalNode, GoalStatus, Nodes


def format_percent(share: float) -> str:
    """Return a share as a percentage, rounded down: less than all is never shown as 100 %.

    >>> format_percent(0.999), format_percent(1.0), format_percent(0.2)
    ('99 %', '100 %', '20 %')
    """
    return f"{int(share * 100 + 1e-9)} %"


def render_tree(nodes: Nodes, progress: float, *, most_lines: int) -> str:
    """Return the whole tree as text. Lines beyond `most_lines` are counted instead."""
    lines = list(_iter_lines(nodes, ROOT, 0))
    shown = lines[: max(1, most_lines)]
    if len(lines) > len(shown):
        shown.append(f"… and {len(lines) - len(shown)} more lines")
    heading = f"Goal: {nodes[ROOT].description or '(not given)'} ({format_percent(progress)})"
    return "\n".join([heading, *shown])


def _iter_lines(nodes: Nodes, node_id: str, level: int) -> Iterator[str]:
    for child in nodes[node_id].children:
        node = nodes[child]
        yield f"{'  ' * level}[{STATUS_MARKS[node.status]}] {child}. {node.description}"
        if remark := _describe_error(node):
            yield f"{'  ' * level}    {remark}"
        yield from _iter_lines(nodes, child, level + 1)


def _describe_error(node: GoalNode) -> str:
    """Return why it failed, was skipped or is blocked; empty when no reason was given."""
    if node.children or not node.error:
        return ""
    why = {GoalStatus.FAILED: "failed", GoalStatus.SKIPPED: "skipped", GoalStatus.BLOCKED: "blocked"}
    return f"{why[node.status]}: {node.error}" if node.status in why else ""
