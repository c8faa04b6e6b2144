"""The methods of a client that ask a model, watched."""

import inspect
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final

from steadyhelm.adapters.clients.conversations import ClientId
from steadyhelm.adapters.clients.hooks import ClientWatcher, Exchange
from steadyhelm.adapters.clients.streams import (
    WatchedStreamManager,
    record_failure,
    watch_awaited_reply,
    watch_result,
)
from steadyhelm.adapters.clients.translate import ApiFormat
from steadyhelm.boundary.driver import is_asking
from steadyhelm.engine.judge_calls import is_judging
from steadyhelm.errors import RunStopped

Method = Callable[..., Any]


class WatchedMethods:
    """Makes the watched counterparts of the methods of one client.

    Args:
        watcher: Records the requests.
        client_id: The client they are made with.
    """

    def __init__(self, watcher: ClientWatcher, client_id: ClientId) -> None:
        self.watcher = watcher
        self.client_id = client_id

    def make_request(self, api_format: ApiFormat, method: Method) -> Method:
        """Return a method that makes a request, watched."""

        def request(*args: Any, **kwargs: Any) -> Any:
            exchange = self._open_exchange(api_format, method, args, kwargs)
            if exchange is None:
                return method(*args, **kwargs)
            return watch_result(exchange, _send(exchange, method))

        async def request_async(*args: Any, **kwargs: Any) -> Any:
            exchange = self._open_exchange(api_format, method, args, kwargs)
            if exchange is None:
                return await method(*args, **kwargs)
            return await watch_awaited_reply(exchange, _send_async(method, exchange.arguments))

        return request_async if is_async(method) else request

    def make_stream(self, api_format: ApiFormat, method: Method) -> Method:
        """Return a method that returns the manager of a stream, watched."""

        def open_stream(*args: Any, **kwargs: Any) -> Any:
            exchange = self._open_exchange(api_format, method, args, kwargs)
            if exchange is None:
                return method(*args, **kwargs)
            return WatchedStreamManager(exchange, _send(exchange, method))

        return open_stream

    def make_fetch(self, method: Method) -> Method:
        """Return a method that fetches a reply asked for earlier, watched."""

        def fetch(*args: Any, **kwargs: Any) -> Any:
            exchange = self.watcher.find_pending(args[0] if args else kwargs.get("response_id"))
            result = method(*args, **kwargs)
            return watch_result(exchange, result) if exchange is not None else result

        return fetch

    def _open_exchange(
        self, api_format: ApiFormat, method: Method, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Exchange | None:
        """Return the exchange of a request; None where it must not be recorded here.

        Raises:
            RunStopped: The request must not be made.
        """
        if self.watcher.monitor.disabled or is_asking() or is_judging() or _is_sending.get():
            return None
        exchange = None
        with self.watcher.boundary.guard("request"):
            arguments = _name_arguments(method, args, kwargs)
            exchange = self.watcher.open_exchange(api_format, arguments, self.client_id)
        stop = exchange.stopped if exchange is not None else None
        if stop is not None:
            # An exception that is raised several times keeps the frames of each time: raise a new one.
            raise RunStopped(str(stop), run_id=stop.run_id, decision=stop.decision)
        return exchange


# Whether a watched request is being sent: what a library asks another one for then is part of it.
_is_sending: Final[ContextVar[bool]] = ContextVar("steadyhelm_client_sending", default=False)


def _send(exchange: Exchange, method: Method) -> Any:
    token = _is_sending.set(True)
    try:
        return method(**exchange.arguments)
    except BaseException as exc:
        record_failure(exchange, exc)
        raise
    finally:
        _is_sending.reset(token)


async def _send_async(method: Method, arguments: dict[str, Any]) -> Any:
    token = _is_sending.set(True)
    try:
        return await method(**arguments)
    finally:
        _is_sending.reset(token)


def _name_arguments(method: Method, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return all arguments by name: only clients of other libraries take any by position."""
    if not args:
        return kwargs
    names = list(inspect.signature(method).parameters)
    return {**dict(zip(names, args, strict=False)), **kwargs}


def is_async(method: Method) -> bool:
    """Return whether a method is awaited."""
    return inspect.iscoroutinefunction(inspect.unwrap(method))
