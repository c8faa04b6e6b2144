"""Microsoft Agent Framework: three middlewares; `run_state` holds runs that outlive the agent object."""

from typing import TYPE_CHECKING

from steadyhelm.adapters import lazy_names

if TYPE_CHECKING:
    from steadyhelm.adapters.agent_framework.entry import AgentFrameworkAdapter as AgentFrameworkAdapter
    from steadyhelm.adapters.agent_framework.entry import SteadyhelmMiddleware as SteadyhelmMiddleware

__getattr__ = lazy_names(
    __name__,
    {
        "AgentFrameworkAdapter": "entry",
        "SteadyhelmMiddleware": "entry",
        "watch_agents": "entry",
    },
)
