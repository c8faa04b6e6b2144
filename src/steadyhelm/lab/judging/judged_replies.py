"""Measure what a judge changes about labelled replies: weights and thresholds never saw their project."""

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from steadyhelm.corrections.messages import parse_agent_message
from steadyhelm.corrections.reply_classifier import label_reply
from steadyhelm.events import LLM_REQUEST, USER_MESSAGE, TraceEvent
from steadyhelm.judge import JudgedReport, Question
from steadyhelm.judging.bands import is_reply_uncertain
from steadyhelm.judging.blocks import Redact
from steadyhelm.judging.questions import build_reply_question
from steadyhelm.judging.run_notes import RunNotes
from steadyhelm.lab.judging.answers import Answers
from steadyhelm.lab.judging.figures import QuestionFigures, measure_questions
from steadyhelm.lab.judging.judged_replay import AskedQuestion
from steadyhelm.lab.training.classifier_metrics import decision_f1
from steadyhelm.lab.training.fitting import learn_weights, make_folds, prepare
from steadyhelm.lab.training.labelled_replies import LabelledReply

_AGENT: Final = "lab"


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
