"""Judge replies by weights that were not learnt from them."""

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from steadyhelm.corrections.reply_classifier import label_reply
from steadyhelm.lab.evaluation.metrics import Estimate
from steadyhelm.lab.training.classifier_metrics import auc, decision_f1, estimate_by_group, macro_f1
from steadyhelm.lab.training.fitting import Fold
from steadyhelm.lab.training.weights import PreparedReply, learn_weights


class HeldOutResults(Struct, frozen=True, kw_only=True):
    """For each reply, judged by weights from other groups: its label, and the forecast before it.

    The thresholds were chosen inside each fold too, so a figure holds for weights and thresholds together.
    """

    sessions: list[str]
    truth: list[str]
    is_drift: list[bool]
    drift: list[float]
    found: list[bool]
    primary: list[str]
    foreseen: list[float]


def judge_held_out(cases: Sequence[PreparedReply], make_folds: Sequence[Fold]) -> HeldOutResults:
    """Learn from each fold's replies and judge those it holds out, just as the shipped functions would."""
    count = len(cases)
    drift, found, primary, foreseen = [0.0] * count, [False] * count, [""] * count, [0.0] * count
    for fold in make_folds:
        weights = learn_weights([cases[place] for place in fold.learn])
        for place in fold.keep:
            label = label_reply(cases[place].features, weights)
            drift[place], found[place], primary[place] = label.drift, label.is_drift, label.primary
            foreseen[place] = weights.forecast.predict(cases[place].forecast_features)["correction"]
    return HeldOutResults(
        sessions=[case.reply.session for case in cases],
        truth=[case.reply.labels.primary for case in cases],
        is_drift=[case.reply.is_drift for case in cases],
        drift=drift,
        found=found,
        primary=primary,
        foreseen=foreseen,
    )


def select_results(judged: HeldOutResults, places: Sequence[int]) -> HeldOutResults:
    """Return the results of some of the replies."""
    return HeldOutResults(
        sessions=[judged.sessions[place] for place in places],
        truth=[judged.truth[place] for place in places],
        is_drift=[judged.is_drift[place] for place in places],
        drift=[judged.drift[place] for place in places],
        found=[judged.found[place] for place in places],
        primary=[judged.primary[place] for place in places],
        foreseen=[judged.foreseen[place] for place in places],
    )


def estimate_figures(judged: HeldOutResults, *, samples: int = 1000) -> dict[str, Estimate]:
    """Return the published figures, each with its interval over sessions."""

    def estimate_one(name: str) -> Estimate:
        return estimate_by_group(
            lambda places: _FIGURES[name](select_results(judged, places)), judged.sessions, samples=samples
        )

    return {name: estimate_one(name) for name in _FIGURES}


_FIGURES: Final[dict[str, Callable[[HeldOutResults], float | None]]] = {
    "drift F1": lambda judged: decision_f1(judged.is_drift, judged.found),
    "drift AUC": lambda judged: auc(judged.is_drift, judged.drift),
    "class macro F1": lambda judged: macro_f1(judged.truth, judged.primary),
    "forecast AUC": lambda judged: auc(judged.is_drift, judged.foreseen),
}
