"""Make learnt shares mean what they say, judged on cases that were kept back."""

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from steadyhelm.corrections.model import LinearModel
from steadyhelm.lab.training.fit import Example, Recipe, fit, scikit
from steadyhelm.lab.training.folds import folds
from steadyhelm.lab.training.replies import CLASSES

_PARTS: Final = 5
_LEAST: Final = 1e-9

Shares = dict[str, float]


class Calibrated(NamedTuple):
    """A model whose shares can be taken at their word, and what shares each example got while kept back."""

    model: LinearModel
    kept_back: list[Shares]


def fit_calibrated(examples: Sequence[Example], recipe: Recipe) -> Calibrated:
    """Learn, and correct the shares by how they turned out for groups that were kept back."""
    odds = _odds_kept_back(examples, recipe)
    learner = scikit("sklearn.linear_model").LogisticRegression(max_iter=1_000)
    learner.fit(odds, [example.learnt_as for example in examples])
    order = [list(learner.classes_).index(name) for name in CLASSES]
    turn = learner.coef_[order[1:]] - learner.coef_[order[0]]
    shift = learner.intercept_[order[1:]] - learner.intercept_[order[0]]
    shares = learner.predict_proba(odds)[:, order].tolist()
    kept_back = [dict(zip(CLASSES, row, strict=True)) for row in shares]
    return Calibrated(_turned(fit(examples, recipe), turn, shift), kept_back)


def _odds_kept_back(examples: Sequence[Example], recipe: Recipe) -> list[list[float]]:
    odds: list[list[float]] = [[] for _ in examples]
    for fold in folds([example.group for example in examples], _PARTS):
        model = fit([examples[place] for place in fold.learn], recipe)
        for place in fold.keep:
            shares = model.predict(examples[place].numbers, examples[place].terms)
            odds[place] = [
                math.log(max(shares[name], _LEAST) / max(shares[CLASSES[0]], _LEAST)) for name in CLASSES[1:]
            ]
    return odds


def _turned(model: LinearModel, turn: Any, shift: Any) -> LinearModel:
    """The same model with the correction worked into its weights."""

    def row(values: Sequence[float]) -> tuple[float, ...]:
        return tuple((turn @ scikit("numpy").array(values)).tolist())

    return LinearModel(
        base=model.base,
        classes=model.classes,
        intercepts=tuple((turn @ scikit("numpy").array(model.intercepts) + shift).tolist()),
        numbers={name: row(values) for name, values in model.numbers.items()},
        terms={term: (values[0], *row(values[1:])) for term, values in model.terms.items()},
    )
