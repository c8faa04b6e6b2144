"""A client watched in place: the methods of this object that ask a model are replaced, and put back."""

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from steadyhelm.adapters.clients.dialect import Dialect
from steadyhelm.adapters.clients.exchanges import Exchange
from steadyhelm.adapters.clients.origins import Origin, through
from steadyhelm.adapters.clients.streams import WatchedManager, awaited, failed, received
from steadyhelm.adapters.clients.watch import ClientWatch, watch_of
from steadyhelm.boundary.driver import Ask, is_asking
from steadyhelm.engine.monitor import Monitor
from steadyhelm.errors import RunStopped, SettingsError

_MARK: Final = "_steadyhelm"
_COPIES: Final = ("copy", "with_options")
_BETA: Final = "beta"
_RAW: Final = ("with_raw_response", "with_streaming_response")

Method = Callable[..., Any]


class Surface(NamedTuple):
    """Where a client asks a model: the way to the object, its methods, and how their arguments read.

    `managers` are the methods that give something to enter, `later` those that fetch what was asked for.
    """

    path: str
    dialect: Dialect
    methods: tuple[str, ...] = ("create", "parse")
    managers: tuple[str, ...] = ()
    later: tuple[str, ...] = ()


class _Replaced(NamedTuple):
    owner: Any
    name: str
    method: Any
    was_own: bool


def wrap(monitor: Monitor, client: Any, name: str, surfaces: Sequence[Surface], ask: Ask | None) -> Any:
    """The client itself, watched from now on; once is enough."""
    known = _wrapping_of(client)
    if known is None:
        watch = watch_of(monitor, name, ask)
        _Wrapping(client, watch, surfaces, Origin(watch.gone))
    elif known.watch.monitor is not monitor:
        raise SettingsError(
            f"This {type(client).__name__} is watched by another monitor, "
            f"that of the agent {known.watch.monitor.agent_id!r}: unwrap it first."
        )
    return client


def unwrap(client: Any) -> Any:
    """The client as it was; runs that went on in it end. A client that is not watched stays as it is."""
    wrapping = _wrapping_of(client)
    if wrapping is not None:
        wrapping.undo()
        wrapping.watch.end(wrapping.through)
    return client


def found(client: Any, path: str) -> Any:
    """What stands at the end of a path of attributes; None where there is no such thing."""
    at = client
    try:
        for name in path.split("."):
            at = getattr(at, name, None)
    except Exception:  # noqa: BLE001 - any object may be asked, and may fail in any way
        return None
    return at


class _Wrapping:
    """What was replaced in one client."""

    def __init__(self, client: Any, watch: ClientWatch, surfaces: Sequence[Surface], origin: Origin) -> None:
        self.watch = watch
        self.through = through(origin)
        self._client = client
        self._surfaces = surfaces
        self._replaced: list[_Replaced] = []
        try:
            for surface in surfaces:
                self._wrap(surface)
            for name in _COPIES:
                self._replace(client, name, self._copying)
            self._replace(client, "close", self._closing)
            setattr(client, _MARK, self)
        except (AttributeError, TypeError) as exc:
            self.undo()
            raise SettingsError(
                f"A {type(client).__name__} cannot be watched in place: {exc}. "
                "Use the @monitor.model and @monitor.tool decorators on your own functions."
            ) from exc

    def undo(self) -> None:
        """Put everything back."""
        for owner, name, method, was_own in reversed(self._replaced):
            if was_own:
                setattr(owner, name, method)
            else:
                _own(owner).pop(name, None)
            _forget_raw(owner)
        self._replaced.clear()
        _forget_raw(self._client)
        _own(self._client).pop(_MARK, None)

    # --- replacing -------------------------------------------------------------------------------

    def _wrap(self, surface: Surface) -> None:
        first = surface.path.partition(".")[0]
        if first == _BETA and first not in _own(self._client) and _is_made_once(self._client, first):
            # Loading all that is in beta takes longer than everything else: only for those who use it.
            self._replaced.append(_Replaced(self._client, first, None, was_own=False))
            _own(self._client)[first] = _Later(self._load_beta)
        if isinstance(_own(self._client).get(first), _Later):
            return
        owner = found(self._client, surface.path)
        if owner is None:
            return
        for name in surface.methods:
            self._replace(owner, name, functools.partial(self._asking, surface.dialect))
        for name in surface.managers:
            self._replace(owner, name, functools.partial(self._managing, surface.dialect))
        for name in surface.later:
            self._replace(owner, name, self._fetching)
        if found(self._client, surface.path) is not owner:
            raise AttributeError(f"its {surface.path} is another object each time")

    def _load_beta(self) -> Any:
        if isinstance(_own(self._client).get(_BETA), _Later):
            del _own(self._client)[_BETA]
            getattr(self._client, _BETA)
            for surface in self._surfaces:
                if surface.path.startswith(f"{_BETA}."):
                    self._wrap(surface)
        return getattr(self._client, _BETA)

    def _replace(self, owner: Any, name: str, make: Callable[[Method], Method]) -> None:
        method = getattr(owner, name, None)
        if not callable(method):
            return
        wrapper = functools.wraps(method)(make(method))
        was_own = name in _own(owner)
        setattr(owner, name, wrapper)
        self._replaced.append(_Replaced(owner, name, method, was_own))
        # What was made of the method before would go past us.
        _forget_raw(owner)
        _forget_raw(self._client)
        if getattr(owner, name) is not wrapper:
            raise AttributeError(f"its {name} cannot be replaced")

    # --- what stands in for the methods -------------------------------------------------------------

    def _asking(self, dialect: Dialect, method: Method) -> Method:
        def asked(*args: Any, **kwargs: Any) -> Any:
            exchange = self._opened(dialect, method, args, kwargs)
            if exchange is None:
                return method(*args, **kwargs)
            result = _sent(exchange, method)
            return awaited(exchange, result) if inspect.isawaitable(result) else received(exchange, result)

        async def asked_async(*args: Any, **kwargs: Any) -> Any:
            exchange = self._opened(dialect, method, args, kwargs)
            if exchange is None:
                return await method(*args, **kwargs)
            return await awaited(exchange, _sent(exchange, method))

        return asked_async if _is_async(method) else asked

    def _managing(self, dialect: Dialect, method: Method) -> Method:
        def managed(*args: Any, **kwargs: Any) -> Any:
            exchange = self._opened(dialect, method, args, kwargs)
            if exchange is None:
                return method(*args, **kwargs)
            return WatchedManager(exchange, _sent(exchange, method))

        return managed

    def _fetching(self, method: Method) -> Method:
        def fetched(*args: Any, **kwargs: Any) -> Any:
            exchange = self.watch.awaited(args[0] if args else kwargs.get("response_id"))
            result = method(*args, **kwargs)
            if exchange is None:
                return result
            return awaited(exchange, result) if inspect.isawaitable(result) else received(exchange, result)

        return fetched

    def _copying(self, method: Method) -> Method:
        def copied(*args: Any, **kwargs: Any) -> Any:
            client = method(*args, **kwargs)
            with self.watch.boundary.guard("copy of the client"):
                _Wrapping(client, self.watch, self._surfaces, self.through.origin)
            return client

        return copied

    def _closing(self, method: Method) -> Method:
        def closed(*args: Any, **kwargs: Any) -> Any:
            with self.watch.boundary.guard("end of the client"):
                self.watch.closed(self.through.origin.number)
            return method(*args, **kwargs)

        return closed

    def _opened(
        self, dialect: Dialect, method: Method, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Exchange | None:
        """The exchange of a request; None where it is not ours to tell of."""
        if self.watch.monitor.disabled or is_asking():
            return None
        exchange = None
        with self.watch.boundary.guard("request"):
            exchange = self.watch.open(dialect, _named(method, args, kwargs), self.through)
        stop = exchange.stopped if exchange is not None else None
        if stop is not None:
            # One that is raised again and again would grow, and keep the frames of each time.
            raise RunStopped(str(stop), run_id=stop.run_id, decision=stop.decision)
        return exchange


class _Later:
    """Stands for something that is made when it is first used."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_make"](), name)


def _sent(exchange: Exchange, method: Method) -> Any:
    try:
        return method(**exchange.arguments)
    except BaseException as exc:
        failed(exchange, exc)
        raise


def _named(method: Method, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """All arguments by name: only lookalikes of these clients take any by place."""
    if not args:
        return kwargs
    names = list(inspect.signature(method).parameters)
    return {**dict(zip(names, args, strict=False)), **kwargs}


def _is_async(method: Method) -> bool:
    return inspect.iscoroutinefunction(inspect.unwrap(method))


def _is_made_once(client: Any, name: str) -> bool:
    attribute = inspect.getattr_static(type(client), name, None)
    return attribute is not None and not hasattr(type(attribute), "__set__")


def _own(owner: Any) -> dict[str, Any]:
    return owner.__dict__ if hasattr(owner, "__dict__") else {}


def _forget_raw(owner: Any) -> None:
    for name in _RAW:
        _own(owner).pop(name, None)


def _wrapping_of(client: Any) -> _Wrapping | None:
    known = _own(client).get(_MARK)
    return known if isinstance(known, _Wrapping) else None
