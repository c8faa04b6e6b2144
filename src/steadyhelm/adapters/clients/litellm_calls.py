"""Recognise and watch `litellm.completion` and `litellm.acompletion`, which speak OpenAI's format."""

import functools
import importlib
from importlib.util import find_spec
from types import FunctionType
from typing import Any, Final

from steadyhelm.adapters.clients.conversations import ClientOrigin, make_client_id
from steadyhelm.adapters.clients.entry import get_watcher
from steadyhelm.adapters.clients.formats import ChatFormat
from steadyhelm.adapters.clients.watched_methods import Method, WatchedMethods, is_async
from steadyhelm.boundary.driver import Ask
from steadyhelm.boundary.patches import Patches
from steadyhelm.engine.monitor import Monitor
from steadyhelm.errors import MissingExtraError, SettingsError

if find_spec("litellm") is None:
    raise MissingExtraError("litellm adapter", extra="litellm")

NAMES: Final = ("completion", "acompletion")
_SOURCE: Final = "litellm"


class LiteLLMAdapter:
    """Watch a function of litellm: `monitor.wrap(litellm.completion)` returns one to call like it."""

    @staticmethod
    def can_wrap(agent: Any) -> bool:
        """Return whether this is `litellm.completion` or `litellm.acompletion`."""
        is_function = type(agent) is FunctionType and agent.__name__ in NAMES
        return is_function and str(agent.__module__).partition(".")[0] == "litellm"

    def __new__(cls, monitor: Monitor, agent: Any, *, ask: Ask | None = None) -> Any:
        """Return the function, watched."""
        if not cls.can_wrap(agent):
            raise SettingsError(f"Of litellm wrap() takes completion or acompletion, got {agent!r}.")
        return functools.wraps(agent)(make_watched_call(monitor, agent, ask))


def watch_litellm(monitor: Monitor, patches: Patches) -> None:
    """Watch `litellm.completion` and `litellm.acompletion`, by whatever name they were imported."""
    module = importlib.import_module("litellm")

    def make(function: Method) -> Method:
        watched = make_watched_call(monitor, function)

        def choose() -> Method:
            return watched if patches.is_active else function

        def call(*args: Any, **kwargs: Any) -> Any:
            return choose()(*args, **kwargs)

        async def call_async(*args: Any, **kwargs: Any) -> Any:
            return await choose()(*args, **kwargs)

        return call_async if is_async(function) else call

    for name in NAMES:
        patches.replace_function(getattr(module, name), make)
    patches.on_undo(get_watcher(monitor, "litellm", None).end_runs)


def make_watched_call(monitor: Monitor, function: Method, ask: Ask | None = None) -> Method:
    """Return a function that calls this function of litellm, watched."""
    watcher = get_watcher(monitor, _SOURCE, ask)
    watcher.ends_failed = True  # litellm has tried again itself, and there is no client that could be closed
    methods = WatchedMethods(watcher, make_client_id(ClientOrigin(watcher.note_collected)))
    return methods.make_request(ChatFormat(), function)
