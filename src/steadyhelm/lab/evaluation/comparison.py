"""Compare what two settings find in the same runs."""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from steadyhelm.lab.evaluation.labelled_runs import LabelQuestion, RunSet
from steadyhelm.lab.evaluation.metrics import Estimate, estimate_all
from steadyhelm.lab.evaluation.scoring import RunScore, score_runs
from steadyhelm.recordings.run_file import ReadRun
from steadyhelm.replay import Replayer, RunReport

ChangeKind = Literal["newly flagged", "no longer flagged", "earlier", "later"]


class JudgementChange(Struct, frozen=True, kw_only=True):
    """A run that the two settings judge differently; `expected` is None when it is not labelled."""

    run_id: str
    change: ChangeKind
    before: int | None
    after: int | None
    expected: bool | None
    words: str


class SetComparison(Struct, frozen=True, kw_only=True):
    """The effect of the change on one set."""

    name: str
    runs: int
    flagged: tuple[int, int]
    tokens_saved: tuple[int, int]
    f1: tuple[Estimate, Estimate] | None
    changed: list[JudgementChange]


class Comparison(Struct, frozen=True, kw_only=True):
    """The result of `steadyhelm lab compare`."""

    before: str
    after: str
    question: LabelQuestion
    sets: list[SetComparison]


class Comparer:
    """Replays the same runs under two settings.

    Args:
        before: Judges with the current settings.
        after: Judges with the changed settings.
        question: Which findings count, and the label they are compared with.
    """

    def __init__(
        self,
        before: Replayer,
        after: Replayer,
        question: LabelQuestion,
        *,
        samples: int = 1000,
        seed: int = 0,
    ) -> None:
        self._replayers = (before, after)
        self._question = question
        self._samples = samples
        self._seed = seed

    def compare(self, one: RunSet) -> SetComparison:
        """Return the effect of the change on the runs of one set."""
        before, after = (
            [(it.run, it.report) for it in replayer.judge_all(one.runs)] for replayer in self._replayers
        )
        first, second = score_runs(before, self._question), score_runs(after, self._question)
        pairs = list(zip(first, second, strict=True))
        is_labelled = any(score.expected.run is not None for score in first)
        return SetComparison(
            name=one.name,
            runs=len(one.runs),
            flagged=(_count_flagged(first), _count_flagged(second)),
            tokens_saved=(_sum_tokens_saved(before), _sum_tokens_saved(after)),
            f1=(self._estimate_f1(first), self._estimate_f1(second)) if is_labelled else None,
            changed=[change for pair in pairs if (change := _compare_scores(*pair)) is not None],
        )

    def _estimate_f1(self, scores: Sequence[RunScore]) -> Estimate:
        counts = [score.counts for score in scores if score.expected.run is not None]
        return estimate_all(counts, samples=self._samples, seed=self._seed)["f1"]


def _count_flagged(scores: Sequence[RunScore]) -> int:
    return sum(bool(score.found) for score in scores)


def _sum_tokens_saved(reports: Sequence[tuple[ReadRun, RunReport]]) -> int:
    return sum(report.tokens_saved or 0 for _, report in reports)


def _name_change(before: int | None, after: int | None) -> ChangeKind:
    """Return how the step at which a run is first flagged changed."""
    if before is None:
        return "newly flagged"
    if after is None:
        return "no longer flagged"
    return "earlier" if after < before else "later"


def _compare_scores(before: RunScore, after: RunScore) -> JudgementChange | None:
    if before.first == after.first:
        return None
    shown = after if after.found else before
    return JudgementChange(
        run_id=before.run.info.run_id,
        change=_name_change(before.first, after.first),
        before=before.first,
        after=after.first,
        expected=before.expected.run,
        words=min(shown.found, key=lambda finding: finding.at).message,
    )
