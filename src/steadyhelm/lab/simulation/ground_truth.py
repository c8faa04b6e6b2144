"""Decide which recorded runs loop and which are healthy, from labels or a plain rule."""

from collections.abc import Sequence
from typing import Any, Final, Literal

from msgspec import Struct

from steadyhelm.lab.evaluation.expectations import OUTCOMES, Question, has_label, read_expectation
from steadyhelm.lab.evaluation.simple_rules import find_first_three_equal_calls
from steadyhelm.recordings.run_file import ReadRun

_LOOP: Final = Question()
SUCCESS: Final = "success"

HealthReason = Literal["succeeded", "unjudged", ""]


class SetTruth(Struct, frozen=True, kw_only=True):
    """What is known about the runs of a set as a whole.

    `loops_from` is whether labels or a plain rule define its loops, `definition` the same in words;
    `is_used` that some run carries a label for loops, `has_outcomes` that some run says how it ended.
    """

    loops_from: Literal["label", "rule"]
    definition: str
    is_used: bool
    has_outcomes: bool

    @property
    def is_unjudged(self) -> bool:
        """Whether nothing is known about these runs: they are then treated as healthy."""
        return not self.has_outcomes and self.loops_from == "rule"


class RunTruth(Struct, frozen=True, kw_only=True):
    """What is known about one run, independent of any policy.

    `evidence` is the step at which its loop first shows, None where it has none or its place is not labelled.
    `healthy_because` is why it should get no response: it succeeded, or no run of its set is judged.
    `repeats` is whether any label says loop, or three equal calls in a row had equal results.
    """

    outcome: str
    is_looping: bool
    evidence: int | None
    healthy_because: HealthReason
    repeats: bool

    @property
    def is_healthy(self) -> bool:
        """Whether the run should get no response."""
        return bool(self.healthy_because) and not self.repeats


def read_set_truth(runs: Sequence[ReadRun]) -> SetTruth:
    """Return how the loops of a set are known, and whether any run has an outcome."""
    is_used = has_label(runs, _LOOP.label)
    marked = [run for run in runs if read_expectation(run, _LOOP, is_used=is_used).run]
    by_people = [run for run in marked if not _is_from_detector(_find_loop_marks(run))]
    loops_from: Literal["label", "rule"] = "label" if by_people else "rule"
    if by_people:
        derived = any(mark.get("derived") for run in by_people for mark in _find_loop_marks(run))
        words = "labelled as a loop" + (", derived from what annotators wrote" if derived else "")
    else:
        words = "three equal calls in a row with equal results"
        words += "; its labels come from another detector" if marked else "; no loops are labelled"
    has_outcomes = any(run.outcome in OUTCOMES for run in runs)
    return SetTruth(loops_from=loops_from, definition=words, is_used=is_used, has_outcomes=has_outcomes)


def read_run_truth(run: ReadRun, known: SetTruth) -> RunTruth:
    """Return what is known about a run of this set."""
    expected = read_expectation(run, _LOOP, is_used=known.is_used)
    triple = find_first_three_equal_calls(run.events)
    if known.loops_from == "label":
        is_looping = bool(expected.run)
        first = expected.first if expected.first is not None else expected.at_most
    else:
        is_looping = triple is not None
        # The second of them is the first that repeats, which is also where people put their labels.
        first = triple.second if triple is not None else None
    return RunTruth(
        outcome=run.outcome if run.outcome in OUTCOMES else "",
        is_looping=is_looping,
        evidence=_find_step(run, first) if is_looping and first is not None else None,
        healthy_because="succeeded" if run.outcome == SUCCESS else "unjudged" if known.is_unjudged else "",
        repeats=triple is not None or bool(expected.run) or bool(_find_loop_marks(run)),
    )


def _find_loop_marks(run: ReadRun) -> list[dict[str, Any]]:
    return [mark for mark in run.labels if isinstance(mark, dict) and mark.get("kind") == _LOOP.label]


def _is_from_detector(marks: Sequence[dict[str, Any]]) -> bool:
    """Return whether all labels come from another detector: agreeing with it proves nothing."""
    return bool(marks) and all(str(mark.get("by", "")).endswith("detector") for mark in marks)


def _find_step(run: ReadRun, entry: int) -> int:
    """Return the step of an entry: the one that began with it, or the last before it."""
    begun = [(int(event.event_id), place) for place, event in enumerate(run.events)]
    return max((pair for pair in begun if pair[0] <= entry), default=(0, 0))[1]
