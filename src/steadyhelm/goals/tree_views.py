"""A goal tree for people and models to read: one line a goal, marked with how it stands."""

from collections.abc import Iterator

from steadyhelm.goals.plan_words import MARKS
from steadyhelm.goals.tree_nodes import ROOT, GoalNode, GoalStatus, Nodes


def percent(share: float) -> str:
    """A share in words; less than all of it is never shown as all.

    >>> percent(0.999), percent(1.0), percent(0.2)
    ('99 %', '100 %', '20 %')
    """
    return f"{int(share * 100 + 1e-9)} %"


def text_view(nodes: Nodes, progress: float, *, most_lines: int) -> str:
    """The whole tree; a line that would be too many is counted instead."""
    lines = list(_lines(nodes, ROOT, 0))
    shown = lines[: max(1, most_lines)]
    if len(lines) > len(shown):
        shown.append(f"… and {len(lines) - len(shown)} more lines")
    heading = f"Goal: {nodes[ROOT].description or '(not given)'} ({percent(progress)})"
    return "\n".join([heading, *shown])


def _lines(nodes: Nodes, node_id: str, level: int) -> Iterator[str]:
    for child in nodes[node_id].children:
        node = nodes[child]
        yield f"{'  ' * level}[{MARKS[node.status]}] {child}. {node.description}"
        if remark := _remark(node):
            yield f"{'  ' * level}    {remark}"
        yield from _lines(nodes, child, level + 1)


def _remark(node: GoalNode) -> str:
    """Why it failed, was skipped or is blocked, where somebody said so."""
    if node.children or not node.error:
        return ""
    why = {GoalStatus.FAILED: "failed", GoalStatus.SKIPPED: "skipped", GoalStatus.BLOCKED: "blocked"}
    return f"{why[node.status]}: {node.error}" if node.status in why else ""
