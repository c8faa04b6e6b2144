"""What two texts have in common: the words that carry meaning, cut to their stems."""

from collections.abc import Iterable
from typing import Final

_STEM: Final = 6
_SHORTEST: Final = 3
_SMALL_WORDS: Final = frozenset(
    """
    the a an of to in on for and or is are was be it this that with as at by from we you i can do does
    did not no so if then now also just but have has had will would should could there here what how why
    when which my our your me us they them he she its it's don't let's ok yes please use used using make
    get into out up about all any some more than only still after before
    """.split()  # noqa: SIM905 - a list of ninety quoted words reads worse
)


def topics(words: Iterable[str]) -> frozenset[str]:
    """The stems of the words that are about something.

    >>> sorted(topics(["please", "rename", "the", "renamed", "files"]))
    ['files', 'rename']
    """
    return frozenset(w[:_STEM] for w in words if len(w) >= _SHORTEST and w not in _SMALL_WORDS)


def share(part: frozenset[str], of: frozenset[str]) -> float:
    """How much of the second set is in the first; 0 when there is nothing to share."""
    return len(part & of) / len(of) if of else 0.0
