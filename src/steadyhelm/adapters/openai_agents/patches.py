"""Watch every run of a process: the default runner of the SDK, which `Runner` calls, is replaced."""

from steadyhelm.adapters.openai_agents.entry import DefaultRunner, OpenAIAgentsAdapter
from steadyhelm.boundary.patches import Patches
from steadyhelm.engine.monitor import Monitor
from steadyhelm.errors import MissingExtraError

try:
    from agents import Runner
except ImportError as exc:
    raise MissingExtraError("OpenAI Agents SDK adapter", extra="openai-agents") from exc


def watch_runner(monitor: Monitor, patches: Patches) -> None:
    """Watch the runs of `Runner`, by whatever name it was imported."""
    DefaultRunner.watch_all(OpenAIAgentsAdapter(monitor, Runner))
    patches.on_undo(lambda: DefaultRunner.watch_all(None))
