"""Replay runs and answer the questions they raise, and measure it by what labels say the answers should be.

The figures of a set of runs are what is found and what is a false alarm, with and without a judge, and its
cost.
"""

import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from msgspec import Struct, structs

from steadyhelm.events import JUDGED, LLM_REQUEST, STATE_TRANSITION, TOOL_CALL, TraceEvent
from steadyhelm.findings import Severity
from steadyhelm.judge import DRIFT_LABELS, FIXED_WEIGHT, HEALTHY_LABELS, JudgedReport, Question
from steadyhelm.lab.evaluation.labelled_runs import (
    LABELS,
    Expectation,
    LabelQuestion,
    has_label,
    read_expectation,
)
from steadyhelm.lab.evaluation.metrics import Counts, Estimate, estimate_share, f1, sum_counts
from steadyhelm.lab.evaluation.planted import has_plant, is_flagged, read_plant
from steadyhelm.lab.judging.answers import Answer, Answers, count_tokens
from steadyhelm.recordings.run_file import ReadRun
from steadyhelm.replay import Replayer, RunReport

LATEST_STEPS: Final = 4
"""Whether an agent has left its goal shows in its latest steps: at least half of so many."""
_PLANTED_KINDS: Final = {"loop": "loop", "healthy": "loop", "goal": "goal"}
MIN_LABELS: Final = 100
"""Labelled verdicts from which a weight is learnt."""
KINDS: Final = ("loop", "goal")


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
    alone: Replayer,
    asking: Replayer,
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
        self, replayer: Replayer, run: ReadRun, answers: Answers, truth: LabelTruth, weight: float
    ) -> None:
        self.asked: list[AskedQuestion] = []
        self._run = run
        self._answers = answers
        self._truth = truth
        self._weight = weight
        self._replay = replayer.begin(run.info)
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


class KindFigures(Struct, frozen=True, kw_only=True):
    """One kind of drift in the labelled runs of a set, without and with the judge."""

    kind: str
    positive: int
    healthy: int
    recall: tuple[Estimate, Estimate]
    false_alarms: tuple[Estimate, Estimate]
    f1: tuple[float | None, float | None]
    wrong: list[str]


class QuestionFigures(Struct, frozen=True, kw_only=True):
    """What was asked, and what came of it.

    `share` is the part of the runs, or of the replies, that a question was asked about; `right` counts the
    verdicts that the labels confirm, of those that say something and are `labelled`.
    Tokens are estimated by length where a judge reports none; a cost of None is not known.
    """

    asked: int
    by_subject: dict[str, int]
    share: Estimate
    per_1000_steps: float | None
    tokens: int
    tokens_per_question: float | None
    tokens_per_1000_steps: float | None
    cost_usd: float | None
    median_seconds: float | None
    verdicts: dict[str, int]
    labelled: int
    right: int


class SetFigures(Struct, frozen=True, kw_only=True):
    """One set of runs, with and without a judge."""

    name: str
    runs: int
    steps: int
    kinds: list[KindFigures]
    questions: QuestionFigures


class LearntWeight(Struct, frozen=True, kw_only=True):
    """How far verdicts are trusted: fixed, or the share of labelled verdicts that were right."""

    weight: float
    labels: int
    is_learnt: bool


def measure_set(name: str, judged: Sequence[JudgedRun], truth: LabelTruth) -> SetFigures:
    """Return what a judge changed in the runs of one set."""
    steps = sum(it.action_type in {TOOL_CALL, LLM_REQUEST} for one in judged for it in one.run.events)
    return SetFigures(
        name=name,
        runs=len(judged),
        steps=steps,
        kinds=[it for kind in KINDS if (it := _measure_kind(kind, judged, truth)) is not None],
        questions=measure_questions(
            [it for one in judged for it in one.asked],
            asked_about=sum(bool(one.asked) for one in judged),
            of=len(judged),
            steps=steps,
        ),
    )


def measure_questions(
    asked: Sequence[AskedQuestion], *, asked_about: int, of: int, steps: int | None = None
) -> QuestionFigures:
    """Return what these questions cost and how many were answered rightly."""
    tokens = sum(count_tokens(it.question, it.answer.verdict) for it in asked)
    costs = [it.answer.verdict.cost_usd for it in asked]
    times = [it.answer.seconds for it in asked if it.answer.seconds is not None]
    said = [it for it in asked if it.truth is not None and _says_something(it)]
    known = [cost for cost in costs if cost is not None]
    return QuestionFigures(
        asked=len(asked),
        by_subject=dict(sorted(Counter(str(it.question.about) for it in asked).items())),
        share=estimate_share(asked_about, of),
        per_1000_steps=1000 * len(asked) / steps if steps else None,
        tokens=tokens,
        tokens_per_question=tokens / len(asked) if asked else None,
        tokens_per_1000_steps=1000 * tokens / steps if steps else None,
        cost_usd=sum(known) if known else None,
        median_seconds=statistics.median(times) if times else None,
        verdicts=dict(sorted(Counter(it.answer.verdict.label for it in asked).items())),
        labelled=len(said),
        right=sum(is_right(it) for it in said),
    )


def learn_weight(asked: Iterable[AskedQuestion]) -> LearntWeight:
    """Return the weight of a verdict: fixed until enough labels exist, then the share that was right.

    One right and one wrong verdict are added, so that no finite number of labels gives full trust.
    """
    said = [it for it in asked if it.truth is not None and _says_something(it)]
    if len(said) < MIN_LABELS:
        return LearntWeight(weight=FIXED_WEIGHT, labels=len(said), is_learnt=False)
    share = (sum(map(is_right, said)) + 1) / (len(said) + 2)
    return LearntWeight(weight=round(share, 3), labels=len(said), is_learnt=True)


def is_right(asked: AskedQuestion) -> bool:
    """Return whether a verdict agrees with the labels."""
    labels = DRIFT_LABELS if asked.truth else HEALTHY_LABELS
    return asked.answer.verdict.label == labels[asked.question.about]


def _says_something(asked: AskedQuestion) -> bool:
    about = asked.question.about
    return asked.answer.verdict.label in {DRIFT_LABELS[about], HEALTHY_LABELS[about]}


def _measure_kind(kind: str, judged: Sequence[JudgedRun], truth: LabelTruth) -> KindFigures | None:
    """Return the figures of one kind of drift; None where no run is labelled for it."""
    before, after, wrong = [], [], []
    for one in judged:
        expected = truth.expect(one.run, kind).run
        if expected is None:
            continue
        found = _is_found(kind, one, one.after)
        before.append(Counts.of(expected=expected, found=_is_found(kind, one, one.before)))
        after.append(Counts.of(expected=expected, found=found))
        if found != expected:
            wrong.append(one.run.info.run_id)
    if not before:
        return None
    sums = (sum_counts(before), sum_counts(after))
    first, second = sums
    return KindFigures(
        kind=kind,
        positive=first.tp + first.fn,
        healthy=first.fp + first.tn,
        recall=(_share(first.tp, first.fn), _share(second.tp, second.fn)),
        false_alarms=(_share(first.fp, first.tn), _share(second.fp, second.tn)),
        f1=(f1(first), f1(second)),
        wrong=wrong,
    )


def _is_found(kind: str, one: JudgedRun, report: RunReport) -> bool:
    if has_plant(one.run):
        return is_flagged(report, read_plant(one.run))
    return any(it.kind == kind and it.severity.rank >= Severity.MED.rank for it in report.findings)


def _share(hits: int, others: int) -> Estimate:
    return estimate_share(hits, hits + others)
