"""Learn the weights that are shipped from labelled replies."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from steadyhelm.corrections.features import ReplyFeatures, extract_features
from steadyhelm.corrections.forecast import FEATURE_GROUPS, extract_forecast_features
from steadyhelm.corrections.model import WEIGHTS_VERSION, CorrectionWeights, LinearModel, count_terms
from steadyhelm.lab.training.classifier_metrics import choose_approval_ratio, choose_drift_threshold
from steadyhelm.lab.training.fitting import (
    Example,
    Recipe,
    Shares,
    fit_calibrated,
    import_scikit,
    limit_to_one_thread,
    make_folds,
    round_weights,
)
from steadyhelm.lab.training.labelled_replies import LabelledReply

REPLY_RECIPE: Final = Recipe(
    strength=0.001,
    trusted=("cue score", "agreement score"),
    trust=4.0,
    term_weight=16.0,
    term_owners=3,
    term_texts=4,
)
_FORECAST_FOLDS: Final = 5
_HALF_WEIGHT_ERRORS: Final = 1.0
"""At this many standard errors from no connection a number has half its voice."""


class PreparedReply(NamedTuple):
    """A reply, read once: what the classifier sees, and what could be seen before the reply."""

    reply: LabelledReply
    features: ReplyFeatures
    terms: Counter[str]
    forecast_features: dict[str, float]


class TurnExample(NamedTuple):
    """One end of a turn to learn from; `session` is what it may depend on."""

    numbers: dict[str, float]
    corrected: bool
    session: str


class _WeightedSum(NamedTuple):
    """Weights of the numbers, and what is added to their sum."""

    weights: Any
    shift: float


def prepare(replies: Sequence[LabelledReply]) -> list[PreparedReply]:
    """Read every reply as the shipped functions would."""
    return [_prepare_reply(reply) for reply in replies]


@limit_to_one_thread()
def learn_weights(cases: Sequence[PreparedReply]) -> CorrectionWeights:
    """Return both models and their thresholds from these cases alone."""
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
        forecast=round_weights(learn_forecast([_make_turn_example(case) for case in cases])),
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
    forecast_features = extract_forecast_features(
        prompt_before=reply.prompt_before,
        assistant_before=reply.assistant_before,
        tool_calls=reply.tool_calls_since_prompt,
        tool_errors=reply.tool_errors_since_prompt,
        turn=reply.turn,
    )
    return PreparedReply(reply, features, count_terms(features.message.head), forecast_features)


def _make_example(case: PreparedReply) -> Example:
    reply = case.reply
    return Example(case.features.numbers, case.terms, reply.learnt_as, reply.session, reply.owner)


def _make_turn_example(case: PreparedReply) -> TurnExample:
    return TurnExample(case.forecast_features, case.reply.is_drift, case.reply.session)


def _decide_kind(shares: Shares, drift_from: float, approval_from: float) -> str:
    if shares["correction"] >= drift_from:
        return "correction_substance"
    is_approval = shares["approval"] >= approval_from * shares["continuation"]
    return "approval" if is_approval else "continuation"


@limit_to_one_thread()
def learn_forecast(turns: Sequence[TurnExample]) -> LinearModel:
    """Return a model whose probabilities held for sessions that were held out."""
    numpy, linear = import_scikit("numpy"), import_scikit("sklearn.linear_model")
    names = list(turns[0].numbers)
    rows = numpy.array([[turn.numbers[name] for name in names] for turn in turns])
    corrected = numpy.array([float(turn.corrected) for turn in turns])
    sharing = numpy.array([_count_sharing(name) for name in names])
    sums = numpy.zeros(len(turns))
    for fold in make_folds([turn.session for turn in turns], _FORECAST_FOLDS):
        part = _measure_directions(rows[fold.learn], corrected[fold.learn], sharing)
        sums[fold.keep] = rows[fold.keep] @ part.weights + part.shift
    scale = linear.LogisticRegression().fit(sums[:, None], corrected)
    slope, base = float(scale.coef_[0, 0]), float(scale.intercept_[0])
    whole = _measure_directions(rows, corrected, sharing)
    return LinearModel(
        base="no correction",
        classes=("correction",),
        intercepts=(base + slope * whole.shift,),
        numbers={name: (slope * float(weight),) for name, weight in zip(names, whole.weights, strict=True)},
    )


def _measure_directions(rows: Any, corrected: Any, sharing: Any) -> _WeightedSum:
    """Return a weight for each number: near one or minus one where its direction is sure, else near 0."""
    means, spreads = rows.mean(axis=0), rows.std(axis=0)
    spreads[spreads == 0] = 1.0
    apart = (corrected - corrected.mean()) / (corrected.std() or 1.0)
    errors_off = ((rows - means) / spreads).T @ apart / math.sqrt(len(rows))
    weights = errors_off / (_HALF_WEIGHT_ERRORS + abs(errors_off)) / sharing / spreads
    return _WeightedSum(weights, -float(weights @ means))


def _count_sharing(name: str) -> int:
    """Return how many numbers share the weight this one has."""
    return next((len(group) for group in FEATURE_GROUPS if name in group), 1)
