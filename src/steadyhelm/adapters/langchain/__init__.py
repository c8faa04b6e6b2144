"""LangChain and LangGraph: callbacks see, middleware acts, and a wrapped graph owns the outermost call."""

from typing import TYPE_CHECKING

from steadyhelm.adapters.lazy_names import lazy_names

if TYPE_CHECKING:
    from steadyhelm.adapters.langchain.callbacks import SteadyhelmCallbacks as SteadyhelmCallbacks
    from steadyhelm.adapters.langchain.callbacks import install as install
    from steadyhelm.adapters.langchain.graph import LangChainAdapter as LangChainAdapter
    from steadyhelm.adapters.langchain.middleware import SteadyhelmMiddleware as SteadyhelmMiddleware

__getattr__ = lazy_names(
    __name__,
    {
        "SteadyhelmCallbacks": "callbacks",
        "SteadyhelmMiddleware": "middleware",
        "LangChainAdapter": "graph",
        "install": "callbacks",
    },
)
