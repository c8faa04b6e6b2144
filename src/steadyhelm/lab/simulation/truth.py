"""Which recorded runs loop and which are healthy, as far as anybody or a plain rule can tell."""

from collections.abc import Sequence
from typing import Any, Final, Literal

from msgspec import Struct

from steadyhelm.lab.evaluation.expectations import OUTCOMES, Question, expect, uses
from steadyhelm.lab.evaluation.rules import first_triple
from steadyhelm.recordings.run_file import ReadRun

_LOOP: Final = Question()
SUCCESS: Final = "success"

Well = Literal["succeeded", "unjudged", ""]


class Known(Struct, frozen=True, kw_only=True):
    """What is known about the runs of a set as a whole.

    `told_by` says whether people's labels or a plain rule tell its loops, `definition` the same in words;
    `is_used` that some run carries a label for loops, `has_outcomes` that some run says how it ended.
    """

    told_by: Literal["label", "rule"]
    definition: str
    is_used: bool
    has_outcomes: bool

    @property
    def is_unjudged(self) -> bool:
        """Whether nobody said anything about these runs: then they have to be taken for healthy."""
        return not self.has_outcomes and self.told_by == "rule"


class Truth(Struct, frozen=True, kw_only=True):
    """What is known about one run, whatever a policy makes of it.

    `evidence` is the step at which its loop first shows, None where it has none or nobody said where.
    `well` says why it should be left alone: it succeeded, or nobody said anything against any run of its set.
    `repeats` says that anybody calls it a loop, or that three equal calls in a row got equal results.
    """

    outcome: str
    is_looping: bool
    evidence: int | None
    well: Well
    repeats: bool

    @property
    def is_healthy(self) -> bool:
        """Whether it should be left alone."""
        return bool(self.well) and not self.repeats


def known_of(runs: Sequence[ReadRun]) -> Known:
    """How the loops of a set are told, and whether anybody says how its runs ended."""
    is_used = uses(runs, _LOOP.label)
    marked = [run for run in runs if expect(run, _LOOP, is_used=is_used).run]
    by_people = [run for run in marked if not _is_by_a_rule(_loop_marks(run))]
    told_by: Literal["label", "rule"] = "label" if by_people else "rule"
    if by_people:
        derived = any(mark.get("derived") for run in by_people for mark in _loop_marks(run))
        words = "labelled as a loop" + (", derived from what annotators wrote" if derived else "")
    else:
        words = "three equal calls in a row with equal results"
        words += "; its labels come from another detector" if marked else "; nobody labelled loops"
    has_outcomes = any(run.outcome in OUTCOMES for run in runs)
    return Known(told_by=told_by, definition=words, is_used=is_used, has_outcomes=has_outcomes)


def truth_of(run: ReadRun, known: Known) -> Truth:
    """What is known about a run of this set."""
    expected = expect(run, _LOOP, is_used=known.is_used)
    triple = first_triple(run.events)
    if known.told_by == "label":
        is_looping = bool(expected.run)
        first = expected.first if expected.first is not None else expected.at_most
    else:
        is_looping = triple is not None
        # The second of them is the first that repeats, which is also where people put their labels.
        first = triple.second if triple is not None else None
    return Truth(
        outcome=run.outcome if run.outcome in OUTCOMES else "",
        is_looping=is_looping,
        evidence=_place(run, first) if is_looping and first is not None else None,
        well="succeeded" if run.outcome == SUCCESS else "unjudged" if known.is_unjudged else "",
        repeats=triple is not None or bool(expected.run) or bool(_loop_marks(run)),
    )


def _loop_marks(run: ReadRun) -> list[dict[str, Any]]:
    return [mark for mark in run.labels if isinstance(mark, dict) and mark.get("kind") == _LOOP.label]


def _is_by_a_rule(marks: Sequence[dict[str, Any]]) -> bool:
    """Whether only another program's rule says so: agreeing with it proves nothing."""
    return bool(marks) and all(str(mark.get("by", "")).endswith("detector") for mark in marks)


def _place(run: ReadRun, entry: int) -> int:
    """The step an entry belongs to: the one that began with it, or last before it."""
    begun = [(int(event.event_id), place) for place, event in enumerate(run.events)]
    return max((pair for pair in begun if pair[0] <= entry), default=(0, 0))[1]
