"""`steadyhelm lab judge`: what a judge changes on labelled runs and replies, and what it costs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steadyhelm.cli.lab_sets import Groups, get_exit_status, read_run_sets, read_runs
from steadyhelm.cli.output import (
    EXIT_USAGE,
    AsJson,
    Yes,
    confirm,
    confirm_replacing,
    fail,
    print_json,
    show_progress,
)
from steadyhelm.reports.formats import pluralize
from steadyhelm.reports.terminal import safe, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steadyhelm.lab.evaluation.labelled_runs import RunSet
    from steadyhelm.lab.judging.answers import Answers
    from steadyhelm.lab.judging.judged_replay import LearntWeight, SetFigures
    from steadyhelm.lab.judging.measure import JudgeMeasurement, ReplyFigures
    from steadyhelm.recordings.run_file import ReadRun
    from steadyhelm.settings import Settings


RunPaths = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="PATH",
        help="Run files, folders of them, or a Steadyhelm database: a file, or postgresql://…",
    ),
]
Replies = Annotated[
    Path | None, typer.Option("--replies", help="Labelled replies, JSON Lines; learns weights by project.")
]
JudgeModel = Annotated[
    str | None,
    typer.Option("--judge", metavar="MODEL", help="Ask this judge: openai:MODEL or anthropic:MODEL."),
]
MaxQuestions = Annotated[
    int, typer.Option("--max-questions", min=1, help="Ask --judge so many questions at most.")
]
FromLabels = Annotated[
    bool, typer.Option("--oracle", help="Answer from the labels: the most that a judge can reach.")
]
ErrorShare = Annotated[
    float, typer.Option("--oracle-errors", min=0.0, max=1.0, help="The share of wrong answers.")
]
VerdictFile = Annotated[
    Path | None, typer.Option("--import", help="Answer from this file of verdicts, JSON Lines.")
]
QuestionFile = Annotated[
    Path | None, typer.Option("--export", help="Write the unanswered questions to this file, JSON Lines.")
]
Teachers = Annotated[
    list[Path] | None,
    typer.Option("--learn", help="Learn a baseline from these run files before; repeatable."),
]


def judge(
    context: typer.Context,
    paths: RunPaths = None,
    replies: Replies = None,
    model: JudgeModel = None,
    max_questions: MaxQuestions = 500,
    oracle: FromLabels = False,
    oracle_errors: ErrorShare = 0.0,
    verdicts: VerdictFile = None,
    export: QuestionFile = None,
    learn: Teachers = None,
    learn_from: Annotated[int, typer.Option("--learn-from", min=1, help="How many runs to learn from.")] = 60,
    group: Groups = None,
    seed: Annotated[int, typer.Option("--seed", help="Makes another choice of wrong answers.")] = 0,
    wrong: Annotated[
        bool, typer.Option("--wrong", help="Name every run that is still judged wrongly.")
    ] = False,
    save: Annotated[
        bool, typer.Option("--save", help="Set judging.weight to what was learnt, in the settings file.")
    ] = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Measure what a judge changes. Counts what is found, false alarms, questions, tokens and cost.

    Without --judge, --oracle or --import nobody answers: only the questions are counted, or exported.
    """
    from steadyhelm.lab.judging.measure import JudgeMeasurement

    if not paths and replies is None:
        fail("give run files, or --replies FILE.", EXIT_USAGE)
    _check_answering(model, verdicts, oracle=oracle, oracle_errors=oracle_errors, save=save)
    confirm_replacing(export, yes=yes)
    settings = context.obj.load().settings
    answers = (
        _choose_answers(verdicts, oracle, oracle_errors, seed)
        if model is None
        else _make_asked_judge(model, settings, max_questions)
    )
    measurement = JudgeMeasurement(settings, answers)
    sets = _select_groups(read_run_sets(paths), group) if paths else []
    teachers = read_runs(learn)[:learn_from] if learn else []
    figures = _measure_sets(measurement, sets, teachers)
    told = [] if replies is None else [_measure_replies(measurement, replies)]
    _print_report(measurement, answers, figures, told, wrong=wrong, as_json=as_json)
    if export is not None:
        _export(measurement, export)
    if save:
        _save_weight(context, measurement.weight, yes=yes, as_json=as_json)
    raise typer.Exit(get_exit_status(sets))


def _check_answering(
    model: str | None, verdicts: Path | None, *, oracle: bool, oracle_errors: float, save: bool
) -> None:
    """End the command where it is not clear who answers, or nothing could be learnt from the answers."""
    if sum((model is not None, oracle, verdicts is not None)) > 1:
        fail("--judge, --oracle and --import exclude each other.", EXIT_USAGE)
    if oracle_errors and not oracle:
        fail("--oracle-errors needs --oracle.", EXIT_USAGE)
    if save and model is None and verdicts is None:
        fail("--save needs verdicts of a judge: give --judge or --import.", EXIT_USAGE)


def _choose_answers(
    verdicts: Path | None,
    oracle: bool,
    errors: float,
    seed: int,
) -> "Answers":
    from steadyhelm.lab.judging.answers import ImportedAnswers, NoAnswers, Oracle, read_verdicts

    if oracle:
        return Oracle(errors=errors, seed=seed)
    if verdicts is not None:
        found, bad = read_verdicts(verdicts)
        for line in bad:
            say(f"steadyhelm: {safe(verdicts)}:{line.line}: {safe(line.reason)}")
        return ImportedAnswers(found)
    return NoAnswers()


def _make_asked_judge(model: str, settings: "Settings", max_questions: int) -> "Answers":
    import functools
    import time

    from steadyhelm.components import price_answer
    from steadyhelm.judges import build_judge
    from steadyhelm.lab.judging.answers import JudgeAnswers

    judge = build_judge(model, timeout_s=settings.judging_deadline_s)
    price = functools.partial(price_answer, time.time)
    return JudgeAnswers(judge, max_questions=max_questions, price=price)


def _select_groups(sets: "Sequence[RunSet]", groups: list[str] | None) -> "list[RunSet]":
    from msgspec import structs

    if not groups:
        return list(sets)
    chosen = [
        structs.replace(one, runs=[run for run in one.runs if str(run.extra.get("tier", "")) in groups])
        for one in sets
    ]
    if not any(one.runs for one in chosen):
        fail(f"no run is in the group {safe(', '.join(groups))}.", EXIT_USAGE)
    return [one for one in chosen if one.runs]


def _measure_sets(
    measurement: "JudgeMeasurement", sets: "Sequence[RunSet]", teachers: "Sequence[ReadRun]"
) -> "list[SetFigures]":
    with show_progress("Judging", sum(len(one.runs) for one in sets)) as on_run:
        return measurement.measure_sets(sets, teachers=teachers, on_run=on_run)


def _measure_replies(measurement: "JudgeMeasurement", path: Path) -> "ReplyFigures":
    from steadyhelm.lab.judging.measure import count_folds
    from steadyhelm.lab.training.labelled_replies import read_replies

    if not path.is_file():
        fail(f"there is no file {safe(path)}.", EXIT_USAGE)
    known = read_replies(path)
    with show_progress("Learning", count_folds(known)) as on_fold:
        return measurement.measure_replies(path.stem, known, on_fold=on_fold)


def _print_report(
    measurement: "JudgeMeasurement",
    answers: "Answers",
    sets: "Sequence[SetFigures]",
    replies: "Sequence[ReplyFigures]",
    *,
    wrong: bool,
    as_json: bool,
) -> None:
    from steadyhelm.lab.judging.answers import ImportedAnswers, JudgeAnswers
    from steadyhelm.lab.judging.measure import JudgeReport, format_replies, format_set, format_weight

    unusable = answers.list_problems() if isinstance(answers, ImportedAnswers) else {}
    failures = dict(answers.failures) if isinstance(answers, JudgeAnswers) else {}
    for line, reason in unusable.items():
        say(f"steadyhelm: verdict in line {line}: {safe(reason)}")
    for reason, count in failures.items():
        say(f"steadyhelm: no verdict, {pluralize(count, 'time')}: {safe(reason)}")
    report = JudgeReport(
        sets=list(sets),
        replies=list(replies),
        weight=measurement.weight,
        failures=failures,
        unusable=unusable,
    )
    if as_json:
        print_json(report)
        return
    parts = [format_set(one, wrong=wrong) for one in sets] + [format_replies(one) for one in replies]
    typer.echo("\n\n".join([*parts, format_weight(report.weight)]))


def _save_weight(context: typer.Context, learnt: "LearntWeight", *, yes: bool, as_json: bool) -> None:
    """Set the learnt weight in the settings file, after showing the change."""
    from steadyhelm.cli.config import SettingChange
    from steadyhelm.judge import MIN_BELIEF
    from steadyhelm.lab.judging.judged_replay import MIN_LABELS

    if not learnt.is_learnt:
        fail(
            f"the weight is learnt from {MIN_LABELS} verdicts on labelled cases or more, and there are "
            f"{learnt.labels}. Nothing was saved."
        )
    change = SettingChange.plan(context.obj, "judging.weight", f"{learnt.weight:g}")
    lines = change.list_lines()
    if not lines:
        say(f"{safe(change.path)} holds this weight already. Nothing was changed.")
        return
    for line in lines:
        typer.echo(safe(line), err=as_json)
    if learnt.weight < MIN_BELIEF:
        say(f"With a weight below {MIN_BELIEF:g} no verdict of this judge changes anything.")
    confirm(f"Change {safe(change.path)}?", yes=yes)
    change.write()
    say("It holds for runs that begin from now on.")


def _export(measurement: "JudgeMeasurement", path: Path) -> None:
    from steadyhelm.lab.judging.answers import write_questions

    written = write_questions(path, measurement.list_open_questions())
    say(f"Wrote {pluralize(written, 'question')} to {safe(path)}.")
