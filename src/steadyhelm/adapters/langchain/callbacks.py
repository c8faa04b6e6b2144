"""Watch LangChain and LangGraph through their callbacks: one agent, one call, or every agent of the process.

Callbacks reach everything, graphs built by hand and agents inside tools too, and need no change of the host's
code. All they can do about what they see is stop.
"""

import weakref
from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

from steadyhelm.adapters.langchain.eyes import Eyes
from steadyhelm.engine.monitor import Monitor
from steadyhelm.errors import MissingExtraError
from steadyhelm.forks import ForkSafeLock

try:
    from langchain_core.callbacks import BaseCallbackHandler
    from langchain_core.tracers.context import register_configure_hook
    from langgraph.errors import GraphBubbleUp
except ImportError as exc:
    raise MissingExtraError("LangChain adapter", extra="langchain") from exc


def install(monitor: Monitor) -> Callable[[], None]:
    """Watch every agent, graph, chain and model of this process from now on; gives what undoes it.

    ```python
    uninstall = install(monitor)
    ```
    """
    eyes = eyes_of(monitor)
    eyes.agents.is_everywhere = True
    _installed.add(eyes)

    def uninstall() -> None:
        eyes.agents.is_everywhere = False
        _installed.discard(eyes)

    return uninstall


class SteadyhelmCallbacks(BaseCallbackHandler):
    """Watches the calls it is given to.

    ```python
    graph.invoke(question, {"callbacks": [SteadyhelmCallbacks(monitor)]})
    ```
    """

    run_inline = True

    def __init__(self, monitor: Monitor) -> None:
        self._eyes = eyes_of(monitor)

    def on_chain_start(self, *_given: Any, run_id: UUID, parent_run_id: UUID | None = None, **_: Any) -> None:
        """Whatever starts here is watched; what happens in it is seen as in all others."""
        self._eyes.agents.claim(run_id, parent_run_id)

    def __deepcopy__(self, memo: dict[int, Any]) -> "SteadyhelmCallbacks":
        """A copy of an agent is watched by the same monitor."""
        return self

    on_chat_model_start = on_chain_start
    on_llm_start = on_chain_start
    on_tool_start = on_chain_start


def eyes_of(monitor: Monitor) -> Eyes:
    """The eyes of a monitor, which are the same for all who watch for it."""
    return _everybody.eyes_of(monitor)


def _handed_on(callback: str) -> Any:
    def hand_on(self: "Steadyhelm", *args: Any, **kwargs: Any) -> None:
        meant: GraphBubbleUp | None = None
        for reference in self.references:
            eyes = reference()
            if eyes is None:
                continue
            try:
                getattr(eyes, callback)(*args, **kwargs)
            except GraphBubbleUp as exc:
                meant = meant or exc
        if meant is not None:
            raise meant

    return hand_on


class Steadyhelm(BaseCallbackHandler):
    """Hands every callback of this process on to the eyes of all monitors; LangChain logs it by this name."""

    raise_error = True
    run_inline = True

    on_chain_start = _handed_on("on_chain_start")
    on_chain_end = _handed_on("on_chain_end")
    on_chain_error = _handed_on("on_chain_error")
    on_chat_model_start = _handed_on("on_chat_model_start")
    on_llm_start = _handed_on("on_llm_start")
    on_llm_end = _handed_on("on_llm_end")
    on_llm_error = _handed_on("on_llm_error")
    on_tool_start = _handed_on("on_tool_start")
    on_tool_end = _handed_on("on_tool_end")
    on_tool_error = _handed_on("on_tool_error")

    def __init__(self) -> None:
        self.references: tuple[weakref.ref[Eyes], ...] = ()
        self._lock = ForkSafeLock()
        self._is_heard = False

    def get(self) -> "Steadyhelm":
        """What LangChain asks for whenever it makes a callback manager, as of a context variable."""
        return self

    def eyes_of(self, monitor: Monitor) -> Eyes:
        """The eyes of a monitor, made at the first time; what is no monitor has none."""
        with self._lock:
            living = [eyes for reference in self.references if (eyes := reference()) is not None]
            found = next((eyes for eyes in living if eyes.monitor is monitor), None)
            eyes = found or Eyes(monitor)
            self.references = tuple(weakref.ref(it) for it in (*living, *(() if found else (eyes,))))
            if not self._is_heard:
                self._is_heard = True
                register_configure_hook(self, inheritable=True)
            return eyes


_everybody: Final = Steadyhelm()
_installed: Final[set[Eyes]] = set()
