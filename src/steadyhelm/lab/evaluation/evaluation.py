"""Run labelled data through the session, and say how right each detector was."""

import statistics
from collections.abc import Collection, Iterator, Sequence

from msgspec import Struct

from steadyhelm.lab.evaluation.excerpts import ShownEvent, around
from steadyhelm.lab.evaluation.expectations import Question
from steadyhelm.lab.evaluation.metrics import Estimate, estimates, proportion, total
from steadyhelm.lab.evaluation.places import RunSet
from steadyhelm.lab.evaluation.rules import RULES
from steadyhelm.lab.evaluation.scoring import Finder, RunScore, everything, in_words, score_runs
from steadyhelm.recordings.run_file import ReadRun
from steadyhelm.replay import FindingReport, Judge, RunReport, spared

TOGETHER = "together"


class Delay(Struct, frozen=True, kw_only=True):
    """Entries from the labelled one to the one it was found at, over the runs where both are known."""

    median: float
    low: float
    high: float
    values: list[int]


class Figures(Struct, frozen=True, kw_only=True):
    """How one finder (a detector, all of them together, or a simple rule) did on one set.

    `tokens_after` is what was spent after its first finding, until the run's end or the user's next
    word; `tokens_saved` is what the session's own answer would have spared, known only for all
    detectors together.
    Runs that people call clean are left out of both: stopping them saves nothing.
    """

    finder: str
    is_rule: bool
    flagged: int
    runs: int
    counts: dict[str, int]
    run_level: dict[str, Estimate]
    step_counts: dict[str, int]
    step_level: dict[str, Estimate]
    in_time: Estimate | None
    delay: Delay | None
    tokens_after: int
    tokens_saved: int | None


class Miss(Struct, frozen=True, kw_only=True):
    """A run that was judged wrongly, or flagged though nobody said anything about it."""

    run_id: str
    group: str
    wrong: str
    expected: str
    found: list[FindingReport]
    events: list[ShownEvent]


class SetReport(Struct, frozen=True, kw_only=True):
    """One set: the figures of every finder, and every run that all detectors together got wrong."""

    name: str
    runs: int
    labelled: int
    positive: int
    broken: int
    figures: list[Figures]
    by_group: dict[str, Figures]
    misses: list[Miss]


class Evaluation(Struct, frozen=True, kw_only=True):
    """What `steadyhelm lab eval` found out."""

    question: Question
    samples: int
    seed: int
    detectors: list[str]
    troubles: dict[str, int]
    sets: list[SetReport]


class Evaluator:
    """Holds detectors and simple rules against labels.

    Args:
        judge: Replays runs.
        question: What is asked, and which findings answer it.
        samples: How often runs are resampled for an interval.
        seed: Makes the intervals repeatable.
        groups: Only runs of these groups (such as tiers) count; empty counts all.
    """

    def __init__(
        self,
        judge: Judge,
        question: Question,
        *,
        samples: int = 1000,
        seed: int = 0,
        groups: Collection[str] = (),
    ) -> None:
        self._judge = judge
        self._question = question
        self._samples = samples
        self._seed = seed
        self._groups = groups

    def evaluate(self, sets: Sequence[RunSet]) -> Evaluation:
        """Figures for each set by itself: sets are labelled in different ways."""
        reports = [self.report(one) for one in sets]
        return Evaluation(
            question=self._question,
            samples=self._samples,
            seed=self._seed,
            detectors=self._judge.detectors,
            troubles=self._judge.troubles,
            sets=reports,
        )

    def report(self, one: RunSet) -> SetReport:
        """The figures of one set."""
        reports = [(run, self._judge.judge(run).report) for run in one.runs]
        together = self._scores(reports, everything)
        figures = [self._figures(TOGETHER, together)]
        names = self._judge.detectors
        figures += [self._figures(name, self._scores(reports, _only(name))) for name in names]
        for name in RULES if self._question.kind == "loop" else ():
            figures.append(self._figures(name, self._scores(reports, _rule(name)), is_rule=True))
        groups = sorted({score.expected.group for score in together} - {""})
        return SetReport(
            name=one.name,
            runs=len(together),
            labelled=sum(score.expected.run is not None for score in together),
            positive=sum(bool(score.expected.run) for score in together),
            broken=len(one.broken),
            figures=figures,
            by_group={
                group: self._figures(TOGETHER, [s for s in together if s.expected.group == group])
                for group in groups
            },
            misses=list(_misses(together)),
        )

    def _scores(self, reports: Sequence[tuple[ReadRun, RunReport]], finder: Finder) -> list[RunScore]:
        scores = score_runs(reports, self._question, finder)
        if not self._groups:
            return scores
        return [score for score in scores if score.expected.group in self._groups]

    def _figures(self, finder: str, scores: Sequence[RunScore], *, is_rule: bool = False) -> Figures:
        judged = [score for score in scores if score.expected.run is not None]
        stepped = [score for score in judged if score.expected.steps is not None]
        dated = [score for score in judged if score.in_time is not None]
        worth = [score for score in scores if score.expected.run is not False]
        saved = [score.tokens_saved for score in worth if score.tokens_saved is not None]
        return Figures(
            finder=finder,
            is_rule=is_rule,
            flagged=sum(bool(score.found) for score in scores),
            runs=len(scores),
            counts=total(score.counts for score in judged)._asdict(),
            run_level=estimates([score.counts for score in judged], samples=self._samples, seed=self._seed),
            step_counts=total(score.step_counts for score in stepped)._asdict(),
            step_level=estimates(
                [score.step_counts for score in stepped], samples=self._samples, seed=self._seed
            ),
            in_time=proportion(sum(bool(s.in_time) for s in dated), len(dated)) if dated else None,
            delay=_delay(judged),
            tokens_after=sum(_tokens_after(score) for score in worth),
            tokens_saved=sum(saved) if finder == TOGETHER and saved else None,
        )


def _only(detector: str) -> Finder:
    return lambda _, report: [finding for finding in report.findings if finding.detector == detector]


def _rule(name: str) -> Finder:
    return lambda run, _: RULES[name](run.events)


def _delay(scores: Sequence[RunScore]) -> Delay | None:
    values = sorted(score.delay for score in scores if score.delay is not None)
    if not values:
        return None
    low, _, high = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
    return Delay(median=statistics.median(values), low=low, high=high, values=values)


def _tokens_after(score: RunScore) -> int:
    if score.first is None:
        return 0
    place = next(i for i, event in enumerate(score.run.events) if int(event.event_id) == score.first)
    return sum(event.token_count for event in spared(score.run.events, place))


def _misses(scores: Sequence[RunScore]) -> Iterator[Miss]:
    for score in scores:
        wrong = _wrong(score)
        if not wrong:
            continue
        yield Miss(
            run_id=score.run.info.run_id,
            group=score.expected.group,
            wrong=wrong,
            expected=in_words(score.expected),
            found=score.found,
            events=around(score),
        )


def _wrong(score: RunScore) -> str:
    """In what way a run was judged wrongly; empty when it was not."""
    if score.expected.run is None:
        return "flagged, not labelled" if score.found else ""
    if score.counts.fn:
        return "missed"
    if score.counts.fp:
        return "false alarm"
    if score.in_time is False:
        return "late"
    steps = score.step_counts
    return f"{steps.fn} steps missed, {steps.fp} too many" if steps.fn or steps.fp else ""
