"""Give a proxy the special methods of its object, which Python looks up on the class and not by attribute."""

import functools
from collections.abc import Callable
from typing import Any, Final

from steadyhelm.host_objects import MISSING, find_attribute

CALL: Final = "__call__"
_PASSED_THROUGH: Final = (
    "__contains__",
    "__delitem__",
    "__getitem__",
    "__iter__",
    "__len__",
    "__setitem__",
)


def choose_proxy_class(proxy: type, agent: type) -> type:
    """Return the class of a proxy that has the special methods of an object's class.

    A call is one of them where it is an entry point: elsewhere it would not be watched.
    """
    wanted = (CALL, *_PASSED_THROUGH) if CALL in getattr(proxy, "ENTRY_POINTS", ()) else _PASSED_THROUGH
    names = [name for name in wanted if callable(find_attribute(agent, name))]
    return _extend(proxy, tuple(name for name in names if find_attribute(proxy, name) is MISSING))


@functools.cache
def _extend(proxy: type, names: tuple[str, ...]) -> type:
    if not names:
        return proxy
    methods = {name: _pass_through(name) for name in names}
    return type(
        proxy.__name__, (proxy,), {**methods, "__module__": proxy.__module__, "__doc__": proxy.__doc__}
    )


def _pass_through(name: str) -> Callable[..., Any]:
    def call(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        # As an attribute, which the proxy watches where it is an entry point.
        return self.__getattr__(name)(*args, **kwargs)

    return call
