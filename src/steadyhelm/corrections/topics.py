"""What two texts have in common: the words that carry meaning, cut to their stems."""

from collections.abc import Iterable
from typing import Final

from steadyhelm.lexicons import load_lexicon

_STEM: Final = 6
_SHORTEST: Final = 3


def topics(words: Iterable[str]) -> frozenset[str]:
    """The stems of the words that are about something.

    >>> sorted(topics(["please", "rename", "the", "renamed", "files"]))
    ['files', 'rename']
    """
    function_words = load_lexicon("steadyhelm.corrections", "topics")["function words"].word_set
    return frozenset(w[:_STEM] for w in words if len(w) >= _SHORTEST and w not in function_words)


def share(part: frozenset[str], of: frozenset[str]) -> float:
    """How much of the second set is in the first; 0 when there is nothing to share."""
    return len(part & of) / len(of) if of else 0.0
