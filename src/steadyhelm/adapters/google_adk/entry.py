"""Recognise and wrap runners and apps of Google's Agent Development Kit.

`watch_runners` watches every runner of a process: it replaces `Runner.run_async`, which all ways to run call,
and `run`.
"""

import asyncio
import copy
import functools
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, nullcontext
from typing import Any, Literal

from steadyhelm.adapters.google_adk.hooks import SteadyhelmPlugin
from steadyhelm.adapters.google_adk.invocations import make_session_key
from steadyhelm.adapters.google_adk.translate import find_stop
from steadyhelm.boundary.driver import Ask, detach_stop
from steadyhelm.boundary.patches import Method, Patches
from steadyhelm.engine.monitor import Monitor
from steadyhelm.errors import MissingExtraError, RunStopped, SettingsError
from steadyhelm.host_objects import is_a

try:
    from google.adk.apps import App
    from google.adk.runners import Runner
    from google.adk.workflow import BaseNode
except ImportError as exc:
    raise MissingExtraError("Google ADK adapter", extra="google-adk") from exc


class WatchedRunner(Runner):
    """A runner that raises `RunStopped` to its caller, whatever the framework turns it into."""

    steadyhelm: SteadyhelmPlugin
    caller_run: str | None = None
    stops: list[RunStopped] | None = None

    def run(self, **options: Any) -> Iterator[Any]:
        """Run the agent in a thread.

        Older versions start it without the caller's context, and lose what it raises there: it joins the
        caller's run all the same, and a stop is raised here.
        """
        mine = copy.copy(self)
        mine.stops, mine.caller_run = [], self.steadyhelm.monitor.current_run
        yield from super(WatchedRunner, mine).run(**options)
        if mine.stops:
            raise mine.stops[0]

    async def run_async(self, **options: Any) -> AsyncGenerator[Any, None]:
        """Run the agent; `run` and `run_debug` call this too."""
        invocation, task = None, asyncio.current_task()
        inside = self.steadyhelm.monitor.within(self.caller_run) if self.caller_run else nullcontext()
        try:
            async with aclosing(super().run_async(**options)) as events:
                with inside:
                    async for event in events:
                        invocation = invocation or self.steadyhelm.find_invocation(event.invocation_id)
                        yield event
        except Exception as exc:
            # A ParallelAgent raises the error without its cause.
            stopped = find_stop(exc) or (invocation.stopped if invocation is not None else None)
            if stopped is None:
                raise
            detach_stop(stopped, exc)
            raise self._note(stopped) from None
        finally:
            # Plugins are not called for a timeout or an interrupt.
            user, session = options.get("user_id", ""), options.get("session_id", "")
            self.steadyhelm.abandon_task(task, make_session_key(self.app_name, user, session))
        if invocation is not None and invocation.stopped is not None:
            raise self._note(invocation.stopped)

    def _note(self, stopped: RunStopped) -> RunStopped:
        if self.stops is not None:
            self.stops.append(stopped)
        return stopped


class GoogleADKAdapter:
    """Return a watched copy of a runner or an app; the original is not changed.

    `monitor.wrap(runner)` is a runner of the same kind with the same services, our plugin before its own;
    `monitor.wrap(app)` likewise an app. `run_live` works as before, and is not watched.
    """

    @staticmethod
    def can_wrap(agent: Any) -> bool:
        """Return whether this is a runner, an app or an agent of the framework."""
        return issubclass(type(agent), Runner | App | BaseNode)

    def __new__(
        cls, monitor: Monitor, agent: Any, *, ask: Ask | Literal["confirmation"] | None = None
    ) -> Any:
        """Return the runner or app, watched once by this monitor."""
        if not is_a(agent, (Runner, App)):
            raise SettingsError(
                f"wrap() got a {type(agent).__name__} of Google ADK, which does not run by itself. "
                "Wrap its Runner or its App instead."
            )
        own = agent.plugins if is_a(agent, App) else agent.plugin_manager.plugins
        plugin = next((it for it in own if is_a(it, SteadyhelmPlugin) and it.monitor is monitor), None)
        plugins = list(own)
        if plugin is None:
            name = "steadyhelm" + "_" * sum(str(it.name).startswith("steadyhelm") for it in own)
            plugin = SteadyhelmPlugin(monitor, ask=ask, name=name)
            plugins.insert(0, plugin)
        if is_a(agent, App):
            return agent.model_copy(update={"plugins": plugins})
        return copy_runner(agent, plugin, plugins)


def copy_runner(runner: Any, plugin: SteadyhelmPlugin, plugins: list[Any]) -> Any:
    """Return a copy of a runner with these plugins, which raises a stop to its caller."""
    watched = copy.copy(runner)
    watched.__class__ = _make_watched_class(runner.__class__)
    watched.plugin_manager = copy.copy(runner.plugin_manager)
    watched.plugin_manager.plugins = plugins
    watched.steadyhelm = plugin
    return watched


def watch_runners(monitor: Monitor, patches: Patches) -> None:
    """Watch all runners, those that exist already too; one with a plugin of ours is watched by that."""
    plugin = SteadyhelmPlugin(monitor)

    def watch(runner: Any) -> Any:
        own = runner.plugin_manager.plugins
        if not patches.is_active or any(is_a(it, SteadyhelmPlugin) for it in own):
            return None
        return copy_runner(runner, plugin, [plugin, *own])

    def make_async(original: Method) -> Method:
        async def run_async(self: Any, **options: Any) -> AsyncGenerator[Any, None]:
            watched = watch(self)
            events = original(self, **options) if watched is None else watched.run_async(**options)
            async with aclosing(events):
                async for event in events:
                    yield event

        return run_async

    def make_sync(original: Method) -> Method:
        def run(self: Any, **options: Any) -> Iterator[Any]:
            watched = watch(self)
            yield from original(self, **options) if watched is None else watched.run(**options)

        return run

    patches.replace_method(Runner, "run_async", make_async)
    patches.replace_method(Runner, "run", make_sync)


@functools.cache
def _make_watched_class(kind: Any) -> Any:
    """Return a watched subclass of a runner's class."""
    return (
        kind
        if issubclass(kind, WatchedRunner)
        else type(f"Watched{kind.__name__}", (WatchedRunner, kind), {})
    )
