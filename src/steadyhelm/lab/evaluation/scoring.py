"""Hold what was found in a run against what people say about it."""

from collections.abc import Callable, Sequence

from msgspec import Struct

from steadyhelm.lab.evaluation.expectations import Expectation, Question, expect, uses
from steadyhelm.lab.evaluation.metrics import Counts
from steadyhelm.lab.evaluation.rules import calls_of
from steadyhelm.recordings.run_file import ReadRun
from steadyhelm.replay import FindingReport, RunReport


class RunScore(Struct, frozen=True, kw_only=True):
    """One run held against one expectation; `found` are the findings that count for the question."""

    run: ReadRun
    expected: Expectation
    found: list[FindingReport]
    tokens_saved: int | None = None

    @property
    def first(self) -> int | None:
        """The entry of the first finding."""
        return min((finding.at for finding in self.found), default=None)

    @property
    def counts(self) -> Counts:
        """Right or wrong about the run as a whole; nothing when nobody said."""
        if self.expected.run is None:
            return Counts()
        return Counts.of(expected=self.expected.run, found=bool(self.found))

    @property
    def step_counts(self) -> Counts:
        """Right or wrong step by step: a step is a call that has one before it."""
        steps = self.expected.steps
        if steps is None:
            return Counts()
        found = {finding.at for finding in self.found}
        judged = {int(call.event_id) for call in calls_of(self.run.events)[1:]} | steps | found
        both = len(steps & found)
        return Counts(both, len(found - steps), len(steps - found), len(judged - steps - found))

    @property
    def in_time(self) -> bool | None:
        """Whether it was found no later than it had to be; None when no such place was named."""
        if not self.expected.run or self.expected.at_most is None:
            return None
        return self.first is not None and self.first <= self.expected.at_most

    @property
    def delay(self) -> int | None:
        """Entries from the one labelled first to the one it was found at; negative when found before."""
        labelled = self.expected.first if self.expected.first is not None else self.expected.at_most
        if not self.expected.run or labelled is None or self.first is None:
            return None
        return self.first - labelled


Finder = Callable[[ReadRun, RunReport], Sequence[FindingReport]]
"""Gives the findings of a detector, of all of them, or of a rule."""


def everything(run: ReadRun, report: RunReport) -> Sequence[FindingReport]:  # noqa: ARG001 - a finder
    """The finder that gives what all detectors found together."""
    return report.findings


def score_runs(
    reports: Sequence[tuple[ReadRun, RunReport]], question: Question, finder: Finder = everything
) -> list[RunScore]:
    """What a finder found in each run of a set, held against what people say about it."""
    is_used = uses([run for run, _ in reports], question.label)
    return [
        RunScore(
            run=run,
            expected=expect(run, question, is_used=is_used),
            found=counted(run, finder(run, report), question),
            tokens_saved=report.tokens_saved,
        )
        for run, report in reports
    ]


def in_words(expected: Expectation) -> str:
    """What people say about a run."""
    if expected.run is None:
        return "nobody said"
    if expected.steps:
        return f"at {', '.join(map(str, sorted(expected.steps)))}"
    if not expected.run:
        return "clean"
    if expected.at_most is not None:
        return f"no later than {expected.at_most}"
    return "somewhere" if expected.first is None else f"first at {expected.first}"


def counted(run: ReadRun, findings: Sequence[FindingReport], question: Question) -> list[FindingReport]:
    """The findings that answer the question."""
    of_kind = [
        finding
        for finding in findings
        if finding.kind == question.kind and finding.severity.rank >= question.severity.rank
    ]
    if not question.adjacent or not of_kind:
        return of_kind
    before = _call_before(run)
    return [finding for finding in of_kind if before(finding.at) in finding.evidence]


def _call_before(run: ReadRun) -> Callable[[int], int | None]:
    places = [int(call.event_id) for call in calls_of(run.events)]

    def before(at: int) -> int | None:
        return max((place for place in places if place < at), default=None)

    return before
