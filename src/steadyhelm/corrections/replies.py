"""What a user's reply says about the turn before it."""

from typing import Final, Literal

from msgspec import Struct

from steadyhelm.corrections.contentment import is_content
from steadyhelm.corrections.features import ReplyFeatures, features_of
from steadyhelm.corrections.grounds import ReplyCue, cues_of
from steadyhelm.corrections.manner import Manner, manner_of
from steadyhelm.corrections.terms import terms_of
from steadyhelm.corrections.weights import Weights, shipped

ReplyKind = Literal[
    "correction_style", "correction_substance", "frustration", "approval", "continuation", "new_task"
]
_CORRECTIONS: Final[tuple[ReplyKind, ...]] = ("correction_substance", "correction_style", "frustration")
_CONTENT: Final = 0.15
"""How probable a correction is at most when its words are plainly no objection."""
_NEW_TASK, _SOME_NEW_TASK = 0.6, 0.02
_LITTLE_IN_COMMON: Final = 0.2


class ReplyLabel(Struct, frozen=True, kw_only=True):
    """What a reply is.

    `probabilities` has all six kinds and sums to one; `drift` is the part of the three corrections,
    `is_drift` whether it reaches the shipped threshold, and `primary` the kind: a correction exactly when
    `is_drift`.
    `cues` says what spoke for and against a correction, the strongest first.
    Style, frustration and new tasks are told apart by rules, not learnt: the data has too few of them.
    """

    primary: ReplyKind
    probabilities: dict[ReplyKind, float]
    drift: float
    is_drift: bool
    cues: list[ReplyCue]


def classify_user_reply(
    reply: str,
    *,
    assistant_before: str = "",
    prompt_before: str = "",
    interrupted: bool = False,
    tool_calls: int = 0,
    tool_errors: int = 0,
    turn: int = 0,
) -> ReplyLabel:
    """Say what a user's reply means for the work it answers.

    The beginning of the reply and of the prompt and the end of the agent's message are looked at.
    `turn` is the number of the reply among the user's messages: those sent before it, and one.

    >>> classify_user_reply("no, that is still broken", assistant_before="Fixed.").primary
    'correction_substance'
    >>> classify_user_reply("yes please", assistant_before="Shall I commit?").primary
    'approval'
    """
    features = features_of(
        reply,
        assistant_before=assistant_before,
        prompt_before=prompt_before,
        interrupted=interrupted,
        tool_calls=tool_calls,
        tool_errors=tool_errors,
        turn=turn,
    )
    return label_of(features, shipped())


def label_of(features: ReplyFeatures, weights: Weights) -> ReplyLabel:
    """The label of a reply that was read already, by weights that need not be the shipped ones."""
    terms = terms_of(features.reading.head)
    shares = weights.reply.shares(features.numbers, terms)
    manner = manner_of(features.reading)
    if _is_content(features, manner):
        shares, manner = _held(shares, min(_CONTENT, shares["correction"])), Manner()
    else:
        shares = _held(shares, max(manner.least, shares["correction"]))
    probabilities = _six(shares, manner, features)
    drift = sum(probabilities[kind] for kind in _CORRECTIONS)
    is_drift = drift >= weights.drift_from
    return ReplyLabel(
        primary=_primary(probabilities, weights, is_drift=is_drift),
        probabilities=probabilities,
        drift=drift,
        is_drift=is_drift,
        cues=cues_of(features, terms, weights.reply),
    )


def _six(shares: dict[str, float], manner: Manner, features: ReplyFeatures) -> dict[ReplyKind, float]:
    correction, new_task = shares["correction"], _new_task_share(features)
    return {
        "correction_style": correction * manner.style,
        "correction_substance": correction * (1 - manner.style - manner.frustration),
        "frustration": correction * manner.frustration,
        "approval": shares["approval"],
        "continuation": shares["continuation"] * (1 - new_task),
        "new_task": shares["continuation"] * new_task,
    }


def _new_task_share(features: ReplyFeatures) -> float:
    """Another task is one that says so, and has little in common with what was asked and said before."""
    numbers = features.numbers
    common = max(numbers["from the agent"], numbers["from the prompt"])
    says_so = "another topic" in features.first and common <= _LITTLE_IN_COMMON
    return _NEW_TASK if says_so else _SOME_NEW_TASK


def _primary(probabilities: dict[ReplyKind, float], weights: Weights, *, is_drift: bool) -> ReplyKind:
    if is_drift:
        return max(_CORRECTIONS, key=lambda kind: probabilities[kind])
    going_on = probabilities["continuation"] + probabilities["new_task"]
    if probabilities["approval"] >= weights.approval_from * going_on:
        return "approval"
    return "continuation" if probabilities["continuation"] >= probabilities["new_task"] else "new_task"


def _is_content(features: ReplyFeatures, manner: Manner) -> bool:
    return is_content(
        features.reading,
        features.found,
        features.before,
        is_outburst=manner.is_outburst,
        interrupted=features.numbers["interrupted"] > 0,
    )


def _held(shares: dict[str, float], correction: float) -> dict[str, float]:
    """The shares with this one for a correction, the others kept in proportion."""
    if shares["correction"] in (correction, 1.0):
        return shares
    rest = (1 - correction) / (1 - shares["correction"])
    return {kind: correction if kind == "correction" else part * rest for kind, part in shares.items()}
