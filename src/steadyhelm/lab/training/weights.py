"""Learn the weights that are shipped from labelled replies."""

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from steadyhelm.corrections.features import ReplyFeatures, extract_features
from steadyhelm.corrections.model import WEIGHTS_VERSION, CorrectionWeights, count_terms
from steadyhelm.lab.training.classifier_metrics import choose_approval_ratio, choose_drift_threshold
from steadyhelm.lab.training.fitting import (
    Example,
    Recipe,
    Shares,
    fit_calibrated,
    limit_to_one_thread,
    round_weights,
)
from steadyhelm.lab.training.labelled_replies import LabelledReply

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
