"""Which replies are kept back in turn: whole sessions or whole projects, never single replies."""

import zlib
from collections.abc import Sequence
from typing import NamedTuple


class Fold(NamedTuple):
    """The places of the replies to learn from and of those kept back."""

    learn: list[int]
    keep: list[int]


def folds(groups: Sequence[str], parts: int | None = None) -> list[Fold]:
    """Folds that keep groups together, always the same; without `parts` each group is kept back alone.

    >>> [fold.keep for fold in folds(["a", "b", "a"])]
    [[1], [0, 2]]
    """
    names = sorted(set(groups), key=lambda name: (zlib.crc32(name.encode("utf-8", "replace")), name))
    count = len(names) if parts is None else min(parts, len(names))
    part = {name: place % count for place, name in enumerate(names)}
    return [_fold(groups, part, kept) for kept in range(count)]


def _fold(groups: Sequence[str], part: dict[str, int], kept: int) -> Fold:
    learn = [place for place, name in enumerate(groups) if part[name] != kept]
    keep = [place for place, name in enumerate(groups) if part[name] == kept]
    return Fold(learn, keep)
