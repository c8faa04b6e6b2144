"""Recognise clients of OpenAI and Anthropic, and watch them in place.

The methods of the client that ask a model are replaced, and put back by `unwrap`. Replies are watched whether
plain, streamed, parsed, raw, in the background or in a tool runner; results of calls are read from the
request that brings them.
"""

import atexit
import functools
import inspect
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from steadyhelm.adapters.clients.conversations import ClientOrigin, make_client_id
from steadyhelm.adapters.clients.formats import ChatFormat, MessagesFormat, ResponsesFormat
from steadyhelm.adapters.clients.hooks import ClientWatcher
from steadyhelm.adapters.clients.translate import ApiFormat
from steadyhelm.adapters.clients.watched_methods import Method, WatchedMethods
from steadyhelm.boundary.driver import Ask
from steadyhelm.bounded import BoundedDict
from steadyhelm.engine.monitor import Monitor
from steadyhelm.errors import SettingsError
from steadyhelm.host_objects import is_a

_WRAPPING_ATTRIBUTE: Final = "_steadyhelm"
_WATCHERS_ATTRIBUTE: Final = "_client_watchers"
_MAX_WATCHERS: Final = 64
_COPY_METHODS: Final = ("copy", "with_options")
_BETA: Final = "beta"
_RAW_ATTRIBUTES: Final = ("with_raw_response", "with_streaming_response")
_ANTHROPIC_METHODS: Final = ("create", "stream", "count_tokens")


class Resource(NamedTuple):
    """An object of a client that asks a model: its path from the client, its methods and their format.

    `stream_methods` return a context manager that opens a stream, `fetch_methods` a reply asked for earlier.
    """

    path: str
    format: ApiFormat
    methods: tuple[str, ...] = ("create", "parse")
    stream_methods: tuple[str, ...] = ()
    fetch_methods: tuple[str, ...] = ()


OPENAI_RESOURCES: Final = (
    Resource("chat.completions", ChatFormat()),
    Resource("responses", ResponsesFormat(), fetch_methods=("retrieve",)),
    Resource("beta.chat.completions", ChatFormat()),
    Resource("beta.responses", ResponsesFormat(), fetch_methods=("retrieve",)),
)
ANTHROPIC_RESOURCES: Final = (
    Resource("messages", MessagesFormat(), stream_methods=("stream",)),
    Resource("beta.messages", MessagesFormat(), stream_methods=("stream",)),
)


class OpenAIClientAdapter:
    """Watch an OpenAI client, or one used like it: `monitor.wrap` returns the client itself."""

    def __new__(cls, monitor: Monitor, client: Any, *, ask: Ask | None = None) -> Any:
        """Return the client, watched."""
        if not cls.can_wrap(client):
            raise SettingsError(
                f"wrap() got a {type(client).__name__}, which has no chat.completions.create to watch."
            )
        return _wrap_client(monitor, client, "openai_client", OPENAI_RESOURCES, ask)

    @staticmethod
    def can_wrap(agent: Any) -> bool:
        """Return whether the object can be used like OpenAI's client."""
        return callable(_get_path(agent, "chat.completions.create"))

    @staticmethod
    def unwrap(client: Any) -> Any:
        """Return the client as it was before, and end its runs."""
        return _unwrap_client(client)


class AnthropicClientAdapter:
    """Watch an Anthropic client: `monitor.wrap` returns the client itself."""

    def __new__(cls, monitor: Monitor, client: Any, *, ask: Ask | None = None) -> Any:
        """Return the client, watched."""
        if not cls.can_wrap(client):
            raise SettingsError(
                f"wrap() got a {type(client).__name__}, which has no messages.create to watch."
            )
        return _wrap_client(monitor, client, "anthropic_client", ANTHROPIC_RESOURCES, ask)

    @staticmethod
    def can_wrap(agent: Any) -> bool:
        """Return whether the object can be used like Anthropic's client, by more than a `messages.create`."""
        return all(callable(_get_path(agent, f"messages.{method}")) for method in _ANTHROPIC_METHODS)

    @staticmethod
    def unwrap(client: Any) -> Any:
        """Return the client as it was before, and end its runs."""
        return _unwrap_client(client)


def _wrap_client(
    monitor: Monitor, client: Any, source: str, resources: Sequence[Resource], ask: Ask | None
) -> Any:
    """Return the client itself, watched from now on. Idempotent."""
    known = find_wrapping(client)
    if known is None:
        watcher = get_watcher(monitor, source, ask)
        _ClientWrapping(client, watcher, resources, ClientOrigin(watcher.note_collected))
    elif known.watcher.monitor is not monitor:
        raise SettingsError(
            f"This {type(client).__name__} is watched by another monitor, "
            f"that of the agent {known.watcher.monitor.agent_id!r}: unwrap it first."
        )
    return client


def _unwrap_client(client: Any) -> Any:
    """Return the client as it was, and end its runs. A client that is not watched is not changed."""
    wrapping = find_wrapping(client)
    if wrapping is not None:
        wrapping.undo()
        wrapping.watcher.end_runs(wrapping.client_id)
    return client


def get_watcher(monitor: Monitor, source: str, ask: Ask | None) -> ClientWatcher:
    """Return the monitor's watcher for clients of this kind, made on first use."""
    # The watcher refers to its monitor, so only the monitor may keep it.
    watchers: BoundedDict[tuple[str, int], ClientWatcher] | None = vars(monitor).get(_WATCHERS_ATTRIBUTE)
    if watchers is None:
        watchers = vars(monitor)[_WATCHERS_ATTRIBUTE] = BoundedDict(_MAX_WATCHERS)
        atexit.register(_end_all_runs, weakref.ref(monitor))
    key = (source, id(ask))
    watcher = watchers.get(key)
    if watcher is None:
        watcher = ClientWatcher(monitor, source, ask)
        oldest = watchers.put(key, watcher)
        if oldest is not None:
            oldest[1].end_runs()
    return watcher


def _end_all_runs(reference: "weakref.ref[Monitor]") -> None:
    """End the runs that are still open, before their monitor closes."""
    monitor = reference()
    for watcher in vars(monitor)[_WATCHERS_ATTRIBUTE].values() if monitor is not None else ():
        watcher.end_runs()


class _ReplacedMethod(NamedTuple):
    """A method that was replaced; `was_own` is whether it was set on the object, not its class."""

    owner: Any
    name: str
    method: Any
    was_own: bool


class _ClientWrapping:
    """The replaced methods of one client."""

    def __init__(
        self, client: Any, watcher: ClientWatcher, resources: Sequence[Resource], origin: ClientOrigin
    ) -> None:
        self.watcher = watcher
        self.client_id = make_client_id(origin)
        self._methods = WatchedMethods(watcher, self.client_id)
        self._client = client
        self._resources = resources
        self._replaced: list[_ReplacedMethod] = []
        try:
            for resource in resources:
                self._wrap_resource(resource)
            for name in _COPY_METHODS:
                self._replace(client, name, self._make_copy_method)
            self._replace(client, "close", self._make_close_method)
            setattr(client, _WRAPPING_ATTRIBUTE, self)
        except (AttributeError, TypeError) as exc:
            self.undo()
            raise SettingsError(
                f"A {type(client).__name__} cannot be watched in place: {exc}. "
                "Use the @monitor.model and @monitor.tool decorators on your own functions."
            ) from exc

    def undo(self) -> None:
        """Put every replaced method back."""
        for owner, name, method, was_own in reversed(self._replaced):
            if was_own:
                setattr(owner, name, method)
            else:
                _get_instance_dict(owner).pop(name, None)
            _drop_raw_attributes(owner)
        self._replaced.clear()
        _drop_raw_attributes(self._client)
        _get_instance_dict(self._client).pop(_WRAPPING_ATTRIBUTE, None)

    # --- replacing -------------------------------------------------------------------------------

    def _wrap_resource(self, resource: Resource) -> None:
        first = resource.path.partition(".")[0]
        is_loaded = first in _get_instance_dict(self._client)
        if first == _BETA and not is_loaded and _is_made_once(self._client, first):
            # Loading everything under `beta` is slow, so it is done only for hosts that use it.
            self._replaced.append(_ReplacedMethod(self._client, first, None, was_own=False))
            _get_instance_dict(self._client)[first] = _LazyResource(self._load_beta)
        if is_a(_get_instance_dict(self._client).get(first), _LazyResource):
            return
        owner = _get_path(self._client, resource.path)
        if owner is None:
            return
        for name in resource.methods:
            self._replace(owner, name, functools.partial(self._methods.make_request, resource.format))
        for name in resource.stream_methods:
            self._replace(owner, name, functools.partial(self._methods.make_stream, resource.format))
        for name in resource.fetch_methods:
            self._replace(owner, name, self._methods.make_fetch)
        if _get_path(self._client, resource.path) is not owner:
            raise AttributeError(f"its {resource.path} is another object each time")

    def _load_beta(self) -> Any:
        attributes = _get_instance_dict(self._client)
        if is_a(attributes.get(_BETA), _LazyResource):
            del attributes[_BETA]
            getattr(self._client, _BETA)
            for resource in self._resources:
                if resource.path.startswith(f"{_BETA}."):
                    self._wrap_resource(resource)
        return getattr(self._client, _BETA)

    def _replace(self, owner: Any, name: str, make: Callable[[Method], Method]) -> None:
        method = getattr(owner, name, None)
        if not callable(method):
            return
        wrapper = functools.wraps(method)(make(method))
        was_own = name in _get_instance_dict(owner)
        setattr(owner, name, wrapper)
        self._replaced.append(_ReplacedMethod(owner, name, method, was_own))
        # Raw variants that were made before call the method that is replaced now.
        _drop_raw_attributes(owner)
        _drop_raw_attributes(self._client)
        if getattr(owner, name) is not wrapper:
            raise AttributeError(f"its {name} cannot be replaced")

    # --- the replacements ------------------------------------------------------------------------

    def _make_copy_method(self, method: Method) -> Method:
        def copy(*args: Any, **kwargs: Any) -> Any:
            client = method(*args, **kwargs)
            with self.watcher.boundary.guard("copy of the client"):
                _ClientWrapping(client, self.watcher, self._resources, self.client_id.origin)
            return client

        return copy

    def _make_close_method(self, method: Method) -> Method:
        def close(*args: Any, **kwargs: Any) -> Any:
            with self.watcher.boundary.guard("end of the client"):
                self.watcher.close_client(self.client_id.origin.number)
            return method(*args, **kwargs)

        return close


class _LazyResource:
    """A proxy for an attribute that is loaded when it is first used."""

    def __init__(self, load: Callable[[], Any]) -> None:
        self._load = load

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_load"](), name)


def _get_path(client: Any, path: str) -> Any:
    """Return what a path of attributes leads to; None where there is no such thing."""
    value = client
    try:
        for name in path.split("."):
            value = getattr(value, name, None)
    except Exception:  # noqa: BLE001 - this may be any object, and fail in any way
        return None
    return value


def _is_made_once(client: Any, name: str) -> bool:
    attribute = inspect.getattr_static(type(client), name, None)
    return attribute is not None and not hasattr(type(attribute), "__set__")


def _get_instance_dict(owner: Any) -> dict[str, Any]:
    return owner.__dict__ if hasattr(owner, "__dict__") else {}


def _drop_raw_attributes(owner: Any) -> None:
    for name in _RAW_ATTRIBUTES:
        _get_instance_dict(owner).pop(name, None)


def find_wrapping(client: Any) -> _ClientWrapping | None:
    """Return the replaced methods of a client that `monitor.wrap` was called with; None for any other."""
    known = _get_instance_dict(client).get(_WRAPPING_ATTRIBUTE)
    return known if is_a(known, _ClientWrapping) else None
