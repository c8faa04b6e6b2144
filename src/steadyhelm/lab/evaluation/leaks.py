"""Shuffle what must not matter and see that nothing changes; shuffle what must, and see that figures fall.

A detector that reads labels, names of runs or the future looks good on paper and is worth nothing.
So is one whose figures stay when every call gets another call's result.
"""

import random
import statistics
from collections.abc import Sequence
from typing import Final, Literal

from msgspec import Struct, structs

from steadyhelm.lab.evaluation.expectations import Question
from steadyhelm.lab.evaluation.metrics import balanced_accuracy, total
from steadyhelm.lab.evaluation.places import RunSet
from steadyhelm.lab.evaluation.scoring import RunScore, score_runs
from steadyhelm.lab.evaluation.shuffles import (
    LATER_MUST_NOT_MATTER,
    MUST_MATTER,
    MUST_NOT_MATTER,
    Later,
    Shuffle,
)
from steadyhelm.recordings.run_file import ReadRun
from steadyhelm.replay import FindingReport, Judge

_CHANCE: Final = 0.5
_LABEL_SHUFFLES: Final = 50
"""A single shuffle of few labels may by chance hit many of them again: the mean of several counts."""

Verdict = Literal["as it should be", "LEAK", "NOT USED", "cannot tell"]


class LeakRow(Struct, frozen=True, kw_only=True):
    """One thing shuffled: how many runs were judged differently, and what became of balanced accuracy."""

    shuffled: str
    must_matter: bool
    runs_changed: int
    runs: int
    before: float | None
    after: float | None
    verdict: Verdict


class LeakReport(Struct, frozen=True, kw_only=True):
    """What shuffling did to one set."""

    name: str
    rows: list[LeakRow]

    @property
    def is_clean(self) -> bool:
        """Whether nothing leaks and what must matter does, as far as one can tell."""
        return all(row.verdict in ("as it should be", "cannot tell") for row in self.rows)


class LeakCheck:
    """Checks detectors on one set after another.

    Args:
        judge: Replays runs.
        question: Which findings count, and the label they are held against.
        seed: Makes the shuffling repeatable.
    """

    def __init__(self, judge: Judge, question: Question, *, seed: int = 0) -> None:
        self._judge = judge
        self._question = question
        self._seed = seed

    def check(self, one: RunSet) -> LeakReport:
        """Every shuffle on the runs of one set."""
        plain = self._scores(one.runs)
        rows = [self._unmoved(name, plain, shuffle) for name, shuffle in MUST_NOT_MATTER.items()]
        rows += [self._later(name, plain, change) for name, change in LATER_MUST_NOT_MATTER.items()]
        rows.append(self._labels(plain))
        rows += [self._collapse(name, plain, shuffle) for name, shuffle in MUST_MATTER.items()]
        return LeakReport(name=one.name, rows=rows)

    def _scores(self, runs: Sequence[ReadRun]) -> list[RunScore]:
        return score_runs([(run, self._judge.judge(run).report) for run in runs], self._question)

    def _random(self) -> random.Random:
        return random.Random(self._seed)  # noqa: S311 - shuffling, not secrets

    def _unmoved(self, name: str, plain: Sequence[RunScore], shuffle: Shuffle) -> LeakRow:
        shuffled = self._scores(shuffle([score.run for score in plain], self._random()))
        by_line = {score.run.line: score for score in shuffled}
        others = [by_line[score.run.line] for score in plain]
        changed = sum(_seen(a.found) != _seen(b.found) for a, b in zip(plain, others, strict=True))
        again = [structs.replace(a, found=b.found) for a, b in zip(plain, others, strict=True)]
        return _row(name, plain, changed, after=_accuracy(again))

    def _later(self, name: str, plain: Sequence[RunScore], change: Later) -> LeakRow:
        """Change what follows a run's first finding: the finding itself must stay."""
        flagged = [(score, score.first) for score in plain if score.first is not None]
        again = [self._scores([change(score.run, first)])[0].first for score, first in flagged]
        changed = sum(first != later for (_, first), later in zip(flagged, again, strict=True))
        return _row(name, plain, changed, after=_accuracy(plain) if not changed else None)

    def _labels(self, plain: Sequence[RunScore]) -> LeakRow:
        """Give each run another run's labels: figures that survive this say nothing about the labels."""
        judged = [score for score in plain if score.expected.run is not None]
        draw = self._random()
        changed, figures = 0, []
        for _ in range(_LABEL_SHUFFLES):
            others = draw.sample(judged, len(judged))
            scores = [
                structs.replace(score, expected=other.expected)
                for score, other in zip(judged, others, strict=True)
            ]
            changed += sum(a.counts != b.counts for a, b in zip(judged, scores, strict=True))
            figures.append(_accuracy(scores))
        known = [figure for figure in figures if figure is not None]
        after = statistics.fmean(known) if known else None
        return _fallen("labels, between runs", plain, round(changed / _LABEL_SHUFFLES), after)

    def _collapse(self, name: str, plain: Sequence[RunScore], shuffle: Shuffle) -> LeakRow:
        shuffled = self._scores(shuffle([score.run for score in plain], self._random()))
        changed = sum(_seen(a.found) != _seen(b.found) for a, b in zip(plain, shuffled, strict=True))
        return _fallen(name, plain, changed, _accuracy(shuffled))


def _row(name: str, plain: Sequence[RunScore], changed: int, *, after: float | None) -> LeakRow:
    return LeakRow(
        shuffled=name,
        must_matter=False,
        runs_changed=changed,
        runs=len(plain),
        before=_accuracy(plain),
        after=after,
        verdict="LEAK" if changed else "as it should be",
    )


def _fallen(name: str, plain: Sequence[RunScore], changed: int, after: float | None) -> LeakRow:
    before = _accuracy(plain)
    return LeakRow(
        shuffled=name,
        must_matter=True,
        runs_changed=changed,
        runs=len(plain),
        before=before,
        after=after,
        verdict=_has_fallen(before, after),
    )


def _has_fallen(before: float | None, after: float | None) -> Verdict:
    """Whether at least half of what was better than chance is gone."""
    if before is None or after is None or before <= _CHANCE:
        return "cannot tell"
    return "as it should be" if after - _CHANCE <= (before - _CHANCE) / 2 else "NOT USED"


def _accuracy(scores: Sequence[RunScore]) -> float | None:
    return balanced_accuracy(total(score.counts for score in scores))


def _seen(findings: Sequence[FindingReport]) -> list[tuple[int, str, str, float]]:
    return [(finding.at, finding.detector, finding.severity, finding.score) for finding in findings]
