"""Train the forest over sessions, and measure it: held out, shuffled, and beside the linear model."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from msgspec import Struct

from steadyhelm.lab.evaluation.metrics import Estimate
from steadyhelm.lab.evaluation.report_text import format_table
from steadyhelm.lab.training.classifier_metrics import (
    auc,
    choose_drift_threshold,
    decision_f1,
    estimate_by_group,
)
from steadyhelm.lab.training.fitting import (
    Fold,
    PreparedReply,
    import_scikit,
    limit_to_one_thread,
    make_folds,
    prepare,
)
from steadyhelm.lab.training.labelled_replies import LabelledReply
from steadyhelm.lab.training.session_forest import (
    FOREST_VERSION,
    LEAF,
    SESSION,
    DecisionTree,
    DriftForest,
    measure_sessions,
)
from steadyhelm.lab.training.validation import LeakFigure, check_leaks, judge_held_out

MAX_DEPTH: Final = 10
MIN_LEAF: Final = 3
_SEED: Final = 0
_FOLDS: Final = 10
_INNER_FOLDS: Final = 3
_DIGITS: Final = 5
LABEL_LEAK_AUC: Final = 0.95
"""From this AUC on, a single number tells the label so well that it is most likely the label itself."""
_SINGLES_SHOWN: Final = 5

Rows = Sequence[dict[str, float]]
WITH_REPLY: Final = "tree, with the user's reply"
BEFORE_REPLY: Final = "tree, before the reply"
LINEAR: Final = "linear, with the user's reply"


class SingleNumber(Struct, frozen=True, kw_only=True):
    """One number, and how well it ranks drift by itself."""

    name: str
    auc: float

    @property
    def is_made_from_label(self) -> bool:
        """Whether it tells the label so well that it is most likely made from it."""
        return self.auc >= LABEL_LEAK_AUC


class ModelFigures(Struct, frozen=True, kw_only=True):
    """A model on cases that were held out, with its threshold chosen from the others."""

    model: str
    held_out: str
    f1: Estimate
    auc: Estimate


class TreeReport(Struct, frozen=True, kw_only=True):
    """The result of training a forest."""

    forest: DriftForest
    figures: list[ModelFigures]
    singles: list[SingleNumber]
    leaks: list[LeakFigure]

    @property
    def is_clean(self) -> bool:
        """Whether nothing leaks: shuffled figures fell, and no number is the label."""
        return all(leak.is_clean for leak in self.leaks) and not any(
            it.is_made_from_label for it in self.singles
        )


@limit_to_one_thread()
def train_tree(
    replies: Sequence[LabelledReply], *, quick: bool = False, samples: int = 1000, trees: int = 200
) -> TreeReport:
    """Learn a forest from all replies, and measure it on sessions, projects and agents that it never saw.

    With `quick` the leak check, the agents and the model that does not see the reply are left out.
    """
    rows = measure_sessions(replies)
    truth = [reply.is_drift for reply in replies]
    learner = _ForestLearner(trees)
    figures = []
    for held_out, parts in _make_fold_sets(replies, quick=quick).items():
        for model, judge in _list_models(replies, rows, learner, quick=quick).items():
            drift, found = judge(parts)
            figures.append(_estimate(model, held_out, replies, drift, found, samples))
    return TreeReport(
        forest=_build_forest(replies, rows, learner),
        figures=figures,
        singles=rank_single_numbers(rows, truth),
        leaks=[] if quick else check_leaks(replies, score=learner.score_held_out),
    )


def rank_single_numbers(rows: Rows, truth: Sequence[bool]) -> list[SingleNumber]:
    """Return every number with its own AUC, in whichever direction it is better, the best first."""
    singles = []
    for name in rows[0]:
        value = auc(truth, [row[name] for row in rows])
        singles.append(SingleNumber(name=name, auc=0.5 if value is None else max(value, 1 - value)))
    return sorted(singles, key=lambda one: -one.auc)


class _ForestLearner:
    """Fits forests of one size; `before_reply` leaves out what comes from the user's reply."""

    def __init__(self, trees: int, *, before_reply: bool = False) -> None:
        self._trees = trees
        self._before_reply = before_reply

    def without_reply(self) -> "_ForestLearner":
        """Return a learner of the same size that does not see the user's reply."""
        return _ForestLearner(self._trees, before_reply=True)

    def select(self, rows: Rows) -> tuple[str, ...]:
        """Return the names of the numbers that are used."""
        return tuple(name for name in rows[0] if name.startswith(SESSION) or not self._before_reply)

    def fit(self, rows: Rows, truth: Sequence[bool]) -> Any:
        """Return a fitted forest of scikit-learn."""
        forest = import_scikit("sklearn.ensemble").ExtraTreesClassifier(
            self._trees,
            max_depth=MAX_DEPTH,
            min_samples_leaf=MIN_LEAF,
            class_weight="balanced",
            random_state=_SEED,
            n_jobs=1,
        )
        return forest.fit(self._build_columns(rows), list(truth))

    def score(self, learn: Rows, truth: Sequence[bool], keep: Rows) -> list[float]:
        """Return the drift of the kept rows, by a forest that learnt from the others."""
        if len(set(truth)) == 1:
            return [float(truth[0])] * len(keep)
        shares = self.fit(learn, truth).predict_proba(self._build_columns(keep))[:, 1]
        return [float(share) for share in shares]

    def score_folds(self, rows: Rows, truth: Sequence[bool], parts: Sequence[Fold]) -> list[float]:
        """Return the drift of every row while it is held out."""
        drift = [0.0] * len(rows)
        for fold in parts:
            scores = self.score(_pick(rows, fold.learn), _pick(truth, fold.learn), _pick(rows, fold.keep))
            for place, score in zip(fold.keep, scores, strict=True):
                drift[place] = score
        return drift

    def score_held_out(self, replies: Sequence[LabelledReply], parts: Sequence[Fold]) -> list[float]:
        """Return the drift of each reply by what was learnt from the other folds."""
        return self.score_folds(measure_sessions(replies), [reply.is_drift for reply in replies], parts)

    def _build_columns(self, rows: Rows) -> Any:
        names = self.select(rows)
        return import_scikit("numpy").array([[row[name] for name in names] for row in rows])


Judgement = tuple[list[float], list[bool]]
"""The drift of every case while it was held out, and whether that reaches the threshold."""


def _judge_linear(cases: Sequence[PreparedReply], parts: Sequence[Fold]) -> Judgement:
    judged = judge_held_out(cases, parts)
    return judged.drift, judged.found


def _list_models(
    replies: Sequence[LabelledReply], rows: Rows, learner: _ForestLearner, *, quick: bool
) -> dict[str, Callable[[Sequence[Fold]], Judgement]]:
    """Return what is measured, by its name in the report."""
    models: dict[str, Callable[[Sequence[Fold]], Judgement]] = {
        WITH_REPLY: lambda parts: _judge_forest(replies, rows, learner, parts),
        LINEAR: partial(_judge_linear, prepare(replies)),
    }
    if not quick:
        blind = learner.without_reply()
        models[BEFORE_REPLY] = lambda parts: _judge_forest(replies, rows, blind, parts)
    return models


def _judge_forest(
    replies: Sequence[LabelledReply], rows: Rows, learner: _ForestLearner, parts: Sequence[Fold]
) -> Judgement:
    truth = [reply.is_drift for reply in replies]
    drift, found = learner.score_folds(rows, truth, parts), [False] * len(rows)
    for fold in parts:
        threshold = _choose_threshold(_pick(replies, fold.learn), _pick(rows, fold.learn), learner)
        for place in fold.keep:
            found[place] = drift[place] >= threshold
    return drift, found


def _choose_threshold(replies: Sequence[LabelledReply], rows: Rows, learner: _ForestLearner) -> float:
    """Return the probability to decide at, from sessions held out inside these replies."""
    truth = [reply.is_drift for reply in replies]
    parts = make_folds([reply.session for reply in replies], _INNER_FOLDS)
    return choose_drift_threshold(truth, learner.score_folds(rows, truth, parts))


def _estimate(
    model: str,
    held_out: str,
    replies: Sequence[LabelledReply],
    drift: Sequence[float],
    found: Sequence[bool],
    samples: int,
) -> ModelFigures:
    truth = [reply.is_drift for reply in replies]
    estimate = partial(estimate_by_group, groups=[reply.session for reply in replies], samples=samples)
    return ModelFigures(
        model=model,
        held_out=held_out,
        f1=estimate(lambda places: decision_f1(_pick(truth, places), _pick(found, places))),
        auc=estimate(lambda places: auc(_pick(truth, places), _pick(drift, places))),
    )


def _make_fold_sets(replies: Sequence[LabelledReply], *, quick: bool) -> dict[str, list[Fold]]:
    """Return folds that keep sessions, projects and agents together; agents only where there are several."""
    parts = {
        "session": make_folds([reply.session for reply in replies], _FOLDS),
        "project": make_folds([reply.repo for reply in replies]),
    }
    if not quick and len({reply.agent for reply in replies}) > 1:
        parts["agent"] = make_folds([reply.agent for reply in replies])
    return parts


def _build_forest(replies: Sequence[LabelledReply], rows: Rows, learner: _ForestLearner) -> DriftForest:
    fitted = learner.fit(rows, [reply.is_drift for reply in replies])
    return DriftForest(
        steadyhelm_forest=FOREST_VERSION,
        features=learner.select(rows),
        drift_from=_choose_threshold(replies, rows, learner),
        replies=len(replies),
        sessions=len({reply.session for reply in replies}),
        projects=len({reply.repo for reply in replies}),
        trees=tuple(_build_tree(one.tree_) for one in fitted.estimators_),
    )


def _build_tree(grown: Any) -> DecisionTree:
    """Return a tree of scikit-learn as plain columns; its nodes are numbered parents first."""
    is_leaf = [child < 0 for child in grown.children_left.tolist()]
    shares = [row[0][1] / (sum(row[0]) or 1.0) for row in grown.value.tolist()]
    nodes = list(zip(is_leaf, grown.feature.tolist(), grown.threshold.tolist(), shares, strict=True))
    return DecisionTree(
        feature=tuple(LEAF if leaf else name for leaf, name, _, _ in nodes),
        limit=tuple(0.0 if leaf else round(limit, _DIGITS) for leaf, _, limit, _ in nodes),
        left=tuple(max(0, child) for child in grown.children_left.tolist()),
        right=tuple(max(0, child) for child in grown.children_right.tolist()),
        share=tuple(round(share, _DIGITS) if leaf else 0.0 for leaf, _, _, share in nodes),
    )


def _pick(items: Sequence[Any], places: Sequence[int]) -> list[Any]:
    return [items[place] for place in places]


def format_tree_report(report: TreeReport) -> str:
    """Return the whole report as plain text."""
    forest = report.forest
    learnt = f"Learnt from {forest.replies} replies in {forest.sessions} sessions"
    size = f"{len(forest.trees)} trees over {len(forest.features)} numbers"
    rows = [(one.held_out, one.model, str(one.f1), str(one.auc)) for one in report.figures]
    parts = [
        f"{learnt} of {forest.projects} projects: {size}; drift from {forest.drift_from:.3f}.",
        "Held out (trees and thresholds from the other folds; 95% intervals over sessions):",
        format_table(("held out by", "model", "drift F1", "drift AUC"), rows),
        f"Is a number the label in disguise? The best by themselves; from {LABEL_LEAK_AUC:g} on it is:",
        _format_singles(report.singles[:_SINGLES_SHOWN]),
    ]
    if report.leaks:
        leaks = [(it.shuffled, f"{it.drift:.3f}", "ok" if it.is_clean else "LEAK") for it in report.leaks]
        parts += ["AUC with something shuffled:", format_table(("shuffled", "drift", ""), leaks)]
    return "\n\n".join(parts) + "\n"


def _format_singles(singles: Sequence[SingleNumber]) -> str:
    rows = [(one.name, f"{one.auc:.3f}", "THE LABEL" if one.is_made_from_label else "ok") for one in singles]
    return format_table(("number", "AUC", ""), rows)
