"""Shuffle what the figures must come from, and see them fall to chance.

Shuffled labels leave nothing to learn, shuffled texts nothing to recognise: whatever is left above chance
would come from somewhere it must not.
Two rows show what may stay: without texts the counts of calls, errors and turns still foresee a little, and
without the reply's own text all that can be foreseen is left.
"""

import random
from collections.abc import Sequence
from typing import Final

from msgspec import Struct, structs

from steadyhelm.lab.training.figures import auc
from steadyhelm.lab.training.folds import Fold, folds
from steadyhelm.lab.training.kept_back import KeptBack, judge_kept_back
from steadyhelm.lab.training.replies import LabelledReply
from steadyhelm.lab.training.weights import prepare

_PARTS: Final = 5
_CHANCE: Final = 0.5
_SLACK: Final = 0.06
"""About two standard errors of an AUC with two hundred positives."""


class LeakFigure(Struct, frozen=True, kw_only=True):
    """One thing shuffled, and the AUCs that were left."""

    shuffled: str
    drift: float
    foreseen: float
    must_fall: tuple[str, ...] = ()

    @property
    def is_clean(self) -> bool:
        """Whether the figures fell that must."""
        left = {"drift": self.drift, "foreseen": self.foreseen}
        return all(left[name] <= _CHANCE + _SLACK for name in self.must_fall)


def check_leaks(replies: Sequence[LabelledReply], *, seed: int = 0) -> list[LeakFigure]:
    """Learn and judge again with labels, texts and replies shuffled; folds are by session."""
    draw = random.Random(seed)  # noqa: S311 - shuffling, not secrets
    parts = folds([reply.session for reply in replies], _PARTS)
    return [
        _left("nothing", replies, parts, ()),
        _left("labels", _with_others_labels(replies, draw), parts, ("drift", "foreseen")),
        _left("texts and counts", _with_others_turn(replies, draw), parts, ("drift", "foreseen")),
        _left("texts", _with_others_texts(replies, draw), parts, ("drift",)),
        _left("the reply's text", _with_others_reply(replies, draw), parts, ()),
    ]


def _left(
    what: str, replies: Sequence[LabelledReply], parts: Sequence[Fold], must_fall: tuple[str, ...]
) -> LeakFigure:
    judged: KeptBack = judge_kept_back(prepare(replies), parts)
    return LeakFigure(
        shuffled=what,
        drift=auc(judged.is_drift, judged.drift) or _CHANCE,
        foreseen=auc(judged.is_drift, judged.foreseen) or _CHANCE,
        must_fall=must_fall,
    )


def _with_others_labels(replies: Sequence[LabelledReply], draw: random.Random) -> list[LabelledReply]:
    others = _shuffled(replies, draw)
    return [structs.replace(one, labels=two.labels) for one, two in zip(replies, others, strict=True)]


def _with_others_turn(replies: Sequence[LabelledReply], draw: random.Random) -> list[LabelledReply]:
    """Everything that was said and done is another's; label, session and project stay."""
    return [
        structs.replace(two, labels=one.labels, session=one.session, repo=one.repo)
        for one, two in zip(replies, _shuffled(replies, draw), strict=True)
    ]


def _with_others_texts(replies: Sequence[LabelledReply], draw: random.Random) -> list[LabelledReply]:
    return [
        structs.replace(
            one, reply=two.reply, assistant_before=two.assistant_before, prompt_before=two.prompt_before
        )
        for one, two in zip(replies, _shuffled(replies, draw), strict=True)
    ]


def _with_others_reply(replies: Sequence[LabelledReply], draw: random.Random) -> list[LabelledReply]:
    others = _shuffled(replies, draw)
    return [structs.replace(one, reply=two.reply) for one, two in zip(replies, others, strict=True)]


def _shuffled(replies: Sequence[LabelledReply], draw: random.Random) -> list[LabelledReply]:
    others = list(replies)
    draw.shuffle(others)
    return others
