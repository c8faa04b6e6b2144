"""Watch every agent of a process: `Agent.iter`, which all ways to run an agent call, is replaced."""

from typing import Any

from steadyhelm.adapters.pydantic_ai.entry import add_capability
from steadyhelm.adapters.pydantic_ai.hooks import SteadyhelmCapability
from steadyhelm.boundary.patches import Method, Patches
from steadyhelm.engine.monitor import Monitor
from steadyhelm.errors import MissingExtraError
from steadyhelm.host_objects import is_a

try:
    from pydantic_ai.agent import Agent
except ImportError as exc:
    raise MissingExtraError("Pydantic AI adapter", extra="pydantic-ai") from exc


def watch_agents(monitor: Monitor, patches: Patches) -> None:
    """Watch all agents, those that exist already too; one with a capability of ours is watched by that."""
    capability = SteadyhelmCapability(monitor)

    def make(iterate: Method) -> Method:
        def iter(self: Any, *args: Any, **options: Any) -> Any:  # noqa: A001 - Pydantic AI's name
            if patches.is_active and not _is_watched(self, options):
                options = add_capability(capability, options)
            return iterate(self, *args, **options)

        return iter

    patches.replace_method(Agent, "iter", make)


def _is_watched(agent: Any, options: dict[str, Any]) -> bool:
    given = [*(options.get("capabilities") or ())]
    root = getattr(agent, "_root_capability", None)
    return any(is_a(it, SteadyhelmCapability) for it in (*given, *getattr(root, "capabilities", ())))
