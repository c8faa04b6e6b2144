"""What a loop pattern saw, and when it is worth saying again."""

from typing import Final, TypeVar

import msgspec
from msgspec import Struct

IDS_KEPT: Final = 24

_Memory = TypeVar("_Memory", bound=Struct)


class Sighting(Struct, frozen=True, kw_only=True):
    """A repetition without progress: how often, how often it takes to be sure, and its proof.

    `ignored` names what differed in the latest result and was taken for noise.
    """

    pattern: str
    count: int
    patience: int
    event_ids: tuple[str, ...]
    message: str
    sequence: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    noticed_only: bool = False

    @property
    def score(self) -> float:
        """Half at the repetition that makes it a loop, growing to 1 at twice as many; low before that."""
        if self.noticed_only or self.count < self.patience:
            return 0.3
        return min(1.0, self.count / (2 * self.patience))


def is_told(count: int, patience: int) -> bool:
    """Whether this count is worth saying: when patience ends, and each time it has doubled.

    >>> [count for count in range(1, 40) if is_told(count, 4)]
    [4, 8, 16, 32]
    """
    told = patience
    while told < count:
        told *= 2
    return told == count


def copied(memory: _Memory) -> _Memory:
    """A pattern's memory once more, to try on it what would follow from a call not yet made."""
    return msgspec.msgpack.decode(msgspec.msgpack.encode(memory), type=type(memory))
