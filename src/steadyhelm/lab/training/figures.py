"""Figures of a classifier: ranking, decisions and calibration, with intervals over sessions."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from steadyhelm.lab.evaluation.metrics import CONFIDENCE, Counts, Estimate, f1, total

MEASURED: Final = ("continuation", "correction_substance", "approval")
"""The kinds of reply there are enough of to measure."""

_BINS: Final = 10

Figure = Callable[[Sequence[int]], float | None]
"""A figure over some of the cases, given by their places."""


def auc(truth: Sequence[bool], scores: Sequence[float]) -> float | None:
    """How often a positive case is ranked above a negative one; ties count half.

    >>> auc([True, False, True], [0.9, 0.5, 0.5])
    0.75
    """
    positives = sum(truth)
    negatives = len(truth) - positives
    if not positives or not negatives:
        return None
    ordered = sorted(zip(scores, truth, strict=True))
    ranks, start = 0.0, 0
    while start < len(ordered):
        end = start
        while end < len(ordered) and ordered[end][0] == ordered[start][0]:
            end += 1
        ranks += sum(is_true for _, is_true in ordered[start:end]) * (start + end + 1) / 2
        start = end
    return (ranks - positives * (positives + 1) / 2) / (positives * negatives)


def scored_f1(truth: Sequence[bool], found: Sequence[bool]) -> float:
    """The F1 of yes and no; 0 where there is nothing to find."""
    pairs = zip(truth, found, strict=True)
    return f1(total(Counts.of(expected=expected, found=hit) for expected, hit in pairs)) or 0.0


def macro_f1(truth: Sequence[str], predicted: Sequence[str]) -> float:
    """The mean F1 of the kinds that can be measured."""
    each = [
        scored_f1([kind == one for kind in truth], [kind == one for kind in predicted]) for one in MEASURED
    ]
    return sum(each) / len(each)


def estimate(figure: Figure, groups: Sequence[str], *, samples: int = 1000, seed: int = 0) -> Estimate:
    """A figure with its percentile interval from resampled groups, whose cases are not independent."""
    places: dict[str, list[int]] = {}
    for place, group in enumerate(groups):
        places.setdefault(group, []).append(place)
    value = figure(range(len(groups)))
    draw = random.Random(seed)  # noqa: S311 - resampling, not secrets
    members = list(places.values())
    drawn = [
        figure([p for group in draw.choices(members, k=len(members)) for p in group]) for _ in range(samples)
    ]
    values = sorted(one for one in drawn if one is not None)
    if value is None or not values:
        return Estimate(value=value)
    tail = int((1 - CONFIDENCE) / 2 * len(values))
    return Estimate(value=value, low=min(values[tail], value), high=max(values[-1 - tail], value))


def calibration(truth: Sequence[bool], scores: Sequence[float]) -> list[tuple[float, float, int]]:
    """By tenths of the cases, lowest first: the mean probability, the share that was true, how many."""
    ordered = sorted(zip(scores, truth, strict=True))
    size = max(1, -(-len(ordered) // _BINS))
    parts = [ordered[start : start + size] for start in range(0, len(ordered), size)]
    return [
        (sum(score for score, _ in part) / len(part), sum(hit for _, hit in part) / len(part), len(part))
        for part in parts
    ]


def confusion(truth: Sequence[str], predicted: Sequence[str]) -> Counter[tuple[str, str]]:
    """How often each kind was taken for each."""
    return Counter(zip(truth, predicted, strict=True))
