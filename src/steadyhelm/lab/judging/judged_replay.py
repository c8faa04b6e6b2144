"""Replay runs and answer the questions they raise, and read from labels what the answers should be."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from msgspec import structs

from steadyhelm.events import JUDGED, STATE_TRANSITION, TraceEvent
from steadyhelm.findings import Severity
from steadyhelm.judge import JudgedReport, Question
from steadyhelm.lab.evaluation.labelled_runs import (
    LABELS,
    Expectation,
    LabelQuestion,
    has_label,
    read_expectation,
)
from steadyhelm.lab.evaluation.planted import has_plant, read_plant
from steadyhelm.lab.judging.answers import Answer, Answers
from steadyhelm.recordings.run_file import ReadRun
from steadyhelm.replay import Judge, RunReport

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
            return _shows_plant(run, shown, question.about)
        if expected.steps is not None:
            return not expected.steps.isdisjoint(shown)
        # Steps before the first label were not judged one by one: they may be part of the same drift.
        is_reached = expected.first is None or (bool(shown) and shown[-1] >= expected.first)
        return True if is_reached else None


def _is_case(run: ReadRun) -> bool:
    """Return whether a run is a scenario that was written for loops: its goal means little."""
    return "expect_loop" in run.extra


class AskedQuestion(NamedTuple):
    """A question, its answer, and what the labels say: whether it is drift, None when they do not."""

    question: Question
    answer: Answer
    truth: bool | None


class JudgedRun(NamedTuple):
    """A run without and with a judge, and what was asked about it."""

    run: ReadRun
    before: RunReport
    after: RunReport
    asked: list[AskedQuestion]


def judge_runs(
    runs: Iterable[ReadRun],
    *,
    alone: Judge,
    asking: Judge,
    answers: Answers,
    truth: LabelTruth,
    weight: float,
) -> Iterator[JudgedRun]:
    """Replay each run twice: as it is, and with the answers to its questions.

    `alone` replays without a judge, `asking` raises questions.
    """
    for run in runs:
        replayed = _Replayed(asking, run, answers, truth, weight)
        yield JudgedRun(run, alone.judge(run).report, replayed.finish(), replayed.asked)


class _Replayed:
    """One run, replayed with verdicts as events of their own between its events."""

    def __init__(
        self, judge: Judge, run: ReadRun, answers: Answers, truth: LabelTruth, weight: float
    ) -> None:
        self.asked: list[AskedQuestion] = []
        self._run = run
        self._answers = answers
        self._truth = truth
        self._weight = weight
        self._replay = judge.begin(run.info)
        self._events: list[TraceEvent] = []
        self._moved_seqs: list[int] = []
        for event in run.events:
            self._observe(event)

    def finish(self) -> RunReport:
        """Return the report, with the findings of incidents that no verdict has cleared."""
        report = self._replay.end(structs.replace(self._run, events=self._events)).report
        left = [it for it in report.findings if not _is_cleared(report, it.kind, it.at)]
        return structs.replace(report, findings=left)

    def _observe(self, event: TraceEvent) -> None:
        """Observe an event of the run at its place among the verdicts, and answer what it raises."""
        began = event.started_seq
        if began is not None:
            is_past = began < len(self._moved_seqs)
            began = self._moved_seqs[began] if is_past else len(self._events)
        moved = structs.replace(event, seq=len(self._events), started_seq=began)
        self._moved_seqs.append(moved.seq)
        self._add(moved)
        for question in self._replay.questions:
            self._answer(question, moved)

    def _add(self, event: TraceEvent) -> None:
        self._events.append(event)
        self._replay.observe(event)

    def _answer(self, question: Question, event: TraceEvent) -> None:
        truth = self._truth.is_drift(self._run, question)
        answer = self._answers.answer(question, truth)
        self.asked.append(AskedQuestion(question, answer, truth))
        report = JudgedReport.build(question, answer.verdict, self._weight)
        self._add(
            TraceEvent(
                agent_id=event.agent_id,
                run_id=event.run_id,
                action_type=STATE_TRANSITION,
                action_name=JUDGED,
                timestamp=event.timestamp,
                event_id=event.event_id,
                seq=len(self._events),
                metadata=report.to_metadata(),
            )
        )


def _is_cleared(report: RunReport, kind: str, at: int) -> bool:
    """Return whether a finding is of an incident that was judged healthy, and of no other one."""
    covering = [it for it in report.incidents if it.kind == kind and it.since <= at <= it.to]
    return bool(covering) and all(it.severity is Severity.LOW for it in covering)


def _shows_plant(run: ReadRun, shown: Sequence[int], about: str) -> bool:
    """Return whether the steps of a question are those of the plant: half of the latest, of a goal."""
    plant = read_plant(run)
    latest = shown[-LATEST_STEPS:] if about == "goal" else shown
    inside = sum(plant.first <= at <= plant.last for at in latest)
    return 2 * inside >= len(latest) if about == "goal" else inside > 0
