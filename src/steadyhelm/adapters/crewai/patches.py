"""Watch every crew, agent and flow of a process: the methods that kick them off are replaced."""

import inspect
from typing import Any

from steadyhelm.adapters.crewai.entry import CrewAIAdapter
from steadyhelm.adapters.crewai.hooks import is_watching
from steadyhelm.boundary.patches import Method, Patches
from steadyhelm.engine.monitor import Monitor
from steadyhelm.errors import MissingExtraError

try:
    from crewai import Agent, Crew, Flow
    from crewai.lite_agent import LiteAgent
except ImportError as exc:
    raise MissingExtraError("CrewAI adapter", extra="crewai") from exc


def watch_crews_and_agents(monitor: Monitor, patches: Patches) -> None:
    """Watch everything that is kicked off, those that exist already too; inside a watched crew it is part."""
    for owner in (Crew, Agent, LiteAgent, Flow):
        for name in CrewAIAdapter.ENTRY_POINTS:
            if callable(vars(owner).get(name)):
                patches.replace_method(owner, name, _make_replacement(monitor, patches, name))


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
