"""What other ways of learning reach on the same folds: a figure means little alone."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec import Struct

from steadyhelm.lab.training.figures import auc, scored_f1
from steadyhelm.lab.training.fit import scikit
from steadyhelm.lab.training.folds import Fold, folds
from steadyhelm.lab.training.thresholds import best_drift_threshold
from steadyhelm.lab.training.weights import Prepared

_PARTS: Final = 3
_SEED: Final = 0

Learner = Callable[[], Any]


class Rival(Struct, frozen=True, kw_only=True):
    """Another way to find drift, judged on the same folds with its threshold chosen inside them."""

    name: str
    f1: float
    auc: float


def rivals(cases: Sequence[Prepared], parts: Sequence[Fold]) -> list[Rival]:
    """Trees over all our numbers, words alone, and our cues with nothing learnt."""
    numpy = scikit("numpy")
    names = list(cases[0].features.numbers)
    numbers = numpy.array([[case.features.numbers[name] for name in names] for case in cases])
    words = [case.features.message.head for case in cases]
    return [
        _rival(
            "ExtraTrees over the numbers",
            cases,
            parts,
            _trees,
            lambda learn, keep: (numbers[learn], numbers[keep]),
        ),
        _rival(
            "words with logistic regression",
            cases,
            parts,
            _logistic,
            lambda learn, keep: _words(words, learn, keep),
        ),
        _rival("our sum of cues, nothing learnt", cases, parts, None, lambda learn, keep: (learn, keep)),
    ]


def _rival(
    name: str,
    cases: Sequence[Prepared],
    parts: Sequence[Fold],
    learner: Learner | None,
    columns: Callable[[list[int], list[int]], tuple[Any, Any]],
) -> Rival:
    truth = [case.reply.is_drift for case in cases]
    scores, found = [0.0] * len(cases), [False] * len(cases)

    def judged(learn: list[int], keep: list[int]) -> list[float]:
        if learner is None:
            return [_from_cues(cases[place]) for place in keep]
        here, there = columns(learn, keep)
        fitted = learner().fit(here, [truth[place] for place in learn])
        return [float(share) for share in fitted.predict_proba(there)[:, 1]]

    for fold in parts:
        threshold = best_drift_threshold(*_inside(cases, truth, fold, judged))
        for place, score in zip(fold.keep, judged(fold.learn, fold.keep), strict=True):
            scores[place], found[place] = score, score >= threshold
    return Rival(name=name, f1=scored_f1(truth, found), auc=auc(truth, scores) or 0.0)


def _inside(
    cases: Sequence[Prepared],
    truth: Sequence[bool],
    fold: Fold,
    judged: Callable[[list[int], list[int]], list[float]],
) -> tuple[list[bool], list[float]]:
    """Truth and scores of a fold's own replies, each kept back once inside the fold."""
    expected: list[bool] = []
    scores: list[float] = []
    for inner in folds([cases[place].reply.session for place in fold.learn], _PARTS):
        keep = [fold.learn[place] for place in inner.keep]
        scores += judged([fold.learn[place] for place in inner.learn], keep)
        expected += [truth[place] for place in keep]
    return expected, scores


def _trees() -> Any:
    """The forest of the seed: five hundred trees, ten deep, classes balanced."""
    return scikit("sklearn.ensemble").ExtraTreesClassifier(
        500, max_depth=10, class_weight="balanced", random_state=_SEED, n_jobs=1
    )


def _logistic() -> Any:
    return scikit("sklearn.linear_model").LogisticRegression(C=3.0, class_weight="balanced", max_iter=2_000)


def _words(texts: Sequence[str], learn: list[int], keep: list[int]) -> tuple[Any, Any]:
    reader = scikit("sklearn.feature_extraction.text").TfidfVectorizer(
        ngram_range=(1, 2), min_df=2, sublinear_tf=True
    )
    return reader.fit_transform([texts[place] for place in learn]), reader.transform(
        [texts[place] for place in keep]
    )


def _from_cues(case: Prepared) -> float:
    """The leaning of the first sentence, put between zero and one."""
    return (case.features.numbers["cue score of the first sentence"] + 4) / 12
