"""Microsoft Agent Framework: three middlewares that belong together."""

from typing import TYPE_CHECKING

from steadyhelm.adapters.lazy_names import lazy_names

if TYPE_CHECKING:
    from steadyhelm.adapters.agent_framework.middleware import AgentFrameworkAdapter as AgentFrameworkAdapter
    from steadyhelm.adapters.agent_framework.middleware import SteadyhelmMiddleware as SteadyhelmMiddleware

__getattr__ = lazy_names(
    __name__, {"AgentFrameworkAdapter": "middleware", "SteadyhelmMiddleware": "middleware"}
)
