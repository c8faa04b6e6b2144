"""Compare what was found in a run with its labels."""

from collections.abc import Callable, Sequence

from msgspec import Struct

from steadyhelm.lab.evaluation.expectations import Expectation, Question, has_label, read_expectation
from steadyhelm.lab.evaluation.metrics import Counts
from steadyhelm.lab.evaluation.simple_rules import list_calls
from steadyhelm.recordings.run_file import ReadRun
from steadyhelm.replay import FindingReport, RunReport


class RunScore(Struct, frozen=True, kw_only=True):
    """One run compared with one expectation; `found` are the findings that count for the question."""

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
        """Right or wrong about the run as a whole; all zero when it is not labelled."""
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
        judged = {int(call.event_id) for call in list_calls(self.run.events)[1:]} | steps | found
        both = len(steps & found)
        return Counts(both, len(found - steps), len(steps - found), len(judged - steps - found))

    @property
    def in_time(self) -> bool | None:
        """Whether it was found no later than required; None when no latest entry is known."""
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


def find_everything(run: ReadRun, report: RunReport) -> Sequence[FindingReport]:  # noqa: ARG001 - a finder
    """Return what all detectors found together."""
    return report.findings


def score_runs(
    reports: Sequence[tuple[ReadRun, RunReport]], question: Question, finder: Finder = find_everything
) -> list[RunScore]:
    """Return what a finder found in each run of a set, compared with its labels."""
    is_used = has_label([run for run, _ in reports], question.label)
    return [
        RunScore(
            run=run,
            expected=read_expectation(run, question, is_used=is_used),
            found=select_findings(run, finder(run, report), question),
            tokens_saved=report.tokens_saved,
        )
        for run, report in reports
    ]


def describe_expectation(expected: Expectation) -> str:
    """Return what the labels say about a run, in words."""
    if expected.run is None:
        return "not labelled"
    if expected.steps:
        return f"at {', '.join(map(str, sorted(expected.steps)))}"
    if not expected.run:
        return "clean"
    if expected.at_most is not None:
        return f"no later than {expected.at_most}"
    return "somewhere" if expected.first is None else f"first at {expected.first}"


def select_findings(
    run: ReadRun, findings: Sequence[FindingReport], question: Question
) -> list[FindingReport]:
    """Return the findings that answer the question."""
    of_kind = [
        finding
        for finding in findings
        if finding.kind == question.kind and finding.severity.rank >= question.severity.rank
    ]
    if not question.adjacent or not of_kind:
        return of_kind
    before = _make_previous_call_lookup(run)
    return [finding for finding in of_kind if before(finding.at) in finding.evidence]


def _make_previous_call_lookup(run: ReadRun) -> Callable[[int], int | None]:
    places = [int(call.event_id) for call in list_calls(run.events)]

    def before(at: int) -> int | None:
        return max((place for place in places if place < at), default=None)

    return before
