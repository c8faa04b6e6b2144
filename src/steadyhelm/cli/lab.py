"""`steadyhelm lab`: how accurate the detectors are, measured on labelled runs."""

import enum
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steadyhelm.cli.context import SEVERITY_CHOICES, parse_severity
from steadyhelm.cli.lab_bench import (
    get_exit_status,
    measure_planted,
    mutate,
    print_false_alarms,
    read_run_sets,
    read_runs,
    splice,
)
from steadyhelm.cli.lab_judge import judge
from steadyhelm.cli.lab_load import simulate_load
from steadyhelm.cli.lab_training import apply_model, train
from steadyhelm.cli.output import (
    EXIT_FLAGGED,
    EXIT_OK,
    EXIT_USAGE,
    AsJson,
    Engine,
    Jobs,
    Master,
    OnEngine,
    choose_workers,
    confirm,
    fail,
    print_json,
    show_progress,
)
from steadyhelm.findings import Severity
from steadyhelm.reports.formats import pluralize
from steadyhelm.reports.terminal import safe, say

if TYPE_CHECKING:
    from steadyhelm.lab.evaluation.labelled_runs import Question


app = typer.Typer(
    help="How accurate the detectors are, measured on labelled runs.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


app.command("mutate")(mutate)
app.command("splice")(splice)
app.command("simulate-load")(simulate_load)
app.command("train")(train)
app.command("apply")(apply_model)
app.command("judge")(judge)


class FindingKind(enum.StrEnum):
    """A kind of finding."""

    LOOP = "loop"
    GOAL = "goal"
    RESOURCE = "resource"
    STYLE = "style"
    CORRECTION = "correction"
    TRANSITION = "transition"


class DatasetLayout(enum.StrEnum):
    """A public dataset of labelled runs, by its file layout."""

    TRAIL = "trail"
    TAU = "tau"
    WHO_AND_WHEN = "who-and-when"


Paths = Annotated[
    list[Path],
    typer.Argument(metavar="PATH...", help="Run files, folders of them, or a Steadyhelm database."),
]
OfKind = Annotated[
    FindingKind, typer.Option("--kind", help="The kind of finding, and the detectors that run.")
]
Least = Annotated[
    Severity,
    typer.Option(
        "--severity",
        parser=parse_severity,
        metavar=SEVERITY_CHOICES,
        show_default="med",
        help="The lowest severity that counts.",
    ),
]
Label = Annotated[
    str | None,
    typer.Option("--label", help="The label to compare findings with; by default that of the kind."),
]
Adjacent = Annotated[
    bool,
    typer.Option("--adjacent", help="Count a finding only when its evidence has the call just before it."),
]
Samples = Annotated[int, typer.Option("--bootstrap", min=0, help="Resamples of runs for each interval.")]
Seed = Annotated[int, typer.Option("--seed", help="Makes shuffling and intervals reproducible.")]
Learn = Annotated[
    list[Path] | None,
    typer.Option("--learn", help="Learn a baseline from these run files before; repeatable."),
]
LearnFrom = Annotated[int, typer.Option("--learn-from", min=1, help="How many runs to learn from.")]


@app.command("eval")
def evaluate(
    context: typer.Context,
    paths: Paths,
    kind: OfKind = FindingKind.LOOP,
    severity: Least = Severity.MED,
    label: Label = None,
    adjacent: Adjacent = False,
    group: Annotated[
        list[str] | None, typer.Option("--group", help="Only runs of this group, such as a tier; repeatable.")
    ] = None,
    samples: Samples = 1000,
    seed: Seed = 0,
    wrong: Annotated[
        int, typer.Option("--wrong", min=0, help="How many wrong runs to list of each set.")
    ] = 20,
    html: Annotated[Path | None, typer.Option("--html", help="Write a page with plots to this file.")] = None,
    jobs: Jobs = 1,
    engine: OnEngine = Engine.LOCAL,
    master: Master = "",
    as_json: AsJson = False,
) -> None:
    """Measure detectors on labelled runs, beside simple rules."""
    from steadyhelm.lab.evaluation.evaluator import Evaluator
    from steadyhelm.lab.evaluation.report_text import format_evaluation
    from steadyhelm.replay_pool import open_judge

    sets = read_run_sets(paths)
    question = _make_question(kind, severity, label, adjacent)
    with open_judge(
        context.obj.load().settings, kinds={kind.value}, workers=choose_workers(jobs, engine, master)
    ) as judge:
        evaluator = Evaluator(judge, question, samples=samples, seed=seed, groups=group or ())
        evaluation = evaluator.evaluate(sets)
    if html is not None:
        from steadyhelm.lab.report_html import render_evaluation

        _write_page(html, render_evaluation(evaluation))
    if as_json:
        print_json(evaluation)
    else:
        typer.echo(format_evaluation(evaluation, most=wrong))
    raise typer.Exit(get_exit_status(sets))


@app.command("compare")
def compare(
    before: Annotated[Path, typer.Argument(metavar="A.toml", help="The current settings.")],
    after: Annotated[Path, typer.Argument(metavar="B.toml", help="The changed settings.")],
    paths: Paths,
    kind: OfKind = FindingKind.LOOP,
    severity: Least = Severity.MED,
    label: Label = None,
    adjacent: Adjacent = False,
    samples: Samples = 1000,
    seed: Seed = 0,
    jobs: Jobs = 1,
    engine: OnEngine = Engine.LOCAL,
    master: Master = "",
    as_json: AsJson = False,
) -> None:
    """Compare two settings files on the same runs."""
    from steadyhelm.lab.evaluation.comparison import Comparer, Comparison
    from steadyhelm.lab.evaluation.report_text import format_comparison
    from steadyhelm.replay_pool import open_judge
    from steadyhelm.settings import load

    sets = read_run_sets(paths)
    first, second = load(path=before).settings, load(path=after).settings
    question = _make_question(kind, severity, label, adjacent)
    with (
        open_judge(first, kinds={kind.value}, workers=choose_workers(jobs, engine, master)) as current,
        open_judge(second, kinds={kind.value}, workers=choose_workers(jobs, engine, master)) as changed,
    ):
        comparer = Comparer(current, changed, question, samples=samples, seed=seed)
        compared = [comparer.compare(one) for one in sets]
    comparison = Comparison(before=str(before), after=str(after), question=question, sets=compared)
    if as_json:
        print_json(comparison)
    else:
        typer.echo(format_comparison(comparison))
    raise typer.Exit(get_exit_status(sets))


@app.command("leak-check")
def leak_check(
    context: typer.Context,
    paths: Paths,
    kind: OfKind = FindingKind.LOOP,
    severity: Least = Severity.MED,
    label: Label = None,
    adjacent: Adjacent = False,
    seed: Seed = 0,
    jobs: Jobs = 1,
    engine: OnEngine = Engine.LOCAL,
    master: Master = "",
    as_json: AsJson = False,
) -> None:
    """Check that figures depend on what they should. Shuffles what must not matter, and what must.

    Exit status: 0 ok, 3 something leaks or is not used, 1 something could not be read.
    """
    from steadyhelm.lab.evaluation.leak_check import LeakCheck
    from steadyhelm.lab.evaluation.report_text import format_leak_reports
    from steadyhelm.replay_pool import open_judge

    sets = read_run_sets(paths)
    with open_judge(
        context.obj.load().settings, kinds={kind.value}, workers=choose_workers(jobs, engine, master)
    ) as judge:
        check = LeakCheck(judge, _make_question(kind, severity, label, adjacent), seed=seed)
        reports = [check.check(one) for one in sets]
    if as_json:
        print_json({"sets": reports})
    else:
        typer.echo(format_leak_reports(reports))
    is_clean = all(report.is_clean for report in reports)
    raise typer.Exit(get_exit_status(sets) or (EXIT_OK if is_clean else EXIT_FLAGGED))


@app.command("simulate")
def simulate(
    context: typer.Context,
    paths: Paths,
    config: Annotated[
        Path | None, typer.Option("--config", help="The settings file that holds the policy.")
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="A setting of the policy, such as replan_threshold=0.4 or budget.steps=50; repeatable.",
        ),
    ] = None,
    samples: Samples = 1000,
    seed: Seed = 0,
    shown: Annotated[int, typer.Option("--shown", min=0, help="How many disturbed runs to list.")] = 10,
    html: Annotated[Path | None, typer.Option("--html", help="Write a page to this file.")] = None,
    jobs: Jobs = 1,
    engine: OnEngine = Engine.LOCAL,
    master: Master = "",
    as_json: AsJson = False,
) -> None:
    """Print what a policy would have done to recorded runs.

    Exit status: 0 ok, 3 more than 2 in 100 healthy runs get more than a reminder, 1 something
    could not be read.
    """
    from steadyhelm.lab.simulation.report_text import format_simulation
    from steadyhelm.lab.simulation.simulate import simulate as run_simulation
    from steadyhelm.replay_pool import open_judge
    from steadyhelm.settings import load

    settings = load(_parse_policy(policy or ()), path=config or context.obj.config_file).settings
    sets = read_run_sets(paths)
    with (
        open_judge(settings, mode="enforce", workers=choose_workers(jobs, engine, master)) as judge,
        show_progress("simulating", sum(len(one.runs) for one in sets)) as on_run,
    ):
        report = run_simulation(sets, settings, samples=samples, seed=seed, judge=judge, on_run=on_run)
    if html is not None:
        from steadyhelm.lab.report_html import render_simulation

        _write_page(html, render_simulation(report))
    if as_json:
        print_json(report)
    else:
        typer.echo(format_simulation(report, most=shown))
    raise typer.Exit(get_exit_status(sets) or (EXIT_FLAGGED if report.is_harmless is False else EXIT_OK))


@app.command("import")
def import_runs(
    layout: Annotated[DatasetLayout, typer.Argument(help="The layout of the files.")],
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="JSON files, or folders of them.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The run file to write; a name in .gz is compressed.")
    ],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Replace a file that exists.")] = False,
) -> None:
    """Convert a public dataset to a run file, with its labels."""
    from steadyhelm.lab.importers.layouts import IMPORTERS, read_documents, write_runs

    if output.exists():
        confirm(f"{safe(output)} exists. Replace it?", yes=yes)
    written = write_runs(IMPORTERS[layout.value](read_documents(paths)), output)
    say(f"Wrote {pluralize(written, 'run')} to {safe(output)}.")


@app.command("accuracy")
def accuracy(
    context: typer.Context,
    planted: Annotated[
        list[Path] | None,
        typer.Argument(metavar="PLANTED...", help="Files of `lab mutate` or `splice`: measure these."),
    ] = None,
    learn: Learn = None,
    learn_from: LearnFrom = 60,
    data: Annotated[
        Path | None, typer.Option("--data", help="The folder of labelled data; else STEADYHELM_DATA.")
    ] = None,
    wrong: Annotated[bool, typer.Option("--wrong", help="Name every run that was judged wrongly.")] = False,
    cost: Annotated[bool, typer.Option("--cost/--no-cost", help="Measure the cost too.")] = True,
    jobs: Jobs = 1,
    engine: OnEngine = Engine.LOCAL,
    master: Master = "",
    as_json: AsJson = False,
) -> None:
    """Measure every accuracy target of the loop detectors.

    With files of `lab mutate`: the planted loops found and the healthy stretches flagged, by class.
    Exit status: 0 all met, 3 one is not met, 1 nothing could be measured.
    """
    if planted:
        runs, settings = read_runs(planted), context.obj.load().settings
        teachers = read_runs(learn)[:learn_from] if learn else []
        status = measure_planted(
            runs,
            settings,
            teachers=teachers,
            wrong=wrong,
            as_json=as_json,
            workers=choose_workers(jobs, engine, master),
        )
        raise typer.Exit(status)
    from steadyhelm.lab.evaluation import accuracy as targets
    from steadyhelm.lab.evaluation.labelled_runs import find_data_folder
    from steadyhelm.replay_pool import open_judge

    folder, settings = find_data_folder(data), context.obj.load().settings
    with open_judge(
        settings, kinds=targets.MEASURED_KINDS, workers=choose_workers(jobs, engine, master)
    ) as judge:
        measured = targets.AccuracyCheck(folder, settings, judge=judge).measure(cost=cost)
    if as_json:
        print_json({"targets": targets.targets_to_builtins(measured)})
    else:
        typer.echo(targets.format_targets(measured, wrong=wrong))
    raise typer.Exit(EXIT_OK if all(target.is_met for target in measured) else EXIT_FLAGGED)


@app.command("false-alarms")
def false_alarms(
    context: typer.Context,
    paths: Paths,
    learn_from: Annotated[
        int, typer.Option("--learn-from", min=0, help="Learn a baseline from so many of the runs before.")
    ] = 0,
    wrong: Annotated[bool, typer.Option("--wrong", help="Name every run that was flagged.")] = False,
    seed: Seed = 0,
    jobs: Jobs = 1,
    engine: OnEngine = Engine.LOCAL,
    master: Master = "",
    as_json: AsJson = False,
) -> None:
    """Count how many healthy runs are flagged. By kind of finding, with what was not checked."""
    sets = read_run_sets(paths)
    print_false_alarms(
        sets,
        context.obj.load().settings,
        learn_from=learn_from,
        seed=seed,
        wrong=wrong,
        as_json=as_json,
        workers=choose_workers(jobs, engine, master),
    )
    raise typer.Exit(get_exit_status(sets))


def _parse_policy(given: Iterable[str]) -> dict[str, str]:
    """Return settings of the policy and its budget by name; a name without a dot is the policy's."""
    settings = {}
    for one in given:
        name, is_set, value = one.partition("=")
        name = name.strip() if "." in name else f"policy.{name.strip()}"
        if not is_set or name.partition(".")[0] not in {"policy", "budget"}:
            fail(f"--policy {safe(one)}: write NAME=VALUE, such as budget.steps=50.", EXIT_USAGE)
        settings[name] = value.strip()
    return settings


def _make_question(kind: FindingKind, severity: Severity, label: str | None, adjacent: bool) -> "Question":
    from steadyhelm.lab.evaluation.labelled_runs import LABELS, Question

    return Question(
        kind=kind.value,
        label=label or LABELS.get(kind.value, kind.value),
        severity=severity,
        adjacent=adjacent,
    )


def _write_page(target: Path, content: str) -> None:
    try:
        target.write_text(content, encoding="utf-8")
    except OSError as exc:
        fail(f"{safe(target)} cannot be written: {exc.strerror}.")
    say(f"Wrote {safe(target)}.")
