"""From labelled replies to the weights that are shipped."""

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from steadyhelm.corrections.features import ReplyFeatures, extract_features
from steadyhelm.corrections.forecast import extract_forecast_features
from steadyhelm.corrections.model import WEIGHTS_VERSION, CorrectionWeights, count_terms
from steadyhelm.lab.training.calibration import Shares, fit_calibrated
from steadyhelm.lab.training.fit import Example, Recipe, rounded
from steadyhelm.lab.training.outlook import Turn, learn_outlook
from steadyhelm.lab.training.replies import LabelledReply
from steadyhelm.lab.training.thresholds import best_approval_ratio, best_drift_threshold

REPLY: Final = Recipe(
    strength=0.001,
    trusted=("cue score", "agreement score"),
    trust=4.0,
    term_weight=16.0,
    term_owners=3,
    term_texts=4,
)


class Prepared(NamedTuple):
    """A reply, read once: what the classifier sees, and what could be seen before the reply was there."""

    reply: LabelledReply
    features: ReplyFeatures
    terms: Counter[str]
    outlook: dict[str, float]


def prepare(replies: Sequence[LabelledReply]) -> list[Prepared]:
    """Read every reply as the shipped functions would."""
    return [_prepared(reply) for reply in replies]


def learn(cases: Sequence[Prepared]) -> CorrectionWeights:
    """Both models and their thresholds from these cases alone."""
    reply = fit_calibrated([_as_reply(case) for case in cases], REPLY)
    drift_from = best_drift_threshold(
        [case.reply.is_drift for case in cases], [shares["correction"] for shares in reply.kept_back]
    )
    return CorrectionWeights(
        version=WEIGHTS_VERSION,
        replies=len(cases),
        projects=len({case.reply.repo for case in cases}),
        drift_from=drift_from,
        approval_from=best_approval_ratio(
            [case.reply.labels.primary for case in cases],
            lambda ratio: [_decided(shares, drift_from, ratio) for shares in reply.kept_back],
        ),
        reply=rounded(reply.model),
        forecast=rounded(learn_outlook([_as_turn(case) for case in cases])),
    )


def _prepared(reply: LabelledReply) -> Prepared:
    features = extract_features(
        reply.reply,
        assistant_before=reply.assistant_before,
        prompt_before=reply.prompt_before,
        interrupted=reply.interrupted,
        tool_calls=reply.tool_calls_since_prompt,
        tool_errors=reply.tool_errors_since_prompt,
        turn=reply.turn,
    )
    outlook = extract_forecast_features(
        prompt_before=reply.prompt_before,
        assistant_before=reply.assistant_before,
        tool_calls=reply.tool_calls_since_prompt,
        tool_errors=reply.tool_errors_since_prompt,
        turn=reply.turn,
    )
    return Prepared(reply, features, count_terms(features.message.head), outlook)


def _as_reply(case: Prepared) -> Example:
    reply = case.reply
    return Example(case.features.numbers, case.terms, reply.learnt_as, reply.session, reply.owner)


def _as_turn(case: Prepared) -> Turn:
    return Turn(case.outlook, case.reply.is_drift, case.reply.session)


def _decided(shares: Shares, drift_from: float, approval_from: float) -> str:
    if shares["correction"] >= drift_from:
        return "correction_substance"
    is_approval = shares["approval"] >= approval_from * shares["continuation"]
    return "approval" if is_approval else "continuation"
