"""Recognise and watch agents and workflows of LlamaIndex: one, or every one of a process."""

from typing import Any

from steadyhelm.adapters.llama_index.hooks import WATCHERS, make_boundary
from steadyhelm.boundary.driver import Ask
from steadyhelm.boundary.patches import Patches
from steadyhelm.engine.monitor import Monitor
from steadyhelm.errors import MissingExtraError
from steadyhelm.host_objects import is_a

try:
    from workflows import Workflow
except ImportError as exc:
    raise MissingExtraError("LlamaIndex adapter", extra="llama-index") from exc


class LlamaIndexAdapter:
    """Watch an agent or a workflow: `monitor.wrap` returns the object itself, whose runs are watched.

    Args:
        monitor: The monitor that watches.
        agent: A `FunctionAgent`, another agent, an `AgentWorkflow` or a `Workflow`.
        ask: Puts a question to the user and returns the answer.
    """

    @staticmethod
    def can_wrap(agent: Any) -> bool:
        """Return whether this is an agent or a workflow."""
        return is_a(agent, Workflow)

    def __new__(cls, monitor: Monitor, agent: Any, *, ask: Ask | None = None) -> Any:
        """Return the agent, watched."""
        WATCHERS.wrap(agent, make_boundary(monitor, ask))
        return agent


def watch_workflows(monitor: Monitor, patches: Patches) -> None:
    """Watch all agents and workflows; one that is wrapped is watched by its own monitor."""
    WATCHERS.watch_everything(make_boundary(monitor))
    patches.on_undo(lambda: WATCHERS.watch_everything(None))
