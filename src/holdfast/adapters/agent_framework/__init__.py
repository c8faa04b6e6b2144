"""Microsoft Agent Framework: three middlewares that belong together."""

from typing import TYPE_CHECKING

from holdfast.adapters.lazy_names import lazy_names

if TYPE_CHECKING:
    from holdfast.adapters.agent_framework.middleware import AgentFrameworkAdapter as AgentFrameworkAdapter
    from holdfast.adapters.agent_framework.middleware import HoldfastMiddleware as HoldfastMiddleware

__getattr__ = lazy_names(
    __name__, {"AgentFrameworkAdapter": "middleware", "HoldfastMiddleware": "middleware"}
)
