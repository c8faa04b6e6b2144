"""A mapping that never grows beyond a limit."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class BoundedDict(OrderedDict[K, V]):
    """A dict that keeps the `limit` newest items; setting a key again makes its item the newest.

    Like any dict it is not safe to change from several threads at once.

    Args:
        limit: The number of items kept.

    >>> known = BoundedDict(2)
    >>> known["a"], known["b"] = 1, 2
    >>> known.put("c", 3)  # returns the item that was dropped to make room
    ('a', 1)
    >>> list(known)
    ['b', 'c']
    """

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit

    def __setitem__(self, key: K, value: V) -> None:
        self.put(key, value)

    def put(self, key: K, value: V) -> tuple[K, V] | None:
        """Add an item; return the oldest item when it had to be dropped to make room."""
        super().__setitem__(key, value)
        self.move_to_end(key)
        return self.popitem(last=False) if len(self) > self.limit else None
