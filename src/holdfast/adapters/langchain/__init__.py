"""LangChain and LangGraph: callbacks see, middleware acts, and a wrapped graph owns the outermost call."""

from typing import TYPE_CHECKING

from holdfast.adapters.lazy_names import lazy_names

if TYPE_CHECKING:
    from holdfast.adapters.langchain.callbacks import HoldfastCallbacks as HoldfastCallbacks
    from holdfast.adapters.langchain.callbacks import install as install
    from holdfast.adapters.langchain.graph import LangChainAdapter as LangChainAdapter
    from holdfast.adapters.langchain.middleware import HoldfastMiddleware as HoldfastMiddleware

__getattr__ = lazy_names(
    __name__,
    {
        "HoldfastCallbacks": "callbacks",
        "HoldfastMiddleware": "middleware",
        "LangChainAdapter": "graph",
        "install": "callbacks",
    },
)
