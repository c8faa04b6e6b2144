"""Watch every client of a process: methods of OpenAI's and Anthropic's classes.

Each function is called when the module of its classes is imported, which the SDKs do at the first use.
"""

import importlib
from typing import Any, Final

from steadyhelm.adapters.clients.conversations import ClientOrigin, make_client_id
from steadyhelm.adapters.clients.entry import (
    ANTHROPIC_RESOURCES,
    OPENAI_RESOURCES,
    Resource,
    find_wrapping,
    get_watcher,
)
from steadyhelm.adapters.clients.hooks import ClientWatcher
from steadyhelm.adapters.clients.watched_methods import Method, WatchedMethods, is_async
from steadyhelm.boundary.patches import Patches
from steadyhelm.engine.monitor import Monitor

_METHODS_ATTRIBUTE: Final = "_steadyhelm_methods"
_ORIGIN_ATTRIBUTE: Final = "_steadyhelm_origin"


def watch_chat_completions(monitor: Monitor, patches: Patches) -> None:
    """Watch OpenAI's chat completions."""
    module = "openai.resources.chat.completions.completions"
    _watch(monitor, patches, module, ("Completions", "AsyncCompletions"), OPENAI_RESOURCES[0])


def watch_responses(monitor: Monitor, patches: Patches) -> None:
    """Watch OpenAI's responses."""
    module = "openai.resources.responses.responses"
    _watch(monitor, patches, module, ("Responses", "AsyncResponses"), OPENAI_RESOURCES[1])


def watch_beta_responses(monitor: Monitor, patches: Patches) -> None:
    """Watch OpenAI's responses under `beta`."""
    module = "openai.resources.beta.responses.responses"
    _watch(monitor, patches, module, ("Responses", "AsyncResponses"), OPENAI_RESOURCES[1])


def watch_messages(monitor: Monitor, patches: Patches) -> None:
    """Watch Anthropic's messages."""
    module = "anthropic.resources.messages.messages"
    _watch(monitor, patches, module, ("Messages", "AsyncMessages"), ANTHROPIC_RESOURCES[0])


def watch_beta_messages(monitor: Monitor, patches: Patches) -> None:
    """Watch Anthropic's messages under `beta`."""
    module = "anthropic.resources.beta.messages.messages"
    _watch(monitor, patches, module, ("Messages", "AsyncMessages"), ANTHROPIC_RESOURCES[0])


def _watch(
    monitor: Monitor, patches: Patches, module: str, classes: tuple[str, ...], resource: Resource
) -> None:
    source = f"{module.partition('.')[0]}_client"
    watcher = get_watcher(monitor, source, None)
    for name in classes:
        owner = getattr(importlib.import_module(module), name)
        for method in (*resource.methods, *resource.stream_methods, *resource.fetch_methods):
            if callable(getattr(owner, method, None)):
                patches.replace_method(owner, method, _Replacement(watcher, patches, resource, method))
    patches.on_undo(watcher.end_runs)


class _Replacement:
    """Makes the replacement of one method of a resource.

    A client that `monitor.wrap` was called with is left to that.
    """

    def __init__(self, watcher: ClientWatcher, patches: Patches, resource: Resource, name: str) -> None:
        self._watcher, self._patches = watcher, patches
        self._resource, self._name = resource, name

    def __call__(self, original: Method) -> Method:
        def call(resource: Any, *args: Any, **kwargs: Any) -> Any:
            return self._choose(original, resource)(*args, **kwargs)

        async def call_async(resource: Any, *args: Any, **kwargs: Any) -> Any:
            return await self._choose(original, resource)(*args, **kwargs)

        return call_async if is_async(original) else call

    def _choose(self, original: Method, resource: Any) -> Method:
        """Return the method to call: the original, or its watched counterpart."""
        method: Method = original.__get__(resource)
        client = getattr(resource, "_client", None)
        if not self._patches.is_active or client is None or find_wrapping(client) is not None:
            return method
        methods = self._find_methods(client)
        if self._name in self._resource.stream_methods:
            return methods.make_stream(self._resource.format, method)
        if self._name in self._resource.fetch_methods:
            return methods.make_fetch(method)
        return methods.make_request(self._resource.format, method)

    def _find_methods(self, client: Any) -> WatchedMethods:
        found: WatchedMethods | None = vars(client).get(_METHODS_ATTRIBUTE)
        if found is None or found.watcher is not self._watcher:
            # Copies of a client share its connections, and so its origin.
            shared = vars(getattr(client, "_client", client))
            key = f"{_ORIGIN_ATTRIBUTE}_{id(self._watcher):x}"
            origin = shared.get(key) or ClientOrigin(self._watcher.note_collected)
            shared[key] = origin
            found = vars(client)[_METHODS_ATTRIBUTE] = WatchedMethods(self._watcher, make_client_id(origin))
        return found
