"""Classify a user's reply: it corrects, approves of or continues the turn before it."""

from collections.abc import Mapping
from functools import cache
from typing import Final, Literal, NamedTuple

from msgspec import Struct

from steadyhelm.corrections.features import ReplyFeatures, extract_features, find_cues
from steadyhelm.corrections.messages import PACKAGE
from steadyhelm.corrections.model import CorrectionWeights, ReplyCue, count_terms, explain_reply, load_weights
from steadyhelm.lexicons import load_lexicon

# Rules for what is too rare to be learnt: the tone of a correction, and replies that only sound like one.
# The rules of tone say which kind of correction it is; by themselves they make a correction only of a short
# message that is about nothing else. The rules for non-objections ("not bad", "no, that's all", "stop the
# server") lower the learnt probability where such a phrase is found and nothing else objects.

_MAX_STYLE_ONLY_WORDS: Final = 10
_MAX_OUTBURST_WORDS: Final = 20
_MAX_WORK_STYLE_WORDS: Final = 30
_SURE, _LIKELY, _RARE = 0.85, 0.6, 0.02
_MIN_IF_STYLE_ONLY, _MIN_IF_OUTRAGE, _MIN_IF_ACCUSING = 0.6, 0.55, 0.4
"""The least probability of a correction in a reply that is nothing else."""

_MIN_OBJECTING_WEIGHT: Final = 0.4
_OUTBURST_CUES: Final = frozenset({"swearing", "opens with a sigh"})
# "Again" alone is as often an order: start it again.
_AMBIGUOUS_CUES: Final = frozenset({"again"})


class Tone(NamedTuple):
    """How a correction is put, as shares of it: about style, and in anger.

    `min_correction` is the least probability that the reply is a correction at all.
    """

    style: float = _RARE
    frustration: float = _RARE / 2
    min_correction: float = 0.0

    @property
    def is_outburst(self) -> bool:
        """Whether it is angry, or sounds like it."""
        return self.frustration >= _LIKELY


def _find_tone(features: ReplyFeatures) -> Tone:
    """Return how the message is put, if it is a correction."""
    words, found = len(features.message.words), features.rules
    is_outrage = "outrage" in found
    if words <= _MAX_OUTBURST_WORDS and (is_outrage or "anger" in found):
        return Tone(frustration=_LIKELY, style=_RARE, min_correction=_MIN_IF_OUTRAGE if is_outrage else 0.0)
    if "about wording" in found or "about asking" in found:
        is_alone = words <= _MAX_STYLE_ONLY_WORDS
        return Tone(style=_SURE, frustration=_RARE, min_correction=_MIN_IF_STYLE_ONLY if is_alone else 0.0)
    if "about working" in found and words <= _MAX_WORK_STYLE_WORDS:
        return Tone(style=_LIKELY, frustration=_RARE)
    is_accusing = words <= _MAX_OUTBURST_WORDS and "accusing question" in found
    return Tone(min_correction=_MIN_IF_ACCUSING if is_accusing else 0.0)


def _is_non_objection(features: ReplyFeatures, tone: Tone) -> bool:
    """Return whether the objecting words of a reply object to nothing."""
    head, cues, found = features.message.head, features.cues, features.rules
    closing = load_lexicon(PACKAGE, "non_objections")["closing question"]
    if "bare no" in found and closing.search(features.agent.tail):
        return True
    is_outburst = tone.is_outburst or _OUTBURST_CUES & cues.keys()
    if is_outburst and _is_joy(cues, works="works" in found):
        return True
    match = found.get("harmless no") or found.get("never mind")
    if match is None and not features.numbers["interrupted"]:
        match = found.get("stops or awaits a process")
    return match is not None and not _load_objecting_cues() & find_cues(head[match.end() :]).keys()


def _is_joy(cues: Mapping[str, str], *, works: bool) -> bool:
    """Return whether an outburst is one of joy: there is praise, or it works, and nothing else objects."""
    is_praise = "praise" in cues or works
    return is_praise and not (_load_objecting_cues() - _OUTBURST_CUES) & cues.keys()


@cache
def _load_objecting_cues() -> frozenset[str]:
    entries = load_lexicon(PACKAGE, "objections", "protests").entries.values()
    names = frozenset(entry.name for entry in entries if entry.weight >= _MIN_OBJECTING_WEIGHT)
    return names - _AMBIGUOUS_CUES


ReplyKind = Literal[
    "correction_style", "correction_substance", "frustration", "approval", "continuation", "new_task"
]
_CORRECTIONS: Final[tuple[ReplyKind, ...]] = ("correction_substance", "correction_style", "frustration")
_MAX_IF_NON_OBJECTION: Final = 0.15
"""The highest probability of a correction in a reply whose words object to nothing."""
_NEW_TASK_IF_ANNOUNCED, _NEW_TASK_OTHERWISE = 0.6, 0.02
"""The part of a continuation that is a new task."""
_MAX_SHARED_TOPICS_OF_NEW_TASK: Final = 0.2


class ReplyLabel(Struct, frozen=True, kw_only=True):
    """What a reply is.

    `probabilities` has all six kinds and sums to one; `drift` is the sum of the three corrections, `is_drift`
    whether it reaches the shipped threshold, and `primary` the kind: a correction exactly when `is_drift`.
    `cues` lists the reasons for and against a correction, the strongest first.
    Style, frustration and new tasks are separated by rules, not learnt: the data has too few of them.
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
    """Return what a user's reply means for the work it answers.

    The beginning of the reply and of the prompt and the end of the agent's message are read.
    `turn` is the number of the reply among the user's messages: those sent before it, and one.

    >>> classify_user_reply("no, that is still broken", assistant_before="Fixed.").primary
    'correction_substance'
    >>> classify_user_reply("yes please", assistant_before="Shall I commit?").primary
    'approval'
    """
    features = extract_features(
        reply,
        assistant_before=assistant_before,
        prompt_before=prompt_before,
        interrupted=interrupted,
        tool_calls=tool_calls,
        tool_errors=tool_errors,
        turn=turn,
    )
    return label_reply(features, load_weights())


def label_reply(
    features: ReplyFeatures, weights: CorrectionWeights, *, explain_corrections_only: bool = False
) -> ReplyLabel:
    """Return the label of a reply from its features, by weights that need not be the shipped ones.

    With `explain_corrections_only` the label of any other reply has no cues, which take a fifth of the time.
    """
    terms = count_terms(features.message.head)
    shares = weights.reply.predict(features.numbers, terms)
    tone = _find_tone(features)
    if _is_non_objection(features, tone):
        shares, tone = _set_correction(shares, min(_MAX_IF_NON_OBJECTION, shares["correction"])), Tone()
    else:
        shares = _set_correction(shares, max(tone.min_correction, shares["correction"]))
    probabilities = _split_kinds(shares, tone, features)
    drift = sum(probabilities[kind] for kind in _CORRECTIONS)
    is_drift = drift >= weights.drift_from
    return ReplyLabel(
        primary=_choose_kind(probabilities, weights, is_drift=is_drift),
        probabilities=probabilities,
        drift=drift,
        is_drift=is_drift,
        cues=[]
        if explain_corrections_only and not is_drift
        else explain_reply(features, terms, weights.reply),
    )


def _split_kinds(shares: dict[str, float], tone: Tone, features: ReplyFeatures) -> dict[ReplyKind, float]:
    """Split the three learnt classes into the six kinds."""
    correction, new_task = shares["correction"], _estimate_new_task(features)
    return {
        "correction_style": correction * tone.style,
        "correction_substance": correction * (1 - tone.style - tone.frustration),
        "frustration": correction * tone.frustration,
        "approval": shares["approval"],
        "continuation": shares["continuation"] * (1 - new_task),
        "new_task": shares["continuation"] * new_task,
    }


def _estimate_new_task(features: ReplyFeatures) -> float:
    """Return how likely a continuation is another task: it says so and shares few topics with the last."""
    numbers = features.numbers
    shared = max(numbers["topics from the agent"], numbers["topics from the prompt"])
    is_announced = "another topic" in features.first_cues and shared <= _MAX_SHARED_TOPICS_OF_NEW_TASK
    return _NEW_TASK_IF_ANNOUNCED if is_announced else _NEW_TASK_OTHERWISE


def _choose_kind(
    probabilities: dict[ReplyKind, float], weights: CorrectionWeights, *, is_drift: bool
) -> ReplyKind:
    if is_drift:
        return max(_CORRECTIONS, key=lambda kind: probabilities[kind])
    going_on = probabilities["continuation"] + probabilities["new_task"]
    if probabilities["approval"] >= weights.approval_from * going_on:
        return "approval"
    return "continuation" if probabilities["continuation"] >= probabilities["new_task"] else "new_task"


def _set_correction(shares: dict[str, float], correction: float) -> dict[str, float]:
    """Return the shares with this one for a correction, the others in proportion."""
    if shares["correction"] in (correction, 1.0):
        return shares
    rest = (1 - correction) / (1 - shares["correction"])
    return {kind: correction if kind == "correction" else part * rest for kind, part in shares.items()}
