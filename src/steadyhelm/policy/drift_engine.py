"""Combine five signals into one drift score, and choose the response level for it."""

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Final

from msgspec import Struct, field, structs

from steadyhelm.decisions import DriftAction, DriftAssessment, DriftSeverity, DriftSignals, DriftTrend
from steadyhelm.errors import SettingsError
from steadyhelm.findings import CRITICAL_FROM

WEIGHTS: Final = {
    "goal_dna_drift": 0.35,
    "loop_risk": 0.25,
    "budget_velocity": 0.20,
    "quality_degradation": 0.15,
    "stuck_time": 0.05,
}
SIGNALS: Final = tuple(WEIGHTS)
SIGNAL_NAMES: Final = {
    "goal_dna_drift": "distance from the goal",
    "loop_risk": "risk of a loop",
    "budget_velocity": "spending ahead of progress",
    "quality_degradation": "loss of quality",
    "stuck_time": "time without headway",
}
RECOMMENDATIONS: Final = {
    DriftAction.CONTINUE: "Go on.",
    DriftAction.INJECT_REMINDER: "Remind the agent of its goal and of what was noticed, then go on.",
    DriftAction.SUMMARIZE_REPLAN: "Have the agent sum up what it knows and write a new plan for its goal.",
    DriftAction.CHECKPOINT_RESET: "Go back to the last good checkpoint, and take another way from there.",
    DriftAction.ASK_USER: "Stop here, tell the user how things stand, and ask how to go on.",
}

RISING_FROM: Final = 0.05
"""A score that rises faster than this per turn, and ever faster, calls for a stronger response."""

_TREND_TURNS: Final = 4
_SUSTAINED_TURNS: Final = 3
_MAX_HISTORY: Final = 200
_LOW_FROM: Final = 0.1
_ROUNDING_DIGITS: Final = 9
_SPLIT_DIGITS: Final = 4
"""Sums are rounded to this, so that a score meant to meet a threshold does."""


class ScoreHistory(Struct):
    """The scores of a run's turns, oldest first."""

    turns: list[int] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)

    def add(self, turn: int, score: float) -> None:
        """Add the score of a turn; only the latest are kept."""
        self.turns.append(turn)
        # An equal score is kept as the same number: most runs have many.
        self.scores.append(self.scores[-1] if self.scores and self.scores[-1] == score else score)
        if len(self.turns) > 2 * _MAX_HISTORY:
            del self.turns[:-_MAX_HISTORY], self.scores[:-_MAX_HISTORY]

    def trend(self, window: int) -> DriftTrend:
        """Return how the last `window` scores change from turn to turn."""
        turns, scores = self.turns[-window:], self.scores[-window:]
        rates = [(scores[i] - scores[i - 1]) / max(1, turns[i] - turns[i - 1]) for i in range(1, len(scores))]
        if not rates:
            return DriftTrend(turns=len(scores))
        velocity = (scores[-1] - scores[0]) / max(1, turns[-1] - turns[0])
        half = len(rates) // 2
        early, late = rates[:half], rates[-half:]
        faster = half > 0 and sum(late) / half > sum(early) / half
        return DriftTrend(
            velocity=round(velocity, _ROUNDING_DIGITS),
            is_accelerating=faster and velocity > 0,
            turns=len(scores),
        )


class DriftEngine:
    """Score the drift of a run by five signals, and choose the action the score calls for.

    A threshold is met by the score that equals it.
    Unknown signals do not count: their weight is shared out among the known ones, and the assessment says so.
    A certain loop (`loop_risk` of .9 or more) or an exhausted budget acts by itself, whatever the sum.

    Args:
        nudge_threshold: The score from which the agent is reminded.
        replan_threshold: The score from which it is asked for a new plan.
        checkpoint_threshold: The score from which it goes back to a checkpoint.
        stop_threshold: The score from which the user is asked.
        signal_weights: How much each signal counts; those not named keep their usual weight.

    >>> engine = DriftEngine()
    >>> signals = DriftSignals(goal_dna_drift=0.45, loop_risk=0.2, budget_velocity=-0.3,
    ...                        quality_degradation=0.15, stuck_time=0.1)
    >>> engine.score_drift(signals).overall_score, engine.score_drift(signals).response_level
    (0.295, 'CONTINUE')
    """

    def __init__(
        self,
        nudge_threshold: float = 0.3,
        replan_threshold: float = 0.5,
        checkpoint_threshold: float = 0.7,
        stop_threshold: float = 0.9,
        signal_weights: Mapping[str, float] | None = None,
    ) -> None:
        self.nudge_threshold = nudge_threshold
        self.replan_threshold = replan_threshold
        self.checkpoint_threshold = checkpoint_threshold
        self.stop_threshold = stop_threshold
        self.signal_weights = {**WEIGHTS, **_validate_weights(signal_weights or {})}
        if not sum(self.signal_weights.values()) > 0:
            raise SettingsError("signal_weights must leave at least one signal above 0.")
        self._weights = tuple(self.signal_weights[name] for name in SIGNALS)
        self._levels = _validate_thresholds(
            nudge_threshold, replan_threshold, checkpoint_threshold, stop_threshold
        )
        self.history = ScoreHistory()

    def score_drift(self, signals: DriftSignals, *, exhausted: bool = False) -> DriftAssessment:
        """Return an assessment of a run by the signals that are known. Changes no state.

        `exhausted` says that its budget is used up.
        """
        parts = {name: _to_drift_share(name, getattr(signals, name)) for name in SIGNALS}
        known = {name: part for name, part in parts.items() if part is not None}
        total = sum(self.signal_weights[name] for name in known)
        weights = {name: self.signal_weights[name] / total for name in known} if total > 0 else {}
        contributions = {name: round(weights[name] * known[name], _ROUNDING_DIGITS) for name in weights}
        score = min(1.0, round(self.score(*parts.values()), _ROUNDING_DIGITS))
        assessment = DriftAssessment(
            overall_score=score,
            recommended_action=self.choose_action(score),
            severity=self._severity(score),
            contributions=contributions,
            weights={name: round(weight, 4) for name, weight in weights.items()},
            unknown={
                name: signals.reasons.get(name, "not given") for name, part in parts.items() if part is None
            },
        )
        return _explain(self._apply_overrides(assessment, known.get("loop_risk", 0.0), exhausted=exhausted))

    def score(self, *parts: float | None) -> float:
        """Return the weighted mean of the known parts, in the order of SIGNALS; 0 without any."""
        total = total_weight = 0.0
        for part, weight in zip(parts, self._weights, strict=True):
            if part is not None:
                total += part * weight
                total_weight += weight
        return total / total_weight if total_weight > 0 else 0.0

    def split_score(self, *parts: float | None) -> tuple[float | None, ...]:
        """Return what each known part contributes to the score, in the order of SIGNALS."""
        pairs = list(zip(parts, self._weights, strict=True))
        total = sum([weight for part, weight in pairs if part is not None])
        if total <= 0:
            return (None,) * len(parts)
        return tuple(
            [None if part is None else round(part * weight / total, _SPLIT_DIGITS) for part, weight in pairs]
        )

    def choose_action(self, score: float) -> DriftAction:
        """Return the action a score alone calls for."""
        for least, action in self._levels:
            if score >= least:
                return action
        return DriftAction.CONTINUE

    def record_drift(self, turn: int, drift_score: float) -> None:
        """Record the score of a turn, for the trend."""
        if _is_number(drift_score):
            self.history.add(turn, drift_score)

    def get_drift_trend(self, window: int = _TREND_TURNS) -> DriftTrend:
        """Return the trend of the last `window` recorded scores."""
        return self.history.trend(max(2, window))

    def get_sustained_score(self) -> float:
        """Return the score that the last three turns all reached: one unusual step alone does not count."""
        last = self.history.scores[-_SUSTAINED_TURNS:]
        return min(last) if len(last) == _SUSTAINED_TURNS else 0.0

    def is_rising(self) -> bool:
        """Return whether the recorded scores rise turn after turn, fast and ever faster."""
        last = self.history.scores[-_TREND_TURNS:]
        # One jump is no trend: a loop that is found raises the score at once, and gets its own response.
        if len(last) < _TREND_TURNS or any(later <= before for before, later in pairwise(last)):
            return False
        trend = self.history.trend(_TREND_TURNS)
        return trend.is_accelerating and trend.velocity > RISING_FROM

    def _apply_overrides(
        self, assessment: DriftAssessment, loop_risk: float, *, exhausted: bool
    ) -> DriftAssessment:
        action, reasons = assessment.recommended_action, []
        if action is not DriftAction.CONTINUE and self.is_rising():
            action = action.next_stronger()
            reasons.append("drift grows ever faster")
        certain = ""
        if loop_risk >= CRITICAL_FROM and action.level < DriftAction.CHECKPOINT_RESET.level:
            action, certain = DriftAction.CHECKPOINT_RESET, "a loop is certain"
        if exhausted:
            action, certain = DriftAction.ASK_USER, "the budget is used up"
        if certain:
            reasons.append(certain)
        return structs.replace(
            assessment,
            recommended_action=action,
            raised_by=tuple(reasons),
            certain=exhausted or loop_risk >= CRITICAL_FROM,
        )

    def _severity(self, score: float) -> DriftSeverity:
        if score >= self.checkpoint_threshold:
            return DriftSeverity.CRITICAL
        if score >= self.replan_threshold:
            return DriftSeverity.HIGH
        if score >= self.nudge_threshold:
            return DriftSeverity.MODERATE
        return DriftSeverity.LOW if score >= _LOW_FROM else DriftSeverity.NONE


def _explain(assessment: DriftAssessment) -> DriftAssessment:
    parts = sorted(assessment.contributions.items(), key=lambda part: -part[1])
    shares = [f"{SIGNAL_NAMES[name]} {part:.2f}" for name, part in parts if part > 0]
    text = f"Drift {assessment.overall_score:.2f}"
    text += f": {', '.join(shares)}." if shares else "."
    if assessment.unknown:
        reasons = [f"{SIGNAL_NAMES[name]} ({reason})" for name, reason in assessment.unknown.items()]
        text += f" Unknown, their weight shared out: {', '.join(reasons)}."
    if assessment.raised_by:
        text += f" The response is stronger because {' and '.join(assessment.raised_by)}."
    recommendation = RECOMMENDATIONS[assessment.recommended_action]
    return structs.replace(assessment, explanation=text, recommendation=recommendation)


def _to_drift_share(name: str, value: float | None) -> float | None:
    """Return a signal as a share of drift, 0 to 1; None for anything that is not a number."""
    if value is None or not _is_number(value):
        return None
    # The signal is signed: progress faster than spending is no drift, however fast.
    return min(1.0, max(0.0, -value if name == "budget_velocity" else value))


def _validate_thresholds(*thresholds: float) -> list[tuple[float, DriftAction]]:
    names = ("nudge_threshold", "replan_threshold", "checkpoint_threshold", "stop_threshold")
    for name, value in zip(names, thresholds, strict=True):
        if not _is_number(value) or not 0 < value <= 1:
            raise SettingsError(f"{name} must be above 0 and at most 1, got {value!r}.")
    if list(thresholds) != sorted(thresholds):
        raise SettingsError(f"{', '.join(names)} must not fall from one to the next, got {thresholds!r}.")
    return list(zip(thresholds, list(DriftAction)[1:], strict=True))[::-1]


def _validate_weights(weights: Mapping[str, float]) -> dict[str, float]:
    for name, weight in weights.items():
        if name not in WEIGHTS:
            raise SettingsError(f"signal_weights has no {name!r}. Signals: {', '.join(SIGNALS)}.")
        if not _is_number(weight) or weight < 0:
            raise SettingsError(f"signal_weights.{name} must be 0 or more, got {weight!r}.")
    return dict(weights)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
