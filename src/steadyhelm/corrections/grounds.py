"""What spoke for and against a correction, in words."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from steadyhelm.corrections.cues import leanings
from steadyhelm.corrections.features import ReplyFeatures
from steadyhelm.corrections.model import LinearModel

_CORRECTION: Final = "correction"
_SHOWN: Final = 8
_FAINT: Final = 0.05
_CIRCUMSTANCES: Final = {
    "interrupted": "the agent was interrupted",
    "pasted errors": "an error was pasted",
    "agent asks": "the agent had asked",
    "agent offers": "the agent had made an offer",
    "reads like a report": "it reads like a review passed on",
    "image": "a picture was sent",
}


class ReplyCue(Struct, frozen=True, kw_only=True):
    """One thing that spoke: its name, the words, and what it added to the log-odds of a correction."""

    name: str
    words: str
    weight: float


def cues_of(features: ReplyFeatures, terms: Mapping[str, int], model: LinearModel) -> list[ReplyCue]:
    """The strongest of all that spoke for (above zero) or against (below) a correction."""
    spoken = [
        *_phrases(features, model),
        *_single_words(terms, model),
        *_circumstances(features, model),
    ]
    loud = [cue for cue in spoken if abs(cue.weight) >= _FAINT]
    return sorted(loud, key=lambda cue: (-abs(cue.weight), cue.name))[:_SHOWN]


def _phrases(features: ReplyFeatures, model: LinearModel) -> list[ReplyCue]:
    """Each cue with what the sum would lack without it."""
    whole = _leaning(features, model, without="")
    return [
        ReplyCue(
            name=name,
            words=words,
            weight=whole
            - _leaning(features, model, without=name)
            + model.weight(f"cue: {name}", _CORRECTION),
        )
        for name, words in features.found.items()
    ]


def _leaning(features: ReplyFeatures, model: LinearModel, *, without: str) -> float:
    numbers = leanings(
        (name for name in features.found if name != without),
        (name for name in features.first if name != without),
        len(features.reading.words),
        is_report=features.numbers["reads like a report"] > 0,
    )
    return sum(model.weight(name, _CORRECTION) * value for name, value in numbers.items())


def _single_words(terms: Mapping[str, int], model: LinearModel) -> list[ReplyCue]:
    pulls = model.pull(terms, _CORRECTION)
    return [ReplyCue(name="word", words=term, weight=pull) for term, pull in pulls.items()]


def _circumstances(features: ReplyFeatures, model: LinearModel) -> list[ReplyCue]:
    present = [name for name in _CIRCUMSTANCES if features.numbers[name] > 0]
    return [
        ReplyCue(
            name=name,
            words=_CIRCUMSTANCES[name],
            weight=model.weight(name, _CORRECTION) * features.numbers[name],
        )
        for name in present
    ]
