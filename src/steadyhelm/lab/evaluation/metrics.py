"""Compute figures from counts of right and wrong, each with an interval.

Everything is computed from one `Counts` per run: what is resampled is runs, never steps, because the
steps of one run are not independent of each other.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from msgspec import Struct

from steadyhelm.windows import wilson_interval

CONFIDENCE: Final = 0.95


class Counts(NamedTuple):
    """How often a yes or no was right: true and false positives, false and true negatives."""

    tp: int = 0
    fp: int = 0
    fn: int = 0
    tn: int = 0

    @classmethod
    def of(cls, *, expected: bool, found: bool) -> "Counts":
        """Return the counts of a single answer.

        >>> Counts.of(expected=True, found=False)
        Counts(tp=0, fp=0, fn=1, tn=0)
        """
        answer = (expected and found, found and not expected, expected and not found, not (expected or found))
        return cls(*map(int, answer))


class Estimate(Struct, frozen=True, kw_only=True):
    """A figure with its 95 % interval; None when it is undefined."""

    value: float | None
    low: float | None = None
    high: float | None = None

    def __str__(self) -> str:
        if self.value is None:
            return "undefined"
        if self.low is None or self.high is None:
            return format_figure(self.value)
        return f"{format_figure(self.value)} [{format_figure(self.low)}, {format_figure(self.high)}]"


Statistic = Callable[[Counts], float | None]


def sum_counts(counts: Iterable[Counts]) -> Counts:
    """Return the sum over runs."""
    columns = list(zip(*counts, strict=True))
    return Counts(*map(sum, columns)) if columns else Counts()


def precision(counts: Counts) -> float | None:
    """Return the share of flagged cases that deserved it; None when nothing was flagged."""
    return _divide(counts.tp, counts.tp + counts.fp)


def recall(counts: Counts) -> float | None:
    """Return the share of cases that were flagged, of those that should be."""
    return _divide(counts.tp, counts.tp + counts.fn)


def false_alarms(counts: Counts) -> float | None:
    """Return the share of cases that were flagged, of those that should not be."""
    return _divide(counts.fp, counts.fp + counts.tn)


def f1(counts: Counts) -> float | None:
    """Return the harmonic mean of precision and recall; None when nothing should be flagged and nothing was.

    >>> f1(Counts(tp=3, fp=1, fn=2))
    0.6666666666666666
    """
    return _divide(2 * counts.tp, 2 * counts.tp + counts.fp + counts.fn)


def balanced_accuracy(counts: Counts) -> float | None:
    """Return the mean of recall and of the share of clean cases not flagged; guessing reaches .5."""
    found, alarmed = recall(counts), false_alarms(counts)
    return None if found is None or alarmed is None else (found + 1 - alarmed) / 2


def estimate_all(runs: Sequence[Counts], *, samples: int = 1000, seed: int = 0) -> dict[str, Estimate]:
    """Return every statistic over runs, each with its interval.

    Where each run has at most one answer, precision, recall and false alarms are plain shares and get
    the Wilson interval: resampling cannot estimate a share of 0 or 1.
    """
    if not runs:
        return {}
    found = {
        name: bootstrap(runs, statistic, samples=samples, seed=seed) for name, statistic in STATISTICS.items()
    }
    if any(sum(counts) > 1 for counts in runs):
        return found
    return found | _estimate_shares(sum_counts(runs))


def _estimate_shares(sums: Counts) -> dict[str, Estimate]:
    return {
        "precision": estimate_share(sums.tp, sums.tp + sums.fp),
        "recall": estimate_share(sums.tp, sums.tp + sums.fn),
        "false_alarms": estimate_share(sums.fp, sums.fp + sums.tn),
    }


STATISTICS: Final[dict[str, Statistic]] = {
    "precision": precision,
    "recall": recall,
    "f1": f1,
    "balanced_accuracy": balanced_accuracy,
    "false_alarms": false_alarms,
}


def bootstrap(
    runs: Sequence[Counts], statistic: Statistic, *, samples: int = 1000, seed: int = 0
) -> Estimate:
    """Return a statistic over runs with its percentile interval from resampled runs.

    A resample in which the statistic is undefined is left out.
    The interval is widened to hold the estimate where resampling alone would miss it.
    """
    value = statistic(sum_counts(runs))
    if value is None or samples < 1:
        return Estimate(value=value)
    draw = random.Random(seed)  # noqa: S311 - resampling, not secrets
    drawn = (statistic(sum_counts(draw.choices(runs, k=len(runs)))) for _ in range(samples))
    values = sorted(figure for figure in drawn if figure is not None)
    return _add_interval(value, values) if values else Estimate(value=value)


def _add_interval(value: float, ordered: Sequence[float]) -> Estimate:
    tail = (1 - CONFIDENCE) / 2
    low, high = _quantile(ordered, tail), _quantile(ordered, 1 - tail)
    return Estimate(value=value, low=min(low, value), high=max(high, value))


def estimate_share(hits: int, of: int) -> Estimate:
    """Return a share of independent cases with its Wilson interval, which does not collapse at 0 and 1.

    >>> str(estimate_share(0, 40))
    '0 [0, .088]'
    """
    if of == 0:
        return Estimate(value=None)
    low, high = wilson_interval(hits, of)
    return Estimate(value=hits / of, low=low, high=high)


def _quantile(ordered: Sequence[float], part: float) -> float:
    """Return the value at a part of the way through a sorted list, interpolated between neighbours."""
    place = part * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def _divide(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def format_figure(value: float) -> str:
    """Return a figure in three decimals at most, without the 0 before the point.

    >>> format_figure(0.5), format_figure(1.0)
    ('.5', '1')
    """
    text = f"{value:.3f}".rstrip("0").rstrip(".")
    return text.removeprefix("0") if text.startswith("0.") else text
