"""Figures of a classifier: ranking, decisions, calibration and the thresholds to decide at."""

import random
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from steadyhelm.lab.evaluation.metrics import CONFIDENCE, Counts, Estimate, f1, sum_counts

MEASURED_KINDS: Final = ("continuation", "correction_substance", "approval")
"""The kinds of reply there are enough of to measure."""

_CALIBRATION_BINS: Final = 10
Figure = Callable[[Sequence[int]], float | None]
"""A figure over some of the cases, given by their places."""

_THRESHOLD_STEPS: Final = 200
_NEIGHBOUR_FACTORS: Final = (0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.4)
_APPROVAL_RATIOS: Final = tuple(0.4 * 1.08**step for step in range(25))


def auc(truth: Sequence[bool], scores: Sequence[float]) -> float | None:
    """Return how often a positive case is ranked above a negative one; ties count half.

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


def decision_f1(truth: Sequence[bool], found: Sequence[bool]) -> float:
    """Return the F1 of yes and no; 0 where there is nothing to find."""
    pairs = zip(truth, found, strict=True)
    return f1(sum_counts(Counts.of(expected=expected, found=hit) for expected, hit in pairs)) or 0.0


def macro_f1(truth: Sequence[str], predicted: Sequence[str]) -> float:
    """Return the mean F1 of the kinds that can be measured."""
    each = [
        decision_f1([kind == one for kind in truth], [kind == one for kind in predicted])
        for one in MEASURED_KINDS
    ]
    return sum(each) / len(each)


def estimate_by_group(
    figure: Figure, groups: Sequence[str], *, samples: int = 1000, seed: int = 0
) -> Estimate:
    """Return a figure with its percentile interval, resampled by group: cases of a group are dependent."""
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


def tabulate_calibration(truth: Sequence[bool], scores: Sequence[float]) -> list[tuple[float, float, int]]:
    """Return mean probability, share that was true and number, by tenths of the cases, lowest first."""
    ordered = sorted(zip(scores, truth, strict=True))
    size = max(1, -(-len(ordered) // _CALIBRATION_BINS))
    parts = [ordered[start : start + size] for start in range(0, len(ordered), size)]
    return [
        (sum(score for score, _ in part) / len(part), sum(hit for _, hit in part) / len(part), len(part))
        for part in parts
    ]


def count_confusions(truth: Sequence[str], predicted: Sequence[str]) -> Counter[tuple[str, str]]:
    """Return how often each kind was taken for each."""
    return Counter(zip(truth, predicted, strict=True))


def choose_drift_threshold(truth: Sequence[bool], drift: Sequence[float]) -> float:
    """Return the probability from which to report drift: the middle of the range where F1 is best."""
    ordered = sorted(drift)
    hits = sorted(value for value, is_drift in zip(drift, truth, strict=True) if is_drift)

    def measure_f1(threshold: float) -> float:
        found = len(ordered) - bisect_left(ordered, threshold)
        right = len(hits) - bisect_left(hits, threshold)
        return 2 * right / max(1, found + len(hits))

    def score_threshold(threshold: float) -> float:
        return sum(measure_f1(threshold * near) for near in _NEIGHBOUR_FACTORS)

    return _choose_best([step / _THRESHOLD_STEPS for step in range(10, _THRESHOLD_STEPS)], score_threshold)


def choose_approval_ratio(truth: Sequence[str], predicted: Callable[[float], Sequence[str]]) -> float:
    """Return how much more probable than a continuation an approval must be, by macro F1."""
    return _choose_best(_APPROVAL_RATIOS, lambda ratio: macro_f1(truth, predicted(ratio)))


def _choose_best(candidates: Sequence[float], score_threshold: Callable[[float], float]) -> float:
    """Return the best candidate, or the middle one of several that are equally good."""
    worths = [score_threshold(candidate) for candidate in candidates]
    best = [one for one, value in zip(candidates, worths, strict=True) if value == max(worths)]
    return round(best[len(best) // 2], 4)
