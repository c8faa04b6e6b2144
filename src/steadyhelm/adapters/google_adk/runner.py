"""Watch agents of Google's Agent Development Kit: a runner or an app, by a plugin of the framework's own."""

import asyncio
import copy
import functools
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Literal

from steadyhelm.adapters.google_adk.contents import stop_in
from steadyhelm.adapters.google_adk.plugin import SteadyhelmPlugin
from steadyhelm.adapters.google_adk.turns import session_name
from steadyhelm.boundary.driver import Ask
from steadyhelm.engine.monitor import Monitor
from steadyhelm.errors import MissingExtraError, SettingsError

try:
    from google.adk.apps import App
    from google.adk.runners import Runner
    from google.adk.workflow import BaseNode
except ImportError as exc:
    raise MissingExtraError("Google ADK adapter", extra="google-adk") from exc

__all__ = ["GoogleADKAdapter", "SteadyhelmPlugin", "WatchedRunner"]


class WatchedRunner(Runner):
    """A runner whose caller receives `RunStopped`, whatever the framework makes of it."""

    steadyhelm: SteadyhelmPlugin

    async def run_async(self, **asked: Any) -> AsyncGenerator[Any, None]:
        """Let the agent work; `run` and `run_debug` come here too."""
        turn, task = None, asyncio.current_task()
        try:
            async with aclosing(super().run_async(**asked)) as events:
                async for event in events:
                    turn = turn or self.steadyhelm.turn_of(event.invocation_id)
                    yield event
        except Exception as exc:
            # A ParallelAgent hands on the error without its cause.
            stopped = stop_in(exc) or (turn.stopped if turn is not None else None)
            if stopped is None:
                raise
            raise stopped from None
        finally:
            # A timeout or an interrupt tells the plugins nothing.
            user, session = asked.get("user_id", ""), asked.get("session_id", "")
            self.steadyhelm.left_by(task, session_name(self.app_name, user, session))
        if turn is not None and turn.stopped is not None:
            raise turn.stopped


class GoogleADKAdapter:
    """Gives a runner or an app that is watched, and leaves the one it was given as it was.

    `monitor.wrap(runner)` is a runner of the same kind with the same services, our plugin before its own;
    `monitor.wrap(app)` likewise an app. `run_live` works as before and is not watched.
    """

    @staticmethod
    def can_wrap(agent: Any) -> bool:
        """Whether this is a runner, an app or an agent of the framework."""
        return issubclass(type(agent), Runner | App | BaseNode)

    def __new__(
        cls, monitor: Monitor, agent: Any, *, ask: Ask | Literal["confirmation"] | None = None
    ) -> Any:
        """The runner or app, watched; where it is watched by this monitor already, that stays as it is."""
        if not isinstance(agent, Runner | App):
            raise SettingsError(
                f"wrap() got a {type(agent).__name__} of Google ADK, which does not run by itself. "
                "Wrap its Runner or its App instead."
            )
        own = agent.plugins if isinstance(agent, App) else agent.plugin_manager.plugins
        plugin = next((it for it in own if isinstance(it, SteadyhelmPlugin) and it.monitor is monitor), None)
        plugins = list(own)
        if plugin is None:
            name = "steadyhelm" + "_" * sum(str(it.name).startswith("steadyhelm") for it in own)
            plugin = SteadyhelmPlugin(monitor, ask=ask, name=name)
            plugins.insert(0, plugin)
        if isinstance(agent, App):
            return agent.model_copy(update={"plugins": plugins})
        return _watched(agent, plugin, plugins)


def _watched(runner: Any, plugin: SteadyhelmPlugin, plugins: list[Any]) -> Any:
    watched = copy.copy(runner)
    watched.__class__ = _watched_kind(runner.__class__)
    watched.plugin_manager = copy.copy(runner.plugin_manager)
    watched.plugin_manager.plugins = plugins
    watched.steadyhelm = plugin
    return watched


@functools.cache
def _watched_kind(kind: Any) -> Any:
    """The class of runners like these that are watched: it is one of them for whoever asks."""
    return (
        kind
        if issubclass(kind, WatchedRunner)
        else type(f"Watched{kind.__name__}", (WatchedRunner, kind), {})
    )
