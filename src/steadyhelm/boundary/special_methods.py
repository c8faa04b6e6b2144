"""Give a proxy the special methods of its object, which Python looks up on the class and not by attribute."""

import functools
from collections.abc import Callable
from typing import Any, Final

from steadyhelm.host_objects import MISSING, find_attribute

CALL: Final = "__call__"
_PASSED_THROUGH: Final = (
    "__aexit__",
    "__aiter__",
    "__anext__",
    "__bool__",
    "__contains__",
    "__delitem__",
    "__exit__",
    "__getitem__",
    "__iter__",
    "__len__",
    "__next__",
    "__reversed__",
    "__setitem__",
)


def choose_proxy_class(proxy: type, agent: type) -> type:
    """Return the class of a proxy that has the special methods of an object's class.

    A call is one of them where it is an entry point: elsewhere it would not be watched.
    """
    own = (CALL,) if CALL in getattr(proxy, "ENTRY_POINTS", ()) else ()
    wanted = (*own, *_PASSED_THROUGH, *_ENTERING)
    names = [name for name in wanted if callable(find_attribute(agent, name))]
    return _extend(proxy, tuple(name for name in names if find_attribute(proxy, name) is MISSING))


@functools.cache
def _extend(proxy: type, names: tuple[str, ...]) -> type:
    if not names:
        return proxy
    methods = {name: _ENTERING.get(name) or _pass_through(name) for name in names}
    return type(
        proxy.__name__, (proxy,), {**methods, "__module__": proxy.__module__, "__doc__": proxy.__doc__}
    )


def _pass_through(name: str) -> Callable[..., Any]:
    def call(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        # As an attribute, which the proxy watches where it is an entry point.
        return self.__getattr__(name)(*args, **kwargs)

    return call


def _enter(self: Any) -> Any:
    """Enter the block of the object; the block gets the proxy where it would get the object."""
    entered = self.__getattr__("__enter__")()
    return self if entered is self._agent else entered


async def _enter_async(self: Any) -> Any:
    """Do as `_enter` for a block that is awaited."""
    entered = await self.__getattr__("__aenter__")()
    return self if entered is self._agent else entered


_ENTERING: Final[dict[str, Callable[..., Any]]] = {"__enter__": _enter, "__aenter__": _enter_async}
