"""Where to decide, chosen on cases that were kept back."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Final

from steadyhelm.lab.training.figures import macro_f1

_STEPS: Final = 200
_NEAR: Final = (0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.4)
_RATIOS: Final = tuple(0.4 * 1.08**step for step in range(25))


def best_drift_threshold(truth: Sequence[bool], drift: Sequence[float]) -> float:
    """The probability from which to speak of drift: the middle of where F1 is best, not its highest tooth."""
    ordered = sorted(drift)
    hits = sorted(value for value, is_drift in zip(drift, truth, strict=True) if is_drift)

    def reached(threshold: float) -> float:
        found = len(ordered) - bisect_left(ordered, threshold)
        right = len(hits) - bisect_left(hits, threshold)
        return 2 * right / max(1, found + len(hits))

    def worth(threshold: float) -> float:
        return sum(reached(threshold * near) for near in _NEAR)

    return _best([step / _STEPS for step in range(10, _STEPS)], worth)


def best_approval_ratio(truth: Sequence[str], predicted: Callable[[float], Sequence[str]]) -> float:
    """How much more probable than a continuation an approval must be: the best macro F1."""
    return _best(_RATIOS, lambda ratio: macro_f1(truth, predicted(ratio)))


def _best(candidates: Sequence[float], worth: Callable[[float], float]) -> float:
    """The best candidate, or the middle one of several that are equally good."""
    worths = [worth(candidate) for candidate in candidates]
    best = [one for one, value in zip(candidates, worths, strict=True) if value == max(worths)]
    return round(best[len(best) // 2], 4)
