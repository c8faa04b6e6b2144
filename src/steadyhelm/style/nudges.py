"""Words for an agent whose manner drifts: they name the offenders, and count whether they helped."""

from collections.abc import Sequence
from typing import Final, Literal

from msgspec import Struct, field

from steadyhelm.style.trajectory import KEPT, NEAR, Reading, Shape

Strength = Literal["gentle", "firm", "strong"]
STRENGTHS: Final[tuple[Strength, ...]] = ("gentle", "firm", "strong")

JUDGED_AFTER: Final = 2
"""Replies a nudge is given to show an effect; until then there is no other."""

SPIKES_JUDGED_AFTER: Final = 5
"""Between two spikes scores fall by themselves: so many replies without another one are an effect."""

# Shares of the threshold: by how much scores fall when a nudge helped, and from reply to reply.
_HELPS: Final = 0.15
_FALLS: Final = 0.03
_CALM: Final = 5
_OFFENDERS_NAMED: Final = 3

_OPENINGS: Final[dict[Strength, str]] = {
    "gentle": "A note on style: recent replies lean on {what}.",
    "firm": "Style: the replies still show {what}, after a note about it.",
    "strong": "Style: {what} again, in spite of {count} notes. This takes precedence over habit.",
}
_ADVICE: Final[dict[Strength, str]] = {
    "gentle": "Say the same with fewer words: the answer first, then what it rests on.",
    "firm": "Give the answer in the first sentence, drop these words, and stop when it is said.",
    "strong": "Write the next reply without any of it: answer, evidence, end.",
}
_QUIETLY: Final = "Do not comment on this note."


class Nudge(Struct, frozen=True, kw_only=True):
    """A word to the agent about its manner."""

    strength: Strength
    text: str
    offenders: tuple[str, ...]
    turn: int


class Nudging(Struct, kw_only=True):
    """The nudges of one run: how many were given, and whether they helped.

    `level` is where the scores stood when the nudge that is being judged was given, `about` the shape it was
    given for, `since` the scores that came after it. `improving` lasts from a nudge that helped to the first
    score that does not fall.
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

    def advise(self, reading: Reading, offenders: Sequence[str] = ()) -> Nudge | None:
        """What to say after this reading: nothing after one high score, nothing while it gets better."""
        self._judge(reading)
        self.improving = self.improving and reading.score < self.last
        held = self.gets_better(reading)
        self.last = reading.score
        self.calm = 0 if reading.is_drift else self.calm + 1
        if self.calm >= _CALM:
            self.step = 0
        if not reading.is_drift or self.waiting or held:
            return None
        nudge = self._worded(reading, tuple(offenders[:_OFFENDERS_NAMED]))
        self.given += 1
        self.waiting, self.about, self.since = True, reading.shape, []
        self.level = max(reading.ewma, reading.score)
        return nudge

    def gets_better(self, reading: Reading) -> bool:
        """Whether replies fall clearly, this one with them, or go on falling after a nudge that helped."""
        return self.improving or self._falls(reading)

    def _falls(self, reading: Reading) -> bool:
        return reading.velocity <= -_FALLS * self.threshold and reading.score <= reading.ewma

    def _judge(self, reading: Reading) -> None:
        """A nudge that helped makes the next one gentle again, one that did not makes it stronger."""
        if not self.waiting:
            return
        self.since = [*self.since, reading.score][-KEPT:]
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

    def _has_helped(self, reading: Reading) -> bool | None:
        """Whether the scores since the nudge show that it helped; None while it is too early to tell."""
        if len(self.since) < JUDGED_AFTER:
            return None
        if self.about == "repeating_spike":
            if max(self.since) >= self.threshold:
                return False
            return True if len(self.since) >= SPIKES_JUDGED_AFTER else None
        mean = sum(self.since) / len(self.since)
        if mean <= self.level - _HELPS * self.threshold or mean < NEAR * self.threshold / 2:
            return True
        # A slow fall is not yet help, and nothing that falls was ignored.
        return None if self._falls(reading) else False

    def _worded(self, reading: Reading, offenders: tuple[str, ...]) -> Nudge:
        strength = STRENGTHS[self.step]
        what = _listed(offenders) or "a manner that drifts from what was agreed"
        opening = _OPENINGS[strength].format(what=what, count=self.ignored)
        text = f"{opening} {_ADVICE[strength]} {_QUIETLY}"
        return Nudge(strength=strength, text=text, offenders=offenders, turn=reading.turn)


def _listed(offenders: Sequence[str]) -> str:
    if len(offenders) <= 1:
        return "".join(offenders)
    return f"{', '.join(offenders[:-1])} and {offenders[-1]}"
