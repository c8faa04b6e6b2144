"""The goal, taken apart: sub-goals and steps, how far they are, and whether anything moves."""

import math
from collections.abc import Iterable, Mapping
from typing import Any, Final, Self

import msgspec
from msgspec import Struct, field

from steadyhelm.errors import FormatError, NotFoundError, SettingsError
from steadyhelm.goals import tree_moves, tree_nodes
from steadyhelm.goals.lines import one_line
from steadyhelm.goals.plans import ITEMS_READ, read_plan
from steadyhelm.goals.replanning import planted
from steadyhelm.goals.tree_nodes import HARDEST, ROOT, ROOT_LENGTH, Count, GoalNode, GoalStatus
from steadyhelm.goals.tree_views import text_view

MOST_GOALS: Final = ITEMS_READ + 1
_TRIED_KEPT: Final = 20
_TRIED_LENGTH: Final = 700
_OVERSPENT_WEIGHT: Final = 0.4
_MOST_URGENT: Final = 1000
_DECIMALS: Final = 12


class GoalTree(Struct):
    r"""A goal with its sub-goals and their steps.

    It is its own state: msgspec encodes it whole, and a decoded tree goes on where it was.
    `tried` holds what failed, `refused` what of the latest plan was not taken.

    Args:
        goal: What is to be reached.
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
        tree_moves.whole("patience", self.patience, 1)
        if not math.isfinite(self.asked):
            raise SettingsError(f"asked must be a number, got {self.asked!r}.")
        self.goal = one_line(self.goal, ROOT_LENGTH)
        self.tried = [one_line(words, _TRIED_LENGTH) for words in self.tried[-_TRIED_KEPT:]]
        self.nodes = self.nodes or {ROOT: GoalNode(node_id=ROOT, description=self.goal)}
        if len(self.nodes) > MOST_GOALS:
            raise SettingsError(f"A goal tree holds at most {MOST_GOALS} goals, got {len(self.nodes)}.")
        tree_nodes.check(self.nodes)
        self._look_anew()

    @property
    def has_plan(self) -> bool:
        """Whether the goal was taken apart at all: without steps nothing can be told about progress."""
        return bool(self.nodes[ROOT].children)

    @property
    def status(self) -> GoalStatus:
        """How the goal as a whole stands."""
        return self.nodes[ROOT].status

    @property
    def focus(self) -> GoalNode | None:
        """The step under way, else the next one; None when nothing can be started."""
        return self.nodes.get(self.focus_id)

    @property
    def leaves(self) -> list[GoalNode]:
        """The steps, in the order of the plan."""
        return list(tree_nodes.leaves(self.nodes)) if self.has_plan else []

    def next_step(self) -> GoalNode | None:
        """The pending step whose dependencies are met, of the highest priority."""
        return tree_nodes.next_step(self.nodes)

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
        """Add a sub-goal, or with `parent` a step of one; gives its id, such as `2` or `2.1`."""
        if len(self.nodes) >= MOST_GOALS:
            raise SettingsError(f"A goal tree holds at most {MOST_GOALS} goals.")
        node = GoalNode(
            node_id=tree_nodes.next_id(self.nodes, self._node(parent).node_id),
            description=description,
            parent=parent,
            success_criteria=success_criteria,
            effort=tree_moves.whole("effort", effort, 1, HARDEST),
            priority=tree_moves.whole("priority", priority, -_MOST_URGENT, _MOST_URGENT) or 0,
            dependencies=[self._node(other).node_id for other in dict.fromkeys(dependencies)],
            step_budget=tree_moves.whole("step_budget", step_budget, 1),
            token_budget=tree_moves.whole("token_budget", token_budget, 1),
        )
        tree_moves.place(self.nodes, node)
        self._replanned()
        return node.node_id

    def depend(self, node_id: str, on: str) -> None:
        """Let one goal wait for another; refused where they would wait for each other."""
        tree_moves.tie(self.nodes, self._node(node_id), self._node(on))
        self._replanned()

    def activate(self, node_id: str) -> GoalStatus:
        """Begin a goal, or take it up again; blocked while something it depends on is not done."""
        node = self._node(node_id)
        tree_moves.begin(self.nodes, node)
        self._changed()
        return node.status

    def complete(self, node_id: str, artifacts: Iterable[Any] = ()) -> None:
        """The goal is reached; of one with steps, those still open are, and one that failed stays failed."""
        node = self._node(node_id)
        node.keep(artifacts)
        tree_moves.settle(self.nodes, node, GoalStatus.COMPLETE)
        self._changed()

    def fail(self, node_id: str, error: Any = "") -> None:
        """The goal, or what is still open of it, cannot be reached this way; remembered as tried."""
        node = self._node(node_id)
        tree_moves.settle(self.nodes, node, GoalStatus.FAILED, one_line(error))
        self._remember(node.description, one_line(error))
        self._changed()

    def skip(self, node_id: str, reason: Any = "") -> None:
        """The goal, or what is still open of it, is not needed."""
        tree_moves.settle(self.nodes, self._node(node_id), GoalStatus.SKIPPED, one_line(reason))
        self._changed()

    def block(self, node_id: str, reason: Any) -> None:
        """The goal waits for something outside the tree, until it is activated."""
        tree_moves.settle(self.nodes, self._node(node_id), GoalStatus.BLOCKED, one_line(reason) or "waiting")
        self._changed()

    def record_step(self, node_id: str | None = None, tokens_used: int = 0) -> None:
        """Count one step, and its tokens, for a goal and all above it; without an id for the focus."""
        node = self._node(node_id) if node_id is not None else self.focus or self.nodes[ROOT]
        tree_moves.charge(self.nodes, node, tokens_used)
        self.flat_steps += 1

    def calculate_progress_delta(self) -> float:
        """Progress since this was last asked, as an agent's loop asks once a step.

        A new plan, or one more step in it, is neither progress nor its opposite.
        """
        delta = round(self.progress - self.asked, _DECIMALS)
        self.asked = self.progress
        self.flat_asks = 0 if delta > 0 else self.flat_asks + 1
        return delta

    def get_stuck_score(self) -> float:
        """How stuck the work is, 0 to 1; 0 as well while there is no plan to tell it by (see `has_plan`).

        Steps without progress count most, approaching 1; steps or tokens over a budget add at most .4.
        When no step is left that could be started, it is 1.
        """
        if not self.has_plan or self.status.is_done:
            return 0.0
        focus = self.focus
        if focus is None:
            return 1.0
        flat = max(self.flat_asks, self.flat_steps)
        still = 1.0 - self.patience / flat if flat > self.patience else 0.0
        over = max(node.overspent for node in tree_nodes.lineage(self.nodes, focus))
        return still + (1.0 - still) * _OVERSPENT_WEIGHT * over

    def rebuild_from_plan(self, new_plan: Any) -> int:
        """Take the steps of a new plan, text or data; gives how many goals it holds.

        What was complete stays so where the words match, and what failed is remembered as tried.
        A plan with nothing to read in it changes nothing.
        """
        plan = read_plan(new_plan)
        if not plan.items:
            self.refused = [*plan.refused, "The plan has no step that could be read; the old one stays."]
            return 0
        for leaf in self.leaves:
            if leaf.status is GoalStatus.FAILED:
                self._remember(leaf.description, leaf.error)
        grown = planted(plan.items, self.nodes)
        self.nodes, self.refused = grown.nodes, [*plan.refused, *grown.refused]
        self._replanned()
        return len(self.nodes) - 1

    def to_text(self, *, most_lines: int = 60) -> str:
        """The tree in plain text, a line a goal.

        `[x]` is complete, `[>]` active, `[!]` failed, `[?]` blocked, `[-]` skipped, `[ ]` pending.
        """
        return text_view(self.nodes, self.progress, most_lines=most_lines)

    def to_dict(self) -> dict[str, Any]:
        """The tree as plain JSON data, with everything in it."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The tree `to_dict` gave; raises FormatError when it is none of ours, or no sound tree."""
        try:
            return msgspec.convert(data, cls)
        except msgspec.ValidationError as exc:
            raise FormatError(f"This is no goal tree: {exc}") from exc

    def _node(self, node_id: str) -> GoalNode:
        node = self.nodes.get(node_id) if isinstance(node_id, str) else None
        if node is None:
            known = ", ".join(list(self.nodes)[:10])
            raise NotFoundError(f"No goal of this tree has the id {node_id!r}. It has: {known}.")
        return node

    def _remember(self, description: str, error: str) -> None:
        words = f"{description}: {error}" if error else description
        self.tried = [*(known for known in self.tried if known != words), words][-_TRIED_KEPT:]

    def _look_anew(self) -> None:
        """Free what waited for something that is done, and see how far it all is and what comes next."""
        self.progress = tree_nodes.derive(self.nodes)
        if tree_moves.release(self.nodes):
            tree_nodes.derive(self.nodes)
        active = (leaf for leaf in self.leaves if leaf.status is GoalStatus.ACTIVE)
        focus = next(active, None) or self.next_step()
        self.focus_id = focus.node_id if focus else ""

    def _changed(self) -> None:
        """Something stands otherwise."""
        before = self.progress
        self._look_anew()
        if self.progress > before:
            self.flat_asks = self.flat_steps = 0

    def _replanned(self) -> None:
        """The plan is another: what was done under the old one still counts, the change itself does not."""
        due = self.progress - self.asked
        self._look_anew()
        self.asked = round(self.progress - due, _DECIMALS)
