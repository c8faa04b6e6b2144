"""Compare what was found in a run with its labels."""

import itertools
import json
import re
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from msgspec import Struct

from steadyhelm.events import TOOL_CALL, TraceEvent
from steadyhelm.findings import Severity
from steadyhelm.lab.evaluation.labelled_runs import (
    Expectation,
    LabelQuestion,
    has_label,
    read_expectation,
)
from steadyhelm.lab.evaluation.metrics import Counts
from steadyhelm.recordings.run_file import ReadRun
from steadyhelm.replay import FindingReport, RunReport

# Simple rules that a detector has to beat, and one certain loop, each a plain function over events. They
# share nothing with the detectors: what they compare is the data itself, not a fingerprint.

_WORD: Final = re.compile(r"\w+")
_NEAR_SHARE: Final = 0.9

Rule = Callable[[Sequence[TraceEvent]], list[FindingReport]]
CallComparison = Callable[[TraceEvent, TraceEvent], bool]


class ThreeEqualCalls(NamedTuple):
    """Three equal calls in a row with equal results: the entries of the calls."""

    first: int
    second: int
    third: int


def list_calls(events: Sequence[TraceEvent]) -> list[TraceEvent]:
    """Return the tool calls of a run, in the order they were made."""
    return sorted((event for event in events if event.action_type == TOOL_CALL), key=_get_entry)


def find_repeats(
    events: Sequence[TraceEvent], same: CallComparison, times: int, name: str
) -> list[FindingReport]:
    """Return a finding at each call that is at least the `times`-th alike in a row."""
    calls = list_calls(events)
    found, streak = [], 1
    for before, call in itertools.pairwise(calls):
        streak = streak + 1 if same(before, call) else 1
        if streak >= times:
            found.append(_make_finding(name, call, [before, call], streak))
    return found


def is_same_call(one: TraceEvent, other: TraceEvent) -> bool:
    """Return whether tool and arguments are the same."""
    return one.action_name == other.action_name and one.input_data == other.input_data


def is_near_call(one: TraceEvent, other: TraceEvent) -> bool:
    """Return whether the tool is the same and the arguments share nine words in ten."""
    if one.action_name != other.action_name:
        return False
    return (
        one.input_data == other.input_data
        or jaccard(_collect_words(one), _collect_words(other)) >= _NEAR_SHARE
    )


def is_same_tool(one: TraceEvent, other: TraceEvent) -> bool:
    """Return whether the tool is the same, whatever its arguments."""
    return one.action_name == other.action_name


def jaccard(one: set[str], other: set[str]) -> float:
    """Return the share of words that two sets have in common; two empty sets are alike.

    >>> jaccard({"a", "b", "c"}, {"b", "c", "d"})
    0.5
    """
    either = one | other
    return len(one & other) / len(either) if either else 1.0


RULES: Final[dict[str, Rule]] = {
    "exact repeat, 2 in a row": lambda events: find_repeats(
        events, is_same_call, 2, "exact repeat, 2 in a row"
    ),
    "exact repeat, 3 in a row": lambda events: find_repeats(
        events, is_same_call, 3, "exact repeat, 3 in a row"
    ),
    "near repeat, 2 in a row": lambda events: find_repeats(
        events, is_near_call, 2, "near repeat, 2 in a row"
    ),
    "name only, 4 in a row": lambda events: find_repeats(events, is_same_tool, 4, "name only, 4 in a row"),
}


def find_first_three_equal_calls(events: Sequence[TraceEvent]) -> ThreeEqualCalls | None:
    """Return the first three calls in a row with equal arguments and equal results: certainly a loop.

    No other call is between them, whatever the tool; replies and messages may be.
    """
    calls = list_calls(events)
    for first, second, third in zip(calls, calls[1:], calls[2:], strict=False):
        if _is_same_outcome(first, second) and _is_same_outcome(second, third):
            return ThreeEqualCalls(_get_entry(first), _get_entry(second), _get_entry(third))
    return None


def _is_same_outcome(one: TraceEvent, other: TraceEvent) -> bool:
    return is_same_call(one, other) and one.output_data == other.output_data and one.error == other.error


def _collect_words(call: TraceEvent) -> set[str]:
    return set(_WORD.findall(json.dumps(call.input_data, default=str).lower()))


def _get_entry(event: TraceEvent) -> int:
    return int(event.event_id)


def _make_finding(name: str, call: TraceEvent, proof: list[TraceEvent], streak: int) -> FindingReport:
    return FindingReport(
        at=_get_entry(call),
        detector=name,
        kind="loop",
        severity=Severity.MED,
        score=0.5,
        message=f"{call.action_name} {streak} times in a row",
        evidence=[_get_entry(event) for event in proof],
    )


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
    reports: Sequence[tuple[ReadRun, RunReport]],
    question: LabelQuestion,
    finder: Finder = find_everything,
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
    run: ReadRun, findings: Sequence[FindingReport], question: LabelQuestion
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
