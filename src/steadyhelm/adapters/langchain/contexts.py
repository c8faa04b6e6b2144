"""The agents that callbacks belong to: callback runs form trees, and an agent is a part of one."""

from collections import OrderedDict, deque
from collections.abc import Hashable, Mapping
from typing import Any, Final, Literal
from uuid import UUID

from msgspec import Struct

from steadyhelm.adapter import Instruction, ModelReply
from steadyhelm.adapters.langchain.translate import RequestedToolCall, is_resumption, read_goal
from steadyhelm.boundary.conversation_edits import ConversationEdits
from steadyhelm.boundary.driver import LEFT_EARLY, Boundary, RunTable
from steadyhelm.bounded import BoundedDict
from steadyhelm.engine.agent_run import AgentRun
from steadyhelm.errors import RunStopped
from steadyhelm.forks import ForkSafeLock
from steadyhelm.host_objects import is_a

PLACE_KEY: Final = "langgraph_checkpoint_ns"
"""Where LangGraph's metadata name the place of a node, such as "worker:5f50|model:d7a5"."""

_MAX_CALLBACK_RUNS: Final = 10_000
_MAX_CLAIMED: Final = 256
_MAX_REQUESTED_CALLS: Final = 256


class MiddlewareCall(Struct):
    """A call that our middleware reports: the tool it is made to, and what came of it once that has ended.

    Other middleware inside ours may try it again, make it to another tool, or answer it by itself: then the
    tool was not called.
    """

    name: str
    has_tool: bool = True
    was_made: bool = False
    has_ended: bool = False
    output: Any = None
    error: BaseException | None = None


class AgentContext:
    """One agent at work, with the run that it is.

    Attributes:
        boundary: The boundary its steps are recorded at; None while it is not watched.
        inner_boundary: The boundary for agents inside it.
        is_anonymous: Whether it is inside a tool without a name of its own: its metadata may be those of the
            agent around it.
        is_wrapped: Whether a `GraphCall` ends the run; otherwise its first callback run does.
        is_attached: Whether the callbacks of that call have begun.
        is_paused: Whether it waits for an answer.
        is_ended: Whether a stop has ended it with a last message, and is not raised.
        is_entered: Whether code of its own belongs to the run already, by its outermost call.
        can_roll_back: Whether it can return to a checkpoint.
        can_deny: Whether our middleware is called before its tools.
        guided_graphs: The graphs in it where our middleware is called before the model.
        rollback: The rollback that the `GraphCall` must carry out.
        requested_calls: Calls the model asked for that were not reported yet.
        middleware_calls: Calls that our middleware reports, while they are made.
        paused_children: The agents inside it that wait for an answer, by call and name.
        callback_ids: Its callback runs that have not ended, by the numbers of their ids.
        edits: The edits of the conversation of each of its graphs.
    """

    def __init__(
        self,
        boundary: Boundary | None,
        *,
        given: Any = None,
        name: str = "",
        parent: "AgentContext | None" = None,
    ) -> None:
        self.boundary = boundary
        self.inner_boundary = boundary
        self.is_anonymous = False
        self.given = given
        self.name = name
        self.parent = parent
        self.run: AgentRun | None = None
        self.thread_id: Hashable = None
        self.is_wrapped = False
        self.is_attached = False
        self.is_paused = False
        self.is_ended = False
        self.is_entered = False
        self.can_roll_back = False
        self.can_deny = False
        self.guided_graphs: set[str] = set()
        self.rollback: Instruction | None = None
        self.requested_calls: BoundedDict[str, RequestedToolCall] = BoundedDict(_MAX_REQUESTED_CALLS)
        self.middleware_calls: dict[str, MiddlewareCall] = {}
        self.paused_children: dict[str, AgentContext] = {}
        self.callback_ids: set[int] = set()
        self.edits: dict[str, ConversationEdits] = {}
        self._lock = ForkSafeLock()

    def ensure_run(self, given: Any = None) -> AgentRun | None:
        """Return the run, started now if there is none; None when the agent is not watched.

        Its goal is in the agent's input, else in `given`.
        """
        if self.run is not None or self.boundary is None:
            return self.run
        parent = self.parent.ensure_run() if self.parent is not None else None
        with self._lock:
            if self.run is None:
                goal = ""
                with self.boundary.guard("goal"):
                    goal = read_goal(self.given) or read_goal(given)
                self.run = self.boundary.start_run(goal, parent=parent, agent=self.name)
        return self.run

    def end(self, outcome: str = LEFT_EARLY) -> None:
        """End the run, and those of the agents that wait inside it."""
        for child in self.paused_children.values():
            child.end(outcome)
        if self.run is not None:
            self.run.end(outcome=outcome)


class CallbackRun(Struct, eq=False):
    """One callback run: a chain, a model call or a tool call of an agent.

    `is_first` is whether the agent is done when this is over. `place` is the place of its node, `graph` that
    of the graph around it: each graph has a conversation of its own. `is_prebuilt` is whether it is in a
    graph that `create_agent` made.
    """

    context: AgentContext
    kind: Literal["chain", "model", "tool"]
    is_first: bool = False
    call_id: str = ""
    model: str = ""
    place: str = ""
    graph: str = ""
    is_prebuilt: bool = True


class AgentContexts:
    """The agents at work under one monitor, found by the callback runs that have not ended.

    Watched are agents that were wrapped, those with our middleware, those whose first callback run was
    claimed, and with `watches_all` all others.
    A graph that starts inside a tool, and one that `create_agent` made, is an agent inside an agent; other
    graphs inside a graph are parts of it.

    Args:
        boundary: The boundary for agents that were not wrapped.
    """

    def __init__(self, boundary: Boundary) -> None:
        self.watches_all = False
        self._boundary = boundary
        self._claimed: deque[UUID] = deque(maxlen=_MAX_CLAIMED)
        self._paused: RunTable[AgentContext] = RunTable(boundary, AgentContext.end)
        # Bounded, since not every callback run is reported to end. A UUID would compute its hash each time.
        self._callback_runs: OrderedDict[int, CallbackRun] = OrderedDict()
        self._places: dict[str, CallbackRun] = {}
        self._lock = ForkSafeLock()

    # --- callback runs -----------------------------------------------------------------------------------

    def find(self, callback_id: UUID | None, metadata: Mapping[str, Any] | None = None) -> CallbackRun | None:
        """Return the callback run with this id, if it has not ended.

        A tracer may put runs of its own in between, which are not reported to us: then it is found by the
        place in the graph that the metadata name.
        """
        if callback_id is None:
            return None
        with self._lock:
            found = self._callback_runs.get(callback_id.int)
            if found is None and metadata:
                found = self._places.get(str(metadata.get(PLACE_KEY, "")))
            return found

    def add(
        self, callback_id: UUID, callback_run: CallbackRun, metadata: Mapping[str, Any] | None = None
    ) -> None:
        """Keep a callback run that starts."""
        metadata = metadata or {}
        place = callback_run.place = str(metadata.get(PLACE_KEY, ""))
        callback_run.graph = place.rpartition("|")[0]
        callback_run.is_prebuilt = metadata.get("ls_integration") == "langchain_create_agent"
        with self._lock:
            self._callback_runs[callback_id.int] = callback_run
            callback_run.context.callback_ids.add(callback_id.int)
            if place and callback_run.kind == "chain":
                self._places.setdefault(place, callback_run)
            if len(self._callback_runs) > _MAX_CALLBACK_RUNS:
                self.remove(next(iter(self._callback_runs)))

    def remove(self, number: int) -> CallbackRun | None:
        """Forget a callback run that has ended, by the number of its id, and return it."""
        with self._lock:
            callback_run = self._callback_runs.pop(number, None)
            if callback_run is not None:
                callback_run.context.callback_ids.discard(number)
                if self._places.get(callback_run.place) is callback_run:
                    del self._places[callback_run.place]
        return callback_run

    def remove_all(self, context: AgentContext) -> None:
        """Forget the callback runs of an agent that is done: the end of a cancelled one is not reported.

        A model that was asked is recorded, though its reply is not known.
        """
        with self._lock:
            left = [(number, self.remove(number)) for number in list(context.callback_ids)]
            context.callback_ids.clear()
        for number, ended in left:
            if ended is not None and ended.kind == "model" and context.run is not None:
                context.run.after_model(ModelReply(model=ended.model), key=str(UUID(int=number)))

    # --- agents ------------------------------------------------------------------------------------------

    def claim(self, callback_id: UUID, parent_id: UUID | None) -> None:
        """Watch the agent that starts with this callback run, unless it is inside of another."""
        if self.find(parent_id) is None:
            self._claimed.append(callback_id)

    def start_chain(
        self,
        callback_id: UUID,
        above: CallbackRun | None,
        given: Any,
        *,
        name: str,
        tags: list[str] | None,
        metadata: Mapping[str, Any] | None,
    ) -> None:
        """Add a graph, a node or another chain that starts: an agent of its own, or a part of one."""
        details = metadata or {}
        agent = name if name and details.get("lc_agent_name") == name else ""
        if above is None:
            context = self._start_alone(callback_id, given, agent, details.get("thread_id"))
            callback_run = CallbackRun(context, "chain", is_first=True)
        elif (agent or above.kind == "tool" or not above.is_prebuilt) and _starts_agent(
            above, agent, tags, details
        ):
            context = self._start_inside(above, given, agent)
            callback_run = CallbackRun(context, "chain", is_first=True, call_id=above.call_id)
        else:
            callback_run = CallbackRun(above.context, "chain")
        self.add(callback_id, callback_run, metadata)

    def start_single(self, callback_id: UUID, given: Any, name: str = "") -> AgentContext:
        """Return the context of an agent that begins with this callback run, or is nothing but this."""
        is_watched = self.watches_all or callback_id in self._claimed
        return AgentContext(self._boundary if is_watched else None, given=given, name=name)

    def resume(self, thread_id: Hashable, given: Any) -> AgentContext | None:
        """Return the agent that waits in this thread, if the input answers it; other input ends it."""
        if thread_id is None:
            return None
        if not is_resumption(given):
            self._paused.abandon(thread_id)
            return None
        context = self._paused.resume(thread_id)
        if context is not None:
            context.is_paused = False
        return context

    def pause(self, context: AgentContext) -> None:
        """Keep an agent that waits for an answer, which may never come."""
        self._paused.pause(context, context.thread_id)

    def end_agent(self, callback_run: CallbackRun, error: BaseException | None) -> None:
        """End the agent whose first callback run is over, unless it waits for an answer or was wrapped."""
        context = callback_run.context
        if not callback_run.is_first or context.is_wrapped:
            return
        self.remove_all(context)
        if context.is_paused and context.parent is not None:
            context.parent.paused_children[f"{callback_run.call_id}/{context.name}"] = context
            return
        if context.is_paused and context.thread_id is not None:
            self.pause(context)
            return
        if is_a(error, self._boundary.control) and not is_a(error, RunStopped):
            error = None
        # An agent that failed before its first step is recorded too.
        run = context.ensure_run() if error is not None else context.run
        if run is not None:
            run.end(error)

    def _start_alone(self, callback_id: UUID, given: Any, name: str, thread_id: Hashable) -> AgentContext:
        context = self.resume(thread_id, given) or self.start_single(callback_id, given, name)
        context.thread_id, context.is_wrapped = thread_id, False
        return context

    def _start_inside(self, above: CallbackRun, given: Any, name: str) -> AgentContext:
        context = above.context.paused_children.pop(f"{above.call_id}/{name}", None)
        if context is None:
            context = AgentContext(above.context.inner_boundary, given=given, name=name, parent=above.context)
            context.is_anonymous = above.kind == "tool" and not name
        context.is_paused = False
        return context


def _starts_agent(
    above: CallbackRun, agent: str, tags: list[str] | None, metadata: Mapping[str, Any]
) -> bool:
    """Return whether a chain inside this callback run is an agent of its own."""
    if above.kind == "tool":
        return True
    is_prebuilt = metadata.get("ls_integration") == "langchain_create_agent"
    if not agent and (above.is_prebuilt or not is_prebuilt):
        return False
    return not any(tag.startswith("graph:step") for tag in tags or ())
