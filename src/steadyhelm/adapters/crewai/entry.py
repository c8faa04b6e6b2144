"""Recognise and wrap crews, agents and flows of CrewAI; each is watched at every model call and tool call.

`watch_crews_and_agents` watches all of a process: it replaces the methods that kick them off.
"""

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from steadyhelm.adapter import Capabilities
from steadyhelm.adapters.crewai.hooks import WorkContext, is_watching, watch
from steadyhelm.adapters.crewai.translate import (
    fill_placeholders,
    read_class_summary,
    read_crew_goal,
    read_name,
    read_user_text,
)
from steadyhelm.boundary.driver import Ask, Boundary
from steadyhelm.boundary.entry_points import WatchedCall, WatchedObject, watch_stream, watch_stream_async
from steadyhelm.boundary.patches import Method, Patches
from steadyhelm.engine import registry
from steadyhelm.engine.monitor import Monitor
from steadyhelm.errors import MissingExtraError, SettingsError
from steadyhelm.host_objects import is_a

try:
    from crewai import Agent, Crew, Flow
    from crewai.agents.agent_builder.base_agent import BaseAgent
    from crewai.lite_agent import LiteAgent
    from crewai.types.streaming import StreamingOutputBase, StreamSessionBase
except ImportError as exc:
    raise MissingExtraError("CrewAI adapter", extra="crewai") from exc

CAN: Final[Capabilities] = {"before_model": {"guide", "rollback", "stop"}, "before_tool": {"deny"}}
"""CrewAI can be stopped where it calls a model, and only there: at a tool an abort just refuses the call."""

_MANY_RUN_METHODS: Final = (
    "kickoff_for_each",
    "kickoff_for_each_async",
    "akickoff_for_each",
    "message",
    "replay",
    "test",
    "train",
)
_ONE_RUN_METHODS: Final = (
    "kickoff",
    "kickoff_async",
    "akickoff",
    "stream_events",
    "astream",
    "resume",
    "resume_async",
)
_INPUT_NAMES: Final = ("inputs", "messages")
_WATCHED_TYPES: Final = (Crew, BaseAgent, LiteAgent, Flow)
_STREAM_TYPES: Final = (StreamingOutputBase, StreamSessionBase)


class CrewAIAdapter(WatchedObject):
    """A crew, an agent or a flow that is watched: kick it off as before.

    A crew is a run. Each of its tasks is a run inside it, with the task as its goal, unless it is the only
    one; so is each agent that another agent, or a tool, hands work to.

    Args:
        monitor: The monitor that watches.
        agent: A `Crew`, an `Agent` or a `Flow`.
        ask: Puts a question to the user and returns the answer; CrewAI's hooks have no way of their own.
        goal: The goal; by default what the crew's tasks say, what the agent is asked, or the first paragraph
            of the flow's class docstring.
    """

    ENTRY_POINTS = (*_ONE_RUN_METHODS, *_MANY_RUN_METHODS)

    @staticmethod
    def can_wrap(agent: Any) -> bool:
        """Return whether it is a crew, an agent or a flow that can be kicked off, watched or not."""
        if issubclass(type(agent), CrewAIAdapter):
            return True
        try:
            return is_a(agent, _WATCHED_TYPES) and callable(agent.kickoff)
        except Exception:  # noqa: BLE001 - an object may do anything when it is looked at
            return False

    def __init__(self, monitor: Monitor, agent: Any, *, ask: Ask | None = None, goal: str = "") -> None:
        super().__init__(_check_agent(agent))
        self._watched_by = monitor
        self._boundary = Boundary(monitor, "crewai", CAN, ask=ask)
        self._goal = goal

    def open(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> WatchedCall:
        """Return the watched call of a kick-off: one run, or several that each start by themselves."""
        context = WorkContext(self._boundary)
        if method in _ONE_RUN_METHODS:
            goal = self._goal
            with self._boundary.guard("goal"):
                goal = self._read_goal(args, kwargs)
            run = self._boundary.start_run(goal, agent=read_name(self._agent))
            context = WorkContext(self._boundary, self._agent, run=run)
        return _make_call(context, args, kwargs)

    def _read_goal(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        given = args[0] if args else next((kwargs[it] for it in _INPUT_NAMES if it in kwargs), None)
        if self._goal:
            return fill_placeholders(self._goal, given)
        if is_a(self._agent, Crew):
            return read_crew_goal(self._agent, given)
        if is_a(self._agent, Flow):
            return fill_placeholders(read_class_summary(type(self._agent)), given)
        return read_user_text(given)


class DriftCrew(CrewAIAdapter):
    """A crew that is watched by a monitor of its own, unless one is handed in.

    Args:
        crew: The crew.
        monitor: The monitor that watches; without it one is made with the settings.
        ask: Puts a question to the user and returns the answer.
        settings: What `DriftMonitor` takes, such as `agent_id`, `mode` or `alert_webhook`.
    """

    def __init__(
        self, crew: Any, monitor: Monitor | None = None, *, ask: Ask | None = None, **settings: Any
    ) -> None:
        if monitor is not None and settings:
            raise SettingsError(
                f"A monitor has settings of its own; leave out {', '.join(sorted(settings))}."
            )
        if monitor is None:
            monitor = registry.usual_monitor(**{"agent_id": read_name(_check_agent(crew)), **settings})
        super().__init__(monitor, crew, ask=ask)
        object.__setattr__(self, "monitor", monitor)  # ours, not the crew's


@contextmanager
def watch_crews(monitor: Monitor, *, ask: Ask | None = None) -> Iterator[None]:
    """Watch every crew and agent that is kicked off in this block, wherever that happens."""
    call = _make_call(WorkContext(Boundary(monitor, "crewai", CAN, ask=ask)), (), {})
    error: BaseException | None = None
    try:
        with call.activate():
            yield
    except BaseException as exc:
        error = exc
        raise
    finally:
        raised = call.finish(None, error)
        if raised is not None and raised is not error:
            raise raised from error


def watch_crews_and_agents(monitor: Monitor, patches: Patches) -> None:
    """Watch everything that is kicked off, those that exist already too; inside a watched crew it is part."""
    for owner in (Crew, Agent, LiteAgent, Flow):
        for name in CrewAIAdapter.ENTRY_POINTS:
            if callable(vars(owner).get(name)):
                patches.replace_method(owner, name, _make_replacement(monitor, patches, name))


def _check_agent(agent: Any) -> Any:
    if issubclass(type(agent), CrewAIAdapter):
        raise SettingsError(
            "wrap() got a crew, an agent or a flow of CrewAI that is watched already, and only one monitor "
            "can watch it. Wrap the Crew, the Agent or the Flow itself."
        )
    if not CrewAIAdapter.can_wrap(agent):
        raise SettingsError(
            f"The CrewAI adapter takes a Crew, an Agent or a Flow, got a {type(agent).__name__}."
        )
    return agent


def _make_call(context: WorkContext, args: tuple[Any, ...], kwargs: dict[str, Any]) -> WatchedCall:
    def finish(result: Any, error: BaseException | None) -> BaseException | None:
        if error is None and is_a(result, _STREAM_TYPES):
            _follow_stream(result, context)
            return None
        for stream in result if is_a(result, list) else ():
            if is_a(stream, _STREAM_TYPES):
                _follow_stream(stream, WorkContext(context.boundary))
        return context.finish(error)

    return WatchedCall(activate=lambda: watch(context), finish=finish, args=args, kwargs=kwargs)


def _follow_stream(stream: Any, context: WorkContext) -> None:
    """Watch a stream, which works while it is read; the run ends when it does."""
    call = WatchedCall(
        activate=lambda: watch(context), finish=lambda _, error: context.finish(error), keeps_parts=False
    )
    for name, follow in (("_sync_iterator", watch_stream), ("_async_iterator", watch_stream_async)):
        parts = getattr(stream, name, None)
        if parts is not None:
            setattr(stream, name, follow(call, parts))
    clean_up = getattr(stream, "_on_cleanup", None)

    def close() -> None:
        if clean_up is not None:
            clean_up()
        context.finish(GeneratorExit())

    # A stream that was never read reports only by this that it is closed.
    stream._on_cleanup = close  # noqa: SLF001 - CrewAI has no other way to say so


def _make_replacement(monitor: Monitor, patches: Patches, name: str) -> Any:
    def choose(kick_off: Method, agent: Any) -> Method:
        """Return the method to call: that of a watched proxy, or the original."""
        if not patches.is_active or monitor.disabled or is_watching():
            return kick_off.__get__(agent)  # type: ignore[no-any-return]
        return getattr(CrewAIAdapter(monitor, agent), name)  # type: ignore[no-any-return]

    def make(kick_off: Method) -> Method:
        def call(self: Any, *args: Any, **options: Any) -> Any:
            return choose(kick_off, self)(*args, **options)

        async def call_async(self: Any, *args: Any, **options: Any) -> Any:
            return await choose(kick_off, self)(*args, **options)

        return call_async if inspect.iscoroutinefunction(kick_off) else call

    return make
