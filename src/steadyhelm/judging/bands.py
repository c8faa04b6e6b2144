"""Where the rules are unsure, so that a judge is asked."""

from typing import Final

from steadyhelm.corrections.reply_classifier import ReplyLabel

REPLY_BAND: Final = (0.18, 0.8)
"""Probabilities of a correction between which the classifier is unsure: three in ten messages at most.

Chosen on labelled replies whose project the weights had not seen: .26 of them are asked about.
"""

ANSWER_BAND_FROM: Final = 0.3
"""The lowest one for an answer to an agent that did nothing but ask: few of them correct anything."""


def is_reply_uncertain(label: ReplyLabel, *, is_answer: bool = False) -> bool:
    """Return whether the classifier cannot tell if a message is a correction."""
    low, high = REPLY_BAND
    return (ANSWER_BAND_FROM if is_answer else low) <= label.drift <= high
