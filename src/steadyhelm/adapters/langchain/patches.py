"""Watch every agent, graph, chain and model of a process.

Callbacks see all of them. Graphs are called through our proxy, so that they can be taken back and stopped;
agents that `create_agent` makes get our middleware, so that they can be guided.
"""

import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from steadyhelm.adapters.langchain.entry import LangChainAdapter, is_graph_call_attempt
from steadyhelm.adapters.langchain.hooks import get_handler
from steadyhelm.adapters.langchain.steering import current_config
from steadyhelm.boundary.entry_points import ClosingAsync
from steadyhelm.boundary.patches import Method, Patches
from steadyhelm.engine.monitor import Monitor
from steadyhelm.host_objects import is_a

Choose = Callable[[Any], Any]


def watch_callbacks(monitor: Monitor, patches: Patches) -> None:
    """Watch what reports to callbacks, which is everything."""
    handler = get_handler(monitor)
    handler.contexts.watches_all = True

    def stop_watching() -> None:
        handler.contexts.watches_all = False

    patches.on_undo(stop_watching)


def watch_graphs(monitor: Monitor, patches: Patches) -> None:
    """Call outermost graphs through our proxy; graphs inside others are parts of them."""
    from langgraph.pregel import Pregel  # noqa: PLC0415 - a program may use no graphs

    proxies: weakref.WeakKeyDictionary[Any, LangChainAdapter] = weakref.WeakKeyDictionary()

    def choose(graph: Any) -> LangChainAdapter | None:
        """Return the proxy to call a graph through; None to call the graph itself."""
        if not patches.is_active or monitor.disabled or is_graph_call_attempt() or current_config():
            return None
        found = proxies.get(graph)
        if found is None:
            found = proxies[graph] = LangChainAdapter(monitor, weakref.proxy(graph), warns=False)
        return found

    for name, make in _REPLACEMENTS.items():
        patches.replace_method(Pregel, name, lambda method, make=make: make(method, choose))  # type: ignore[misc]


def add_middleware(monitor: Monitor, patches: Patches) -> None:
    """Add our middleware where `create_agent` is called, unless there is one of ours or nothing to say."""
    from langchain.agents import factory  # noqa: PLC0415 - a program may use no agents

    from steadyhelm.adapters.langchain.middleware import SteadyhelmMiddleware  # noqa: PLC0415

    def make(create_agent: Method) -> Method:
        def create(*args: Any, **options: Any) -> Any:
            own = tuple(options.get("middleware") or ())
            is_watched = any(is_a(it, SteadyhelmMiddleware) for it in own)
            if patches.is_active and monitor.mode != "observe" and not monitor.disabled and not is_watched:
                options["middleware"] = [SteadyhelmMiddleware(monitor), *own]
            return create_agent(*args, **options)

        return create

    patches.replace_function(factory.create_agent, make)


# --- the methods of a graph --------------------------------------------------------------------------


def _replace_invoke(method: Method, choose: Choose) -> Method:
    def invoke(self: Any, *args: Any, **options: Any) -> Any:
        proxy = choose(self)
        return method(self, *args, **options) if proxy is None else proxy.invoke(*args, **options)

    return invoke


def _replace_ainvoke(method: Method, choose: Choose) -> Method:
    async def ainvoke(self: Any, *args: Any, **options: Any) -> Any:
        proxy = choose(self)
        return await (method(self, *args, **options) if proxy is None else proxy.ainvoke(*args, **options))

    return ainvoke


def _replace_stream(method: Method, choose: Choose) -> Method:
    def stream(self: Any, *args: Any, **options: Any) -> Iterator[Any]:
        proxy = choose(self)
        yield from method(self, *args, **options) if proxy is None else proxy.stream(*args, **options)

    return stream


def _replace_astream(method: Method, choose: Choose) -> Method:
    async def astream(self: Any, *args: Any, **options: Any) -> AsyncIterator[Any]:
        proxy = choose(self)
        parts: Any = method(self, *args, **options) if proxy is None else proxy.astream(*args, **options)
        async with ClosingAsync(parts):
            async for part in parts:
                yield part

    return astream


_REPLACEMENTS = {
    "invoke": _replace_invoke,
    "ainvoke": _replace_ainvoke,
    "stream": _replace_stream,
    "astream": _replace_astream,
}
