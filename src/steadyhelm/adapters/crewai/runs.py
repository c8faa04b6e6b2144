"""Which run the code of a CrewAI program belongs to: its crew, the task in it, the agent at work on that.

CrewAI keeps its hooks, and who listens to its event bus, for everybody in the process. There is a second set
of both that goes with the context: what is watched is heard there, in order and on the agent's own thread,
and nothing else is heard at all.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from typing import Any, Final

from steadyhelm.adapters.crewai.goals import asked, goal_of, name_of
from steadyhelm.adapters.crewai.models import ModelCalls
from steadyhelm.adapters.crewai.tools import ToolCalls
from steadyhelm.boundary.agent_run import AgentRun
from steadyhelm.boundary.driver import Boundary
from steadyhelm.errors import MissingExtraError, RunStopped

try:
    from crewai.events.stream_context import add_stream_sink, reset_stream_sinks
    from crewai.hooks import HookAborted
    from crewai.hooks.dispatch import InterceptionPoint, get_scoped_hooks, scoped_hooks
except ImportError as exc:
    raise MissingExtraError("CrewAI adapter", extra="crewai") from exc


class Part:
    """A part of the work that is a run: a crew, one of its tasks, an agent at work.

    The outermost may be no run itself, but a block of code in which each crew and agent is one.
    A crew of one task is one run with that task, and so stands for both.
    """

    def __init__(
        self,
        boundary: Boundary,
        *whats: Any,
        run: AgentRun | None = None,
        above: "Part | None" = None,
    ) -> None:
        self.boundary = boundary
        self.run = run
        self.above = above
        self.below: list[Part] = []
        self.failure: BaseException | None = None
        self.stopped: RunStopped | None = None
        self.models: ModelCalls | None = None
        self.tools: ToolCalls | None = None
        self._whats: tuple[Any, ...] = whats
        self._inside: AbstractContextManager[None] | None = None
        if run is not None:
            self.models = ModelCalls(run, above.models if above is not None else None)
            self.tools = ToolCalls(self.models)

    def stands_for(self, what: Any) -> bool:
        """Whether this is the run of that crew, task or agent."""
        return any(it is what for it in self._whats)

    def began_with(self, what: Any) -> bool:
        """Whether it is that whose end is the end of this run."""
        return bool(self._whats) and self._whats[0] is what

    def takes_in(self, task: Any) -> bool:
        """Whether a task is all that this crew has to do: then it is the same run."""
        tasks = list(getattr(self._whats[0], "tasks", ())) if self._whats else []
        if len(tasks) != 1 or tasks[0] is not task:
            return False
        self._whats = (*self._whats, task)
        return True

    def begin(self, goal: str, agent: str, *whats: Any) -> None:
        """A part of this one begins, here and now."""
        run = self.boundary.start_run(goal, parent=self.run, agent=agent)
        part = Part(self.boundary, *whats, run=run, above=self)
        part.enter()
        self.below.append(part)

    def enter(self) -> None:
        """From here on the code in this context belongs to this part."""
        assert self.run is not None
        self._inside = self.run.activate()
        self._inside.__enter__()
        _here.set(self)

    def leave(self, error: BaseException | None) -> None:
        """It is over, and the code belongs to the part above; whoever made the outermost call ends that."""
        if self._inside is None:
            return
        self.end(error)
        self._inside.__exit__(None, None, None)
        _here.set(self.above)

    def end(self, error: BaseException | None = None) -> None:
        """The run is over, with all that is still open below."""
        for part in list(self.below):
            part.end(error)
        if self.run is not None:
            self.settle(error)
            # A failure is told where it happened, and only there.
            is_told = error is not None and error is self.failure and self.run.stopped is None
            outcome = f"error: {type(error).__name__}" if is_told else ""
            self.run.end(None if is_told else error, outcome=outcome)
            self.stopped = self.run.stopped
        if self.above is not None:
            self.above.failure = error
            self.above.stopped = self.above.stopped or self.stopped
            if self in self.above.below:
                self.above.below.remove(self)

    def settle(self, error: BaseException | None) -> None:
        """Whatever the model was asked, it has answered by now, or failed with this."""
        if self.models is not None:
            self.models.settle(error)

    def finish(self, error: BaseException | None) -> BaseException | None:
        """The outermost call is over; gives the exception that its caller shall receive, if any."""
        self.end(error)
        return self.stopped if self.stopped is not None else error

    def up(self) -> Iterator["Part"]:
        """The part itself and those it is in, innermost first."""
        part: Part | None = self
        while part is not None:
            yield part
            part = part.above


# The part of the work that the code now running belongs to.
_here: Final[ContextVar[Part | None]] = ContextVar("steadyhelm_crewai_part", default=None)


@contextmanager
def watching(part: Part) -> Iterator[None]:
    """Code in this block, and what it starts, belongs to that part; nothing is left behind."""
    is_heard = _here.get() is not None
    with ExitStack() as stack:
        stack.callback(_here.reset, _here.set(part))
        if part.run is not None:
            stack.enter_context(part.run.activate())
        stack.enter_context(scoped_hooks({point: _hooks_at(point) for point in InterceptionPoint}))
        if not is_heard:
            stack.callback(reset_stream_sinks, add_stream_sink(_hear))
        yield


# --- what CrewAI tells -------------------------------------------------------------------------------


def _hooks_at(point: InterceptionPoint) -> list[Callable[[Any], Any]]:
    before = get_scoped_hooks(point)
    ours = _HOOKS.get(point)
    return [*before, ours] if ours is not None and ours not in before else before


def _hook(calls: str, method: str) -> Callable[[Any], Any]:
    """A hook that hands over to the calls of the part it finds itself in."""

    def hook(context: Any) -> Any:
        part = _here.get()
        told = getattr(part, calls, None)
        if part is None or told is None:
            return None
        try:
            return getattr(told, method)(context)
        except HookAborted:
            raise
        except Exception as exc:  # noqa: BLE001 - the agent must not notice
            part.boundary.monitor.health.swallowed(f"crewai adapter, {method} of {calls}", exc)
            return None

    return hook


def _hear(source: Any, event: Any) -> None:
    """The event bus tells of something that happens in this context."""
    part = _here.get()
    told = _EVENTS.get(event.type)
    if part is not None and told is not None:
        with part.boundary.guard(event.type):
            told(part, source, event)


def _handed_to(calls: str, method: str) -> Callable[[Part, Any, Any], None]:
    def told(part: Part, _source: Any, event: Any) -> None:
        taker = getattr(part, calls)
        if taker is not None:
            getattr(taker, method)(event)

    return told


def _crew_began(part: Part, crew: Any, event: Any) -> None:
    if not part.stands_for(crew):
        part.begin(goal_of(crew, event.inputs), name_of(crew), crew)


def _task_began(part: Part, task: Any, _event: Any) -> None:
    if not part.stands_for(task) and not part.takes_in(task):
        part.begin(str(task.description), name_of(task.agent), task)


def _agent_began(part: Part, agent: Any, event: Any) -> None:
    """An agent works on a task: the one that has begun, or one that another agent gives it."""
    if not part.stands_for(event.task):
        part.begin(str(getattr(event.task, "description", "")), name_of(agent), agent, event.task)


def _lone_agent_began(part: Part, agent: Any, event: Any) -> None:
    if not part.stands_for(agent):
        part.begin(asked(event.messages), name_of(agent), agent)


def _is_over(part: Part, what: Any, event: Any) -> None:
    """A crew, a task or an agent is done, or has failed: with the exception that is being handled now."""
    error = None
    if hasattr(event, "error"):
        error = sys.exception() or RuntimeError(str(event.error))
    part.settle(error)
    within = list(part.up())
    over = next((place for place, it in enumerate(within) if it.began_with(what)), -1)
    for it in within[: over + 1]:
        it.leave(error)


def _user_spoke(part: Part, _flow: Any, event: Any) -> None:
    if part.run is not None:
        part.run.record_user_message(event.feedback)


_HOOKS: Final = {
    InterceptionPoint.PRE_MODEL_CALL: _hook("models", "before"),
    InterceptionPoint.POST_MODEL_CALL: _hook("models", "after"),
    InterceptionPoint.PRE_TOOL_CALL: _hook("tools", "before"),
    InterceptionPoint.POST_TOOL_CALL: _hook("tools", "after"),
}

_EVENTS: Final[dict[str, Callable[[Part, Any, Any], None]]] = {
    "crew_kickoff_started": _crew_began,
    "crew_kickoff_completed": _is_over,
    "crew_kickoff_failed": _is_over,
    "task_started": _task_began,
    "task_completed": _is_over,
    "task_failed": _is_over,
    "agent_execution_started": _agent_began,
    "agent_execution_completed": _is_over,
    "agent_execution_error": _is_over,
    "lite_agent_execution_started": _lone_agent_began,
    "lite_agent_execution_completed": _is_over,
    "lite_agent_execution_error": _is_over,
    "human_feedback_received": _user_spoke,
    "llm_call_completed": _handed_to("models", "completed"),
    "llm_call_failed": _handed_to("models", "failed"),
    "tool_usage_started": _handed_to("tools", "started"),
    "tool_usage_finished": _handed_to("tools", "finish"),
    "tool_usage_error": _handed_to("tools", "raised"),
    "tool_failure_detected": _handed_to("tools", "failed"),
}
