"""Where the rules are unsure, so that a judge is asked."""

from typing import Final

from steadyhelm.corrections.reply_classifier import ReplyLabel

REPLY_BAND: Final = (0.18, 0.8)
"""Probabilities of a correction between which the classifier is unsure: three in ten messages at most.

Chosen on labelled replies whose project the weights had not seen: .27 of them are in the band.
"""


def is_reply_uncertain(label: ReplyLabel) -> bool:
    """Return whether the classifier cannot tell if a message is a correction."""
    low, high = REPLY_BAND
    return low <= label.drift <= high
