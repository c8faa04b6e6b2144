"""Watch every agent and workflow of a process."""

from steadyhelm.adapters.llama_index.hooks import WATCHERS, make_boundary
from steadyhelm.boundary.patches import Patches
from steadyhelm.engine.monitor import Monitor


def watch_workflows(monitor: Monitor, patches: Patches) -> None:
    """Watch all agents and workflows; one that is wrapped is watched by its own monitor."""
    WATCHERS.watch_everything(make_boundary(monitor))
    patches.on_undo(lambda: WATCHERS.watch_everything(None))
