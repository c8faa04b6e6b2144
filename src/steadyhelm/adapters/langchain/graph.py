"""Watch and steer agents of LangChain and graphs of LangGraph.

Callbacks see every model call and tool call. `SteadyhelmMiddleware` in an agent can act on them: speak to the
model, refuse a call, ask the user. What `monitor.wrap` gives can also take a graph back to a checkpoint.
"""

import copy
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import aclosing
from typing import Any, ClassVar, Final

from steadyhelm.adapters.langchain.callbacks import SteadyhelmCallbacks, eyes_of, install
from steadyhelm.adapters.langchain.middleware import SteadyhelmMiddleware, said
from steadyhelm.adapters.langchain.scopes import Scope
from steadyhelm.adapters.langchain.steering import EYES, config_here, make_boundary
from steadyhelm.adapters.langchain.trips import Trip, stepped, stepped_async, walked, walked_async
from steadyhelm.adapters.langchain.undelivered import Unsaid
from steadyhelm.boundary.driver import Ask
from steadyhelm.boundary.entry_points import WatchedObject
from steadyhelm.decisions import Verdict
from steadyhelm.engine.monitor import Monitor
from steadyhelm.errors import MissingExtraError

try:
    from langchain_core.runnables import Runnable
    from langchain_core.runnables.config import merge_configs
    from langgraph.checkpoint.base import BaseCheckpointSaver
except ImportError as exc:
    raise MissingExtraError("LangChain adapter", extra="langchain") from exc

__all__ = ["LangChainAdapter", "SteadyhelmCallbacks", "SteadyhelmMiddleware", "install"]

_UNNAMED: Final = "LangGraph"
_BREAKPOINTS: Final = ("interrupt_before", "interrupt_after")


class LangChainAdapter(WatchedObject):
    """Stands for a graph, an agent or another runnable: each call of it is a run that is watched.

    A graph with a checkpointer can be taken back, where a call names its thread.

    Args:
        monitor: Who watches.
        agent: What is called.
        ask: A function that puts a question to the user and gives the answer.
    """

    # These find their way through `invoke` and its kin, so what they give is watched too.
    batch = Runnable.batch
    abatch = Runnable.abatch
    batch_as_completed = Runnable.batch_as_completed
    abatch_as_completed = Runnable.abatch_as_completed
    bind = Runnable.bind
    with_retry = Runnable.with_retry
    with_fallbacks = Runnable.with_fallbacks
    pipe = Runnable.pipe
    __or__ = Runnable.__or__
    __ror__ = Runnable.__ror__
    EVENTS: ClassVar[tuple[str, ...]] = ("stream_events", "astream_events", "astream_log")

    def __init__(self, monitor: Monitor, agent: Any, *, ask: Ask | None = None) -> None:
        super().__init__(agent)
        self._monitor = self._watched_by = monitor
        self._ask = ask
        self._eyes = eyes_of(monitor)
        saver = getattr(agent, "checkpointer", None)
        self._saves = isinstance(saver, BaseCheckpointSaver)
        back: list[Verdict] = ["rollback"] if self._saves else []
        self._boundary = make_boundary(monitor, {**EYES, "before_model": ["stop", *back]}, ask)
        self._inner = make_boundary(monitor, EYES, ask)
        self._unsaid = Unsaid(str(getattr(agent, "name", "") or type(agent).__name__))

    @staticmethod
    def can_wrap(agent: Any) -> bool:
        """Whether it is a graph, an agent or another runnable."""
        return isinstance(agent, Runnable)

    def __deepcopy__(self, memo: dict[int, Any]) -> "LangChainAdapter":
        """A copy of what it stands for, watched by the same monitor."""
        return LangChainAdapter(self._monitor, copy.deepcopy(self._agent, memo), ask=self._ask)

    def with_config(self, config: Any = None, **kwargs: Any) -> "LangChainAdapter":
        """The same with other settings, watched too."""
        return LangChainAdapter(self._monitor, self._agent.with_config(config, **kwargs), ask=self._ask)

    def invoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:  # noqa: A002 - LangChain's name
        """Call the agent."""
        trip = self._set_out(input, config, kwargs)
        while True:
            result = None
            with trip.attempt(), trip.activate():
                result = self._agent.invoke(trip.given, trip.config, **kwargs)
            walked(trip.way_on(self._agent), self._agent)
            if trip.has_arrived:
                trip.arrive()
                return result

    async def ainvoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:  # noqa: A002
        """The same, awaited."""
        trip = self._set_out(input, config, kwargs)
        while True:
            result = None
            with trip.attempt(), trip.activate():
                result = await self._agent.ainvoke(trip.given, trip.config, **kwargs)
            await walked_async(trip.way_on(self._agent), self._agent)
            if trip.has_arrived:
                trip.arrive()
                return result

    def stream(self, input: Any, config: Any = None, **kwargs: Any) -> Iterator[Any]:  # noqa: A002
        """The same, part by part."""
        trip = self._set_out(input, config, kwargs)
        while True:
            with trip.attempt():
                yield from stepped(trip, self._agent.stream(trip.given, trip.config, **kwargs))
            walked(trip.way_on(self._agent), self._agent)
            if trip.has_arrived:
                trip.arrive()
                return

    async def astream(self, input: Any, config: Any = None, **kwargs: Any) -> AsyncIterator[Any]:  # noqa: A002
        """The same, part by part, awaited."""
        trip = self._set_out(input, config, kwargs)
        while True:
            with trip.attempt():
                parts = self._agent.astream(trip.given, trip.config, **kwargs)
                async with aclosing(stepped_async(trip, parts)) as steps:
                    async for part in steps:
                        yield part
            await walked_async(trip.way_on(self._agent), self._agent)
            if trip.has_arrived:
                trip.arrive()
                return

    def __getattr__(self, attribute: str) -> Any:
        value = super().__getattr__(attribute)
        return self._claimed(value) if attribute in self.EVENTS else value

    def _claimed(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """Streams of events tell their own end: whatever starts with these callbacks is watched."""

        def watched(input: Any, config: Any = None, **kwargs: Any) -> Any:  # noqa: A002
            config = merge_configs(config, {"callbacks": [SteadyhelmCallbacks(self._monitor)]})
            return method(input, config, **kwargs)

        return watched

    def _set_out(self, given: Any, config: Any, kwargs: Mapping[str, Any]) -> Trip:
        thread = _thread_of(config) or _thread_of(getattr(self._agent, "config", None))
        # Inside another graph it is that one's checkpoints that count.
        can_return = self._saves and thread is not None and not config_here()
        scope = self._eyes.agents.resumed(thread, given)
        if scope is None:
            called = str(getattr(self._agent, "name", "") or "")
            agent = "" if called == _UNNAMED else called
            boundary = self._boundary if can_return else self._inner
            scope = Scope(boundary, given=given, agent=agent, parent=self._eyes.scope_here())
        scope.inner, scope.thread, scope.is_owned = self._inner, thread, True
        scope.can_return = can_return
        stops = [kwargs.get(name) or getattr(self._agent, f"{name}_nodes", ()) for name in _BREAKPOINTS]
        return Trip(
            self._eyes, scope, given, config, said=said, undelivered=self._unsaid, has_breakpoints=any(stops)
        )


Runnable.register(LangChainAdapter)


def _thread_of(config: Any) -> Any:
    configurable = config.get("configurable") if isinstance(config, Mapping) else None
    return configurable.get("thread_id") if isinstance(configurable, Mapping) else None
