"""Notice an agent whose manner of speaking drifts."""

from typing import Any, Final

from msgspec import Struct, field

from steadyhelm.baselines import BaselineStats
from steadyhelm.detector import Detector
from steadyhelm.events import LLM_REQUEST, TraceEvent
from steadyhelm.findings import DriftEvent
from steadyhelm.style.nudges import Nudge, Nudging
from steadyhelm.style.profile_store import profile_named
from steadyhelm.style.reply_score import ReplyScore
from steadyhelm.style.rules import NONE
from steadyhelm.style.scoring import score_reply
from steadyhelm.style.trajectory import Reading, Trajectory

LEAST_WORDS: Final = 12
"""A shorter reply shows no manner; the lines an agent says between two calls are of that kind."""

_UNSEEN: Final = "no reply long enough to judge seen yet"
_MEANWHILE: Final = "Give the answer first, then what it rests on."
"""What holds between two notes; it may reach the agent, so it says nothing about notes."""

_IDS_KEPT: Final = 6
_SPIKE: Final = 0.3
_RULE: Final = 0.55
_LEVELS: Final = {
    "velocity_alarm": 0.5,
    "chronic_subclinical": 0.5,
    "repeating_spike": 0.55,
    "degenerative": 0.6,
}
_MOST: Final = 0.75


class _Memory(Struct):
    course: Trajectory
    nudging: Nudging
    ids: list[str] = field(default_factory=list)


class ReplyStyle(Detector):
    """Signal when replies, over several turns, leave the manner that was agreed on.

    One high score is noticed, never reported, and so is what gets better; a hard rule that is broken is
    reported at once.

    Args:
        profile: The profile replies are scored by; see `steadyhelm profile list`.

    >>> plain = "The parser dropped the last line of each file; that is fixed, and all 40 tests pass."
    >>> padded = "Great question! I'd be happy to help. Basically, let me explain. Perhaps, in a sense, "
    >>> padded += "it is worth noting that, I think, essentially, it seems amazing."
    >>> said_at(ReplyStyle(), plain, padded, plain, plain, padded, padded, padded)
    [1, 4, 5, 6]
    """

    name = "reply_style"
    kind = "style"

    _memory: _Memory

    def __init__(self, *, profile: str = "standard") -> None:
        self.profile = profile_named(profile)
        self._memory = _Memory(
            course=Trajectory(
                threshold=self.profile.threshold, velocity_threshold=self.profile.velocity_threshold
            ),
            nudging=Nudging(threshold=self.profile.threshold),
        )
        self.not_checked = _UNSEEN

    def check(self, event: TraceEvent, baseline: BaselineStats) -> DriftEvent | None:  # noqa: ARG002
        """Score one reply, and look where the scores are going."""
        if event.action_type != LLM_REQUEST or not (text := event.text):
            return None
        reply = score_reply(text, self.profile)
        self._say_what_is_checked(reply)
        if reply.broken:
            return self._rule_broken(event, reply)
        if reply.words < LEAST_WORDS:
            return None
        memory = self._memory
        memory.ids = [*memory.ids, event.event_id][-_IDS_KEPT:]
        reading = memory.course.note(reply.score)
        self.level = min(1.0, reading.ewma / 100)
        nudge = memory.nudging.advise(reading, [str(it) for it in reply.offenders])
        if reading.is_drift:
            return self._course_left(event, reply, reading, nudge)
        return self._high_once(event, reply, reading) if reading.shape == "spike" else None

    def restore(self, state: bytes) -> None:
        """Take up a saved state; the profile's numbers are those of today."""
        super().restore(state)
        memory, profile = self._memory, self.profile
        self.level = memory.course.ewma / 100 if memory.course.turns else None
        self.not_checked = None if memory.course.turns else _UNSEEN
        memory.course.threshold = memory.nudging.threshold = profile.threshold
        memory.course.velocity_threshold = profile.velocity_threshold

    def _say_what_is_checked(self, reply: ReplyScore) -> None:
        if reply.words >= LEAST_WORDS:
            self.not_checked = reply.not_checked
        elif self.not_checked and self.profile.rules != NONE and not self._memory.course.turns:
            # Data has no manner: once its rules are checked, there is nothing left to look at.
            short = "only the rules were checked: no reply long enough to judge its manner seen yet"
            self.not_checked = reply.not_checked or (short if reply.words else None)

    def _course_left(
        self, event: TraceEvent, reply: ReplyScore, reading: Reading, nudge: Nudge | None
    ) -> DriftEvent:
        excess = max(0.0, reading.ewma - self.profile.threshold) / 100
        nudging = self._memory.nudging
        better = nudge is None and nudging.gets_better(reading)
        return self.finding(
            event,
            # What gets better is noticed and not reported: a report would be one more note.
            score=_SPIKE if better else min(_MOST, _LEVELS[reading.shape] + excess),
            message=f"style {reading.shape.replace('_', ' ')}: {reading.reason}",
            suggested_action=nudge.text if nudge else _MEANWHILE,
            event_ids=self._memory.ids,
            **_evidence(reply, reading),
            nudges={"given": nudging.given, "helped": nudging.helped, "ignored": nudging.ignored},
        )

    def _high_once(self, event: TraceEvent, reply: ReplyScore, reading: Reading) -> DriftEvent:
        return self.finding(
            event,
            score=_SPIKE,
            message=f"one reply scores {reply.score:.0f}, {reply.threshold:g} is the threshold",
            suggested_action="Nothing yet: one reply is no trajectory.",
            **_evidence(reply, reading),
        )

    def _rule_broken(self, event: TraceEvent, reply: ReplyScore) -> DriftEvent:
        broken = "; ".join(f"{it.rule}: {it.message}" for it in reply.broken)
        return self.finding(
            event,
            score=_RULE,
            message=f"a rule of profile {reply.profile} is broken: {broken}",
            suggested_action="Repeat the reply so that it keeps the rule.",
            profile=reply.profile,
            rules=[it.rule for it in reply.broken],
        )


def _evidence(reply: ReplyScore, reading: Reading) -> dict[str, Any]:
    return {
        "profile": reply.profile,
        "style_score": reply.score,
        "shape": reading.shape,
        "ewma": reading.ewma,
        "velocity": reading.velocity,
        "offenders": [str(it) for it in reply.offenders],
        "points": {name: points for name, points in reply.points().items() if points},
    }
