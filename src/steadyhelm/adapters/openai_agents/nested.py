"""Watch what begins inside a watched run: agents as tools, and tools that run agents."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ClassVar, Final, NamedTuple

from agents.run import get_default_agent_runner, set_default_agent_runner

from steadyhelm.adapters.openai_agents.run import RunWatch
from steadyhelm.forks import ForkSafeLock


class HookPoint(NamedTuple):
    """Where the code now running is: in a run that is watched, and by whom."""

    adapter: Any
    watch: RunWatch

    @contextmanager
    def activate(self) -> Iterator[None]:
        """What runs in here belongs to that run."""
        before = inside.get()
        inside.set(self)
        try:
            with self.watch.run.activate():
                yield
        finally:
            inside.set(before)


inside: Final[ContextVar[HookPoint | None]] = ContextVar("steadyhelm_openai_agents", default=None)


class NestedRunner:
    """The SDK's default runner while watched runs go on: what begins inside one of them is watched too.

    `Agent.as_tool` asks the default runner, with hooks of its own or none: there is no other way to see it.
    Outside watched runs it does what the runner before it does, and it goes with the last of them.
    """

    _lock: ClassVar = ForkSafeLock()
    _runs: ClassVar = 0

    @classmethod
    def hold(cls) -> None:
        """A watched run begins."""
        with cls._lock:
            cls._runs += 1
            now = get_default_agent_runner()
            if not isinstance(now, cls):
                set_default_agent_runner(cls(now))

    @classmethod
    def release(cls) -> None:
        """A watched run is over."""
        with cls._lock:
            cls._runs -= 1
            now = get_default_agent_runner()
            if cls._runs == 0 and isinstance(now, cls):
                set_default_agent_runner(now.before)

    def __init__(self, before: Any) -> None:
        self.before = before

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self.__dict__["before"], attribute)

    async def run(self, *args: Any, **kwargs: Any) -> Any:
        """Run an agent."""
        return await self._runner(kwargs).run(*args, **kwargs)

    def run_sync(self, *args: Any, **kwargs: Any) -> Any:
        """Run an agent, and wait for it."""
        return self._runner(kwargs).run_sync(*args, **kwargs)

    def run_streamed(self, *args: Any, **kwargs: Any) -> Any:
        """Run an agent, and stream what it does."""
        return self._runner(kwargs).run_streamed(*args, **kwargs)

    def _runner(self, kwargs: dict[str, Any]) -> Any:
        place = inside.get()
        if place is None or isinstance(kwargs.get("hooks"), RunWatch):
            return self.before
        return place.adapter.over(self.before)
