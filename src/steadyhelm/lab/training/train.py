"""Learn the weights of the reply classifier and of foresight from labelled replies.

The same replies give the same weights.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from steadyhelm.corrections.model import CorrectionWeights
from steadyhelm.errors import FormatError
from steadyhelm.lab.training.folds import Fold, folds
from steadyhelm.lab.training.kept_back import figures_of, judge_kept_back
from steadyhelm.lab.training.leaks import check_leaks
from steadyhelm.lab.training.replies import LabelledReply
from steadyhelm.lab.training.report import TrainingReport, importances
from steadyhelm.lab.training.rivals import rivals
from steadyhelm.lab.training.weights import Prepared, learn, prepare

_SESSION_PARTS: Final = 10


def train(replies: Sequence[LabelledReply], *, quick: bool = False, samples: int = 1000) -> TrainingReport:
    """Learn from all replies, and judge by folds of sessions and of projects what that is worth.

    With `quick` the leak check and the comparison with other ways of learning are left out.
    """
    cases = prepare(replies)
    weights = learn(cases)
    judged = {name: judge_kept_back(cases, parts) for name, parts in _folds(replies).items()}
    return TrainingReport(
        weights=weights,
        figures={name: figures_of(one, samples=samples) for name, one in judged.items()},
        judged=judged,
        importances=_importances(cases, weights),
        leaks=[] if quick else check_leaks(replies),
        rivals={} if quick else {name: rivals(cases, parts) for name, parts in _folds(replies).items()},
    )


def write_weights(weights: CorrectionWeights, target: Path) -> int:
    """Write the file that is shipped, and say how many bytes it has."""
    content = msgspec.json.encode(weights) + b"\n"
    try:
        target.write_bytes(content)
    except OSError as exc:
        raise FormatError(f"{str(target)!r} cannot be written: {exc.strerror or exc}.") from exc
    return len(content)


def _folds(replies: Sequence[LabelledReply]) -> dict[str, list[Fold]]:
    return {
        "session": folds([reply.session for reply in replies], _SESSION_PARTS),
        "project": folds([reply.repo for reply in replies]),
    }


def _importances(cases: Sequence[Prepared], weights: CorrectionWeights) -> dict[str, float]:
    of_replies = importances(weights.reply, [case.features.numbers for case in cases], "correction")
    of_turns = importances(weights.forecast, [case.outlook for case in cases], "correction")
    return of_replies | {f"foreseen: {name}": value for name, value in of_turns.items()}
