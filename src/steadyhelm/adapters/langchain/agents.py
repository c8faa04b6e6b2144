"""The agents of LangChain at work under one monitor: where they begin, pause, go on and end."""

from collections import OrderedDict, deque
from collections.abc import Hashable, Mapping
from typing import Any, Final
from uuid import UUID

from steadyhelm.adapters.langchain.messages import is_continued
from steadyhelm.adapters.langchain.scopes import Node, Scope, Tree, is_made
from steadyhelm.boundary.driver import Boundary
from steadyhelm.errors import RunStopped
from steadyhelm.forks import ForkSafeLock

_PAUSED_KEPT: Final = 1000
_CLAIMED_KEPT: Final = 256


class Agents:
    """Says which agent a callback belongs to, and which agents are watched.

    Watched are those that were wrapped, those with our middleware, those whose first callback run was
    claimed, and with `is_everywhere` all others.
    A graph that starts inside a tool, and one that `create_agent` made, is an agent inside an agent; other
    graphs inside a graph are parts of it.

    Args:
        boundary: Where agents are told that nobody wrapped.
    """

    def __init__(self, boundary: Boundary) -> None:
        self.tree = Tree()
        self.is_everywhere = False
        self._boundary = boundary
        self._claimed: deque[UUID] = deque(maxlen=_CLAIMED_KEPT)
        self._paused: OrderedDict[Hashable, Scope] = OrderedDict()
        self._lock = ForkSafeLock()

    def claim(self, run_id: UUID, parent_run_id: UUID | None) -> None:
        """What starts here shall be watched, unless it is inside of something that started before."""
        if self.tree.above(parent_run_id) is None:
            self._claimed.append(run_id)

    def started(
        self,
        run_id: UUID,
        above: Node | None,
        given: Any,
        *,
        name: str,
        tags: list[str] | None,
        metadata: Mapping[str, Any] | None,
    ) -> None:
        """A graph, one of its nodes, or another chain has started: an agent of its own, or a part of one."""
        told = metadata or {}
        agent = name if name and told.get("lc_agent_name") == name else ""
        is_node = any(tag.startswith("graph:step") for tag in tags or ())
        if above is None:
            scope = self._alone(run_id, given, agent, told.get("thread_id"))
            self.tree.add(run_id, Node(scope, "chain", is_first=True), metadata)
        elif above.kind == "tool" or (not is_node and (agent or (is_made(metadata) and not above.is_made))):
            scope = self._inside(above, given, agent)
            self.tree.add(run_id, Node(scope, "chain", is_first=True, call_id=above.call_id), metadata)
        else:
            self.tree.add(run_id, Node(above.scope, "chain"), metadata)

    def single(self, run_id: UUID, given: Any, agent: str = "") -> Scope:
        """An agent that is just one step, or begins with this one."""
        is_watched = self.is_everywhere or run_id in self._claimed
        return Scope(self._boundary if is_watched else None, given=given, agent=agent)

    def resumed(self, thread: Hashable, given: Any) -> Scope | None:
        """The agent that paused in this conversation, if it shall go on; another question ends it."""
        with self._lock:
            scope = self._paused.pop(thread, None) if thread is not None else None
        if scope is None:
            return None
        is_alive = scope.run is not None and self._boundary.monitor.seen(scope.run.run_id) > 0
        if not is_continued(given) or not is_alive:
            _end(scope)
            return None
        scope.is_paused = False
        return scope

    def pause(self, scope: Scope) -> None:
        """An agent waits for an answer, which may never come."""
        with self._lock:
            self._paused[scope.thread] = scope
            dropped = self._paused.popitem(last=False)[1] if len(self._paused) > _PAUSED_KEPT else None
        if dropped is not None:
            _end(dropped)

    def leave(self, node: Node, error: BaseException | None) -> None:
        """An agent's work is over, unless it waits for an answer, or somebody else says so."""
        scope = node.scope
        if not node.is_first or scope.is_owned:
            return
        self.tree.drop(scope)
        if scope.is_paused and scope.parent is not None:
            scope.parent.paused_inside[f"{node.call_id}/{scope.agent}"] = scope
            return
        if scope.is_paused and scope.thread is not None:
            self.pause(scope)
            return
        if isinstance(error, self._boundary.control) and not isinstance(error, RunStopped):
            error = None
        # An agent that failed before its first step is told of too.
        run = scope.begun() if error is not None else scope.run
        if run is not None:
            run.end(error)

    def _alone(self, run_id: UUID, given: Any, agent: str, thread: Hashable) -> Scope:
        scope = self.resumed(thread, given) or self.single(run_id, given, agent)
        scope.thread, scope.is_owned = thread, False
        return scope

    def _inside(self, above: Node, given: Any, agent: str) -> Scope:
        scope = above.scope.paused_inside.pop(f"{above.call_id}/{agent}", None)
        if scope is None:
            return Scope(above.scope.inner, given=given, agent=agent, parent=above.scope)
        scope.is_paused = False
        return scope


def _end(scope: Scope) -> None:
    for inside in scope.paused_inside.values():
        _end(inside)
    if scope.run is not None:
        scope.run.end(outcome="left early")
