"""Watch every runner of a process: `Runner.run_async`, which all ways to run call, and `run` are replaced."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any

from steadyhelm.adapters.google_adk.entry import copy_runner
from steadyhelm.adapters.google_adk.hooks import SteadyhelmPlugin
from steadyhelm.boundary.patches import Method, Patches
from steadyhelm.engine.monitor import Monitor
from steadyhelm.errors import MissingExtraError
from steadyhelm.host_objects import is_a

try:
    from google.adk.runners import Runner
except ImportError as exc:
    raise MissingExtraError("Google ADK adapter", extra="google-adk") from exc


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
