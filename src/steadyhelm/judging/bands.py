"""Where the rules are unsure, so that a judge is asked."""

from typing import Final

from steadyhelm.corrections.reply_classifier import ReplyLabel

REPLY_BAND: Final = (0.18, 0.8)
"""Probabilities of a correction between which the classifier is unsure: three in ten messages at most.

Chosen on labelled replies whose project the weights had not seen: .27 of them are in the band.
"""

GOAL_BAND_FROM: Final = 0.6
"""Goal drift from which steps may have left the goal, below what is reported."""

GOAL_STEPS_PER_QUESTION: Final = 25
MAX_GOAL_QUESTIONS: Final = 2
"""Questions about the goal in one run."""


def is_reply_uncertain(label: ReplyLabel) -> bool:
    """Return whether the classifier cannot tell if a message is a correction."""
    low, high = REPLY_BAND
    return low <= label.drift <= high


def is_goal_uncertain(level: float | None, reason_not_checked: str | None) -> bool:
    """Return whether the drift from the goal is in its uncertain band, or was not checked."""
    return reason_not_checked is not None or (level is not None and level >= GOAL_BAND_FROM)
