"""Classify the trajectory of a run's style scores: drift is a trend over several replies, not one score.

The same rules run live, one score after the other, and offline over all of a run's scores.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final, Literal, get_args

from msgspec import Struct, field

Shape = Literal[
    "steady",
    "spike",
    "adaptive_spike",
    "recovering",
    "velocity_alarm",
    "chronic_subclinical",
    "repeating_spike",
    "degenerative",
]
DRIFT_SHAPES: Final = frozenset({"velocity_alarm", "chronic_subclinical", "repeating_spike", "degenerative"})
"""The shapes that are drift. A single spike is none."""

SHAPES_BY_GRAVITY: Final[tuple[Shape, ...]] = get_args(Shape)
"""The shapes from the lightest to the gravest."""

SCORES_KEPT: Final = 10
SMOOTHING: Final = 0.4
# All of these are shares of the threshold.
NEAR_SHARE: Final = 0.7
"""From this share of the threshold on, a score is just under it."""
_PLATEAU_SHARE: Final = 0.85
_RISEN_SHARE: Final = 0.5
_BAND_SHARE: Final = 0.3
_FALL_SHARE: Final = 0.15

_STEADY: Final[tuple[Shape, str]] = ("steady", "nothing out of bounds")

_HIGH_IN_A_ROW: Final = 3
_CHRONIC_REPLIES: Final = 5
_MIN_SPIKES: Final = 3
_RECENT_REPLIES: Final = 5
_CLIMB_STEPS: Final = 3
_MAX_STEP_SHARE: Final = 2 / 3
_TROUBLE_TURNS: Final = 4


class ShapeReading(Struct, frozen=True, kw_only=True):
    """The shape of a run's scores after one more reply.

    `ewma` is the smoothed score, `velocity` the points by which the latest scores rise per reply.
    """

    turn: int
    score: float
    ewma: float
    velocity: float
    shape: Shape
    reason: str

    @property
    def is_drift(self) -> bool:
        """Whether the trajectory, not only one reply, is drift."""
        return self.shape in DRIFT_SHAPES


class Trajectory(Struct, kw_only=True):
    """The scores of one run, as far as the rules need them. This record is the whole state.

    >>> trajectory = Trajectory(threshold=60)
    >>> [trajectory.record_score(score).shape for score in (10, 85, 10)]
    ['steady', 'spike', 'adaptive_spike']
    """

    threshold: float = 60.0
    velocity_threshold: float = 8.0
    turns: int = 0
    ewma: float = 0.0
    recent: list[float] = field(default_factory=list)
    trouble: Shape = "steady"
    trouble_turn: int = 0

    def record_score(self, score: float) -> ShapeReading:
        """Record one more score, 0 to 100, and return the shape so far. Ignore what is no number."""
        if isinstance(score, bool) or not isinstance(score, int | float) or not math.isfinite(score):
            return self._build_reading(
                self.recent[-1] if self.recent else 0.0, "steady", "not a score: left out"
            )
        score = min(100.0, max(0.0, float(score)))
        before = self.ewma
        self.turns += 1
        self.ewma = score if self.turns == 1 else before + SMOOTHING * (score - before)
        self.recent = [*self.recent, score][-SCORES_KEPT:]
        shape, reason = self._find_shape(before)
        if shape in DRIFT_SHAPES:
            self.trouble, self.trouble_turn = shape, self.turns
        return self._build_reading(score, shape, reason)

    def _build_reading(self, score: float, shape: Shape, reason: str) -> ShapeReading:
        return ShapeReading(
            turn=self.turns,
            score=score,
            ewma=round(self.ewma, 2),
            velocity=round(measure_slope(self.recent[-_RECENT_REPLIES:]), 2),
            shape=shape,
            reason=reason,
        )

    def _find_shape(self, before: float) -> tuple[Shape, str]:
        if self._is_recovering(before):
            return "recovering", f"falling after {self.trouble.replace('_', ' ')}"
        if max(self.recent) < _RISEN_SHARE * self.threshold:
            return _STEADY  # far below what any rule asks for
        rules: tuple[tuple[Shape, str], ...] = (
            ("degenerative", self._check_degenerating()),
            ("repeating_spike", self._check_repeating()),
            ("chronic_subclinical", self._check_chronic()),
            ("velocity_alarm", self._check_velocity()),
        )
        for shape, reason in rules:
            if reason:
                return shape, reason
        return self._find_single_shape()

    def _is_recovering(self, before: float) -> bool:
        """Return whether drift was recent and this reply is clearly below the usual score."""
        if not self.trouble_turn or self.turns - self.trouble_turn > _TROUBLE_TURNS:
            return False
        last, previous = self.recent[-1], self.recent[-2]
        fall = _FALL_SHARE * self.threshold
        return (
            last < self.threshold
            and last <= before - fall
            and (last <= previous - fall or last < NEAR_SHARE * before)
        )

    def _check_degenerating(self) -> str:
        scores, limit = self.recent, self.threshold
        if len(scores) >= _HIGH_IN_A_ROW and min(scores[-_HIGH_IN_A_ROW:]) >= limit:
            return f"{_HIGH_IN_A_ROW} replies in a row at {limit:g} or above"
        latest = scores[-_RECENT_REPLIES:]
        high = sum(score >= limit for score in latest)
        if high > 1 and latest[-1] >= limit and _is_climbing(latest, least=2):
            return f"a climb past {limit:g} that goes on"
        if len(latest) == _RECENT_REPLIES and min(latest) >= _PLATEAU_SHARE * limit and high:
            return f"{_RECENT_REPLIES} replies around {limit:g}"
        return ""

    def _check_repeating(self) -> str:
        over = [score >= self.threshold for score in self.recent]
        spikes = sum(now and not was for was, now in zip([False, *over], over, strict=False))
        return f"{spikes} spikes in {len(over)} replies" if over[-1] and spikes >= _MIN_SPIKES else ""

    def _check_chronic(self) -> str:
        latest = self.recent[-_CHRONIC_REPLIES:]
        low, high = min(latest), max(latest)
        narrow = high - low <= _BAND_SHARE * self.threshold
        if (
            len(latest) < _CHRONIC_REPLIES
            or not narrow
            or low < NEAR_SHARE * self.threshold
            or high >= self.threshold
        ):
            return ""
        return f"{_CHRONIC_REPLIES} replies between {low:.0f} and {high:.0f}, just under {self.threshold:g}"

    def _check_velocity(self) -> str:
        latest = self.recent[-_RECENT_REPLIES:]
        speed = measure_slope(latest)
        if speed < self.velocity_threshold or latest[-1] < _RISEN_SHARE * self.threshold:
            return ""
        if latest[-1] < max(latest) or not _is_climbing(latest, least=_CLIMB_STEPS):
            return ""
        return f"rising by {speed:.0f} points a reply, {self.velocity_threshold:g} is the alarm"

    def _find_single_shape(self) -> tuple[Shape, str]:
        scores, limit = self.recent, self.threshold
        if scores[-1] >= limit:
            return "spike", "high, and not yet a pattern"
        was_high = len(scores) > 1 and scores[-2] >= limit
        alone = len(scores) < _HIGH_IN_A_ROW or scores[-_HIGH_IN_A_ROW] < limit
        if was_high and alone and scores[-1] < NEAR_SHARE * limit:
            return "adaptive_spike", "one high reply, and back at once"
        return _STEADY


def read_scores(
    scores: Iterable[float], *, threshold: float = 60.0, velocity_threshold: float = 8.0
) -> tuple[ShapeReading, ...]:
    """Return the readings of a run's scores, the same as in a live run."""
    trajectory = Trajectory(threshold=threshold, velocity_threshold=velocity_threshold)
    return tuple(trajectory.record_score(score) for score in scores)


def find_gravest_shape(readings: Iterable[ShapeReading]) -> Shape:
    """Return the gravest shape among the readings of a run.

    >>> find_gravest_shape(read_scores([10, 80, 10, 85, 5, 90, 12]))
    'repeating_spike'
    """
    return max((reading.shape for reading in readings), key=SHAPES_BY_GRAVITY.index, default="steady")


def measure_slope(scores: Sequence[float]) -> float:
    """Return the points by which scores rise from one to the next: the slope of the least-squares line.

    >>> measure_slope([10, 20, 30, 40])
    10.0
    """
    count = len(scores)
    if count < 2:  # noqa: PLR2004 - a line needs two points
        return 0.0
    middle = (count - 1) / 2
    mean = sum(scores) / count
    spread = sum([(place - middle) ** 2 for place in range(count)])
    return sum([(place - middle) * (score - mean) for place, score in enumerate(scores)]) / spread


def _is_climbing(scores: Sequence[float], *, least: int) -> bool:
    """Return whether at least `least` of the last three steps go up and none down, without a single jump."""
    latest = scores[-_CLIMB_STEPS - 1 :]
    steps = [after - before for before, after in pairwise(latest)]
    if len(steps) < _CLIMB_STEPS or min(steps) < 0 or sum(step > 0 for step in steps) < least:
        return False
    return max(steps) <= _MAX_STEP_SHARE * (latest[-1] - latest[0])
