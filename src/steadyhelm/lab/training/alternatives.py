"""Measure what other learners reach on the same folds, for comparison."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec import Struct

from steadyhelm.lab.training.classifier_metrics import auc, choose_drift_threshold, decision_f1
from steadyhelm.lab.training.fitting import Fold, import_scikit, limit_to_one_thread, make_folds
from steadyhelm.lab.training.weights import PreparedReply

_INNER_FOLDS: Final = 3
_SEED: Final = 0

Learner = Callable[[], Any]


class AlternativeFigures(Struct, frozen=True, kw_only=True):
    """Another way to find drift, measured on the same folds with its threshold chosen inside them."""

    name: str
    f1: float
    auc: float


@limit_to_one_thread()
def measure_alternatives(cases: Sequence[PreparedReply], parts: Sequence[Fold]) -> list[AlternativeFigures]:
    """Return the figures of trees over all numbers, of words alone, and of the patterns without training."""
    numpy = import_scikit("numpy")
    names = list(cases[0].features.numbers)
    numbers = numpy.array([[case.features.numbers[name] for name in names] for case in cases])
    words = [case.features.message.head for case in cases]
    return [
        _measure_alternative(
            "ExtraTrees over the numbers",
            cases,
            parts,
            _make_trees,
            lambda learn, keep: (numbers[learn], numbers[keep]),
        ),
        _measure_alternative(
            "words with logistic regression",
            cases,
            parts,
            _make_logistic,
            lambda learn, keep: _vectorise_words(words, learn, keep),
        ),
        _measure_alternative(
            "our sum of cues, nothing learnt", cases, parts, None, lambda learn, keep: (learn, keep)
        ),
    ]


def _measure_alternative(
    name: str,
    cases: Sequence[PreparedReply],
    parts: Sequence[Fold],
    learner: Learner | None,
    columns: Callable[[list[int], list[int]], tuple[Any, Any]],
) -> AlternativeFigures:
    truth = [case.reply.is_drift for case in cases]
    scores, found = [0.0] * len(cases), [False] * len(cases)

    def score_cases(learn: list[int], keep: list[int]) -> list[float]:
        if learner is None:
            return [_score_cues(cases[place]) for place in keep]
        here, there = columns(learn, keep)
        fitted = learner().fit(here, [truth[place] for place in learn])
        return [float(share) for share in fitted.predict_proba(there)[:, 1]]

    for fold in parts:
        threshold = choose_drift_threshold(*_score_inside_fold(cases, truth, fold, score_cases))
        for place, score in zip(fold.keep, score_cases(fold.learn, fold.keep), strict=True):
            scores[place], found[place] = score, score >= threshold
    return AlternativeFigures(name=name, f1=decision_f1(truth, found), auc=auc(truth, scores) or 0.0)


def _score_inside_fold(
    cases: Sequence[PreparedReply],
    truth: Sequence[bool],
    fold: Fold,
    score_cases: Callable[[list[int], list[int]], list[float]],
) -> tuple[list[bool], list[float]]:
    """Return truth and scores of a fold's own replies, each held out once inside the fold."""
    expected: list[bool] = []
    scores: list[float] = []
    for inner in make_folds([cases[place].reply.session for place in fold.learn], _INNER_FOLDS):
        keep = [fold.learn[place] for place in inner.keep]
        scores += score_cases([fold.learn[place] for place in inner.learn], keep)
        expected += [truth[place] for place in keep]
    return expected, scores


def _make_trees() -> Any:
    """Return a forest of five hundred balanced trees, ten deep."""
    return import_scikit("sklearn.ensemble").ExtraTreesClassifier(
        500, max_depth=10, class_weight="balanced", random_state=_SEED, n_jobs=1
    )


def _make_logistic() -> Any:
    return import_scikit("sklearn.linear_model").LogisticRegression(
        C=3.0, class_weight="balanced", max_iter=2_000
    )


def _vectorise_words(texts: Sequence[str], learn: list[int], keep: list[int]) -> tuple[Any, Any]:
    reader = import_scikit("sklearn.feature_extraction.text").TfidfVectorizer(
        ngram_range=(1, 2), min_df=2, sublinear_tf=True
    )
    return reader.fit_transform([texts[place] for place in learn]), reader.transform(
        [texts[place] for place in keep]
    )


def _score_cues(case: PreparedReply) -> float:
    """Return the leaning of the first sentence, scaled to 0..1."""
    return (case.features.numbers["cue score of the first sentence"] + 4) / 12
