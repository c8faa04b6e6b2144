"""Explain a label: which cues, words and circumstances spoke for and against a correction."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from steadyhelm.corrections.features import ReplyFeatures, score_cues
from steadyhelm.corrections.model import LinearModel

_CORRECTION: Final = "correction"
_MAX_REASONS: Final = 8
_MIN_WEIGHT: Final = 0.05
_CIRCUMSTANCES: Final = {
    "interrupted": "the agent was interrupted",
    "pasted errors": "an error was pasted",
    "agent asks": "the agent had asked",
    "agent offers": "the agent had made an offer",
    "reads like a report": "it reads like a review passed on",
    "image": "a picture was sent",
}


class ReplyCue(Struct, frozen=True, kw_only=True):
    """One reason for a label: its name, the words, and what it added to the log-odds of a correction."""

    name: str
    words: str
    weight: float


def explain_reply(features: ReplyFeatures, terms: Mapping[str, int], model: LinearModel) -> list[ReplyCue]:
    """Return the strongest reasons for (weight above zero) and against (below) a correction."""
    reasons = [
        *_explain_cues(features, model),
        *_explain_terms(terms, model),
        *_explain_circumstances(features, model),
    ]
    strong = [reason for reason in reasons if abs(reason.weight) >= _MIN_WEIGHT]
    return sorted(strong, key=lambda reason: (-abs(reason.weight), reason.name))[:_MAX_REASONS]


def _explain_cues(features: ReplyFeatures, model: LinearModel) -> list[ReplyCue]:
    """Return each cue with what the log-odds would lack without it."""
    whole = _sum_cue_scores(features, model, without="")
    return [
        ReplyCue(
            name=name,
            words=words,
            weight=whole
            - _sum_cue_scores(features, model, without=name)
            + model.get_weight(f"cue: {name}", _CORRECTION),
        )
        for name, words in features.cues.items()
    ]


def _sum_cue_scores(features: ReplyFeatures, model: LinearModel, *, without: str) -> float:
    scores = score_cues(
        (name for name in features.cues if name != without),
        (name for name in features.first_cues if name != without),
        len(features.message.words),
        is_report=features.numbers["reads like a report"] > 0,
    )
    return sum(model.get_weight(name, _CORRECTION) * value for name, value in scores.items())


def _explain_terms(terms: Mapping[str, int], model: LinearModel) -> list[ReplyCue]:
    weights = model.weigh_terms_for(terms, _CORRECTION)
    return [ReplyCue(name="word", words=term, weight=weight) for term, weight in weights.items()]


def _explain_circumstances(features: ReplyFeatures, model: LinearModel) -> list[ReplyCue]:
    return [
        ReplyCue(name=name, words=words, weight=model.get_weight(name, _CORRECTION) * features.numbers[name])
        for name, words in _CIRCUMSTANCES.items()
        if features.numbers[name] > 0
    ]
