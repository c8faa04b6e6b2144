"""Watch CrewAI: crews, agents and flows, at every model call and tool call of every task."""

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from steadyhelm.adapter import Capabilities
from steadyhelm.adapters.crewai.goals import asked, filled, first_words, goal_of, name_of
from steadyhelm.adapters.crewai.runs import Part, watching
from steadyhelm.boundary.driver import Ask, Boundary
from steadyhelm.boundary.entry_points import WatchedCall, WatchedObject, watch_stream, watch_stream_async
from steadyhelm.boundary.finalizers import on_garbage_collected
from steadyhelm.engine import registry
from steadyhelm.engine.monitor import Monitor
from steadyhelm.errors import MissingExtraError, SettingsError

try:
    from crewai import Crew, Flow
    from crewai.agents.agent_builder.base_agent import BaseAgent
    from crewai.lite_agent import LiteAgent
    from crewai.types.streaming import StreamingOutputBase, StreamSessionBase
except ImportError as exc:
    raise MissingExtraError("CrewAI adapter", extra="crewai") from exc

CAN: Final[Capabilities] = {"before_model": {"guide", "rollback", "stop"}, "before_tool": {"deny"}}
"""CrewAI can be stopped where it asks a model, and only there: at a tool an abort just refuses the call."""

_SEVERAL: Final = (
    "kickoff_for_each",
    "kickoff_for_each_async",
    "akickoff_for_each",
    "message",
    "replay",
    "test",
    "train",
)
_ONE: Final = (
    "kickoff",
    "kickoff_async",
    "akickoff",
    "stream_events",
    "astream",
    "resume",
    "resume_async",
)
_INPUTS: Final = ("inputs", "messages")
_WATCHED: Final = (Crew, BaseAgent, LiteAgent, Flow)
_STREAMS: Final = (StreamingOutputBase, StreamSessionBase)


class CrewAIAdapter(WatchedObject):
    """A crew, an agent or a flow that is watched: kick it off as before.

    A crew is a run. Each of its tasks is a run inside it, with the task as its goal, unless it is the only
    one; so is each agent that is given work by another, or by a tool.

    Args:
        monitor: Who watches.
        agent: A `Crew`, an `Agent` or a `Flow`.
        ask: Puts a question to the user and gives the answer; CrewAI's hooks have no way of their own.
        goal: What it is to do; if not given, what the crew's tasks say, what the agent is asked, or the
            first words of the flow's class.
    """

    ENTRY_POINTS = (*_ONE, *_SEVERAL)

    @staticmethod
    def can_wrap(agent: Any) -> bool:
        """Whether it is a crew, an agent or a flow that can be kicked off, be it watched already."""
        if issubclass(type(agent), CrewAIAdapter):
            return True
        try:
            return isinstance(agent, _WATCHED) and callable(agent.kickoff)
        except Exception:  # noqa: BLE001 - an object may do anything when it is looked at
            return False

    def __init__(self, monitor: Monitor, agent: Any, *, ask: Ask | None = None, goal: str = "") -> None:
        super().__init__(_checked(agent))
        self._watched_by = monitor
        self._boundary = Boundary(monitor, "crewai", CAN, ask=ask)
        self._goal = goal

    def open(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> WatchedCall:
        """It is kicked off: that is a run, or several, of which each begins by itself."""
        part = Part(self._boundary)
        if method in _ONE:
            goal = self._goal
            with self._boundary.guard("goal"):
                goal = self._goal_of(args, kwargs)
            run = self._boundary.start_run(goal, agent=name_of(self._agent))
            part = Part(self._boundary, self._agent, run=run)
        return _entry(part, args, kwargs)

    def _goal_of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        given = args[0] if args else next((kwargs[it] for it in _INPUTS if it in kwargs), None)
        if self._goal:
            return filled(self._goal, given)
        if isinstance(self._agent, Crew):
            return goal_of(self._agent, given)
        if isinstance(self._agent, Flow):
            return filled(first_words(type(self._agent)), given)
        return asked(given)


class DriftCrew(CrewAIAdapter):
    """A crew that is watched by a monitor of its own, unless it is given one.

    Args:
        crew: The crew.
        monitor: Who watches; without it one is made, which takes the settings.
        ask: Puts a question to the user and gives the answer.
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
            monitor = registry.usual_monitor(**{"agent_id": name_of(_checked(crew)), **settings})
        super().__init__(monitor, crew, ask=ask)
        object.__setattr__(self, "monitor", monitor)  # ours, not the crew's


@contextmanager
def watch_crews(monitor: Monitor, *, ask: Ask | None = None) -> Iterator[None]:
    """Watch every crew and agent that is kicked off in this block, wherever that happens."""
    entry = _entry(Part(Boundary(monitor, "crewai", CAN, ask=ask)), (), {})
    error: BaseException | None = None
    try:
        with entry.activate():
            yield
    except BaseException as exc:
        error = exc
        raise
    finally:
        left = entry.finish(None, error)
        if left is not None and left is not error:
            raise left from error


def _checked(agent: Any) -> Any:
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


def _entry(part: Part, args: tuple[Any, ...], kwargs: dict[str, Any]) -> WatchedCall:
    def finish(result: Any, error: BaseException | None) -> BaseException | None:
        if error is None and _is_stream(result):
            _follow(result, part)
            return None
        for stream in filter(_is_stream, result if isinstance(result, list) else ()):
            _follow(stream, Part(part.boundary))
        return part.finish(error)

    return WatchedCall(activate=lambda: watching(part), finish=finish, args=args, kwargs=kwargs)


def _is_stream(result: Any) -> bool:
    return isinstance(result, _STREAMS)


def _follow(stream: Any, part: Part) -> None:
    """A stream does its work while it is read: that belongs to the part, which is over when it is."""
    entry = WatchedCall(activate=lambda: watching(part), finish=lambda _, error: part.finish(error))
    for name, follow in (("_sync_iterator", watch_stream), ("_async_iterator", watch_stream_async)):
        parts = getattr(stream, name, None)
        if parts is not None:
            setattr(stream, name, follow(entry, parts))
    tidy_up = getattr(stream, "_on_cleanup", None)

    def closed() -> None:
        if tidy_up is not None:
            tidy_up()
        part.finish(GeneratorExit())

    # Also one that nobody reads is over when it is closed, or nobody holds it any more.
    stream._on_cleanup = closed  # noqa: SLF001 - CrewAI has no other way to say so
    on_garbage_collected(stream, functools.partial(part.finish, GeneratorExit()))
