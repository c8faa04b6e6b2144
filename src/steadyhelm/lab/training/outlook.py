"""Learn which way each number at the end of a turn points, and how much the sum of them says.

Only directions are learnt, not weights: with few corrections to learn from, weights fitted to some projects
held less well in others than voices that all count the same.
"""

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from steadyhelm.corrections.forecast import FEATURE_GROUPS
from steadyhelm.corrections.model import LinearModel
from steadyhelm.lab.training.fit import scikit
from steadyhelm.lab.training.folds import folds

_PARTS: Final = 5
_DOUBT: Final = 1.0
"""At this many standard errors from no connection a number has half its voice."""


class Turn(NamedTuple):
    """One end of a turn to learn from; `session` is what it may depend on."""

    numbers: dict[str, float]
    corrected: bool
    session: str


class _Sum(NamedTuple):
    """Weights of the numbers as they are taken, and what is added to their sum."""

    weights: Any
    shift: float


def learn_outlook(turns: Sequence[Turn]) -> LinearModel:
    """A model with one voice for each matter, whose probabilities held for sessions that were kept back."""
    numpy, linear = scikit("numpy"), scikit("sklearn.linear_model")
    names = list(turns[0].numbers)
    rows = numpy.array([[turn.numbers[name] for name in names] for turn in turns])
    corrected = numpy.array([float(turn.corrected) for turn in turns])
    sharing = numpy.array([_sharing(name) for name in names])
    sums = numpy.zeros(len(turns))
    for fold in folds([turn.session for turn in turns], _PARTS):
        part = _voices(rows[fold.learn], corrected[fold.learn], sharing)
        sums[fold.keep] = rows[fold.keep] @ part.weights + part.shift
    scale = linear.LogisticRegression().fit(sums[:, None], corrected)
    slope, base = float(scale.coef_[0, 0]), float(scale.intercept_[0])
    whole = _voices(rows, corrected, sharing)
    return LinearModel(
        base="no correction",
        classes=("correction",),
        intercepts=(base + slope * whole.shift,),
        numbers={name: (slope * float(weight),) for name, weight in zip(names, whole.weights, strict=True)},
    )


def _voices(rows: Any, corrected: Any, sharing: Any) -> _Sum:
    """A voice for each number: near one or minus one where its direction is sure, near none where not."""
    means, spreads = rows.mean(axis=0), rows.std(axis=0)
    spreads[spreads == 0] = 1.0
    apart = (corrected - corrected.mean()) / (corrected.std() or 1.0)
    errors_off = ((rows - means) / spreads).T @ apart / math.sqrt(len(rows))
    weights = errors_off / (_DOUBT + abs(errors_off)) / sharing / spreads
    return _Sum(weights, -float(weights @ means))


def _sharing(name: str) -> int:
    """How many numbers share the voice this one has."""
    return next((len(matter) for matter in FEATURE_GROUPS if name in matter), 1)
