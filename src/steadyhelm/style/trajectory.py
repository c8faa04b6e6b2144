"""The course of a run's scores: one reply may be anything, what counts is where replies are going.

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
TROUBLE: Final = frozenset({"velocity_alarm", "chronic_subclinical", "repeating_spike", "degenerative"})
"""The shapes that are drift; a spike alone is none."""

GRAVITY: Final[tuple[Shape, ...]] = get_args(Shape)
"""The shapes as they are listed, from the lightest to the gravest."""

KEPT: Final = 10
SMOOTHING: Final = 0.4
# All of these are shares of the threshold.
NEAR: Final = 0.7
"""From here on a score is just under the threshold."""
_PLATEAU: Final = 0.85
_RISEN: Final = 0.5
_BAND: Final = 0.3
_FALL: Final = 0.15

_IN_A_ROW: Final = 3
_LASTING: Final = 5
_SPIKES: Final = 3
_RECENT: Final = 5
_STEPS: Final = 3
_ONE_STEP: Final = 2 / 3
_TROUBLE_LASTS: Final = 4


class Reading(Struct, frozen=True, kw_only=True):
    """What a run's scores show after one more reply.

    `ewma` is the smoothed score, `velocity` the points by which the latest scores rise from reply to reply.
    """

    turn: int
    score: float
    ewma: float
    velocity: float
    shape: Shape
    reason: str

    @property
    def is_drift(self) -> bool:
        """Whether the trajectory, and not one reply, is out of bounds."""
        return self.shape in TROUBLE


class Trajectory(Struct, kw_only=True):
    """The scores of one run so far, as far as the rules need them: this record is all there is to keep.

    >>> course = Trajectory(threshold=60)
    >>> [course.note(score).shape for score in (10, 85, 10)]
    ['steady', 'spike', 'adaptive_spike']
    """

    threshold: float = 60.0
    velocity_threshold: float = 8.0
    turns: int = 0
    ewma: float = 0.0
    recent: list[float] = field(default_factory=list)
    trouble: Shape = "steady"
    trouble_turn: int = 0

    def note(self, score: float) -> Reading:
        """Take one more score in, 0 to 100, and say what the course is now; what is no number is left out."""
        if isinstance(score, bool) or not isinstance(score, int | float) or not math.isfinite(score):
            return self._reading(self.recent[-1] if self.recent else 0.0, "steady", "not a score: left out")
        score = min(100.0, max(0.0, float(score)))
        before = self.ewma
        self.turns += 1
        self.ewma = score if self.turns == 1 else before + SMOOTHING * (score - before)
        self.recent = [*self.recent, score][-KEPT:]
        shape, reason = self._shape(before)
        if shape in TROUBLE:
            self.trouble, self.trouble_turn = shape, self.turns
        return self._reading(score, shape, reason)

    def _reading(self, score: float, shape: Shape, reason: str) -> Reading:
        return Reading(
            turn=self.turns,
            score=score,
            ewma=round(self.ewma, 2),
            velocity=round(slope(self.recent[-_RECENT:]), 2),
            shape=shape,
            reason=reason,
        )

    def _shape(self, before: float) -> tuple[Shape, str]:
        if self._is_recovering(before):
            return "recovering", f"falling after {self.trouble.replace('_', ' ')}"
        rules: tuple[tuple[Shape, str], ...] = (
            ("degenerative", self._degenerating()),
            ("repeating_spike", self._repeating()),
            ("chronic_subclinical", self._parked()),
            ("velocity_alarm", self._racing()),
        )
        for shape, reason in rules:
            if reason:
                return shape, reason
        return self._single()

    def _is_recovering(self, before: float) -> bool:
        """Trouble is not long ago, and this reply is clearly below what has been usual."""
        if not self.trouble_turn or self.turns - self.trouble_turn > _TROUBLE_LASTS:
            return False
        last, previous = self.recent[-1], self.recent[-2]
        fall = _FALL * self.threshold
        return (
            last < self.threshold
            and last <= before - fall
            and (last <= previous - fall or last < NEAR * before)
        )

    def _degenerating(self) -> str:
        scores, limit = self.recent, self.threshold
        if len(scores) >= _IN_A_ROW and min(scores[-_IN_A_ROW:]) >= limit:
            return f"{_IN_A_ROW} replies in a row at {limit:g} or above"
        latest = scores[-_RECENT:]
        high = sum(score >= limit for score in latest)
        if high > 1 and latest[-1] >= limit and _climbs(latest, least=2):
            return f"a climb past {limit:g} that goes on"
        if len(latest) == _RECENT and min(latest) >= _PLATEAU * limit and high:
            return f"{_RECENT} replies around {limit:g}"
        return ""

    def _repeating(self) -> str:
        over = [score >= self.threshold for score in self.recent]
        spikes = sum(now and not was for was, now in zip([False, *over], over, strict=False))
        return f"{spikes} spikes in {len(over)} replies" if over[-1] and spikes >= _SPIKES else ""

    def _parked(self) -> str:
        latest = self.recent[-_LASTING:]
        low, high = min(latest), max(latest)
        narrow = high - low <= _BAND * self.threshold
        if len(latest) < _LASTING or not narrow or low < NEAR * self.threshold or high >= self.threshold:
            return ""
        return f"{_LASTING} replies between {low:.0f} and {high:.0f}, just under {self.threshold:g}"

    def _racing(self) -> str:
        latest = self.recent[-_RECENT:]
        speed = slope(latest)
        if speed < self.velocity_threshold or latest[-1] < _RISEN * self.threshold:
            return ""
        if latest[-1] < max(latest) or not _climbs(latest, least=_STEPS):
            return ""
        return f"rising by {speed:.0f} points a reply, {self.velocity_threshold:g} is the alarm"

    def _single(self) -> tuple[Shape, str]:
        scores, limit = self.recent, self.threshold
        if scores[-1] >= limit:
            return "spike", "high, and not yet a pattern"
        was_high = len(scores) > 1 and scores[-2] >= limit
        alone = len(scores) < _IN_A_ROW or scores[-_IN_A_ROW] < limit
        if was_high and alone and scores[-1] < NEAR * limit:
            return "adaptive_spike", "one high reply, and back at once"
        return "steady", "nothing out of bounds"


def read_scores(
    scores: Iterable[float], *, threshold: float = 60.0, velocity_threshold: float = 8.0
) -> tuple[Reading, ...]:
    """The readings of a run's scores, exactly as they would have come live."""
    course = Trajectory(threshold=threshold, velocity_threshold=velocity_threshold)
    return tuple(course.note(score) for score in scores)


def gravest(readings: Iterable[Reading]) -> Shape:
    """The worst a run has been through.

    >>> gravest(read_scores([10, 80, 10, 85, 5, 90, 12]))
    'repeating_spike'
    """
    return max((reading.shape for reading in readings), key=GRAVITY.index, default="steady")


def slope(scores: Sequence[float]) -> float:
    """Points by which the scores rise from one to the next: the line through them with the least squares.

    >>> slope([10, 20, 30, 40])
    10.0
    """
    count = len(scores)
    if count < 2:  # noqa: PLR2004 - a line needs two points
        return 0.0
    middle = (count - 1) / 2
    mean = sum(scores) / count
    spread = sum((place - middle) ** 2 for place in range(count))
    return sum((place - middle) * (score - mean) for place, score in enumerate(scores)) / spread


def _climbs(scores: Sequence[float], *, least: int) -> bool:
    """Whether the last three steps go up, at least so many of them, and none down; one jump is no climb."""
    latest = scores[-_STEPS - 1 :]
    steps = [after - before for before, after in pairwise(latest)]
    if len(steps) < _STEPS or min(steps) < 0 or sum(step > 0 for step in steps) < least:
        return False
    return max(steps) <= _ONE_STEP * (latest[-1] - latest[0])
