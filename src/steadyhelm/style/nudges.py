"""Write guidance for an agent whose style drifts, and count whether it helped."""

from collections.abc import Sequence
from typing import Final, Literal

from msgspec import Struct, field

from steadyhelm.style.trajectory import NEAR_SHARE, SCORES_KEPT, Shape, ShapeReading

Strength = Literal["gentle", "firm", "strong"]
STRENGTHS: Final[tuple[Strength, ...]] = ("gentle", "firm", "strong")

JUDGED_AFTER_REPLIES: Final = 2
"""Replies after which a nudge is judged; until then there is no other."""

SPIKES_JUDGED_AFTER_REPLIES: Final = 5
"""Between two spikes scores fall by themselves: this many replies without another one are an effect."""

# Shares of the threshold: how far scores fall when a nudge helped, and from reply to reply.
_HELPED_SHARE: Final = 0.15
_FALLING_SHARE: Final = 0.03
_CALM_REPLIES: Final = 5
_MAX_OFFENDERS: Final = 3

_OPENINGS: Final[dict[Strength, str]] = {
    "gentle": "A note on style: recent replies lean on {what}.",
    "firm": "Style: the replies still show {what}.",
    "strong": "Style: {what} again and again. This takes precedence over habit.",
}
_ADVICE: Final[dict[Strength, str]] = {
    "gentle": "Say the same with fewer words: the answer first, then what it rests on.",
    "firm": "Give the answer in the first sentence, drop these words, and stop when it is said.",
    "strong": "Write the next reply without any of it: answer, evidence, end.",
}
_NO_COMMENT: Final = "Do not comment on this note."


class Nudge(Struct, frozen=True, kw_only=True):
    """Guidance for the agent about its style."""

    strength: Strength
    text: str
    offenders: tuple[str, ...]
    turn: int


class NudgeTracker(Struct, kw_only=True):
    """The nudges of one run: how many were sent, and whether they helped.

    `level` is the score at the time of the nudge that is being judged, `about` the shape it was sent for,
    `since` the scores after it. `improving` is True from a nudge that helped to the first score that does
    not fall.
    """

    threshold: float = 60.0
    given: int = 0
    helped: int = 0
    ignored: int = 0
    step: int = 0
    calm: int = 0
    waiting: bool = False
    level: float = 0.0
    about: Shape = "steady"
    since: list[float] = field(default_factory=list)
    improving: bool = False
    last: float = 0.0

    def advise(self, reading: ShapeReading, offenders: Sequence[str] = ()) -> Nudge | None:
        """Return the nudge to send after this reading; None after one high score, or while scores improve."""
        self._judge_nudge(reading)
        self.improving = self.improving and reading.score < self.last
        held = self.is_improving(reading)
        self.last = reading.score
        self.calm = 0 if reading.is_drift else self.calm + 1
        if self.calm >= _CALM_REPLIES:
            self.step = 0
        if not reading.is_drift or self.waiting or held:
            return None
        nudge = self._build_nudge(reading, tuple(offenders[:_MAX_OFFENDERS]))
        self.given += 1
        self.waiting, self.about, self.since = True, reading.shape, []
        self.level = max(reading.ewma, reading.score)
        return nudge

    def is_improving(self, reading: ShapeReading) -> bool:
        """Return whether scores fall clearly, or keep falling after a nudge that helped."""
        return self.improving or self._is_falling(reading)

    def _is_falling(self, reading: ShapeReading) -> bool:
        return reading.velocity <= -_FALLING_SHARE * self.threshold and reading.score <= reading.ewma

    def _judge_nudge(self, reading: ShapeReading) -> None:
        """Judge the last nudge. The next one is gentle if it helped, and stronger if it did not."""
        if not self.waiting:
            return
        self.since = [*self.since, reading.score][-SCORES_KEPT:]
        helped = self._has_helped(reading)
        if helped is None:
            return
        self.waiting, self.improving = False, helped
        if helped:
            self.helped += 1
            self.step = 0
        else:
            self.ignored += 1
            self.step = min(self.step + 1, len(STRENGTHS) - 1)

    def _has_helped(self, reading: ShapeReading) -> bool | None:
        """Return whether the scores since the nudge show that it helped; None while it is too early."""
        if len(self.since) < JUDGED_AFTER_REPLIES:
            return None
        if self.about == "repeating_spike":
            if max(self.since) >= self.threshold:
                return False
            return True if len(self.since) >= SPIKES_JUDGED_AFTER_REPLIES else None
        mean = sum(self.since) / len(self.since)
        if mean <= self.level - _HELPED_SHARE * self.threshold or mean < NEAR_SHARE * self.threshold / 2:
            return True
        # After a slow fall the nudge has neither helped yet nor been ignored.
        return None if self._is_falling(reading) else False

    def _build_nudge(self, reading: ShapeReading, offenders: tuple[str, ...]) -> Nudge:
        strength = STRENGTHS[self.step]
        what = _join_names(offenders) or "a style that differs from the agreed one"
        opening = _OPENINGS[strength].format(what=what)
        text = f"{opening} {_ADVICE[strength]} {_NO_COMMENT}"
        return Nudge(strength=strength, text=text, offenders=offenders, turn=reading.turn)


def _join_names(offenders: Sequence[str]) -> str:
    if len(offenders) <= 1:
        return "".join(offenders)
    return f"{', '.join(offenders[:-1])} and {offenders[-1]}"
