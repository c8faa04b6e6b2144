"""Learn a small linear model with scikit-learn, and hand it over as plain weights."""

import importlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from msgspec import Struct

from steadyhelm.corrections.model import LinearModel, compute_rarities, weigh_terms
from steadyhelm.errors import MissingExtraError
from steadyhelm.lab.training.replies import CLASSES

_STEPS: Final = 5_000


class Example(NamedTuple):
    """One case to learn from; `group` is what it may depend on, `owner` whose project it is from."""

    numbers: dict[str, float]
    terms: Mapping[str, int]
    learnt_as: str
    group: str
    owner: str


class Recipe(Struct, frozen=True, kw_only=True):
    """How strongly weights are held down.

    `strength` is scikit-learn's C: small, because what is learnt from one project must hold in another.
    `trusted` numbers, our own sums of cues, are held down less than the rest, by the factor `trust`.
    A term counts only if several owners' projects use it: a project's own words tell nothing elsewhere.
    """

    strength: float
    trusted: tuple[str, ...] = ()
    trust: float = 1.0
    term_weight: float = 0.0
    term_owners: int = 3
    term_texts: int = 4


def scikit(module: str) -> Any:
    """A module of scikit-learn, or of what it brings along."""
    try:
        return importlib.import_module(module)
    except ImportError as exc:
        raise MissingExtraError("training of the reply classifier", extra="lab") from exc


def fit(examples: Sequence[Example], recipe: Recipe) -> LinearModel:
    """Learn the classes from examples; every class counts the same, however rare it is."""
    numpy, linear = scikit("numpy"), scikit("sklearn.linear_model")
    names = list(examples[0].numbers)
    raw = numpy.array([[example.numbers[name] for name in names] for example in examples])
    means, spreads = raw.mean(axis=0), raw.std(axis=0)
    spreads[spreads == 0] = 1.0
    trust = numpy.array([recipe.trust if name.startswith(recipe.trusted or "\0") else 1.0 for name in names])
    rarity = _known_terms(examples, recipe)
    columns = numpy.hstack(
        [(raw - means) / spreads * trust, recipe.term_weight * _term_rows(examples, rarity)]
    )
    learner = linear.LogisticRegression(C=recipe.strength, class_weight="balanced", max_iter=_STEPS)
    learner.fit(columns, [example.learnt_as for example in examples])
    order = [list(learner.classes_).index(name) for name in CLASSES]
    weights = learner.coef_[order[1:]] - learner.coef_[order[0]]
    shift = learner.intercept_[order[1:]] - learner.intercept_[order[0]]
    of_numbers = weights[:, : len(names)] * trust / spreads
    of_terms = weights[:, len(names) :] * recipe.term_weight
    return LinearModel(
        base=CLASSES[0],
        classes=CLASSES[1:],
        intercepts=tuple((shift - of_numbers @ means).tolist()),
        numbers={name: tuple(of_numbers[:, place].tolist()) for place, name in enumerate(names)},
        terms={
            term: (rarity[term], *of_terms[:, place].tolist()) for place, term in enumerate(sorted(rarity))
        },
    )


def rounded(model: LinearModel, digits: int = 4) -> LinearModel:
    """The model with short numbers, for a small file."""
    return LinearModel(
        base=model.base,
        classes=model.classes,
        intercepts=_short(model.intercepts, digits),
        numbers={name: _short(row, digits) for name, row in model.numbers.items()},
        terms={term: _short(row, digits) for term, row in model.terms.items()},
    )


def _known_terms(examples: Sequence[Example], recipe: Recipe) -> dict[str, float]:
    if not recipe.term_weight:
        return {}
    owners: dict[str, set[str]] = defaultdict(set)
    texts: dict[str, int] = defaultdict(int)
    for example in examples:
        for term in example.terms:
            owners[term].add(example.owner)
            texts[term] += 1
    known = [
        term
        for term, times in texts.items()
        if times >= recipe.term_texts and len(owners[term]) >= recipe.term_owners
    ]
    return compute_rarities((example.terms for example in examples), known)


def _term_rows(examples: Sequence[Example], rarity: Mapping[str, float]) -> Any:
    place = {term: column for column, term in enumerate(sorted(rarity))}
    rows = scikit("numpy").zeros((len(examples), len(place)))
    for number, example in enumerate(examples):
        for term, value in weigh_terms(example.terms, rarity).items():
            rows[number, place[term]] = value
    return rows


def _short(values: Iterable[float], digits: int) -> tuple[float, ...]:
    return tuple(round(value, digits) for value in values)
