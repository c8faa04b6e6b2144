"""LangChain and LangGraph: callbacks record, middleware acts, and a wrapped graph owns the outermost call.

Beside the usual modules there are `middleware`, a second way in that needs LangChain where the others need
only LangGraph, `contexts`, since callbacks name no agent and it must be found in their tree, `steering`,
since callbacks, middleware and the wrapped graph all carry out instructions, and `patches`, which
`steadyhelm.install()` makes.
"""

from typing import TYPE_CHECKING

from steadyhelm.adapters import lazy_names

if TYPE_CHECKING:
    from steadyhelm.adapters.langchain.entry import LangChainAdapter as LangChainAdapter
    from steadyhelm.adapters.langchain.hooks import SteadyhelmCallbacks as SteadyhelmCallbacks
    from steadyhelm.adapters.langchain.middleware import SteadyhelmMiddleware as SteadyhelmMiddleware

__getattr__ = lazy_names(
    __name__,
    {
        "SteadyhelmCallbacks": "hooks",
        "SteadyhelmMiddleware": "middleware",
        "LangChainAdapter": "entry",
        "watch_callbacks": "patches",
        "watch_graphs": "patches",
        "add_middleware": "patches",
    },
)
