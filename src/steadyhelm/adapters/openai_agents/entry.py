"""Wrap runners and agents of the OpenAI Agents SDK: `Runner = monitor.wrap(Runner)`.

`watch_runner` watches all runs of a process: it replaces the default runner of the SDK, which `Runner` calls.
"""

import asyncio
import functools
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, ClassVar, Final, Literal, NamedTuple

from steadyhelm.adapter import Capabilities
from steadyhelm.adapters.openai_agents.calls import copy_agent
from steadyhelm.adapters.openai_agents.hooks import NestedRunStopped, SteadyhelmRunHooks
from steadyhelm.adapters.openai_agents.translate import read_goal
from steadyhelm.boundary.driver import Ask, Boundary, RunTable
from steadyhelm.boundary.entry_points import WatchedCall, WatchedObject, on_garbage_collected
from steadyhelm.boundary.patches import Method, Patches
from steadyhelm.engine.monitor import Monitor
from steadyhelm.errors import MissingExtraError, RunStopped, SettingsError
from steadyhelm.forks import ForkSafeLock
from steadyhelm.host_objects import is_a

try:
    from agents import Agent, RunConfig, Runner, RunState
    from agents import run as sdk_run
    from agents.lifecycle import RunHooksBase
    from agents.run import AgentRunner, get_default_agent_runner, set_default_agent_runner
except ImportError as exc:
    raise MissingExtraError("OpenAI Agents SDK adapter", extra="openai-agents") from exc

CAN: Final[Capabilities] = {"before_model": ("guide", "rollback", "stop"), "before_tool": ("deny", "stop")}
CAN_INTERRUPT: Final[Capabilities] = {**CAN, "before_tool": ("deny", "ask", "stop")}


class _CurrentRun(NamedTuple):
    """The watched run that encloses the code running now, and the adapter that watches it."""

    adapter: Any
    hooks: SteadyhelmRunHooks

    @contextmanager
    def activate(self) -> Iterator[None]:
        """Make this the current run inside the block."""
        before = _current.get()
        _current.set(self)
        try:
            with self.hooks.run.activate():
                yield
        finally:
            _current.set(before)


_current: Final[ContextVar[_CurrentRun | None]] = ContextVar("steadyhelm_openai_agents", default=None)


class DefaultRunner:
    """The default runner of the SDK while watched runs are live: it watches runs that start inside them.

    `Agent.as_tool` uses the default runner, with hooks of its own or none: there is no other way to see it.
    Outside watched runs it calls the runner that was the default before, which is restored after the last.
    With an adapter that watches all, every run is watched, and it stays the default until that is undone.
    """

    _lock: ClassVar = ForkSafeLock()
    _live_runs: ClassVar = 0
    _watches_all: ClassVar[Any] = None

    @classmethod
    def watch_all(cls, adapter: "OpenAIAgentsAdapter | None") -> None:
        """Watch all runs with this adapter, or with None no longer."""
        with cls._lock:
            cls._watches_all = adapter
            cls._update_default_runner()

    @classmethod
    def hold_default(cls) -> None:
        """Take the place of a default runner that was set since."""
        with cls._lock:
            cls._update_default_runner()

    @classmethod
    def hold(cls) -> None:
        """Count a live run; the first one replaces the default runner."""
        with cls._lock:
            cls._live_runs += 1
            cls._update_default_runner()

    @classmethod
    def release(cls) -> None:
        """Count a run that ended; the last one restores the default runner."""
        with cls._lock:
            cls._live_runs -= 1
            cls._update_default_runner()

    @classmethod
    def _update_default_runner(cls) -> None:
        now = sdk_run.DEFAULT_AGENT_RUNNER
        is_needed = cls._live_runs > 0 or cls._watches_all is not None
        if is_needed and not is_a(now, cls):
            set_default_agent_runner(cls(now))
        elif not is_needed and is_a(now, cls):
            set_default_agent_runner(now.before)

    def __init__(self, before: Any) -> None:
        self.before = before

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self.__dict__["before"], attribute)

    async def run(self, starting_agent: Any, *args: Any, **kwargs: Any) -> Any:
        """Run an agent."""
        runner, agent = self._choose(starting_agent, kwargs)
        return await runner.run(agent, *args, **kwargs)

    def run_sync(self, starting_agent: Any, *args: Any, **kwargs: Any) -> Any:
        """Run an agent, and wait for its result."""
        runner, agent = self._choose(starting_agent, kwargs)
        return runner.run_sync(agent, *args, **kwargs)

    def run_streamed(self, starting_agent: Any, *args: Any, **kwargs: Any) -> Any:
        """Run an agent, and stream its events."""
        runner, agent = self._choose(starting_agent, kwargs)
        return runner.run_streamed(agent, *args, **kwargs)

    def _choose(self, agent: Any, kwargs: dict[str, Any]) -> tuple[Any, Any]:
        """Return the runner to call, and the agent to call it with: a wrapped one brings its own."""
        current = _current.get()
        adapter = current.adapter if current is not None else self._watches_all
        if is_a(agent, WatchedSDKAgent):
            adapter, agent = agent.take_apart()
        if adapter is None or is_a(kwargs.get("hooks"), SteadyhelmRunHooks):
            return self.before, agent
        return adapter.with_runner(self.before), agent


class OpenAIAgentsAdapter(WatchedObject):
    """Run agents as `Runner` does, watched and steered: `run`, `run_sync` and `run_streamed`.

    Args:
        monitor: The monitor that records the runs.
        agent: `Runner`, one made of it, or an agent: then the three take its input alone.
        ask: A function that puts a question to the user and returns the answer. "interrupt" uses the SDK's
            own means: the run returns with `interruptions`, and continues when it is run again with its
            state, in which they were approved or rejected.
    """

    ENTRY_POINTS: ClassVar[tuple[str, ...]] = ("run", "run_sync", "run_streamed")

    @staticmethod
    def can_wrap(agent: Any) -> bool:
        """Return whether this is an agent or a runner of the SDK."""
        if is_a(agent, type):
            return issubclass(agent, Runner)
        return is_a(agent, (Agent, AgentRunner, Runner, OpenAIAgentsAdapter, WatchedSDKAgent))

    def __new__(cls, monitor: Monitor, agent: Any, **options: Any) -> Any:
        """Return a watched runner; for an agent, the agent with the methods of one."""
        if is_a(agent, (OpenAIAgentsAdapter, WatchedSDKAgent)):
            raise SettingsError(
                "wrap() got a runner or an agent of the OpenAI Agents SDK that is watched already, and only "
                "one monitor can watch it. Wrap the Runner or the Agent itself."
            )
        if is_a(agent, Agent):
            return WatchedSDKAgent(monitor, cls(monitor, Runner, **options), agent)
        return super().__new__(cls)

    def __init__(
        self, monitor: Monitor, agent: Any, *, ask: Ask | Literal["interrupt"] | None = None
    ) -> None:
        super().__init__(agent)
        self._watched_by = monitor
        is_native = ask == "interrupt"
        self._boundary = Boundary(
            monitor,
            "openai_agents",
            CAN_INTERRUPT if is_native else CAN,
            ask=None if is_native else ask,  # type: ignore[arg-type]
            control=(asyncio.CancelledError,),
        )
        self._copies_agents = is_native and monitor.mode == "enforce"
        self._paused: RunTable[SteadyhelmRunHooks] = RunTable(self._boundary)

    def question(self, item: Any) -> str:
        """Return our question about a call that waits; empty where the host itself requires approval."""
        call_id = str(getattr(item, "call_id", ""))
        paused = [hooks for key, hooks in self._paused.items() if key[1] == call_id]  # type: ignore[index]
        return next(filter(None, (hooks.calls.question(call_id) for hooks in paused)), "")

    def with_runner(self, runner: Any) -> "OpenAIAgentsAdapter":
        """Return the same adapter for another runner."""
        same = object.__new__(OpenAIAgentsAdapter)
        same.__dict__.update(self.__dict__, _agent=runner)
        return same

    def open(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> WatchedCall:
        """Start or resume a run; invalid arguments are left to the SDK to reject."""
        agent: Any = args[0] if args else kwargs.get("starting_agent")
        given = args[1] if len(args) > 1 else kwargs.get("input")
        hooks = None
        with self._boundary.guard(method):
            if not self._boundary.monitor.disabled and _is_valid(agent, kwargs):
                hooks = self._resume_or_start(agent, given)
                kwargs = hooks.add_to_options(kwargs, given)
        if hooks is None:
            return WatchedCall(activate=nullcontext, finish=lambda _, error: error, args=args, kwargs=kwargs)
        with self._boundary.guard("copies"):
            if self._copies_agents and not is_a(given, RunState) and args:
                args = (copy_agent(agent), *args[1:])
            elif self._copies_agents and not is_a(given, RunState):
                kwargs["starting_agent"] = copy_agent(agent)
        DefaultRunner.hold()
        current = _CurrentRun(self, hooks)
        finish = functools.partial(self._finish, hooks, agent.name)
        return WatchedCall(activate=current.activate, finish=finish, args=args, kwargs=kwargs)

    def _resume_or_start(self, agent: Any, given: Any) -> SteadyhelmRunHooks:
        """Start a run, or resume the one that this state belongs to."""
        outer = _current.get()
        if not is_a(given, RunState):
            run = self._boundary.start_run(read_goal(given), agent=agent.name)
            return SteadyhelmRunHooks(run, outer.hooks if outer is not None else None)
        keys = [(agent.name, str(item.call_id)) for item in given.get_interruptions()]
        found = self._paused.take(*keys)
        if found is None:
            # It was started in another process, or too long ago.
            run = self._boundary.start_run(read_goal(getattr(given, "_original_input", "")), agent=agent.name)
            found = SteadyhelmRunHooks(run, outer.hooks if outer is not None else None)
        if text := read_goal(given.pending_input):
            found.run.record_user_message(text)
        return found

    def _finish(
        self, hooks: SteadyhelmRunHooks, agent: str, result: Any, error: BaseException | None
    ) -> BaseException | None:
        """End the run when the call returns, or when its stream ends."""
        task = getattr(result, "run_loop_task", None)
        if task is None:
            return self._end(hooks, agent, result, error)
        # A task that is abandoned by an interrupt, or by the end of its loop, never calls back.
        abandon = functools.partial(self._end, hooks, agent, None, asyncio.CancelledError())
        finalizer = on_garbage_collected(task, abandon)

        def on_done(task: "asyncio.Task[Any]") -> None:
            if finalizer.detach() is not None:
                self._end(hooks, agent, result, _get_error(task))

        task.add_done_callback(on_done)
        return None

    def _end(
        self, hooks: SteadyhelmRunHooks, agent: str, result: Any, error: BaseException | None
    ) -> BaseException | None:
        DefaultRunner.release()
        waiting: list[str] = []
        with self._boundary.guard("end"):
            waiting = hooks.settle(result, error)
            self._paused.pause(hooks, *((agent, call_id) for call_id in waiting))
        if waiting:
            return None
        outcome = "left early" if is_a(error, asyncio.CancelledError) else ""
        left = hooks.run.finish(error, outcome=outcome)
        if hooks.is_nested and type(left) is RunStopped:
            return error if is_a(error, NestedRunStopped) else NestedRunStopped.from_stop(left)
        return left


class WatchedSDKAgent(WatchedObject):
    """An agent with a runner's methods: `run`, `run_sync` and `run_streamed` take its input alone.

    While there is one, the default runner recognises it: `Runner.run(agent)` is watched too.
    """

    def __init__(self, monitor: Monitor, runner: OpenAIAgentsAdapter, agent: Any) -> None:
        super().__init__(agent)
        self._runner, self._watched_by = runner, monitor
        DefaultRunner.hold()
        on_garbage_collected(self, DefaultRunner.release)

    def take_apart(self) -> tuple[OpenAIAgentsAdapter, Any]:
        """Return the runner that watches, and the agent itself."""
        self.note_use()
        return self._runner, self._agent

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("_"):
            return super().__getattr__(attribute)
        if attribute == "question":
            return self._runner.question
        if attribute in OpenAIAgentsAdapter.ENTRY_POINTS:
            self.note_use()
            return functools.partial(getattr(self._runner, attribute), self._agent)
        return super().__getattr__(attribute)


def watch_runner(monitor: Monitor, patches: Patches) -> None:
    """Watch the runs of `Runner`, by whatever name it was imported, with whatever runner is the default."""
    DefaultRunner.watch_all(OpenAIAgentsAdapter(monitor, Runner))
    patches.on_undo(lambda: DefaultRunner.watch_all(None))

    def make_setter(original: Method) -> Method:
        def set_default(runner: Any) -> None:
            original(runner)
            if patches.is_active and not is_a(runner, DefaultRunner):
                DefaultRunner.hold_default()

        return set_default

    def make_getter(original: Method) -> Method:
        def get_default() -> Any:
            runner = original()
            return runner.before if patches.is_active and is_a(runner, DefaultRunner) else runner

        return get_default

    # A program that sets a default runner of its own gets that one back, and it is watched.
    patches.replace_function(set_default_agent_runner, make_setter)
    patches.replace_function(get_default_agent_runner, make_getter)


def _is_valid(agent: Any, kwargs: dict[str, Any]) -> bool:
    return (
        is_a(agent, Agent)
        and isinstance(kwargs.get("hooks"), RunHooksBase | None)
        and isinstance(kwargs.get("run_config"), RunConfig | dict | None)
    )


def _get_error(task: "asyncio.Task[Any]") -> BaseException | None:
    return asyncio.CancelledError() if task.cancelled() else task.exception()
