"""Watch agents of the OpenAI Agents SDK: `Runner = monitor.wrap(Runner)`, and everything else stays as it is.

Runs that begin inside a watched one, of an agent as a tool or by a tool that runs an agent, are its children.
"""

import asyncio
import functools
from collections import OrderedDict
from contextlib import nullcontext
from typing import Any, ClassVar, Final, Literal

from steadyhelm.adapter import Capabilities
from steadyhelm.adapters.openai_agents.items import goal_in
from steadyhelm.boundary.driver import Ask, Boundary
from steadyhelm.boundary.entry_points import WatchedCall, WatchedObject
from steadyhelm.boundary.finalizers import on_garbage_collected
from steadyhelm.engine.monitor import Monitor
from steadyhelm.errors import MissingExtraError, RunStopped, SettingsError

try:
    from agents import Agent, RunConfig, Runner, RunState
    from agents.lifecycle import RunHooksBase
    from agents.run import AgentRunner

    from steadyhelm.adapters.openai_agents.approvals import own_copy
    from steadyhelm.adapters.openai_agents.nested import HookPoint, NestedRunner, inside
    from steadyhelm.adapters.openai_agents.run import NestedRunStopped, RunWatch
except ImportError as exc:
    raise MissingExtraError("OpenAI Agents SDK adapter", extra="openai-agents") from exc

_CAN: Final[Capabilities] = {"before_model": ("guide", "rollback", "stop"), "before_tool": ("deny", "stop")}
_CAN_INTERRUPT: Final[Capabilities] = {**_CAN, "before_tool": ("deny", "ask", "stop")}
_PAUSED_KEPT: Final = 1000


class OpenAIAgentsAdapter(WatchedObject):
    """Runs agents as `Runner` does, watched and steered: `run`, `run_sync` and `run_streamed`.

    Args:
        monitor: Who watches.
        agent: `Runner`, one made of it, or an agent: then the three take its input alone.
        ask: Puts a question to the user and gives the answer. "interrupt" asks by the SDK's own means: the
            run comes back with `interruptions`, and goes on when it is run again with its state, in which
            they were approved or rejected.
    """

    ENTRY_POINTS: ClassVar[tuple[str, ...]] = ("run", "run_sync", "run_streamed")

    @staticmethod
    def can_wrap(agent: Any) -> bool:
        """Whether this is an agent of the SDK, or what runs one."""
        if isinstance(agent, type):
            return issubclass(agent, Runner)
        return isinstance(agent, Agent | AgentRunner | Runner | OpenAIAgentsAdapter | WatchedAgent)

    def __new__(cls, monitor: Monitor, agent: Any, **options: Any) -> Any:
        """A runner that is watched; for an agent, the agent with such a runner's methods."""
        if isinstance(agent, OpenAIAgentsAdapter | WatchedAgent):
            raise SettingsError(
                "wrap() got a runner or an agent of the OpenAI Agents SDK that is watched already, and only "
                "one monitor can watch it. Wrap the Runner or the Agent itself."
            )
        if isinstance(agent, Agent):
            return WatchedAgent(monitor, cls(monitor, Runner, **options), agent)
        return super().__new__(cls)

    def __init__(
        self, monitor: Monitor, agent: Any, *, ask: Ask | Literal["interrupt"] | None = None
    ) -> None:
        super().__init__(agent)
        self._watched_by = monitor
        natively = ask == "interrupt"
        self._boundary = Boundary(
            monitor,
            "openai-agents",
            _CAN_INTERRUPT if natively else _CAN,
            ask=None if natively else ask,  # type: ignore[arg-type]
            control=(asyncio.CancelledError,),
        )
        self._copies = natively and monitor.mode == "enforce"
        self._paused: OrderedDict[tuple[str, str], RunWatch] = OrderedDict()

    def question(self, item: Any) -> str:
        """What the user is asked about a call that waits; empty where it is the host's own question."""
        call_id = str(getattr(item, "call_id", ""))
        paused = [watch for (_, known), watch in self._paused.items() if known == call_id]
        return next(filter(None, (watch.calls.question(call_id) for watch in paused)), "")

    def over(self, runner: Any) -> "OpenAIAgentsAdapter":
        """The same, for what another runner runs."""
        same = object.__new__(OpenAIAgentsAdapter)
        same.__dict__.update(self.__dict__, _agent=runner)
        return same

    def open(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> WatchedCall:
        """An agent begins to work, or goes on; what the SDK will refuse itself is left to it."""
        agent: Any = args[0] if args else kwargs.get("starting_agent")
        given = args[1] if len(args) > 1 else kwargs.get("input")
        watch = None
        with self._boundary.guard(method):
            if not self._boundary.monitor.disabled and _is_proper(agent, kwargs):
                watch = self._watch(agent, given)
                kwargs = watch.joined(kwargs, given)
        if watch is None:
            return WatchedCall(activate=nullcontext, finish=lambda _, error: error, args=args, kwargs=kwargs)
        with self._boundary.guard("copies"):
            if self._copies and not isinstance(given, RunState) and args:
                args = (own_copy(agent), *args[1:])
            elif self._copies and not isinstance(given, RunState):
                kwargs["starting_agent"] = own_copy(agent)
        NestedRunner.hold()
        place = HookPoint(self, watch)
        finish = functools.partial(self._finished, watch, agent.name)
        return WatchedCall(activate=place.activate, finish=finish, args=args, kwargs=kwargs)

    def _watch(self, agent: Any, given: Any) -> RunWatch:
        """A run that begins, or the one that goes on from this state."""
        outer = inside.get()
        if not isinstance(given, RunState):
            run = self._boundary.start_run(goal_in(given), agent=agent.name)
            return RunWatch(run, outer.watch if outer is not None else None)
        found = None
        for item in given.get_interruptions():
            found = self._paused.pop((agent.name, str(item.call_id)), found)
        if found is None:
            # It was begun in another process, or long ago.
            run = self._boundary.start_run(goal_in(getattr(given, "_original_input", "")), agent=agent.name)
            found = RunWatch(run, outer.watch if outer is not None else None)
        if said := goal_in(given.pending_input):
            found.run.record_user_message(said)
        return found

    def _finished(
        self, watch: RunWatch, agent: str, result: Any, error: BaseException | None
    ) -> BaseException | None:
        """The call is over; what is streamed goes on."""
        task = getattr(result, "run_loop_task", None)
        if task is None:
            return self._ended(watch, agent, result, error)
        # A task that an interrupt, or the end of its loop, leaves behind never says that it is done.
        left = functools.partial(self._ended, watch, agent, None, asyncio.CancelledError())
        dropped = on_garbage_collected(task, left)

        def done(task: "asyncio.Task[Any]") -> None:
            if dropped.detach() is not None:
                self._ended(watch, agent, result, _left_with(task))

        task.add_done_callback(done)
        return None

    def _ended(
        self, watch: RunWatch, agent: str, result: Any, error: BaseException | None
    ) -> BaseException | None:
        NestedRunner.release()
        waiting: list[str] = []
        with self._boundary.guard("end"):
            waiting = watch.leave(result, error)
            self._paused.update({(agent, call_id): watch for call_id in waiting})
            while len(self._paused) > _PAUSED_KEPT:
                self._paused.popitem(last=False)[1].run.end(outcome="left waiting")
        if waiting:
            return None
        outcome = "left early" if isinstance(error, asyncio.CancelledError) else ""
        left = watch.run.finish(error, outcome=outcome)
        if watch.is_nested and type(left) is RunStopped:
            return error if isinstance(error, NestedRunStopped) else NestedRunStopped.of(left)
        return left


class WatchedAgent(WatchedObject):
    """An agent with a runner's methods: `run`, `run_sync` and `run_streamed` take its input alone."""

    def __init__(self, monitor: Monitor, runner: OpenAIAgentsAdapter, agent: Any) -> None:
        super().__init__(agent)
        self._runner, self._watched_by = runner, monitor

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("_"):
            return super().__getattr__(attribute)
        if attribute == "question":
            return self._runner.question
        if attribute in OpenAIAgentsAdapter.ENTRY_POINTS:
            return functools.partial(getattr(self._runner, attribute), self._agent)
        return super().__getattr__(attribute)


def _is_proper(agent: Any, kwargs: dict[str, Any]) -> bool:
    return (
        isinstance(agent, Agent)
        and isinstance(kwargs.get("hooks"), RunHooksBase | None)
        and isinstance(kwargs.get("run_config"), RunConfig | dict | None)
    )


def _left_with(task: "asyncio.Task[Any]") -> BaseException | None:
    return asyncio.CancelledError() if task.cancelled() else task.exception()
