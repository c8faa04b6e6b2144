"""Read from the labels of a run whether a question about it is to be answered with drift."""

from collections.abc import Sequence
from typing import Final

from steadyhelm.judge import Question
from steadyhelm.lab.evaluation.labelled_runs import (
    LABELS,
    Expectation,
    LabelQuestion,
    has_label,
    read_expectation,
)
from steadyhelm.lab.evaluation.planted import has_plant, read_plant
from steadyhelm.recordings.run_file import ReadRun

LATEST_STEPS: Final = 4
"""Whether an agent has left its goal shows in its latest steps: at least half of so many."""

_PLANTED_KINDS: Final = {"loop": "loop", "healthy": "loop", "goal": "goal"}


class LabelTruth:
    """What labels say about the runs of one set: for a run as a whole, and for the steps of a question.

    A run without a plant and without a label of goals counts as one that serves its goal, unless it failed.
    """

    def __init__(self, runs: Sequence[ReadRun]) -> None:
        self._is_used = {kind: has_label(runs, label) for kind, label in LABELS.items()}

    def expect(self, run: ReadRun, kind: str) -> Expectation:
        """Return what the labels of a run say about this kind of drift."""
        if has_plant(run):
            plant = read_plant(run)
            if _PLANTED_KINDS.get(plant.kind) != kind:
                return Expectation(run=None)
            is_drift = plant.kind != "healthy"
            return Expectation(run=is_drift, first=plant.first if is_drift else None, group=plant.kind)
        asked = LabelQuestion(kind=kind, label=LABELS[kind])
        found = read_expectation(run, asked, is_used=self._is_used[kind])
        if kind != "goal" or found.run is not None:
            return found
        is_known = bool(run.info.goal) and run.outcome != "failure" and not _is_case(run)
        return Expectation(run=False if is_known else None)

    def is_drift(self, run: ReadRun, question: Question) -> bool | None:
        """Return whether the steps of a question are drift; None when no label says."""
        if question.about not in LABELS:
            return None
        expected = self.expect(run, question.about)
        if not expected.run:
            return expected.run
        shown = [int(it) for it in question.evidence if it.isdecimal()]
        if has_plant(run):
            plant = read_plant(run)
            shown = shown[-LATEST_STEPS:] if question.about == "goal" else shown
            inside = sum(plant.first <= at <= plant.last for at in shown)
            return 2 * inside >= len(shown) if question.about == "goal" else inside > 0
        if expected.steps is not None:
            return not expected.steps.isdisjoint(shown)
        # Steps before the first label were not judged one by one: they may be part of the same drift.
        is_reached = expected.first is None or (bool(shown) and shown[-1] >= expected.first)
        return True if is_reached else None


def _is_case(run: ReadRun) -> bool:
    """Return whether a run is a scenario that was written for loops: its goal means little."""
    return "expect_loop" in run.extra
