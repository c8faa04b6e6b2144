"""Where requests come from, known by numbers: a conversation that is remembered keeps no client alive."""

import itertools
from collections.abc import Callable
from typing import Final, NamedTuple

_numbers: Final = itertools.count(1)


class Origin:
    """A client and its copies, which share its connections.

    They hold it, and so do their requests while they are under way; nothing else does.
    When it goes they are gone, and `gone` is told its number, from wherever garbage is collected.
    """

    def __init__(self, gone: Callable[[int], None]) -> None:
        self.number = next(_numbers)
        self._gone = gone

    def __del__(self) -> None:
        self._gone(self.number)


class Through(NamedTuple):
    """The client a request goes through: its origin, and its own number."""

    origin: Origin
    number: int


def through(origin: Origin) -> Through:
    """A client of that origin, with a number of its own."""
    return Through(origin, next(_numbers))
