"""Watch every run of a process: the default runner of the SDK, which `Runner` calls, is replaced."""

from typing import Any

from steadyhelm.adapters.openai_agents.entry import DefaultRunner, OpenAIAgentsAdapter
from steadyhelm.boundary.patches import Method, Patches
from steadyhelm.engine.monitor import Monitor
from steadyhelm.errors import MissingExtraError
from steadyhelm.host_objects import is_a

try:
    from agents import Runner
    from agents.run import get_default_agent_runner, set_default_agent_runner
except ImportError as exc:
    raise MissingExtraError("OpenAI Agents SDK adapter", extra="openai-agents") from exc


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
