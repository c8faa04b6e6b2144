"""Find the run that CrewAI's hooks and events belong to: a crew, a task in it, the agent at work on that.

CrewAI keeps its hooks, and the listeners of its event bus, for everybody in the process. There is a second
set of both that goes with the context: ours are there, are called in order and on the agent's own thread, and
hear nothing of agents that are not watched.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from typing import Any, Final, Literal

from steadyhelm.adapters.crewai.calls import ModelCalls, ToolCalls
from steadyhelm.adapters.crewai.translate import read_crew_goal, read_name, read_user_text
from steadyhelm.boundary.driver import Boundary
from steadyhelm.engine.agent_run import AgentRun
from steadyhelm.errors import MissingExtraError, RunStopped

try:
    from crewai.events.stream_context import add_stream_sink, reset_stream_sinks
    from crewai.hooks import HookAborted
    from crewai.hooks.dispatch import InterceptionPoint, get_scoped_hooks, scoped_hooks
except ImportError as exc:
    raise MissingExtraError("CrewAI adapter", extra="crewai") from exc


CallsName = Literal["models", "tools"]
"""The attribute of a context that has the model calls or the tool calls of its run."""


class WorkContext:
    """A part of the work that is a run: a crew, one of its tasks, an agent at work.

    The outermost may be no run itself, but a block of code in which each crew and agent is one.
    A crew of one task is one run with that task.

    Args:
        boundary: The boundary the run was started at.
        items: The crew, the task or the agent that this is the run of; its end is that of the first.
        run: The run.
        parent: The context around this one.
    """

    def __init__(
        self,
        boundary: Boundary,
        *items: Any,
        run: AgentRun | None = None,
        parent: "WorkContext | None" = None,
    ) -> None:
        self.boundary = boundary
        self.run = run
        self.parent = parent
        self.children: list[WorkContext] = []
        self.failure: BaseException | None = None
        self.stopped: RunStopped | None = None
        self.models: ModelCalls | None = None
        self.tools: ToolCalls | None = None
        self._items: tuple[Any, ...] = items
        self._inside: AbstractContextManager[None] | None = None
        if run is not None:
            self.models = ModelCalls(run, parent.models if parent is not None else None)
            self.tools = ToolCalls(self.models)

    def is_run_of(self, item: Any) -> bool:
        """Return whether this is the run of that crew, task or agent."""
        return any(it is item for it in self._items)

    def is_ended_by(self, item: Any) -> bool:
        """Return whether this run ends when that crew, task or agent does."""
        return bool(self._items) and self._items[0] is item

    def absorb_task(self, task: Any) -> bool:
        """Make a task part of this run if it is all the crew has to do; return whether it is."""
        tasks = list(getattr(self._items[0], "tasks", ())) if self._items else []
        if len(tasks) != 1 or tasks[0] is not task:
            return False
        self._items = (*self._items, task)
        return True

    def start_child(self, goal: str, agent: str, *items: Any) -> None:
        """Start a run inside this one, and enter it."""
        run = self.boundary.start_run(goal, parent=self.run, agent=agent)
        child = WorkContext(self.boundary, *items, run=run, parent=self)
        child.enter()
        self.children.append(child)

    def enter(self) -> None:
        """Let the code in this context belong to this run from here on."""
        assert self.run is not None
        self._inside = self.run.activate()
        self._inside.__enter__()
        _current.set(self)

    def leave(self, error: BaseException | None) -> None:
        """End the run and let the code belong to the one around it; the outermost ends with its call."""
        if self._inside is None:
            return
        self.end(error)
        self._inside.__exit__(None, None, None)
        _current.set(self.parent)

    def end(self, error: BaseException | None = None) -> None:
        """End the run, and all that are still open inside it."""
        for child in list(self.children):
            child.end(error)
        if self.run is not None:
            self.settle(error)
            # A failure is recorded where it happened, and only there.
            is_recorded = error is not None and error is self.failure and self.run.stopped is None
            outcome = f"error: {type(error).__name__}" if is_recorded else ""
            self.run.end(None if is_recorded else error, outcome=outcome)
            self.stopped = self.run.stopped
        if self.parent is not None:
            self.parent.failure = error
            self.parent.stopped = self.parent.stopped or self.stopped
            if self in self.parent.children:
                self.parent.children.remove(self)

    def settle(self, error: BaseException | None) -> None:
        """Record a model call whose end was not reported; it failed with this error, if any."""
        if self.models is not None:
            self.models.settle(error)

    def finish(self, error: BaseException | None) -> BaseException | None:
        """End the outermost call; return the exception that its caller receives, if any."""
        self.end(error)
        return self.stopped if self.stopped is not None else error

    def iter_outwards(self) -> Iterator["WorkContext"]:
        """Yield this context and those around it, innermost first."""
        context: WorkContext | None = self
        while context is not None:
            yield context
            context = context.parent


# The part of the work that the code now running belongs to.
_current: Final[ContextVar[WorkContext | None]] = ContextVar("steadyhelm_crewai_part", default=None)


def is_watching() -> bool:
    """Return whether the code now running belongs to work that is watched."""
    return _current.get() is not None


@contextmanager
def watch(context: WorkContext) -> Iterator[None]:
    """Open a block whose code, and what it starts, belongs to that context."""
    has_listener = _current.get() is not None
    with ExitStack() as stack:
        stack.callback(_current.reset, _current.set(context))
        if context.run is not None:
            stack.enter_context(context.run.activate())
        stack.enter_context(scoped_hooks({point: _add_hook(point) for point in InterceptionPoint}))
        if not has_listener:
            stack.callback(reset_stream_sinks, add_stream_sink(_handle_event))
        yield


# --- hooks -------------------------------------------------------------------------------------------


def _add_hook(point: InterceptionPoint) -> list[Callable[[Any], Any]]:
    before = get_scoped_hooks(point)
    ours = _HOOKS.get(point)
    return [*before, ours] if ours is not None and ours not in before else before


def _make_hook(where: str, part: CallsName, act: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    """Return a hook that acts on the calls of the current run; only an abort gets out of it."""

    def hook(payload: Any) -> Any:
        context = _current.get()
        calls = None if context is None else getattr(context, part)
        if context is None or calls is None:
            return None
        try:
            return act(calls, payload)
        except HookAborted:
            raise
        except Exception as exc:  # noqa: BLE001 - a failure of ours must not reach the agent
            context.boundary.monitor.health.swallow(f"crewai adapter, {where}", exc)
            return None

    return hook


_HOOKS: Final = {
    InterceptionPoint.PRE_MODEL_CALL: _make_hook(
        "before a model call", "models", lambda calls, it: calls.before(it)
    ),
    InterceptionPoint.POST_MODEL_CALL: _make_hook(
        "after a model call", "models", lambda calls, it: calls.after(it)
    ),
    InterceptionPoint.PRE_TOOL_CALL: _make_hook(
        "before a tool call", "tools", lambda calls, it: calls.before(it)
    ),
    InterceptionPoint.POST_TOOL_CALL: _make_hook(
        "after a tool call", "tools", lambda calls, it: calls.after(it)
    ),
}


# --- the event bus -----------------------------------------------------------------------------------


def _handle_event(source: Any, event: Any) -> None:
    """Handle an event of the bus that happened in this context."""
    context = _current.get()
    handle = _EVENTS.get(event.type)
    if context is None or handle is None:
        return
    try:
        handle(context, source, event)
    except BaseException as exc:  # noqa: BLE001 - not even an exit that an object of the host raises
        context.boundary.monitor.health.swallow(f"crewai adapter, {event.type}", exc)


def _start_crew(context: WorkContext, crew: Any, event: Any) -> None:
    if not context.is_run_of(crew):
        context.start_child(read_crew_goal(crew, event.inputs), read_name(crew), crew)


def _start_task(context: WorkContext, task: Any, _event: Any) -> None:
    if not context.is_run_of(task) and not context.absorb_task(task):
        context.start_child(str(task.description), read_name(task.agent), task)


def _start_agent(context: WorkContext, agent: Any, event: Any) -> None:
    """Start the run of an agent, unless it works on the task that has begun."""
    if context.is_run_of(event.task):
        # An agent begins anew while the failure of its model is handled, which 1.15.16 does not report.
        if (error := sys.exception()) is not None:
            context.settle(error)
    else:
        task = str(getattr(event.task, "description", ""))
        context.start_child(task, read_name(agent), agent, event.task)


def _start_lone_agent(context: WorkContext, agent: Any, event: Any) -> None:
    if not context.is_run_of(agent):
        context.start_child(read_user_text(event.messages), read_name(agent), agent)


def _end_work(context: WorkContext, item: Any, event: Any) -> None:
    """End the run of a crew, a task or an agent; it failed if an exception is being handled now."""
    error = None
    if hasattr(event, "error"):
        error = sys.exception() or RuntimeError(str(event.error))
    context.settle(error)
    outwards = list(context.iter_outwards())
    last = next((place for place, it in enumerate(outwards) if it.is_ended_by(item)), -1)
    for it in outwards[: last + 1]:
        it.leave(error)


def _record_feedback(context: WorkContext, _flow: Any, event: Any) -> None:
    if context.run is not None:
        context.run.record_user_message(event.feedback)


def _for_calls(part: CallsName, act: Callable[[Any, Any], None]) -> Callable[[WorkContext, Any, Any], None]:
    """Return a handler of an event about the model calls or tool calls of the current run."""

    def handle(context: WorkContext, _source: Any, event: Any) -> None:
        calls = getattr(context, part)
        if calls is not None:
            act(calls, event)

    return handle


_EVENTS: Final[dict[str, Callable[[WorkContext, Any, Any], None]]] = {
    "crew_kickoff_started": _start_crew,
    "crew_kickoff_completed": _end_work,
    "crew_kickoff_failed": _end_work,
    "task_started": _start_task,
    "task_completed": _end_work,
    "task_failed": _end_work,
    "agent_execution_started": _start_agent,
    "agent_execution_completed": _end_work,
    "agent_execution_error": _end_work,
    "lite_agent_execution_started": _start_lone_agent,
    "lite_agent_execution_completed": _end_work,
    "lite_agent_execution_error": _end_work,
    "human_feedback_received": _record_feedback,
    "llm_call_completed": _for_calls("models", lambda calls, it: calls.record_completed(it)),
    "llm_call_failed": _for_calls("models", lambda calls, it: calls.record_failed(it)),
    "tool_usage_started": _for_calls("tools", lambda calls, it: calls.record_started(it)),
    "tool_usage_finished": _for_calls("tools", lambda calls, it: calls.record_finished(it)),
    "tool_usage_error": _for_calls("tools", lambda calls, it: calls.record_raised(it)),
    "tool_failure_detected": _for_calls("tools", lambda calls, it: calls.record_failure(it)),
}
