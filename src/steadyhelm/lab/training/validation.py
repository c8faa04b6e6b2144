"""Validate learnt weights: on replies that were held out, on shuffled data, and beside other learners."""

import random
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Final

from msgspec import Struct, structs

from steadyhelm.corrections.reply_classifier import label_reply
from steadyhelm.detectors.user_correction import MIN_PROBABILITY
from steadyhelm.lab.evaluation.metrics import Estimate
from steadyhelm.lab.training.classifier_metrics import (
    auc,
    choose_drift_threshold,
    decision_f1,
    estimate_by_group,
    macro_f1,
)
from steadyhelm.lab.training.fitting import (
    Fold,
    PreparedReply,
    import_scikit,
    learn_weights,
    limit_to_one_thread,
    make_folds,
    prepare,
)
from steadyhelm.lab.training.labelled_replies import LabelledReply


class HeldOutResults(Struct, frozen=True, kw_only=True):
    """For each reply, judged by weights from other groups: its label.

    The thresholds were chosen inside each fold too, so a figure holds for weights and thresholds together.
    """

    sessions: list[str]
    turns: list[int]
    truth: list[str]
    is_drift: list[bool]
    drift: list[float]
    found: list[bool]
    primary: list[str]
    takes_up: list[bool]


def judge_held_out(cases: Sequence[PreparedReply], make_folds: Sequence[Fold]) -> HeldOutResults:
    """Learn from each fold's replies and judge those it holds out, just as the shipped functions would."""
    count = len(cases)
    drift, found, primary = [0.0] * count, [False] * count, [""] * count
    for fold in make_folds:
        weights = learn_weights([cases[place] for place in fold.learn])
        for place in fold.keep:
            label = label_reply(cases[place].features, weights)
            drift[place], found[place], primary[place] = label.drift, label.is_drift, label.primary
    return HeldOutResults(
        sessions=[case.reply.session for case in cases],
        turns=[case.reply.turn for case in cases],
        truth=[case.reply.labels.primary for case in cases],
        is_drift=[case.reply.is_drift for case in cases],
        drift=drift,
        found=found,
        primary=primary,
        takes_up=[case.features.takes_up_prompt for case in cases],
    )


def select_results(judged: HeldOutResults, places: Sequence[int]) -> HeldOutResults:
    """Return the results of some of the replies."""
    return HeldOutResults(
        sessions=[judged.sessions[place] for place in places],
        turns=[judged.turns[place] for place in places],
        truth=[judged.truth[place] for place in places],
        is_drift=[judged.is_drift[place] for place in places],
        drift=[judged.drift[place] for place in places],
        found=[judged.found[place] for place in places],
        primary=[judged.primary[place] for place in places],
        takes_up=[judged.takes_up[place] for place in places],
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
}


# Two corrections of one thing in a row, or three of anything, are what a reminder follows: how often is that
# right, from which probability on?

REPEAT_THRESHOLDS: Final = (0.4, 0.45, MIN_PROBABILITY, 0.55, 0.6)


class RepeatFigures(Struct, frozen=True, kw_only=True):
    """Two replies in a row that are both corrections with this probability or more.

    The second is about the same thing as the first, or the third in a row.
    `found` and `right` count such pairs, and those of which both are labelled as drift; the others count
    sessions: with such a pair, of these the right ones, and all with two labelled in a row.
    """

    threshold: float
    found: int
    right: int
    sessions_found: int
    sessions_right: int
    sessions_labelled: int


def measure_repeats(judged: HeldOutResults, threshold: float) -> RepeatFigures:
    """Return how often two corrections in a row are found, and rightly so, by session."""
    order = sorted(range(len(judged.turns)), key=lambda place: (judged.sessions[place], judged.turns[place]))
    pairs = [
        (one, two)
        for one, two in pairwise(order)
        if judged.sessions[one] == judged.sessions[two] and judged.turns[two] - judged.turns[one] == 1
    ]
    labelled = [pair for pair in pairs if all(judged.is_drift[place] for place in pair)]
    likely = {pair for pair in pairs if all(judged.drift[place] >= threshold for place in pair)}
    after_two = {two for one, two in likely if any(second == one for _, second in likely)}
    found = [pair for pair in likely if judged.takes_up[pair[1]] or pair[1] in after_two]
    sessions_found, sessions_labelled = (
        {judged.sessions[one] for one, _ in some} for some in (found, labelled)
    )
    return RepeatFigures(
        threshold=threshold,
        found=len(found),
        right=len(set(found) & set(labelled)),
        sessions_found=len(sessions_found),
        sessions_right=len(sessions_found & sessions_labelled),
        sessions_labelled=len(sessions_labelled),
    )


# Shuffle what the figures must come from, and check that they fall to chance. Shuffled labels leave nothing
# to learn, shuffled texts nothing to recognise: anything above chance would be a leak.

_FOLDS: Final = 5
_CHANCE: Final = 0.5
_SLACK: Final = 0.06
"""About two standard errors of an AUC with two hundred positives."""


class LeakFigure(Struct, frozen=True, kw_only=True):
    """One thing shuffled, the AUC that remained, and whether it must have fallen to chance."""

    shuffled: str
    drift: float
    must_fall: bool

    @property
    def is_clean(self) -> bool:
        """Whether the figure fell, if it must."""
        return not self.must_fall or self.drift <= _CHANCE + _SLACK


HeldOutScorer = Callable[[Sequence[LabelledReply], Sequence[Fold]], Sequence[float]]
"""Returns the drift of each reply, judged by what was learnt from the other folds."""


def score_linear(replies: Sequence[LabelledReply], parts: Sequence[Fold]) -> Sequence[float]:
    """Return the drift of each reply by linear weights that were learnt from the other folds."""
    return judge_held_out(prepare(replies), parts).drift


def check_leaks(
    replies: Sequence[LabelledReply], *, seed: int = 0, score: HeldOutScorer = score_linear
) -> list[LeakFigure]:
    """Learn and judge again with labels, texts and replies shuffled; folds are by session."""
    draw = random.Random(seed)  # noqa: S311 - shuffling, not secrets
    parts = make_folds([reply.session for reply in replies], _FOLDS)

    def measure(what: str, given: Sequence[LabelledReply], *, must_fall: bool = True) -> LeakFigure:
        drift = auc([reply.is_drift for reply in given], score(given, parts))
        return LeakFigure(shuffled=what, drift=drift or _CHANCE, must_fall=must_fall)

    return [
        measure("nothing", replies, must_fall=False),
        measure("labels", _exchange_labels(replies, draw)),
        measure("texts and counts", _exchange_turns(replies, draw)),
        measure("texts", _exchange_texts(replies, draw)),
        measure("the reply's text", _exchange_replies(replies, draw), must_fall=False),
    ]


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


# Measure what other learners reach on the same folds, for comparison.

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
