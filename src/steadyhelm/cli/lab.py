"""`steadyhelm lab`: how accurate the detectors are, measured on labelled runs."""

import enum
import tempfile
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steadyhelm.cli.context import SEVERITY_CHOICES, parse_severity
from steadyhelm.cli.lab_accuracy import accuracy, false_alarms, mutate, splice
from steadyhelm.cli.lab_judge import judge
from steadyhelm.cli.lab_sets import Groups, Paths, Seed, get_exit_status, read_run_sets, read_runs
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
    Yes,
    choose_workers,
    confirm_replacing,
    fail,
    print_json,
    show_progress,
)
from steadyhelm.findings import Severity
from steadyhelm.reports.formats import pluralize
from steadyhelm.reports.terminal import safe, say

if TYPE_CHECKING:
    from steadyhelm.lab.evaluation.labelled_runs import LabelQuestion

app = typer.Typer(
    help="Measure on labelled runs how accurate the detectors are.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


app.command("accuracy")(accuracy)
app.command("false-alarms")(false_alarms)
app.command("mutate")(mutate)
app.command("splice")(splice)
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


@app.command("eval")
def evaluate(
    context: typer.Context,
    paths: Paths,
    kind: OfKind = FindingKind.LOOP,
    severity: Least = Severity.MED,
    label: Label = None,
    adjacent: Adjacent = False,
    group: Groups = None,
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
    from steadyhelm.replay_pool import open_replayer

    sets = read_run_sets(paths)
    question = _make_question(kind, severity, label, adjacent)
    with open_replayer(
        context.obj.load().settings, kinds={kind.value}, workers=choose_workers(jobs, engine, master)
    ) as replayer:
        evaluator = Evaluator(replayer, question, samples=samples, seed=seed, groups=group or ())
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
    from steadyhelm.replay_pool import open_replayer
    from steadyhelm.settings import load

    sets = read_run_sets(paths)
    first, second = load(path=before).settings, load(path=after).settings
    question = _make_question(kind, severity, label, adjacent)
    with (
        open_replayer(first, kinds={kind.value}, workers=choose_workers(jobs, engine, master)) as current,
        open_replayer(second, kinds={kind.value}, workers=choose_workers(jobs, engine, master)) as changed,
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
    from steadyhelm.replay_pool import open_replayer

    sets = read_run_sets(paths)
    with open_replayer(
        context.obj.load().settings, kinds={kind.value}, workers=choose_workers(jobs, engine, master)
    ) as replayer:
        check = LeakCheck(replayer, _make_question(kind, severity, label, adjacent), seed=seed)
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
    from steadyhelm.replay_pool import open_replayer
    from steadyhelm.settings import load

    settings = load(_parse_policy(policy or ()), path=config or context.obj.config_file).settings
    sets = read_run_sets(paths)
    with (
        open_replayer(settings, mode="enforce", workers=choose_workers(jobs, engine, master)) as replayer,
        show_progress("simulating", sum(len(one.runs) for one in sets)) as on_run,
    ):
        report = run_simulation(sets, settings, samples=samples, seed=seed, replayer=replayer, on_run=on_run)
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
    layout: Annotated[
        DatasetLayout,
        typer.Argument(metavar="LAYOUT", help="The layout of the files."),
    ],
    paths: Annotated[list[Path], typer.Argument(metavar="PATH", help="JSON files, or folders of them.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The run file to write; a name in .gz is compressed.")
    ],
    yes: Yes = False,
) -> None:
    """Convert a public dataset to a run file, with its labels."""
    from steadyhelm.lab.importers.layouts import IMPORTERS, read_documents, write_runs

    confirm_replacing(output, yes=yes)
    written = write_runs(IMPORTERS[layout.value](read_documents(paths)), output)
    say(f"Wrote {pluralize(written, 'run')} to {safe(output)}.")


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


def _make_question(
    kind: FindingKind, severity: Severity, label: str | None, adjacent: bool
) -> "LabelQuestion":
    from steadyhelm.lab.evaluation.labelled_runs import LABELS, LabelQuestion

    return LabelQuestion(
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


@app.command("simulate-load")
def simulate_load(
    context: typer.Context,
    paths: Annotated[
        list[Path] | None,
        typer.Argument(metavar="PATH", help="Run files to draw lengths, steps and gaps from."),
    ] = None,
    agents: Annotated[int, typer.Option("--agents", min=1, help="How many agents work at once.")] = 200,
    rate: Annotated[
        float, typer.Option("--rate", min=0.001, help="Steps a second of one agent, on average.")
    ] = 0.44,
    seconds: Annotated[float, typer.Option("--seconds", min=1, help="How long they work.")] = 60,
    processes: Annotated[
        int, typer.Option("--processes", min=1, max=64, help="Processes that the agents are spread over.")
    ] = 2,
    seed: Annotated[int, typer.Option("--seed", help="Makes the agents reproducible.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Let simulated agents record to a database, and print throughput, lag, loss and cost.

    The database is the one before the command, `--db FILE|URL`; without it, a temporary file. Without run
    files, agents behave as those of open runs do. Exit status: 0 ok, 3 steps were lost.
    """
    from steadyhelm.lab.load.mix import measure_mix, read_built_in_mix
    from steadyhelm.lab.load.simulation import format_load
    from steadyhelm.lab.load.simulation import simulate_load as run_load
    from steadyhelm.stores.locations import DatabaseLocation

    mix = measure_mix(read_runs(paths)) if paths else read_built_in_mix()
    with ExitStack() as stack:
        where = context.obj.database
        if where is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="steadyhelm-load-"))
            where = Path(folder) / "load.db"
        on_second = stack.enter_context(show_progress("simulating", int(seconds)))
        report = run_load(
            DatabaseLocation(str(where)),
            mix,
            agents=agents,
            rate=rate,
            seconds=seconds,
            processes=processes,
            seed=seed,
            config_file=str(context.obj.config_file) if context.obj.config_file else None,
            on_second=on_second,
        )
    if as_json:
        print_json(report)
    else:
        typer.echo(format_load(report))
    raise typer.Exit(EXIT_FLAGGED if report.lost else EXIT_OK)
