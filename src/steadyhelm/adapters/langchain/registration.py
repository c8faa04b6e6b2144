"""Register one callback handler with LangChain; it forwards to the handlers of all monitors."""

import logging
import weakref
from contextvars import ContextVar
from typing import Any, Final
from uuid import UUID

from steadyhelm.adapters.langchain.hooks import CallbackHandler, GraphReturn, GraphStopped
from steadyhelm.engine.monitor import Monitor
from steadyhelm.errors import MissingExtraError
from steadyhelm.forks import ForkSafeLock

try:
    from langchain_core.callbacks import BaseCallbackHandler
    from langchain_core.callbacks import manager as callbacks
    from langchain_core.tracers.context import register_configure_hook
    from langgraph.errors import GraphBubbleUp
except ImportError as exc:
    raise MissingExtraError("LangChain adapter", extra="langchain") from exc

_ARGUMENTS_LOGGED: Final = 3
"""LangChain logs a callback's error by the name of its handler, of its method, and the exception."""


class SteadyhelmCallbacks(BaseCallbackHandler):
    """Watch the calls that these callbacks are handed to.

    ```python
    graph.invoke(question, {"callbacks": [SteadyhelmCallbacks(monitor)]})
    ```
    """

    run_inline = True

    def __init__(self, monitor: Monitor) -> None:
        self._handler = get_handler(monitor)

    def on_chain_start(self, *_given: Any, run_id: UUID, parent_run_id: UUID | None = None, **_: Any) -> None:
        """Claim what starts here; its steps are recorded like those of all other agents."""
        self._handler.contexts.claim(run_id, parent_run_id)

    def __deepcopy__(self, memo: dict[int, Any]) -> "SteadyhelmCallbacks":
        """Return itself: a copy of an agent is watched by the same monitor."""
        return self

    on_chat_model_start = on_chain_start
    on_llm_start = on_chain_start
    on_tool_start = on_chain_start


def get_handler(monitor: Monitor) -> CallbackHandler:
    """Return the callback handler of a monitor, created at the first call."""
    return _process_handler.get_handler(monitor)


def _forward(callback: str) -> Any:
    """Return a callback that calls the handlers of all monitors, and raises only what steers a graph."""

    def call_handlers(self: "Steadyhelm", *args: Any, **kwargs: Any) -> None:
        steering: GraphBubbleUp | None = None
        for reference in self.references:
            handler = reference()
            if handler is None or handler.monitor.disabled:
                continue
            try:
                getattr(handler, callback)(*args, **kwargs)
            except GraphBubbleUp as exc:
                steering = steering or exc
            except Exception as exc:  # noqa: BLE001 - a failure of ours must not reach the agent
                handler.monitor.health.swallow(f"langchain adapter, {callback}", exc)
        if steering is not None:
            raise steering

    return call_handlers


class OwnStops(logging.Filter):
    """Drops the line by which LangChain logs that our callback raised to stop or to leave a graph."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the line is about anything else."""
        args = record.args
        if not isinstance(args, tuple) or len(args) != _ARGUMENTS_LOGGED or args[0] != Steadyhelm.__name__:
            return True
        return not str(args[2]).startswith((GraphStopped.__name__, GraphReturn.__name__))


class Steadyhelm(BaseCallbackHandler):
    """Forwards every callback of this process to all handlers."""

    raise_error = True
    run_inline = True

    on_chain_start = _forward("on_chain_start")
    on_chain_end = _forward("on_chain_end")
    on_chain_error = _forward("on_chain_error")
    on_chat_model_start = _forward("on_chat_model_start")
    on_llm_start = _forward("on_llm_start")
    on_llm_end = _forward("on_llm_end")
    on_llm_error = _forward("on_llm_error")
    on_tool_start = _forward("on_tool_start")
    on_tool_end = _forward("on_tool_end")
    on_tool_error = _forward("on_tool_error")

    def __init__(self) -> None:
        self.references: tuple[weakref.ref[CallbackHandler], ...] = ()
        self._lock = ForkSafeLock()
        self._variable: ContextVar[Steadyhelm] | None = None

    def get_handler(self, monitor: Monitor) -> CallbackHandler:
        """Return the handler of a monitor; the first call registers this object with LangChain."""
        with self._lock:
            living = [handler for reference in self.references if (handler := reference()) is not None]
            found = next((handler for handler in living if handler.monitor is monitor), None)
            handler = found or CallbackHandler(monitor)
            self.references = tuple(weakref.ref(it) for it in (*living, *(() if found else (handler,))))
            if self._variable is None:
                self._variable = ContextVar("steadyhelm_langchain_handler", default=self)
                register_configure_hook(self._variable, inheritable=True)
                logging.getLogger(callbacks.__name__).addFilter(OwnStops())
            return handler


_process_handler: Final = Steadyhelm()
