"""The learnt model: weights by name, summed to a probability for each class.

The shipped weights were learnt in the lab from real replies (`steadyhelm lab train`, which also writes the
file) and are read when they are first needed.
"""

import math
import pkgutil
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import compress, pairwise
from typing import Final

import msgspec
from msgspec import Struct

from steadyhelm.corrections.features import ReplyFeatures, score_cues
from steadyhelm.lazy_properties import lazy_property

WEIGHTS_FILE: Final = "weights.json"
WEIGHTS_VERSION: Final = 2
_TERM: Final = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?|[?!]")


class LinearModel(Struct, frozen=True, kw_only=True, dict=True):
    """A multinomial logistic regression: weights of numbers and of terms for each class, relative to `base`.

    A term's row has its rarity first, then its weights.
    """

    base: str
    classes: tuple[str, ...]
    intercepts: tuple[float, ...]
    numbers: dict[str, tuple[float, ...]]
    terms: dict[str, tuple[float, ...]] = {}

    def predict(
        self, numbers: Mapping[str, float], terms: Mapping[str, int] | None = None
    ) -> dict[str, float]:
        """Return the probability of each class; they sum to one.

        >>> model = LinearModel(base="no", classes=("yes",), intercepts=(0.0,), numbers={"loud": (2.0,)})
        >>> model.predict({"loud": 0.0})
        {'no': 0.5, 'yes': 0.5}
        """
        rows = self._find_rows(numbers, terms or {})
        sums = []
        for place, total in enumerate(self.intercepts):
            for row, value in rows:
                total += row[place] * value  # noqa: PLW2901 - from the intercept on
            sums.append(total)
        highest = max(0.0, *sums)
        parts = [math.exp(-highest), *(math.exp(one - highest) for one in sums)]
        whole = sum(parts)
        return {name: part / whole for name, part in zip((self.base, *self.classes), parts, strict=True)}

    def get_weight(self, name: str, target: str) -> float:
        """Return what one unit of a number adds to the log-odds of a class against the base."""
        row = self.numbers.get(name)
        return row[self.classes.index(target)] if row else 0.0

    def weigh_terms_for(self, terms: Mapping[str, int], target: str) -> dict[str, float]:
        """Return what each known term adds to the log-odds of a class against the base."""
        place = 1 + self.classes.index(target)
        return {term: self.terms[term][place] * value for term, value in self._weigh(terms).items()}

    def _find_rows(
        self, numbers: Mapping[str, float], terms: Mapping[str, int]
    ) -> list[tuple[tuple[float, ...], float]]:
        # Most numbers are 0. The others are added in the order of the weights: a sum depends on its order.
        known, places = self.numbers, self._places
        found = filter(places.__contains__, compress(numbers, numbers.values()))
        rows = [(known[name], numbers[name]) for name in sorted(found, key=places.__getitem__)]
        return rows + [(self.terms[term][1:], value) for term, value in self._weigh(terms).items()]

    @lazy_property
    def _places(self) -> dict[str, int]:
        """The place of each number in the order of the weights."""
        return {name: place for place, name in enumerate(self.numbers)}

    def _weigh(self, terms: Mapping[str, int]) -> dict[str, float]:
        return weigh_terms(terms, {term: self.terms[term][0] for term in terms if term in self.terms})


class CorrectionWeights(Struct, frozen=True, kw_only=True):
    """The model of replies, and the thresholds of the decisions.

    `drift_from` is the probability of a correction from which a reply counts as drift; `approval_from` how
    much more probable than a continuation an approval must be.
    `replies` and `projects` say how many were learnt from.
    """

    version: int
    replies: int
    projects: int
    drift_from: float
    approval_from: float
    reply: LinearModel


@cache
def load_weights() -> CorrectionWeights:
    """Return the weights in this package. Reads the file once."""
    data = pkgutil.get_data("steadyhelm.corrections", WEIGHTS_FILE)
    return msgspec.json.decode(data or b"", type=CorrectionWeights)


def count_terms(text: str) -> Counter[str]:
    """Count words, pairs of neighbours, and the first word of a text in lower case.

    >>> sorted(count_terms("not this one"))
    ['^ not', 'not', 'not this', 'one', 'this', 'this one']
    """
    words = _TERM.findall(text)
    pairs = (f"{one} {two}" for one, two in pairwise(words))
    return Counter([*words, *pairs, *(f"^ {word}" for word in words[:1])])


def weigh_terms(terms: Mapping[str, int], rarity: Mapping[str, float]) -> dict[str, float]:
    """Return the known terms weighted by their rarity and scaled to length one.

    >>> weigh_terms({"still": 1, "unheard": 1}, {"still": 2.0})
    {'still': 1.0}
    """
    raw = {term: (1 + math.log(count)) * rarity[term] for term, count in terms.items() if term in rarity}
    length = math.sqrt(sum(value * value for value in raw.values()))
    return {term: value / length for term, value in raw.items()} if length else {}


def compute_rarities(texts: Iterable[Mapping[str, int]], known: Iterable[str]) -> dict[str, float]:
    """Return how rare each known term is in these texts."""
    documents = list(texts)
    counts = Counter(term for terms in documents for term in terms)
    return {term: math.log(len(documents) / counts[term]) + 1 for term in known if counts[term]}


# Explain a label: which cues, words and circumstances spoke for and against a correction.

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
