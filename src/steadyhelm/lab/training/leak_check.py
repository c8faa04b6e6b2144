"""Shuffle what the figures must come from, and check that they fall to chance.

Shuffled labels leave nothing to learn, shuffled texts nothing to recognise: anything above chance would be a
leak.
Two rows show what may stay: without texts the counts of calls, errors and turns still predict a little, and
without the reply's own text the forecast stays as it is.
"""

import random
from collections.abc import Sequence
from typing import Final

from msgspec import Struct, structs

from steadyhelm.lab.training.classifier_metrics import auc
from steadyhelm.lab.training.fitting import Fold, make_folds
from steadyhelm.lab.training.held_out import HeldOutResults, judge_held_out
from steadyhelm.lab.training.labelled_replies import LabelledReply
from steadyhelm.lab.training.weights import prepare

_FOLDS: Final = 5
_CHANCE: Final = 0.5
_SLACK: Final = 0.06
"""About two standard errors of an AUC with two hundred positives."""


class LeakFigure(Struct, frozen=True, kw_only=True):
    """One thing shuffled, and the AUCs that remained."""

    shuffled: str
    drift: float
    foreseen: float
    must_fall: tuple[str, ...] = ()

    @property
    def is_clean(self) -> bool:
        """Whether the figures that must fall did."""
        left = {"drift": self.drift, "foreseen": self.foreseen}
        return all(left[name] <= _CHANCE + _SLACK for name in self.must_fall)


def check_leaks(replies: Sequence[LabelledReply], *, seed: int = 0) -> list[LeakFigure]:
    """Learn and judge again with labels, texts and replies shuffled; folds are by session."""
    draw = random.Random(seed)  # noqa: S311 - shuffling, not secrets
    parts = make_folds([reply.session for reply in replies], _FOLDS)
    return [
        _measure_shuffled("nothing", replies, parts, ()),
        _measure_shuffled("labels", _exchange_labels(replies, draw), parts, ("drift", "foreseen")),
        _measure_shuffled("texts and counts", _exchange_turns(replies, draw), parts, ("drift", "foreseen")),
        _measure_shuffled("texts", _exchange_texts(replies, draw), parts, ("drift",)),
        _measure_shuffled("the reply's text", _exchange_replies(replies, draw), parts, ()),
    ]


def _measure_shuffled(
    what: str, replies: Sequence[LabelledReply], parts: Sequence[Fold], must_fall: tuple[str, ...]
) -> LeakFigure:
    judged: HeldOutResults = judge_held_out(prepare(replies), parts)
    return LeakFigure(
        shuffled=what,
        drift=auc(judged.is_drift, judged.drift) or _CHANCE,
        foreseen=auc(judged.is_drift, judged.foreseen) or _CHANCE,
        must_fall=must_fall,
    )


def _exchange_labels(replies: Sequence[LabelledReply], draw: random.Random) -> list[LabelledReply]:
    others = _shuffle(replies, draw)
    return [structs.replace(one, labels=two.labels) for one, two in zip(replies, others, strict=True)]


def _exchange_turns(replies: Sequence[LabelledReply], draw: random.Random) -> list[LabelledReply]:
    """Replace everything said and done by another reply's; label, session and project stay."""
    return [
        structs.replace(two, labels=one.labels, session=one.session, repo=one.repo)
        for one, two in zip(replies, _shuffle(replies, draw), strict=True)
    ]


def _exchange_texts(replies: Sequence[LabelledReply], draw: random.Random) -> list[LabelledReply]:
    return [
        structs.replace(
            one, reply=two.reply, assistant_before=two.assistant_before, prompt_before=two.prompt_before
        )
        for one, two in zip(replies, _shuffle(replies, draw), strict=True)
    ]


def _exchange_replies(replies: Sequence[LabelledReply], draw: random.Random) -> list[LabelledReply]:
    others = _shuffle(replies, draw)
    return [structs.replace(one, reply=two.reply) for one, two in zip(replies, others, strict=True)]


def _shuffle(replies: Sequence[LabelledReply], draw: random.Random) -> list[LabelledReply]:
    others = list(replies)
    draw.shuffle(others)
    return others
