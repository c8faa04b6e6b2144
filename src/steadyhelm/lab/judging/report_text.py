"""Format what a judge changes as plain text."""

from steadyhelm.lab.evaluation.metrics import Estimate, format_figure
from steadyhelm.lab.evaluation.report_text import format_table
from steadyhelm.lab.judging.figures import (
    MIN_LABELS,
    KindFigures,
    LearntWeight,
    QuestionFigures,
    SetFigures,
)
from steadyhelm.lab.judging.judged_replies import ReplyFigures
from steadyhelm.reports.formats import pluralize, printable


def format_set(one: SetFigures, *, wrong: bool = False) -> str:
    """Return the figures of one set of runs, with the runs still judged wrongly if `wrong` is set."""
    parts = [printable(f"{one.name}: {pluralize(one.runs, 'run')}, {pluralize(one.steps, 'step')}")]
    if one.kinds:
        rows = [row for it in one.kinds for row in _build_rows(it)]
        parts.append(format_table(("", "runs", "without", "with the judge"), rows))
    else:
        parts.append("No run is labelled for loops or goals: only the questions are counted.")
    parts.append(_format_questions(one.questions, "runs"))
    if wrong:
        parts += [
            "\n".join(printable(f"  {it.kind}: {run_id}") for run_id in it.wrong)
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
            printable(head),
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
    return "\n".join(printable(line) for line in lines)
