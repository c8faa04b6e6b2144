"""Compute a property once, without a lock that a forked child would wait for."""

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class lazy_property(Generic[T]):  # noqa: N801 - a decorator like `functools.cached_property`
    """A property that is computed once. Two threads that read it first at the same moment both compute it.

    Until Python 3.12 `functools.cached_property` holds one lock for all instances while it computes.

    >>> class Square:
    ...     side = 3
    ...
    ...     @lazy_property
    ...     def area(self) -> int:
    ...         return self.side**2
    >>> square = Square()
    >>> square.area, vars(square)
    (9, {'area': 9})
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> T: ...
    def __get__(self, instance: object | None, owner: type | None = None) -> Self | T:
        if instance is None:
            return self
        value = instance.__dict__[self._name] = self._compute(instance)
        return value
