"""Fit small linear models with scikit-learn, and learn the weights that are shipped from labelled replies."""

import importlib
import math
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from msgspec import Struct

from steadyhelm.corrections.features import ReplyFeatures, extract_features
from steadyhelm.corrections.model import (
    WEIGHTS_VERSION,
    CorrectionWeights,
    LinearModel,
    compute_rarities,
    count_terms,
    weigh_terms,
)
from steadyhelm.errors import MissingExtraError
from steadyhelm.lab.training.classifier_metrics import choose_approval_ratio, choose_drift_threshold
from steadyhelm.lab.training.labelled_replies import CLASSES, LabelledReply

_MAX_STEPS: Final = 5_000
_CALIBRATION_FOLDS: Final = 5
_SMALLEST_SHARE: Final = 1e-9
Shares = dict[str, float]


class Example(NamedTuple):
    """One case to learn from; `group` is what it may depend on, `owner` the owner of its project."""

    numbers: dict[str, float]
    terms: Mapping[str, int]
    learnt_as: str
    group: str
    owner: str


class Recipe(Struct, frozen=True, kw_only=True):
    """How strongly weights are regularised.

    `strength` is scikit-learn's C: small, because what is learnt from one project must hold in another.
    `trusted` numbers, our own sums of cues, are regularised less than the rest, by the factor `trust`.
    A term counts only if several owners' projects use it: a project's own words mean nothing elsewhere.
    """

    strength: float
    trusted: tuple[str, ...] = ()
    trust: float = 1.0
    term_weight: float = 0.0
    term_owners: int = 3
    term_texts: int = 4


class Fold(NamedTuple):
    """The places of the replies to learn from and of those held out."""

    learn: list[int]
    keep: list[int]


class CalibratedModel(NamedTuple):
    """A model with calibrated shares, and the shares each example got while it was held out."""

    model: LinearModel
    held_out: list[Shares]


def import_scikit(module: str) -> Any:
    """Return a module of scikit-learn or of its dependencies; raise MissingExtraError without them."""
    try:
        return importlib.import_module(module)
    except ImportError as exc:
        raise MissingExtraError("training of the reply classifier", extra="lab") from exc


@contextmanager
def limit_to_one_thread() -> Iterator[None]:
    """Run the numeric libraries on one thread.

    The matrices are small: more threads only wait for each other, for minutes on a busy machine.
    """
    # A library that is loaded later would not be limited.
    import_scikit("sklearn.linear_model")
    with import_scikit("threadpoolctl").threadpool_limits(1):
        yield


def fit(examples: Sequence[Example], recipe: Recipe) -> LinearModel:
    """Learn the classes from examples; every class has the same weight, however rare it is."""
    numpy, linear = import_scikit("numpy"), import_scikit("sklearn.linear_model")
    names = list(examples[0].numbers)
    raw = numpy.array([[example.numbers[name] for name in names] for example in examples])
    means, spreads = raw.mean(axis=0), raw.std(axis=0)
    spreads[spreads == 0] = 1.0
    trust = numpy.array([recipe.trust if name.startswith(recipe.trusted or "\0") else 1.0 for name in names])
    rarity = _select_terms(examples, recipe)
    columns = numpy.hstack(
        [(raw - means) / spreads * trust, recipe.term_weight * _build_term_rows(examples, rarity)]
    )
    learner = linear.LogisticRegression(C=recipe.strength, class_weight="balanced", max_iter=_MAX_STEPS)
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


def round_weights(model: LinearModel, digits: int = 4) -> LinearModel:
    """Return the model with short numbers, for a small file."""
    return LinearModel(
        base=model.base,
        classes=model.classes,
        intercepts=_round_all(model.intercepts, digits),
        numbers={name: _round_all(row, digits) for name, row in model.numbers.items()},
        terms={term: _round_all(row, digits) for term, row in model.terms.items()},
    )


def _select_terms(examples: Sequence[Example], recipe: Recipe) -> dict[str, float]:
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


def _build_term_rows(examples: Sequence[Example], rarity: Mapping[str, float]) -> Any:
    place = {term: column for column, term in enumerate(sorted(rarity))}
    rows = import_scikit("numpy").zeros((len(examples), len(place)))
    for number, example in enumerate(examples):
        for term, value in weigh_terms(example.terms, rarity).items():
            rows[number, place[term]] = value
    return rows


def _round_all(values: Iterable[float], digits: int) -> tuple[float, ...]:
    return tuple(round(value, digits) for value in values)


def make_folds(groups: Sequence[str], parts: int | None = None) -> list[Fold]:
    """Return folds that keep groups together, always the same; without `parts` each group is held out alone.

    >>> [fold.keep for fold in make_folds(["a", "b", "a"])]
    [[1], [0, 2]]
    """
    names = sorted(set(groups), key=lambda name: (zlib.crc32(name.encode("utf-8", "replace")), name))
    count = len(names) if parts is None else min(parts, len(names))
    part = {name: place % count for place, name in enumerate(names)}
    return [_make_fold(groups, part, kept) for kept in range(count)]


def _make_fold(groups: Sequence[str], part: dict[str, int], kept: int) -> Fold:
    learn = [place for place, name in enumerate(groups) if part[name] != kept]
    keep = [place for place, name in enumerate(groups) if part[name] == kept]
    return Fold(learn, keep)


def fit_calibrated(examples: Sequence[Example], recipe: Recipe) -> CalibratedModel:
    """Learn, and correct the shares by how they turned out for groups that were held out."""
    odds = _measure_held_out_odds(examples, recipe)
    learner = import_scikit("sklearn.linear_model").LogisticRegression(max_iter=1_000)
    learner.fit(odds, [example.learnt_as for example in examples])
    order = [list(learner.classes_).index(name) for name in CLASSES]
    turn = learner.coef_[order[1:]] - learner.coef_[order[0]]
    shift = learner.intercept_[order[1:]] - learner.intercept_[order[0]]
    shares = learner.predict_proba(odds)[:, order].tolist()
    held_out = [dict(zip(CLASSES, row, strict=True)) for row in shares]
    return CalibratedModel(_apply_calibration(fit(examples, recipe), turn, shift), held_out)


def _measure_held_out_odds(examples: Sequence[Example], recipe: Recipe) -> list[list[float]]:
    odds: list[list[float]] = [[] for _ in examples]
    for fold in make_folds([example.group for example in examples], _CALIBRATION_FOLDS):
        model = fit([examples[place] for place in fold.learn], recipe)
        for place in fold.keep:
            shares = model.predict(examples[place].numbers, examples[place].terms)
            odds[place] = [
                math.log(max(shares[name], _SMALLEST_SHARE) / max(shares[CLASSES[0]], _SMALLEST_SHARE))
                for name in CLASSES[1:]
            ]
    return odds


def _apply_calibration(model: LinearModel, turn: Any, shift: Any) -> LinearModel:
    """Return the same model with the correction worked into its weights."""

    def row(values: Sequence[float]) -> tuple[float, ...]:
        return tuple((turn @ import_scikit("numpy").array(values)).tolist())

    return LinearModel(
        base=model.base,
        classes=model.classes,
        intercepts=tuple((turn @ import_scikit("numpy").array(model.intercepts) + shift).tolist()),
        numbers={name: row(values) for name, values in model.numbers.items()},
        terms={term: (values[0], *row(values[1:])) for term, values in model.terms.items()},
    )


REPLY_RECIPE: Final = Recipe(
    strength=0.001,
    trusted=("cue score", "agreement score"),
    trust=8.0,
    term_weight=16.0,
    term_owners=3,
    term_texts=4,
)


class PreparedReply(NamedTuple):
    """A reply, read once: what the classifier sees."""

    reply: LabelledReply
    features: ReplyFeatures
    terms: Counter[str]


def prepare(replies: Sequence[LabelledReply]) -> list[PreparedReply]:
    """Read every reply as the shipped functions would."""
    return [_prepare_reply(reply) for reply in replies]


@limit_to_one_thread()
def learn_weights(cases: Sequence[PreparedReply]) -> CorrectionWeights:
    """Return the model and its thresholds from these cases alone."""
    reply = fit_calibrated([_make_example(case) for case in cases], REPLY_RECIPE)
    drift_from = choose_drift_threshold(
        [case.reply.is_drift for case in cases], [shares["correction"] for shares in reply.held_out]
    )
    return CorrectionWeights(
        version=WEIGHTS_VERSION,
        replies=len(cases),
        projects=len({case.reply.repo for case in cases}),
        drift_from=drift_from,
        approval_from=choose_approval_ratio(
            [case.reply.labels.primary for case in cases],
            lambda ratio: [_decide_kind(shares, drift_from, ratio) for shares in reply.held_out],
        ),
        reply=round_weights(reply.model),
    )


def _prepare_reply(reply: LabelledReply) -> PreparedReply:
    features = extract_features(
        reply.reply,
        assistant_before=reply.assistant_before,
        prompt_before=reply.prompt_before,
        interrupted=reply.interrupted,
        tool_calls=reply.tool_calls_since_prompt,
        tool_errors=reply.tool_errors_since_prompt,
        turn=reply.turn,
    )
    return PreparedReply(reply, features, count_terms(features.message.head))


def _make_example(case: PreparedReply) -> Example:
    reply = case.reply
    return Example(case.features.numbers, case.terms, reply.learnt_as, reply.session, reply.owner)


def _decide_kind(shares: Shares, drift_from: float, approval_from: float) -> str:
    if shares["correction"] >= drift_from:
        return "correction_substance"
    is_approval = shares["approval"] >= approval_from * shares["continuation"]
    return "approval" if is_approval else "continuation"
