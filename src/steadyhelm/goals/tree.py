"""Keep a goal with its sub-goals and steps, their progress, and how stuck the work is."""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Self

import msgspec
from msgspec import Struct, field

from steadyhelm.errors import FormatError, NotFoundError, SettingsError
from steadyhelm.goals import tree_nodes
from steadyhelm.goals.plan_lines import STATUS_MARKS, PlanItem
from steadyhelm.goals.plans import MAX_ITEMS, Plan, build_nodes, read_plan
from steadyhelm.goals.tree_nodes import (
    MAX_EFFORT,
    MAX_ROOT_CHARS,
    ROOT,
    Count,
    GoalNode,
    GoalStatus,
    Nodes,
    to_single_line,
)

MAX_GOALS: Final = MAX_ITEMS + 1
_TRIED_KEPT: Final = 20
_MAX_TRIED_CHARS: Final = 700
_OVERSPEND_WEIGHT: Final = 0.4
_MAX_PRIORITY: Final = 1000
_DECIMALS: Final = 12


class GoalTree(Struct):
    r"""A goal with its sub-goals and their steps.

    It is its own state: msgspec encodes it whole, and a decoded tree continues where it was.
    `tried` lists what failed, `refused` the parts of the latest plan that were not accepted.

    Args:
        goal: The goal of the run.
        patience: Steps without progress that are still ordinary.

    >>> tree = GoalTree("Mend the parser")
    >>> tree.rebuild_from_plan("1. Read parser.py\n2. Fix it (effort: 3)\n3. Run the tests (depends on 2)")
    3
    >>> tree.complete("1")
    >>> print(tree.to_text())
    Goal: Mend the parser (20 %)
    [x] 1. Read parser.py
    [ ] 2. Fix it
    [ ] 3. Run the tests
    >>> tree.focus.description, tree.activate("3")
    ('Fix it', <GoalStatus.BLOCKED: 'blocked'>)
    """

    goal: str
    patience: int = 5
    nodes: dict[str, GoalNode] = field(default_factory=dict)
    progress: float = 0.0
    focus_id: str = ""
    asked: float = 0.0
    flat_asks: Count = 0
    flat_steps: Count = 0
    tried: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        tree_nodes.check_whole_number("patience", self.patience, 1)
        if not math.isfinite(self.asked):
            raise SettingsError(f"asked must be a number, got {self.asked!r}.")
        self.goal = to_single_line(self.goal, MAX_ROOT_CHARS)
        self.tried = [to_single_line(words, _MAX_TRIED_CHARS) for words in self.tried[-_TRIED_KEPT:]]
        self.nodes = self.nodes or {ROOT: GoalNode(node_id=ROOT, description=self.goal)}
        if len(self.nodes) > MAX_GOALS:
            raise SettingsError(f"A goal tree holds at most {MAX_GOALS} goals, got {len(self.nodes)}.")
        tree_nodes.check_tree(self.nodes)
        self._refresh()

    @property
    def has_plan(self) -> bool:
        """Whether the goal has steps. Without them the progress is not known."""
        return bool(self.nodes[ROOT].children)

    @property
    def status(self) -> GoalStatus:
        """The status of the goal as a whole."""
        return self.nodes[ROOT].status

    @property
    def focus(self) -> GoalNode | None:
        """The active step, else the next one; None when no step can be started."""
        return self.nodes.get(self.focus_id)

    @property
    def leaves(self) -> list[GoalNode]:
        """The steps, in the order of the plan."""
        return list(tree_nodes.iter_leaves(self.nodes)) if self.has_plan else []

    def next_step(self) -> GoalNode | None:
        """Return the pending step of the highest priority whose dependencies are met."""
        return tree_nodes.find_next_step(self.nodes)

    def add(
        self,
        description: str,
        *,
        parent: str = ROOT,
        success_criteria: str = "",
        effort: int | None = None,
        priority: int = 0,
        dependencies: Iterable[str] = (),
        step_budget: int | None = None,
        token_budget: int | None = None,
    ) -> str:
        """Add a sub-goal, or with `parent` a step of one; return its id, such as `2` or `2.1`."""
        if len(self.nodes) >= MAX_GOALS:
            raise SettingsError(f"A goal tree holds at most {MAX_GOALS} goals.")
        node = GoalNode(
            node_id=tree_nodes.make_child_id(self.nodes, self._get_node(parent).node_id),
            description=description,
            parent=parent,
            success_criteria=success_criteria,
            effort=tree_nodes.check_whole_number("effort", effort, 1, MAX_EFFORT),
            priority=tree_nodes.check_whole_number("priority", priority, -_MAX_PRIORITY, _MAX_PRIORITY) or 0,
            dependencies=[self._get_node(other).node_id for other in dict.fromkeys(dependencies)],
            step_budget=tree_nodes.check_whole_number("step_budget", step_budget, 1),
            token_budget=tree_nodes.check_whole_number("token_budget", token_budget, 1),
        )
        tree_nodes.add_child(self.nodes, node)
        self._refresh_after_replan()
        return node.node_id

    def depend(self, node_id: str, on: str) -> None:
        """Make one goal wait for another. Raise SettingsError if they would wait for each other."""
        tree_nodes.add_dependency(self.nodes, self._get_node(node_id), self._get_node(on))
        self._refresh_after_replan()

    def activate(self, node_id: str) -> GoalStatus:
        """Start or restart a goal and return its status: blocked while a dependency is not done."""
        node = self._get_node(node_id)
        tree_nodes.start(self.nodes, node)
        self._update_progress()
        return node.status

    def complete(self, node_id: str, artifacts: Iterable[Any] = ()) -> None:
        """Mark a goal as complete. Its open steps become complete, failed ones stay failed."""
        node = self._get_node(node_id)
        node.add_artifacts(artifacts)
        tree_nodes.set_status(self.nodes, node, GoalStatus.COMPLETE)
        self._update_progress()

    def fail(self, node_id: str, error: Any = "") -> None:
        """Mark a goal, or its open steps, as failed, and add it to `tried`."""
        node = self._get_node(node_id)
        tree_nodes.set_status(self.nodes, node, GoalStatus.FAILED, to_single_line(error))
        self._add_tried(node.description, to_single_line(error))
        self._update_progress()

    def skip(self, node_id: str, reason: Any = "") -> None:
        """Mark a goal, or its open steps, as not needed."""
        tree_nodes.set_status(self.nodes, self._get_node(node_id), GoalStatus.SKIPPED, to_single_line(reason))
        self._update_progress()

    def block(self, node_id: str, reason: Any) -> None:
        """Mark a goal as waiting for something outside the tree, until it is activated."""
        tree_nodes.set_status(
            self.nodes, self._get_node(node_id), GoalStatus.BLOCKED, to_single_line(reason) or "waiting"
        )
        self._update_progress()

    def record_step(self, node_id: str | None = None, tokens_used: int = 0) -> None:
        """Count one step and its tokens for a goal and its ancestors; without an id, for the focus."""
        node = self._get_node(node_id) if node_id is not None else self.focus or self.nodes[ROOT]
        tree_nodes.count_step(self.nodes, node, tokens_used)
        self.flat_steps += 1

    def calculate_progress_delta(self) -> float:
        """Return the progress since the last call of this method. An agent loop calls it once per step.

        A new plan, or one more step in it, counts neither as progress nor against it.
        """
        delta = round(self.progress - self.asked, _DECIMALS)
        self.asked = self.progress
        self.flat_asks = 0 if delta > 0 else self.flat_asks + 1
        return delta

    def get_stuck_score(self) -> float:
        """Return how stuck the work is, 0 to 1; 0 also while there is no plan (see `has_plan`).

        Steps without progress count most, approaching 1; steps or tokens over a budget add at most .4.
        It is 1 when no step is left that could be started.
        """
        if not self.has_plan or self.status.is_done:
            return 0.0
        focus = self.focus
        if focus is None:
            return 1.0
        flat = max(self.flat_asks, self.flat_steps)
        still = 1.0 - self.patience / flat if flat > self.patience else 0.0
        over = max(node.overspend for node in tree_nodes.iter_lineage(self.nodes, focus))
        return still + (1.0 - still) * _OVERSPEND_WEIGHT * over

    def rebuild_from_plan(self, new_plan: Any) -> int:
        """Replace the steps by those of a new plan, text or data; return the number of its goals.

        Complete steps with the same description stay complete, and failed ones are added to `tried`.
        A plan without readable steps changes nothing.
        """
        plan = read_plan(new_plan)
        if not plan.items:
            self.refused = [*plan.refused, "The plan has no step that could be read; the old one stays."]
            return 0
        return self._rebuild(plan)

    @classmethod
    def from_items(cls, goal: str, items: list[PlanItem]) -> Self:
        """Return the tree of a plan that was read before."""
        tree = cls(goal)
        tree._rebuild(Plan(items, []))
        return tree

    def to_text(self, *, most_lines: int = 60) -> str:
        """Return the tree in plain text, one line per goal.

        `[x]` is complete, `[>]` active, `[!]` failed, `[?]` blocked, `[-]` skipped, `[ ]` pending.
        """
        return render_tree(self.nodes, self.progress, most_lines=most_lines)

    def to_dict(self) -> dict[str, Any]:
        """Return the whole tree as plain JSON data."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the tree from the data of `to_dict`. Raise FormatError for anything else."""
        try:
            return msgspec.convert(data, cls)
        except msgspec.ValidationError as exc:
            raise FormatError(f"This is no goal tree: {exc}") from exc

    def _rebuild(self, plan: Plan) -> int:
        """Replace the steps by those of a plan; return the number of its goals."""
        for leaf in self.leaves:
            if leaf.status is GoalStatus.FAILED:
                self._add_tried(leaf.description, leaf.error)
        rebuilt = build_nodes(plan.items, self.nodes)
        self.nodes, self.refused = rebuilt.nodes, [*plan.refused, *rebuilt.refused]
        self._refresh_after_replan()
        return len(self.nodes) - 1

    def _get_node(self, node_id: str) -> GoalNode:
        node = self.nodes.get(node_id) if isinstance(node_id, str) else None
        if node is None:
            known = ", ".join(list(self.nodes)[:10])
            raise NotFoundError(f"No goal of this tree has the id {node_id!r}. It has: {known}.")
        return node

    def _add_tried(self, description: str, error: str) -> None:
        words = f"{description}: {error}" if error else description
        self.tried = [*(known for known in self.tried if known != words), words][-_TRIED_KEPT:]

    def _refresh(self) -> None:
        """Unblock steps whose dependencies are done, and update progress and focus."""
        self.progress = tree_nodes.update_statuses(self.nodes)
        if tree_nodes.unblock_ready(self.nodes):
            tree_nodes.update_statuses(self.nodes)
        active = (leaf for leaf in self.leaves if leaf.status is GoalStatus.ACTIVE)
        focus = next(active, None) or self.next_step()
        self.focus_id = focus.node_id if focus else ""

    def _update_progress(self) -> None:
        """Refresh after a change of status. Progress resets the counts of steps without it."""
        before = self.progress
        self._refresh()
        if self.progress > before:
            self.flat_asks = self.flat_steps = 0

    def _refresh_after_replan(self) -> None:
        """Refresh after a change of the plan. Unreported progress stays due; the change counts nothing."""
        due = self.progress - self.asked
        self._refresh()
        self.asked = round(self.progress - due, _DECIMALS)


# Render a goal tree as text for people and models: one line per goal, marked with its status.


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
