"""A training run in words: what was reached on replies kept back, and what it rests on."""

import statistics
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from steadyhelm.corrections.model import CorrectionWeights, LinearModel
from steadyhelm.lab.evaluation.metrics import Estimate
from steadyhelm.lab.evaluation.tables import table
from steadyhelm.lab.training.figures import calibration, confusion
from steadyhelm.lab.training.kept_back import KeptBack
from steadyhelm.lab.training.leaks import LeakFigure
from steadyhelm.lab.training.rivals import Rival

_SHOWN: Final = 15
_KINDS: Final = (
    *("continuation", "correction_substance", "approval"),
    *("correction_style", "frustration", "new_task"),
)


class TrainingReport(Struct, frozen=True, kw_only=True):
    """Everything one training run has to show; `figures` and `judged` are by what was kept back."""

    weights: CorrectionWeights
    figures: dict[str, dict[str, Estimate]]
    judged: dict[str, KeptBack]
    importances: dict[str, float]
    leaks: list[LeakFigure]
    rivals: dict[str, list[Rival]]


def report_text(report: TrainingReport) -> str:
    """The whole report as plain text."""
    weights = report.weights
    learnt = f"Learnt from {weights.replies} replies of {weights.projects} projects"
    parts = [
        f"{learnt}. Drift from {weights.drift_from:.3f}; {len(weights.reply.terms)} terms.",
        "Kept back (weights and thresholds from the other folds; 95% intervals over sessions):",
        _figures(report.figures),
    ]
    for name, judged in report.judged.items():
        parts += [f"By {name}, kind said by people (down) and by us (across):", _confusion(judged)]
        parts += [f"By {name}, drift said and drift that was:", _calibration(judged)]
    parts += ["What the log-odds of a correction move by, per standard deviation:", _list(report.importances)]
    parts += [_leaks(report.leaks)] if report.leaks else []
    for name, rivals in report.rivals.items():
        rows = [(rival.name, f"{rival.f1:.3f}", f"{rival.auc:.3f}") for rival in rivals]
        parts += [f"Other ways, by {name}:", table(("", "drift F1", "drift AUC"), rows)]
    return "\n\n".join(parts) + "\n"


def importances(model: LinearModel, numbers: Sequence[dict[str, float]], towards: str) -> dict[str, float]:
    """What each number moves the log-odds by when it moves by its standard deviation."""
    return {
        name: model.get_weight(name, towards) * _spread([one[name] for one in numbers])
        for name in model.numbers
    }


def _figures(figures: dict[str, dict[str, Estimate]]) -> str:
    names = list(next(iter(figures.values())))
    return table(("", *names), [(kept, *(str(row[name]) for name in names)) for kept, row in figures.items()])


def _confusion(judged: KeptBack) -> str:
    counts = confusion(judged.truth, judged.primary)
    return table(("", *_KINDS), [(kind, *(counts[kind, said] for said in _KINDS)) for kind in _KINDS])


def _calibration(judged: KeptBack) -> str:
    rows = calibration(judged.is_drift, judged.drift)
    return table(
        ("said", "was", "replies"), [(f"{said:.3f}", f"{was:.3f}", count) for said, was, count in rows]
    )


def _list(moved: dict[str, float]) -> str:
    strongest = sorted(moved.items(), key=lambda item: -abs(item[1]))[:_SHOWN]
    return table(("number", "moves"), [(name, f"{value:+.2f}") for name, value in strongest])


def _leaks(leaks: Sequence[LeakFigure]) -> str:
    rows = [
        (
            leak.shuffled,
            f"{leak.drift:.3f}",
            f"{leak.foreseen:.3f}",
            "as it should be" if leak.is_clean else "LEAK",
        )
        for leak in leaks
    ]
    return "AUC with something shuffled:\n\n" + table(("shuffled", "drift", "foreseen", ""), rows)


def _spread(values: Sequence[float]) -> float:
    return statistics.pstdev(values)
