"""How unusual an order of actions is: a smoothed Markov chain learnt from the agent's clean runs."""

import math
from collections.abc import Mapping, Sequence
from typing import Final

SMOOTHING: Final = 0.5
START: Final = ""
"""What stands before a run's first action."""

Transitions = Mapping[str, Mapping[str, int]]


def surprise(transitions: Transitions, before: str, action: str) -> float:
    """How many bits this action tells after that one: 1 for even odds, more the rarer it is.

    >>> learnt = {"read": {"edit": 9, "test": 1}, "edit": {"test": 10}, "test": {"read": 9}}
    >>> round(surprise(learnt, "read", "edit"), 2), round(surprise(learnt, "edit", "read"), 2)
    (0.28, 4.52)
    """
    follows = transitions.get(before, {})
    known = len(transitions) or 1
    share = (follows.get(action, 0) + SMOOTHING) / (sum(follows.values()) + SMOOTHING * known)
    return -math.log2(share) if share < 1.0 else 0.0


def learnt_transitions(
    transitions: Transitions, names: Sequence[str], most: int
) -> dict[str, dict[str, int]]:
    """The counts after one more run's actions, for at most so many different actions."""
    counts = {before: dict(follows) for before, follows in transitions.items()}
    for before, action in zip([START, *names], names, strict=False):
        if before not in counts and len(counts) >= most:
            continue
        follows = counts.setdefault(before, {})
        if action in follows or len(follows) < most:
            follows[action] = follows.get(action, 0) + 1
    return counts
