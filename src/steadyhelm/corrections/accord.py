"""How far a reply reads as a plain yes: agreement, thanks, a choice among what was offered."""

import re
from collections.abc import Mapping
from typing import Final

from steadyhelm.corrections.before import Before
from steadyhelm.corrections.reading import Reading

_AGREES: Final = re.compile(
    r"\b(?:as (?:you )?(?:suggest|propos|recommend|plann|discuss|describ)\w*|your (?:suggestion|proposal"
    r"|recommendation|plan|idea|call|pick)s?|sounds? (?:good|great|right|like a plan|perfect|fine)"
    r"|i agree|agreed|makes sense|go(?:ing)? (?:with|for)|works for me|fine (?:by|with) me|(?:good"
    r"|great) (?:plan|idea|call|point|catch|way|job|work)|i like|love (?:it|that|this)|that'?s (?:it"
    r"|right|correct|exactly|great|perfect|good|the (?:one|idea|plan))|exactly (?:right|that|so|what i)"
    r"|is fine|approved?|that works|perfect|well done|there (?:it is|you go)|(?:let'?s|please|i'd) (?:do"
    r"|go with|try|take|use) (?:that|this|it|so|both|all)|it works|works now|working now|looks? (?:good"
    r"|great|right|correct|better)|öneri\w*|evet|devam ed\w+|tamam|einverstanden|d'accord|de acuerdo"
    r"|согласен)\b|^\W*(?:\w+\W+)?exactly\b"
)
_ADDS: Final = re.compile(
    r"\b(?:and (?:also|then|can|could|please|make|add|let|do|after|use|i|we)|also|but|then|except|instead"
    r"|however|though|additionally|plus|after that|afterwards?|while|as well|one more|first)\b|[,;] (?:and"
    r"|can|could|make|add|use|then|let'?s|update)\b"
)
_ORDERS: Final = ("orders", "ships", "orders a fix", "let us", "remove")
_MOST: Final = 4.0
_MOSTLY: Final = 0.6
_WORD_OR_TWO, _PHRASE, _SENTENCE, _PARAGRAPH = 3, 8, 15, 30
"""How many words each has at most."""


def accord(
    found: Mapping[str, str],
    first: Mapping[str, str],
    shape: Mapping[str, float],
    reading: Reading,
    before: Before,
) -> dict[str, float]:
    """The features of agreement.

    "reads as yes" is a sum of our own making, as with the cues: a yes, a word of agreement or a choice speaks
    for it; a question, an addition, a paste or new matter against it; an order is a yes only as far as it
    repeats the offer.
    """
    agrees, adds = bool(_AGREES.search(reading.head)), bool(_ADDS.search(reading.head))
    score = _signs(found, reading, before, agrees=agrees) + _length(len(reading.words)) - 0.7 * adds
    score += _order(found, shape, before) + 0.8 * _echoes(shape, reading, before)
    score -= 1.2 * min(1.0, shape["question marks"]) + 0.5 * shape["pasted any"]
    score -= 0.3 * max(0.0, shape["leans first"])
    score -= min(3.0, shape["new to the tail"]) * (0.2 if "opens with yes" in found else 0.12)
    bounded = max(-_MOST, min(_MOST, score))
    yes = float("opens with yes" in found)
    return {
        "reads as yes": bounded,
        "reads as yes at all": max(0.0, bounded),
        "agrees": float(agrees),
        "adds something": float(adds),
        "yes and more": yes * float(adds),
        "let us first": float("let us" in first),
    }


def _signs(found: Mapping[str, str], reading: Reading, before: Before, *, agrees: bool) -> float:
    few = len(reading.words)
    score = 0.9 * agrees + 0.5 * before.expects_answer + 0.4 * ("praise" in found)
    if "opens with yes" in found:
        score += 1.5 if few <= _PHRASE else 0.9
    if "picks an option" in found:
        score += (1.4 if before.options or before.which else 0.4) * (1.0 if few <= _SENTENCE else 0.5)
    if "goes on" in found:
        score += 0.8 if before.expects_answer else -0.6
    if "opens with a question" in found:
        score -= 0.8
    return score


def _length(words: int) -> float:
    return (
        0.4 * (words <= _WORD_OR_TWO)
        + 0.2 * (words <= _PHRASE)
        - 0.5 * (words > _SENTENCE)
        - 0.6 * (words > _PARAGRAPH)
    )


def _order(found: Mapping[str, str], shape: Mapping[str, float], before: Before) -> float:
    if not any(name in found for name in _ORDERS):
        return 0.0
    return 1.6 * shape["from the tail"] - 0.5 if before.expects_answer else -0.9


def _echoes(shape: Mapping[str, float], reading: Reading, before: Before) -> bool:
    """Whether a few words answer the agent mostly in its own."""
    return before.expects_answer and len(reading.words) <= _PHRASE and shape["from the tail"] >= _MOSTLY
