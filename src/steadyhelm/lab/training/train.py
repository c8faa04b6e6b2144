"""Learn the weights of the reply classifier, and report the result.

The same replies lead to the same weights.
"""

import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from steadyhelm.corrections.model import CorrectionWeights, LinearModel
from steadyhelm.errors import FormatError
from steadyhelm.lab.evaluation.metrics import Estimate
from steadyhelm.lab.evaluation.report_text import format_table
from steadyhelm.lab.training.classifier_metrics import count_confusions, tabulate_calibration
from steadyhelm.lab.training.fitting import Fold, learn_weights, make_folds, prepare
from steadyhelm.lab.training.labelled_replies import SURE, LabelledReply
from steadyhelm.lab.training.validation import (
    REPEAT_THRESHOLDS,
    AlternativeFigures,
    HeldOutResults,
    LeakFigure,
    check_leaks,
    estimate_figures,
    judge_held_out,
    measure_alternatives,
    measure_repeats,
    select_results,
)

_SESSION_FOLDS: Final = 10
_IMPORTANCES_SHOWN: Final = 15
_KINDS: Final = (
    *("continuation", "correction_substance", "approval"),
    *("correction_style", "frustration", "new_task"),
)


class TrainingReport(Struct, frozen=True, kw_only=True):
    """The result of one training run; `figures` and `judged` are by what was held out."""

    weights: CorrectionWeights
    figures: dict[str, dict[str, Estimate]]
    judged: dict[str, HeldOutResults]
    importances: dict[str, float]
    leaks: list[LeakFigure]
    alternatives: dict[str, list[AlternativeFigures]]


def train(replies: Sequence[LabelledReply], *, quick: bool = False, samples: int = 1000) -> TrainingReport:
    """Learn from all replies, and measure the result on folds of sessions and of projects.

    With `quick` the leak check and the comparison with other ways of learning are left out.
    """
    cases = prepare(replies)
    weights, numbers = learn_weights(cases), [case.features.numbers for case in cases]
    folds = _make_fold_sets(replies)
    judged = {name: judge_held_out(cases, parts) for name, parts in folds.items()}
    compared = {} if quick else {name: measure_alternatives(cases, parts) for name, parts in folds.items()}
    return TrainingReport(
        weights=weights,
        figures={
            name: estimate_figures(one, samples=samples) for name, one in _add_sure_labels(judged, replies)
        },
        judged=judged,
        importances=measure_importances(weights.reply, numbers, "correction"),
        leaks=[] if quick else check_leaks(replies),
        alternatives=compared,
    )


def write_weights(weights: CorrectionWeights, target: Path) -> int:
    """Write the file that is shipped, and return its size in bytes."""
    content = msgspec.json.encode(weights) + b"\n"
    try:
        target.write_bytes(content)
    except OSError as exc:
        raise FormatError(f"{str(target)!r} cannot be written: {exc.strerror or exc}.") from exc
    return len(content)


def _make_fold_sets(replies: Sequence[LabelledReply]) -> dict[str, list[Fold]]:
    return {
        "session": make_folds([reply.session for reply in replies], _SESSION_FOLDS),
        "project": make_folds([reply.repo for reply in replies]),
    }


def _add_sure_labels(
    judged: dict[str, HeldOutResults], replies: Sequence[LabelledReply]
) -> Iterator[tuple[str, HeldOutResults]]:
    """Yield the results of all replies and, unless all labels are sure, of those with a sure label."""
    sure = [place for place, reply in enumerate(replies) if reply.labels.confidence == SURE]
    for name, one in judged.items():
        yield name, one
        if 0 < len(sure) < len(replies):
            yield f"{name}, sure labels", select_results(one, sure)


def _format_judged(name: str, judged: HeldOutResults) -> Iterator[str]:
    yield f"By {name}, labelled kind (down) and predicted kind (across):"
    yield _format_confusion(judged)
    yield f"By {name}, predicted and actual drift:"
    yield _format_calibration(judged)
    yield f"By {name}, two corrections of one thing in a row, or three:"
    yield _format_repeats(judged)


def format_report(report: TrainingReport) -> str:
    """Return the whole report as plain text."""
    weights = report.weights
    learnt = f"Learnt from {weights.replies} replies of {weights.projects} projects"
    parts = [
        f"{learnt}. Drift from {weights.drift_from:.3f}; {len(weights.reply.terms)} terms.",
        "Held out (weights and thresholds from the other folds; 95% intervals over sessions):",
        _format_figures(report.figures),
    ]
    for name, judged in report.judged.items():
        parts += _format_judged(name, judged)
    parts += [
        "Change of the log-odds of a correction per standard deviation:",
        _format_importances(report.importances),
    ]
    parts += [_format_leaks(report.leaks)] if report.leaks else []
    for name, others in report.alternatives.items():
        rows = [(one.name, f"{one.f1:.3f}", f"{one.auc:.3f}") for one in others]
        parts += [f"Other learners, by {name}:", format_table(("", "drift F1", "drift AUC"), rows)]
    return "\n\n".join(parts) + "\n"


def measure_importances(
    model: LinearModel, numbers: Sequence[dict[str, float]], towards: str
) -> dict[str, float]:
    """Return what each number moves the log-odds by when it moves by its standard deviation."""
    return {
        name: model.get_weight(name, towards) * statistics.pstdev([one[name] for one in numbers])
        for name in model.numbers
    }


def _format_figures(figures: dict[str, dict[str, Estimate]]) -> str:
    names = list(next(iter(figures.values())))
    return format_table(
        ("", *names), [(kept, *(str(row[name]) for name in names)) for kept, row in figures.items()]
    )


def _format_confusion(judged: HeldOutResults) -> str:
    counts = count_confusions(judged.truth, judged.primary)
    return format_table(("", *_KINDS), [(kind, *(counts[kind, said] for said in _KINDS)) for kind in _KINDS])


def _format_calibration(judged: HeldOutResults) -> str:
    rows = tabulate_calibration(judged.is_drift, judged.drift)
    return format_table(
        ("predicted", "actual", "replies"),
        [(f"{mean:.3f}", f"{share:.3f}", count) for mean, share, count in rows],
    )


def _format_repeats(judged: HeldOutResults) -> str:
    figures = [measure_repeats(judged, threshold) for threshold in REPEAT_THRESHOLDS]
    return format_table(
        ("from", "pairs found", "right", "sessions found", "right", "of sessions labelled"),
        [
            (
                f"{it.threshold:g}",
                it.found,
                it.right,
                it.sessions_found,
                it.sessions_right,
                it.sessions_labelled,
            )
            for it in figures
        ],
    )


def _format_importances(moved: dict[str, float]) -> str:
    strongest = sorted(moved.items(), key=lambda item: -abs(item[1]))[:_IMPORTANCES_SHOWN]
    return format_table(("number", "change"), [(name, f"{value:+.2f}") for name, value in strongest])


def _format_leaks(leaks: Sequence[LeakFigure]) -> str:
    rows = [
        (
            leak.shuffled,
            f"{leak.drift:.3f}",
            "ok" if leak.is_clean else "LEAK",
        )
        for leak in leaks
    ]
    return "AUC with something shuffled:\n\n" + format_table(("shuffled", "drift", ""), rows)
