"""Notice an agent whose style of replies drifts."""

from typing import Any, Final

from msgspec import Struct, field

from steadyhelm.baselines import BaselineStats
from steadyhelm.detector import Detector
from steadyhelm.events import LLM_REQUEST, TraceEvent
from steadyhelm.findings import DriftEvent
from steadyhelm.loops.steps import works_on_files
from steadyhelm.style.nudges import Nudge, NudgeTracker
from steadyhelm.style.profile import NO_RULES
from steadyhelm.style.profile_files import find_profile
from steadyhelm.style.prose import read_prose
from steadyhelm.style.scoring import ReplyReading, ReplyScore, read_reply
from steadyhelm.style.trajectory import ShapeReading, Trajectory

MIN_WORDS: Final = 12
"""A shorter reply has no style to score, such as the lines between two tool calls."""

_NO_REPLY_YET: Final = "no reply long enough to judge seen yet"
_ADVICE_BETWEEN_NUDGES: Final = "Give the answer first, then what it rests on."
"""The suggestion between two nudges; it may reach the agent, so it does not mention nudges."""

_DEFAULT_PROFILE: Final = "standard"
_SHOWN_ONLY: Final = (
    "in coding sessions style is shown, and flagged once detectors.reply_style.profile is set"
)
_IDS_KEPT: Final = 6
_SPIKE_SCORE: Final = 0.3
_RULE_SCORE: Final = 0.55
_SCORE_BY_SHAPE: Final = {
    "velocity_alarm": 0.5,
    "chronic_subclinical": 0.5,
    "repeating_spike": 0.55,
    "degenerative": 0.6,
}
_MAX_SCORE: Final = 0.75


class _Memory(Struct):
    trajectory: Trajectory = field(name="course")
    nudges: NudgeTracker = field(name="nudging")
    ids: list[str] = field(default_factory=list)
    is_coding: bool = False


class ReplyStyle(Detector):
    """Signal when the style of replies drifts from the profile over several turns.

    A single high score or an improving trend is a low finding and not reported. A broken hard rule is
    reported at once. In a coding session every finding is low unless a profile was chosen.

    Args:
        profile: The profile by which replies are scored; see `steadyhelm profile list`. None for the standard
            one.

    >>> plain = "The parser dropped the last line of each file; that is fixed, and all 40 tests pass."
    >>> padded = "Great question! I'd be happy to help. Basically, let me explain. Perhaps, in a sense, "
    >>> padded += "it is worth noting that, I think, essentially, it seems amazing."
    >>> said_at(ReplyStyle(), plain, padded, plain, plain, padded, padded, padded)
    [1, 4, 5, 6]
    """

    name = "reply_style"
    kind = "style"
    version = 2

    _memory: _Memory

    def __init__(self, *, profile: str | None = None) -> None:
        self.profile = find_profile(_DEFAULT_PROFILE if profile is None else profile)
        self._is_chosen = profile is not None
        self._memory = _Memory(
            trajectory=Trajectory(
                threshold=self.profile.threshold, velocity_threshold=self.profile.velocity_threshold
            ),
            nudges=NudgeTracker(threshold=self.profile.threshold),
        )
        self.not_checked = _NO_REPLY_YET

    def check(self, event: TraceEvent, baseline: BaselineStats) -> DriftEvent | None:  # noqa: ARG002
        """Score one reply and classify the trajectory of the scores."""
        if event.action_type == LLM_REQUEST and (text := event.text):
            finding = self._check_reply(event, text)
            return finding.lower_severity(_SHOWN_ONLY) if finding and self._is_only_shown else finding
        if not self._memory.is_coding and works_on_files(event):
            self._memory.is_coding = True
            self._update_level()
        return None

    @property
    def _is_only_shown(self) -> bool:
        """Whether findings are neither reported nor answered: a coding session, and no profile was chosen."""
        return self._memory.is_coding and not self._is_chosen

    def _check_reply(self, event: TraceEvent, text: str) -> DriftEvent | None:
        prose = read_prose(text)
        if prose.words_in_all < MIN_WORDS and self.profile.rules == NO_RULES:
            return None
        reply = read_reply(text, prose, self.profile)
        self._update_not_checked(reply)
        if reply.broken:
            return self._build_rule_finding(event, reply.explain(with_engagement=False))
        return None if prose.words_in_all < MIN_WORDS else self._record_score(event, reply)

    def _record_score(self, event: TraceEvent, reply: ReplyReading) -> DriftEvent | None:
        memory = self._memory
        memory.ids = [*memory.ids, event.event_id][-_IDS_KEPT:]
        reading = memory.trajectory.record_score(reply.score)
        self._update_level()
        # Most replies are no more than one score: only what is found is explained.
        is_found = reading.is_drift or reading.shape == "spike"
        score = reply.explain(with_engagement=False) if is_found else None
        offenders = [str(it) for it in score.offenders] if score and reading.is_drift else ()
        nudge = None if self._is_only_shown else memory.nudges.advise(reading, offenders)
        if score is None:
            return None
        if reading.is_drift:
            return self._build_drift_finding(event, score, reading, nudge)
        return self._build_spike_finding(event, score, reading)

    def restore(self, state: bytes) -> None:
        """Restore a saved state, with the numbers of the current profile."""
        super().restore(state)
        memory, profile = self._memory, self.profile
        self._update_level()
        self.not_checked = None if memory.trajectory.turns else _NO_REPLY_YET
        memory.trajectory.threshold = memory.nudges.threshold = profile.threshold
        memory.trajectory.velocity_threshold = profile.velocity_threshold

    def _update_level(self) -> None:
        """Set the level; it is unknown to the drift score where findings are only shown."""
        trajectory = self._memory.trajectory
        is_known = trajectory.turns and not self._is_only_shown
        self.level = min(1.0, trajectory.ewma / 100) if is_known else None

    def _update_not_checked(self, reply: ReplyReading) -> None:
        words = reply.prose.words_in_all
        if words >= MIN_WORDS:
            self.not_checked = reply.not_checked
        elif self.not_checked and self.profile.rules != NO_RULES and not self._memory.trajectory.turns:
            # Data has no style: once its rules are checked, nothing is left to check.
            short = "only the rules were checked: no reply long enough to score its style yet"
            self.not_checked = reply.not_checked or (short if words else None)

    def _build_drift_finding(
        self, event: TraceEvent, reply: ReplyScore, reading: ShapeReading, nudge: Nudge | None
    ) -> DriftEvent:
        excess = max(0.0, reading.ewma - self.profile.threshold) / 100
        nudges = self._memory.nudges
        better = nudge is None and nudges.is_improving(reading)
        return self.finding(
            event,
            # An improving trend is not reported: a report would be one more nudge.
            score=_SPIKE_SCORE if better else min(_MAX_SCORE, _SCORE_BY_SHAPE[reading.shape] + excess),
            message=f"style {reading.shape.replace('_', ' ')}: {reading.reason}",
            suggested_action=nudge.text if nudge else _ADVICE_BETWEEN_NUDGES,
            event_ids=self._memory.ids,
            **_build_evidence(reply, reading),
            nudges={"given": nudges.given, "helped": nudges.helped, "ignored": nudges.ignored},
        )

    def _build_spike_finding(self, event: TraceEvent, reply: ReplyScore, reading: ShapeReading) -> DriftEvent:
        return self.finding(
            event,
            score=_SPIKE_SCORE,
            message=f"one reply scores {reply.score:.0f}, {reply.threshold:g} is the threshold",
            suggested_action="Nothing yet: one reply is no trajectory.",
            **_build_evidence(reply, reading),
        )

    def _build_rule_finding(self, event: TraceEvent, reply: ReplyScore) -> DriftEvent:
        broken = "; ".join(f"{it.rule}: {it.message}" for it in reply.broken)
        return self.finding(
            event,
            score=_RULE_SCORE,
            message=f"a rule of profile {reply.profile} is broken: {broken}",
            suggested_action="Repeat the reply so that it keeps the rule.",
            profile=reply.profile,
            rules=[it.rule for it in reply.broken],
        )


def _build_evidence(reply: ReplyScore, reading: ShapeReading) -> dict[str, Any]:
    return {
        "profile": reply.profile,
        "style_score": reply.score,
        "shape": reading.shape,
        "ewma": reading.ewma,
        "velocity": reading.velocity,
        "offenders": [str(it) for it in reply.offenders],
        "points": {name: points for name, points in reply.points().items() if points},
    }
