"""The goals of a tree, which of them wait for which, and how far they are."""

import enum
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Final

from msgspec import Meta, Struct, field

from steadyhelm.errors import SettingsError
from steadyhelm.goals.lines import LONGEST, one_line

ROOT: Final = "goal"
HARDEST: Final = 5
DEEPEST: Final = 2
ARTIFACTS_KEPT: Final = 20
ROOT_LENGTH: Final = 1000
_ID_LENGTH: Final = 40

Count = Annotated[int, Meta(ge=0)]
Limit = Annotated[int, Meta(ge=1)]
Effort = Annotated[int, Meta(ge=1, le=HARDEST)]


class GoalStatus(enum.StrEnum):
    """How a goal stands."""

    PENDING = "pending"
    ACTIVE = "active"
    COMPLETE = "complete"
    BLOCKED = "blocked"
    FAILED = "failed"
    SKIPPED = "skipped"

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to do, and nothing went wrong."""
        return self in {GoalStatus.COMPLETE, GoalStatus.SKIPPED}

    @property
    def is_open(self) -> bool:
        """Whether something is still to come."""
        return self in {GoalStatus.PENDING, GoalStatus.ACTIVE, GoalStatus.BLOCKED}


_NOT_BEGUN: Final = frozenset({GoalStatus.PENDING, GoalStatus.BLOCKED})


class GoalNode(Struct, kw_only=True):
    """One goal: the root, a sub-goal, or a step.

    `effort` says how much it weighs beside its siblings, 1 to 5; None lets a step count 1 and a sub-goal as
    many as it has steps. `status` is told for a goal without steps and follows from the steps otherwise.
    `dependencies` are the ids of goals that must be done before this one can start.
    `steps_taken` and `tokens_used` include what was spent below it; a budget of None is no budget.
    """

    node_id: str
    description: str
    parent: str = ""
    children: list[str] = field(default_factory=list)
    success_criteria: str = ""
    effort: Effort | None = None
    priority: int = 0
    status: GoalStatus = GoalStatus.PENDING
    dependencies: list[str] = field(default_factory=list)
    step_budget: Limit | None = None
    steps_taken: Count = 0
    token_budget: Limit | None = None
    tokens_used: Count = 0
    artifacts: list[str] = field(default_factory=list)
    error: str = ""

    def __post_init__(self) -> None:
        self.description = one_line(self.description, ROOT_LENGTH if self.node_id == ROOT else LONGEST)
        self.success_criteria = one_line(self.success_criteria)
        self.error = one_line(self.error)
        self.artifacts = [one_line(name) for name in self.artifacts[-ARTIFACTS_KEPT:]]

    @property
    def weight(self) -> int:
        """What it counts beside its siblings."""
        return self.effort or max(1, min(HARDEST, len(self.children)))

    @property
    def overspent(self) -> float:
        """How far it is over its budget of steps or tokens: 0 within it, near 1 far over it."""
        spent = ((self.step_budget, self.steps_taken), (self.token_budget, self.tokens_used))
        return max(1.0 - budget / used if budget and used > budget else 0.0 for budget, used in spent)

    def keep(self, artifacts: Iterable[Any]) -> None:
        """Note what it has produced, the latest twenty, each once."""
        named = [one_line(name) for name in artifacts]
        self.artifacts = list(dict.fromkeys([*self.artifacts, *filter(None, named)]))[-ARTIFACTS_KEPT:]


Nodes = Mapping[str, GoalNode]


def next_id(nodes: Nodes, parent: str) -> str:
    """The id of the goal that would be added under one: `2`, or `2.1`."""
    place = len(nodes[parent].children) + 1
    return f"{place}" if parent == ROOT else f"{parent}.{place}"


def leaves(nodes: Nodes, node_id: str = ROOT) -> Iterator[GoalNode]:
    """The goals without steps of their own, at or below one, in the order of the plan."""
    node = nodes[node_id]
    if not node.children:
        yield node
    for child in node.children:
        yield from leaves(nodes, child)


def lineage(nodes: Nodes, node: GoalNode) -> Iterator[GoalNode]:
    """A goal and those above it, from the bottom up."""
    yield node
    while node.parent:
        node = nodes[node.parent]
        yield node


def unmet(nodes: Nodes, node: GoalNode) -> list[str]:
    """The ids of the goals that must be done before this one can start."""
    return [
        other
        for above in lineage(nodes, node)
        for other in above.dependencies
        if not nodes[other].status.is_done
    ]


def derive(nodes: Nodes, node_id: str = ROOT) -> float:
    """Bring the status of every goal that has steps in line with them; gives the progress, 0 to 1."""
    node = nodes[node_id]
    if not node.children:
        return 1.0 if node.status.is_done else 0.0
    done, weights = 0.0, 0
    for child in node.children:
        done += derive(nodes, child) * nodes[child].weight
        weights += nodes[child].weight
    node.status = _status_of([nodes[child].status for child in node.children])
    return done / weights


def _status_of(children: list[GoalStatus]) -> GoalStatus:
    kinds = set(children)
    still_open = {kind for kind in kinds if kind.is_open}
    if not still_open:
        # Settled, but with a failure in it, a goal is not complete: something it needs is missing.
        if GoalStatus.FAILED in kinds:
            return GoalStatus.FAILED
        return GoalStatus.COMPLETE if GoalStatus.COMPLETE in kinds else GoalStatus.SKIPPED
    if still_open == {GoalStatus.BLOCKED}:
        return GoalStatus.BLOCKED
    return GoalStatus.PENDING if kinds <= _NOT_BEGUN else GoalStatus.ACTIVE


def next_step(nodes: Nodes) -> GoalNode | None:
    """The pending step whose dependencies are met, of the highest priority; the plan's order decides ties."""
    ready = [
        leaf
        for leaf in leaves(nodes)
        if leaf.node_id != ROOT and leaf.status is GoalStatus.PENDING and not unmet(nodes, leaf)
    ]
    return max(ready, key=lambda leaf: _urgency(nodes, leaf), default=None)


def _urgency(nodes: Nodes, leaf: GoalNode) -> list[int]:
    """Its sub-goal's priority, then its own."""
    return [node.priority for node in lineage(nodes, leaf)][-2::-1]


def check(nodes: Nodes) -> None:
    """Refuse what is no tree, or could never be finished; the message says which goals are meant."""
    if ROOT not in nodes or nodes[ROOT].parent:
        raise SettingsError(f"A goal tree needs a goal with the id {ROOT!r} that has no parent.")
    _check_shape(nodes)
    for node_id, node in nodes.items():
        if node.node_id != node_id or node_id != one_line(node_id, _ID_LENGTH):
            raise SettingsError(f"Goal {node.node_id!r} is kept under the id {node_id!r}.")
        for other in node.dependencies:
            if other not in nodes:
                raise SettingsError(f"Goal {node_id!r} depends on {other!r}, which is not in the tree.")
    circle = in_circle(nodes)
    if circle:
        raise SettingsError(f"These goals wait for each other, so none could be finished: {circle[:5]!r}.")


def _check_shape(nodes: Nodes) -> None:
    levels = {ROOT: 0}
    waiting = [ROOT]
    for node_id in waiting:
        for child in nodes[node_id].children:
            if child not in nodes or child in levels or nodes[child].parent != node_id:
                raise SettingsError(
                    f"Goal {child!r} must stand under exactly one goal, not under {node_id!r}."
                )
            levels[child] = levels[node_id] + 1
            if levels[child] > DEEPEST:
                raise SettingsError(f"Goal {child!r} stands too deep: a tree is goal, sub-goals and steps.")
            waiting.append(child)
    if len(levels) != len(nodes):
        raise SettingsError(f"Goals that stand under no other: {sorted(set(nodes) - set(levels))[:5]!r}.")


def in_circle(nodes: Nodes) -> list[str]:
    """The goals that could never start, since they wait for each other; empty in a sound tree.

    A goal starts after what it depends on and after the goal it stands under has; it is finished when all
    its steps are.
    """
    after: dict[tuple[str, bool], list[tuple[str, bool]]] = {}
    for node in nodes.values():
        start, finish = (node.node_id, False), (node.node_id, True)
        after.setdefault(start, []).extend([finish, *((child, False) for child in node.children)])
        if node.parent:
            after.setdefault(finish, []).append((node.parent, True))
        for other in node.dependencies:
            after.setdefault((other, True), []).append(start)
    waits = dict.fromkeys(((node_id, end) for node_id in nodes for end in (False, True)), 0)
    for points in after.values():
        for point in points:
            waits[point] += 1
    free = deque(point for point, count in waits.items() if not count)
    while free:
        point = free.popleft()
        del waits[point]
        for later in after.get(point, ()):
            waits[later] -= 1
            if not waits[later]:
                free.append(later)
    return [node_id for node_id, end in waits if not end]
