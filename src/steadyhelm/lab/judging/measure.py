"""Measure a judge on sets of runs and on labelled replies, and format what it changes as plain text.

The weights and thresholds that replies are measured with never saw their project.
"""

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct, structs

from steadyhelm.components import make_redactor
from steadyhelm.corrections.messages import parse_agent_message
from steadyhelm.corrections.reply_classifier import label_reply
from steadyhelm.events import LLM_REQUEST, USER_MESSAGE, TraceEvent
from steadyhelm.judge import UNSURE, JudgedReport, Question
from steadyhelm.judging.bands import is_reply_uncertain
from steadyhelm.judging.questioner import Questioner
from steadyhelm.judging.questions import Redact, RunNotes, build_reply_question
from steadyhelm.lab.evaluation.false_alarms import as_one_agent, learn_baseline
from steadyhelm.lab.evaluation.labelled_runs import RunSet
from steadyhelm.lab.evaluation.metrics import Estimate, format_figure
from steadyhelm.lab.evaluation.report_text import format_table
from steadyhelm.lab.judging.answers import Answers
from steadyhelm.lab.judging.judged_replay import (
    MIN_LABELS,
    AskedQuestion,
    KindFigures,
    LabelTruth,
    LearntWeight,
    QuestionFigures,
    SetFigures,
    judge_runs,
    learn_weight,
    measure_questions,
    measure_set,
)
from steadyhelm.lab.training.classifier_metrics import decision_f1
from steadyhelm.lab.training.fitting import learn_weights, make_folds, prepare
from steadyhelm.lab.training.labelled_replies import LabelledReply
from steadyhelm.recordings.run_file import ReadRun
from steadyhelm.replay import Replayer
from steadyhelm.reports.formats import make_printable, pluralize
from steadyhelm.settings import Settings
from steadyhelm.store import Store

_AGENT: Final = "lab"
_MEASURED_KINDS = frozenset({"loop", "goal", "correction"})


class ReplyFigures(Struct, frozen=True, kw_only=True):
    """The labelled replies of a file, without and with a judge."""

    name: str
    replies: int
    positive: int
    projects: int
    f1: tuple[float, float]
    questions: QuestionFigures


class JudgedReplies(Struct, frozen=True, kw_only=True):
    """The figures, and what was asked."""

    figures: ReplyFigures
    asked: list[AskedQuestion]


def judge_replies(
    name: str,
    replies: Sequence[LabelledReply],
    answers: Answers,
    *,
    weight: float,
    redact: Redact,
    on_fold: Callable[[], None] = lambda: None,
) -> JudgedReplies:
    """Classify each reply by weights of other projects, and ask about those in the uncertain band."""
    cases = prepare(replies)
    found, final = [False] * len(cases), [False] * len(cases)
    asked: list[AskedQuestion] = []
    for fold in make_folds([reply.repo for reply in replies]):
        weights = learn_weights([cases[place] for place in fold.learn])
        for place in fold.keep:
            label = label_reply(cases[place].features, weights)
            found[place] = final[place] = label.is_drift
            if is_reply_uncertain(label, is_answer=_is_answer(replies[place])):
                one = _ask(replies[place], place, answers, redact)
                asked.append(one)
                step = JudgedReport.build(one.question, one.answer.verdict, weight).direction
                final[place] = step > 0 if step else label.is_drift
        on_fold()
    truth = [reply.is_drift for reply in replies]
    return JudgedReplies(
        figures=ReplyFigures(
            name=name,
            replies=len(replies),
            positive=sum(truth),
            projects=len({reply.repo for reply in replies}),
            f1=(decision_f1(truth, found), decision_f1(truth, final)),
            questions=measure_questions(asked, asked_about=len(asked), of=len(replies)),
        ),
        asked=asked,
    )


def count_folds(replies: Sequence[LabelledReply]) -> int:
    """Return how many folds the replies are judged in."""
    return len(make_folds([reply.repo for reply in replies]))


def _is_answer(reply: LabelledReply) -> bool:
    """Return whether the agent had done nothing but ask."""
    return not reply.tool_calls_since_prompt and parse_agent_message(reply.assistant_before).expects_answer


def _ask(reply: LabelledReply, place: int, answers: Answers, redact: Redact) -> AskedQuestion:
    question = build_question(reply, place, redact)
    return AskedQuestion(question, answers.answer(question, reply.is_drift), reply.is_drift)


def build_question(reply: LabelledReply, place: int, redact: Redact) -> Question:
    """Return the question about a labelled reply: the one that a live run would raise, without its calls."""
    notes = RunNotes()
    texts = (
        (USER_MESSAGE, reply.prompt_before),
        (LLM_REQUEST, reply.assistant_before),
        (USER_MESSAGE, reply.reply),
    )
    for seq, (kind, text) in enumerate(texts):
        if text:
            notes.add(_make_event(seq, kind, text, reply.session))
    return build_reply_question(notes, goal="", subject=str(place), place=place, pattern="", redact=redact)


def _make_event(seq: int, kind: str, text: str, session: str) -> TraceEvent:
    is_user = kind == USER_MESSAGE
    return TraceEvent(
        agent_id=_AGENT,
        run_id=session,
        action_type=kind,
        action_name=kind,
        event_id=str(seq),
        seq=seq,
        timestamp=0.0,
        input_data=text if is_user else None,
        output_data=None if is_user else text,
    )


class JudgeReport(Struct, frozen=True, kw_only=True):
    """What a judge changes in each set and in the replies, and the weight its verdicts deserve."""

    sets: list[SetFigures]
    replies: list[ReplyFigures]
    weight: LearntWeight
    failures: dict[str, int]
    unusable: dict[int, str]


def _leave_out(sets: Sequence[RunSet], taught: set[str]) -> list[RunSet]:
    """Return the sets without the runs of these ids."""
    return [
        structs.replace(it, runs=[run for run in it.runs if run.info.run_id not in taught]) for it in sets
    ]


class JudgeMeasurement:
    """Asks the same questions as a live run, and collects what comes of the answers.

    Args:
        settings: The detectors and their options, and what is redacted.
        answers: Whatever answers.
    """

    def __init__(self, settings: Settings, answers: Answers) -> None:
        self._settings = settings
        self._answers = answers
        self._redact = make_redactor(settings).redact_text
        self._asked: list[tuple[str, AskedQuestion]] = []

    @property
    def asked(self) -> list[AskedQuestion]:
        """Everything that was asked."""
        return [it for _, it in self._asked]

    @property
    def weight(self) -> LearntWeight:
        """The weight of a verdict, by what was asked so far."""
        return learn_weight(self.asked)

    def list_open_questions(self) -> list[tuple[str, Question]]:
        """Return the questions without an answer that says something, each with its source."""
        return [(name, it.question) for name, it in self._asked if it.answer.verdict.label == UNSURE]

    def measure_sets(
        self,
        sets: Sequence[RunSet],
        *,
        teachers: Sequence[ReadRun] = (),
        on_run: Callable[[], None] = lambda: None,
    ) -> list[SetFigures]:
        """Return what the judge changes in each set.

        A baseline is learnt from `teachers` before; a run among them is not judged.
        """
        left = _leave_out(sets, {run.info.run_id for run in teachers})
        with learn_baseline(teachers, self._settings) as store:
            known = store if teachers else None
            return [self._measure_set(one, known, on_run) for one in left if one.runs]

    def _measure_set(self, one: RunSet, store: Store | None, on_run: Callable[[], None]) -> SetFigures:
        truth = LabelTruth(one.runs)
        judged = []
        for run in judge_runs(
            one.runs if store is None else map(as_one_agent, one.runs),
            alone=self._make_replayer(store, asks=False),
            asking=self._make_replayer(store, asks=True),
            answers=self._answers,
            truth=truth,
            weight=self._settings.judging_weight,
        ):
            judged.append(run)
            self._asked += [(f"{one.name}/{run.run.info.run_id}", it) for it in run.asked]
            on_run()
        return measure_set(one.name, judged, truth)

    def measure_replies(
        self, name: str, replies: Sequence[LabelledReply], *, on_fold: Callable[[], None] = lambda: None
    ) -> ReplyFigures:
        """Return what the judge changes about labelled replies."""
        judged = judge_replies(
            name,
            replies,
            self._answers,
            weight=self._settings.judging_weight,
            redact=self._redact,
            on_fold=on_fold,
        )
        self._asked += [(name, it) for it in judged.asked]
        return judged.figures

    def _make_replayer(self, store: Store | None, *, asks: bool) -> Replayer:
        make = (lambda: Questioner(self._redact)) if asks else None
        return Replayer(self._settings, store=store, kinds=_MEASURED_KINDS, make_questioner=make)


def format_set(one: SetFigures, *, wrong: bool = False) -> str:
    """Return the figures of one set of runs, with the runs still judged wrongly if `wrong` is set."""
    parts = [make_printable(f"{one.name}: {pluralize(one.runs, 'run')}, {pluralize(one.steps, 'step')}")]
    if one.kinds:
        rows = [row for it in one.kinds for row in _build_rows(it)]
        parts.append(format_table(("", "runs", "without", "with the judge"), rows))
    else:
        parts.append("No run is labelled for loops or goals: only the questions are counted.")
    parts.append(_format_questions(one.questions, "runs"))
    if wrong:
        parts += [
            "\n".join(make_printable(f"  {it.kind}: {run_id}") for run_id in it.wrong)
            for it in one.kinds
            if it.wrong
        ]
    return "\n\n".join(parts)


def format_replies(one: ReplyFigures) -> str:
    """Return the figures of labelled replies."""
    head = (
        f"{one.name}: {pluralize(one.replies, 'reply', 'replies')} in {pluralize(one.projects, 'project')}, "
        f"{one.positive} of them corrections; weights never saw the project"
    )
    rows = [("correction, F1", *map(format_figure, one.f1))]
    return "\n\n".join(
        [
            make_printable(head),
            format_table(("", "without", "with the judge"), rows),
            _format_questions(one.questions, "replies"),
        ]
    )


def format_weight(learnt: LearntWeight) -> str:
    """Return the weight of a verdict, and where it comes from."""
    if learnt.is_learnt:
        return f"Weight of a verdict: {format_figure(learnt.weight)}, learnt from {learnt.labels:,} labels."
    return (
        f"Weight of a verdict: {format_figure(learnt.weight)}, fixed: {learnt.labels} of the "
        f"{MIN_LABELS} labelled verdicts that are needed to learn it."
    )


def _build_rows(one: KindFigures) -> list[tuple[str, ...]]:
    return [
        (f"{one.kind}, found", str(one.positive), *_format_pair(one.recall)),
        (f"{one.kind}, false alarms", str(one.healthy), *_format_pair(one.false_alarms)),
        (f"{one.kind}, F1", str(one.positive + one.healthy), *map(_format_f1, one.f1)),
    ]


def _format_pair(pair: tuple[Estimate, Estimate]) -> tuple[str, str]:
    return str(pair[0]), str(pair[1])


def _format_f1(value: float | None) -> str:
    return "undefined" if value is None else format_figure(value)


def _format_questions(asked: QuestionFigures, of: str) -> str:
    """Return what was asked and what it cost, in a few lines."""
    if not asked.asked:
        return "No question was raised."
    about = ", ".join(f"{count:,} {subject}" for subject, count in asked.by_subject.items())
    rate = "" if asked.per_1000_steps is None else f"; {asked.per_1000_steps:.1f} in 1,000 steps"
    lines = [f"{pluralize(asked.asked, 'question')} ({about}), in {asked.share} of the {of}{rate}."]
    tokens = f"About {asked.tokens:,} tokens, {asked.tokens_per_question:,.0f} a question"
    if asked.tokens_per_1000_steps is not None:
        tokens += f", {asked.tokens_per_1000_steps:,.0f} in 1,000 steps"
    lines.append(f"{tokens}; cost {'not known' if asked.cost_usd is None else f'${asked.cost_usd:.4f}'}.")
    if asked.median_seconds is not None:
        lines.append(f"Half of the answers took {asked.median_seconds:.2f} s or less.")
    verdicts = ", ".join(f"{count:,} {label}" for label, count in asked.verdicts.items())
    lines.append(f"Verdicts: {verdicts}; {asked.right:,} of {asked.labelled:,} agree with the labels.")
    return "\n".join(make_printable(line) for line in lines)
