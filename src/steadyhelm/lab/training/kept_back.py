"""What the weights say of replies they were not learnt from."""

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from steadyhelm.corrections.reply_classifier import label_reply
from steadyhelm.lab.evaluation.metrics import Estimate
from steadyhelm.lab.training.figures import auc, estimate, macro_f1, scored_f1
from steadyhelm.lab.training.folds import Fold
from steadyhelm.lab.training.weights import Prepared, learn


class KeptBack(Struct, frozen=True, kw_only=True):
    """For each reply, judged by weights from other groups: its label, and what was foreseen of it.

    The thresholds were chosen inside each fold too, so a figure holds for weights and thresholds together.
    """

    sessions: list[str]
    truth: list[str]
    is_drift: list[bool]
    drift: list[float]
    found: list[bool]
    primary: list[str]
    foreseen: list[float]


def judge_kept_back(cases: Sequence[Prepared], folds: Sequence[Fold]) -> KeptBack:
    """Learn from each fold's replies and judge those it keeps back, just as the shipped functions would."""
    count = len(cases)
    drift, found, primary, foreseen = [0.0] * count, [False] * count, [""] * count, [0.0] * count
    for fold in folds:
        weights = learn([cases[place] for place in fold.learn])
        for place in fold.keep:
            label = label_reply(cases[place].features, weights)
            drift[place], found[place], primary[place] = label.drift, label.is_drift, label.primary
            foreseen[place] = weights.forecast.predict(cases[place].outlook)["correction"]
    return KeptBack(
        sessions=[case.reply.session for case in cases],
        truth=[case.reply.labels.primary for case in cases],
        is_drift=[case.reply.is_drift for case in cases],
        drift=drift,
        found=found,
        primary=primary,
        foreseen=foreseen,
    )


def part_of(judged: KeptBack, places: Sequence[int]) -> KeptBack:
    """What was judged of some of the replies."""
    return KeptBack(
        sessions=[judged.sessions[place] for place in places],
        truth=[judged.truth[place] for place in places],
        is_drift=[judged.is_drift[place] for place in places],
        drift=[judged.drift[place] for place in places],
        found=[judged.found[place] for place in places],
        primary=[judged.primary[place] for place in places],
        foreseen=[judged.foreseen[place] for place in places],
    )


def figures_of(judged: KeptBack, *, samples: int = 1000) -> dict[str, Estimate]:
    """The figures that are promised, each with its interval over sessions."""

    def over(name: str) -> Estimate:
        return estimate(
            lambda places: _FIGURES[name](part_of(judged, places)), judged.sessions, samples=samples
        )

    return {name: over(name) for name in _FIGURES}


_FIGURES: Final[dict[str, Callable[[KeptBack], float | None]]] = {
    "drift F1": lambda judged: scored_f1(judged.is_drift, judged.found),
    "drift AUC": lambda judged: auc(judged.is_drift, judged.drift),
    "class macro F1": lambda judged: macro_f1(judged.truth, judged.primary),
    "foreseen AUC": lambda judged: auc(judged.is_drift, judged.foreseen),
}
