"""Replay runs and answer the questions they raise: each verdict arrives before the next step."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from msgspec import structs

from steadyhelm.events import JUDGED, STATE_TRANSITION, TraceEvent
from steadyhelm.findings import Severity
from steadyhelm.judge import JudgedReport, Question
from steadyhelm.lab.judging.answers import Answer, Answers
from steadyhelm.lab.judging.truth import LabelTruth
from steadyhelm.recordings.run_file import ReadRun
from steadyhelm.replay import Judge, RunReport


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
