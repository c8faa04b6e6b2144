"""Which agent a callback of LangChain belongs to: callbacks form trees, and an agent is a stretch of one."""

from collections import OrderedDict
from collections.abc import Hashable, Mapping
from typing import Any, Final, Literal
from uuid import UUID

from steadyhelm.adapter import Instruction
from steadyhelm.adapters.langchain.messages import Asked, goal_of
from steadyhelm.boundary.agent_run import AgentRun
from steadyhelm.boundary.conversation_edits import ConversationEdits
from steadyhelm.boundary.driver import Boundary
from steadyhelm.forks import ForkSafeLock

Kind = Literal["chain", "model", "tool"]

_NODES_KEPT: Final = 10_000
_ASKED_KEPT: Final = 256
SPACE: Final = "langgraph_checkpoint_ns"


class Scope:
    """One agent at work; its run begins with its first step, or when somebody begins it.

    `boundary` is where its steps are told, `inner` where those of agents inside it are; None while nobody
    watches it.
    `is_owned` says that whoever made the outermost call ends the run, `can_return` that it can be taken back,
    `is_paused` that it waits for an answer.
    `speaks_in` are the graphs in it where middleware of ours stands before the model; `can_refuse` says that
    some stands before the tools.
    `returning` is the return that whoever made the outermost call is to carry out.
    `under_way` are its callback runs of which no end was told yet.
    """

    def __init__(
        self, boundary: Boundary | None, *, given: Any = None, agent: str = "", parent: "Scope | None" = None
    ) -> None:
        self.boundary = boundary
        self.inner = boundary
        self.given = given
        self.agent = agent
        self.parent = parent
        self.run: AgentRun | None = None
        self.thread: Hashable = None
        self.is_owned = False
        self.is_linked = False
        self.is_paused = False
        self.speaks_in: set[str] = set()
        self.can_refuse = False
        self.can_return = False
        self.returning: Instruction | None = None
        self.asked: OrderedDict[str, Asked] = OrderedDict()
        self.paused_inside: dict[str, Scope] = {}
        self.under_way: set[UUID] = set()
        self.edits: dict[str, ConversationEdits] = {}
        self._lock = ForkSafeLock()

    def begun(self, given: Any = None) -> AgentRun | None:
        """The run, begun now if it is new, with what was given as its goal; None when nobody watches."""
        if self.run is not None or self.boundary is None:
            return self.run
        above = self.parent.begun() if self.parent is not None else None
        with self._lock:
            if self.run is None:
                goal = ""
                with self.boundary.guard("goal"):
                    goal = goal_of(self.given) or goal_of(given)
                self.run = self.boundary.start_run(goal, parent=above, agent=self.agent)
        return self.run

    def note_asked(self, asked: Asked) -> None:
        """The model asked for a call that somebody will tell of, or nobody."""
        self.asked[asked.call_id] = asked
        if len(self.asked) > _ASKED_KEPT:
            self.asked.popitem(last=False)


def graph_of(space: str) -> str:
    """The graph that a node stands in, by the place of the node: each has a conversation of its own.

    >>> graph_of("worker:5f50|model:d7a5")
    'worker:5f50'
    """
    return space.rpartition("|")[0]


def is_made(metadata: Mapping[str, Any] | None) -> bool:
    """Whether `create_agent` made what a callback run is in, by what LangChain tells its tracers."""
    return (metadata or {}).get("ls_integration") == "langchain_create_agent"


class Node:
    """One callback run: a chain, a model call or a tool call, and the agent it belongs to.

    `is_first` says that the agent is done when this is over, `is_made` that it is in a `create_agent` graph.
    """

    __slots__ = ("call_id", "is_first", "is_made", "kind", "model", "scope", "space")

    def __init__(
        self, scope: Scope, kind: Kind, *, is_first: bool = False, call_id: str = "", model: str = ""
    ) -> None:
        self.scope = scope
        self.kind = kind
        self.is_first = is_first
        self.call_id = call_id
        self.model = model
        self.space = ""
        self.is_made = True


class Tree:
    """The callback runs under way, by their ids; bounded, since not of every run the end is told."""

    def __init__(self) -> None:
        self._nodes: OrderedDict[UUID, Node] = OrderedDict()
        self._spaces: dict[str, Node] = {}
        self._lock = ForkSafeLock()

    def add(self, run_id: UUID, node: Node, metadata: Mapping[str, Any] | None = None) -> None:
        """A callback run has started."""
        node.space = str((metadata or {}).get(SPACE, ""))
        node.is_made = is_made(metadata)
        with self._lock:
            self._nodes[run_id] = node
            node.scope.under_way.add(run_id)
            if node.space and node.kind == "chain":
                self._spaces.setdefault(node.space, node)
            if len(self._nodes) > _NODES_KEPT:
                self._forget(*self._nodes.popitem(last=False))

    def remove(self, run_id: UUID) -> Node | None:
        """A callback run is over."""
        with self._lock:
            node = self._nodes.pop(run_id, None)
            if node is not None:
                self._forget(run_id, node)
        return node

    def drop(self, scope: Scope) -> None:
        """An agent is done: of calls that were cancelled nobody tells the end."""
        with self._lock:
            for run_id in list(scope.under_way):
                node = self._nodes.pop(run_id, None)
                if node is not None:
                    self._forget(run_id, node)
            scope.under_way.clear()

    def above(self, parent_run_id: UUID | None, metadata: Mapping[str, Any] | None = None) -> Node | None:
        """What a callback run stands in.

        A tracer may put runs of its own in between, which nobody tells us of: then its place in the graph
        says where it belongs.
        """
        if parent_run_id is None:
            return None
        with self._lock:
            found = self._nodes.get(parent_run_id)
            return found if found is not None else self._spaces.get(str((metadata or {}).get(SPACE, "")))

    def _forget(self, run_id: UUID, node: Node) -> None:
        node.scope.under_way.discard(run_id)
        if self._spaces.get(node.space) is node:
            del self._spaces[node.space]
