"""`steadyhelm lab`: how right the detectors are, measured on labelled runs."""

import enum
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steadyhelm.cli.output import FAILED, FLAGGED, OK, USAGE, confirm, counting, fail, print_json
from steadyhelm.reports.formats import counted
from steadyhelm.reports.terminal import safe, say

if TYPE_CHECKING:
    from steadyhelm.lab.evaluation.expectations import Question
    from steadyhelm.lab.evaluation.places import RunSet


def train(
    replies: Annotated[Path, typer.Argument(help="Labelled replies, JSON Lines.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where the weights go; without it none are written.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Without the leak check and the other ways of learning.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Replace a file that exists.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Learn the reply classifier and foresight, and say what they are worth on replies kept back.

    Takes some minutes; the same replies give the same weights.
    """
    from steadyhelm.lab.training.replies import read_replies
    from steadyhelm.lab.training.report import report_text
    from steadyhelm.lab.training.train import train as trained
    from steadyhelm.lab.training.train import write_weights

    if not replies.is_file():
        fail(f"there is no file {safe(replies)}.", USAGE)
    if output is not None and output.exists():
        confirm(f"{safe(output)} exists. Replace it?", yes=yes)
    report = trained(read_replies(replies), quick=quick)
    if as_json:
        print_json(
            {
                "replies": report.weights.replies,
                "projects": report.weights.projects,
                "drift_from": report.weights.drift_from,
                "figures": report.figures,
                "importances": report.importances,
                "leaks": report.leaks,
                "rivals": report.rivals,
            }
        )
    else:
        typer.echo(report_text(report), nl=False)
    if output is not None:
        say(f"Wrote {write_weights(report.weights, output)} bytes to {safe(output)}.")


app = typer.Typer(
    help="How right the detectors are, measured on labelled runs.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


class Kind(enum.StrEnum):
    """A kind of finding."""

    LOOP = "loop"
    GOAL = "goal"
    RESOURCE = "resource"
    STYLE = "style"
    CORRECTION = "correction"
    TRANSITION = "transition"


class Level(enum.StrEnum):
    """A severity as it is typed."""

    LOW = "low"
    MED = "med"
    HIGH = "high"
    CRITICAL = "critical"


class Layout(enum.StrEnum):
    """A public layout of labelled runs."""

    TRAIL = "trail"
    TAU = "tau"
    WHO_AND_WHEN = "who-and-when"


Paths = Annotated[
    list[Path],
    typer.Argument(metavar="PATH...", help="Run files, folders of them, or a database of ours."),
]
OfKind = Annotated[Kind, typer.Option("--kind", help="The kind of finding, and the detectors that look.")]
Least = Annotated[Level, typer.Option("--severity", help="The lowest severity that counts.")]
Label = Annotated[
    str | None,
    typer.Option("--label", help="The label to hold findings against; by default the one of the kind."),
]
Adjacent = Annotated[
    bool,
    typer.Option("--adjacent", help="Count a finding only when its evidence holds the call just before."),
]
Samples = Annotated[int, typer.Option("--bootstrap", min=0, help="Resamples of runs for each interval.")]
Seed = Annotated[int, typer.Option("--seed", help="Makes shuffling and intervals repeatable.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document.")]


@app.command("eval")
def evaluate(
    context: typer.Context,
    paths: Paths,
    kind: OfKind = Kind.LOOP,
    severity: Least = Level.MED,
    label: Label = None,
    adjacent: Adjacent = False,
    group: Annotated[
        list[str] | None, typer.Option("--group", help="Only runs of this group, such as a tier; repeatable.")
    ] = None,
    samples: Samples = 1000,
    seed: Seed = 0,
    wrong: Annotated[int, typer.Option("--wrong", min=0, help="Wrong runs shown of each set.")] = 20,
    html: Annotated[Path | None, typer.Option("--html", help="Write a page with plots to this file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Replay labelled runs and say how right each detector was, beside simple rules."""
    from steadyhelm.lab.evaluation.evaluation import Evaluator
    from steadyhelm.lab.evaluation.report_text import evaluation_text
    from steadyhelm.replay import Judge

    sets = _sets(paths)
    judge = Judge(context.obj.load().settings, kinds={kind.value})
    question = _question(kind, severity, label, adjacent)
    evaluator = Evaluator(judge, question, samples=samples, seed=seed, groups=group or ())
    evaluation = evaluator.evaluate(sets)
    if html is not None:
        from steadyhelm.lab.evaluation.report_html import page

        _write(html, page(evaluation))
    if as_json:
        print_json(evaluation)
    else:
        typer.echo(evaluation_text(evaluation, most=wrong))
    raise typer.Exit(_status(sets))


@app.command("compare")
def compare(
    before: Annotated[Path, typer.Argument(metavar="A.toml", help="The settings as they are.")],
    after: Annotated[Path, typer.Argument(metavar="B.toml", help="The settings as they might be.")],
    paths: Paths,
    kind: OfKind = Kind.LOOP,
    severity: Least = Level.MED,
    label: Label = None,
    adjacent: Adjacent = False,
    samples: Samples = 1000,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Say what a change of settings would have done on the same runs."""
    from steadyhelm.lab.evaluation.comparison import Comparer, Comparison
    from steadyhelm.lab.evaluation.report_text import comparison_text
    from steadyhelm.settings import load

    sets = _sets(paths)
    first, second = load(path=before).settings, load(path=after).settings
    question = _question(kind, severity, label, adjacent)
    comparer = Comparer(first, second, question, kinds={kind.value}, samples=samples, seed=seed)
    comparison = Comparison(
        before=str(before), after=str(after), question=question, sets=[comparer.compare(one) for one in sets]
    )
    if as_json:
        print_json(comparison)
    else:
        typer.echo(comparison_text(comparison))
    raise typer.Exit(_status(sets))


@app.command("leak-check")
def leak_check(
    context: typer.Context,
    paths: Paths,
    kind: OfKind = Kind.LOOP,
    severity: Least = Level.MED,
    label: Label = None,
    adjacent: Adjacent = False,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Shuffle what must not matter and what must, and see that figures stay and fall.

    Exit status: 0 as it should be, 3 something leaks or is not used, 1 something could not be read.
    """
    from steadyhelm.lab.evaluation.leaks import LeakCheck
    from steadyhelm.lab.evaluation.report_text import leak_text
    from steadyhelm.replay import Judge

    sets = _sets(paths)
    judge = Judge(context.obj.load().settings, kinds={kind.value})
    check = LeakCheck(judge, _question(kind, severity, label, adjacent), seed=seed)
    reports = [check.check(one) for one in sets]
    if as_json:
        print_json(reports)
    else:
        typer.echo(leak_text(reports))
    is_clean = all(report.is_clean for report in reports)
    raise typer.Exit(_status(sets) or (OK if is_clean else FLAGGED))


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
    shown: Annotated[int, typer.Option("--shown", min=0, help="Disturbed runs that are listed.")] = 10,
    html: Annotated[Path | None, typer.Option("--html", help="Write a page to this file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Say what the policy would have done to recorded runs, had it been on: good and bad.

    Exit status: 0 as it should be, 3 more than 2 in 100 healthy runs get more than a reminder, 1 something
    could not be read.
    """
    from steadyhelm.lab.simulation.simulation import simulate as simulated
    from steadyhelm.lab.simulation.text import simulation_text
    from steadyhelm.settings import load

    settings = load(_policy(policy or ()), path=config or context.obj.config_file).settings
    sets = _sets(paths)
    with counting("simulating", sum(len(one.runs) for one in sets)) as on_run:
        report = simulated(sets, settings, samples=samples, seed=seed, on_run=on_run)
    if html is not None:
        from steadyhelm.lab.simulation.html import page

        _write(html, page(report))
    if as_json:
        print_json(report)
    else:
        typer.echo(simulation_text(report, most=shown))
    raise typer.Exit(_status(sets) or (FLAGGED if report.is_gentle is False else OK))


app.command("train")(train)


@app.command("import")
def import_runs(
    layout: Annotated[Layout, typer.Argument(help="The layout of the files.")],
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="JSON files, or folders of them.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The run file to write; a name in .gz is compressed.")
    ],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Replace a file that exists.")] = False,
) -> None:
    """Turn runs in a public layout into a run file, labels kept."""
    from steadyhelm.lab.importers.importing import documents, write_runs
    from steadyhelm.lab.importers.table import IMPORTERS

    if output.exists():
        confirm(f"{safe(output)} exists. Replace it?", yes=yes)
    written = write_runs(IMPORTERS[layout.value](documents(paths)), output)
    say(f"Wrote {counted(written, 'run')} to {safe(output)}.")


@app.command("bars")
def bars(
    context: typer.Context,
    data: Annotated[
        Path | None, typer.Option("--data", help="The folder of labelled data; else STEADYHELM_DATA.")
    ] = None,
    wrong: Annotated[bool, typer.Option("--wrong", help="Name every run that was judged wrongly.")] = False,
    cost: Annotated[bool, typer.Option("--cost/--no-cost", help="Measure the cost too.")] = True,
    as_json: AsJson = False,
) -> None:
    """Measure every bar the loop detectors are held to, in one go.

    Exit status: 0 all met, 3 one is not, 1 nothing could be measured.
    """
    from steadyhelm.lab.evaluation.bars import Bars, as_data, in_text
    from steadyhelm.lab.evaluation.places import data_folder

    measured = Bars(data_folder(data), context.obj.load().settings).measure(cost=cost)
    if as_json:
        print_json(as_data(measured))
    else:
        typer.echo(in_text(measured, wrong=wrong))
    raise typer.Exit(OK if all(bar.met for bar in measured) else FLAGGED)


def _sets(paths: list[Path]) -> "list[RunSet]":
    from steadyhelm.lab.evaluation.places import read_sets

    missing = next((path for path in paths if not path.exists()), None)
    if missing is not None:
        fail(f"there is no file or folder {safe(missing)}.", USAGE)
    sets = read_sets(paths)
    for one in sets:
        for broken in one.broken:
            say(f"steadyhelm: {safe(one.name)}:{broken.line}: {safe(broken.reason)}")
    if not any(one.runs for one in sets):
        fail("no runs were found. A run file holds one run a line; `steadyhelm lab import` writes one.")
    return [one for one in sets if one.runs]


def _policy(given: Iterable[str]) -> dict[str, str]:
    """Settings of the policy and its budget by name; a name without a dot is one of the policy's own."""
    settings = {}
    for one in given:
        name, is_set, value = one.partition("=")
        name = name.strip() if "." in name else f"policy.{name.strip()}"
        if not is_set or name.partition(".")[0] not in {"policy", "budget"}:
            fail(f"--policy {safe(one)}: write NAME=VALUE, such as budget.steps=50.", USAGE)
        settings[name] = value.strip()
    return settings


def _question(kind: Kind, severity: Level, label: str | None, adjacent: bool) -> "Question":
    from steadyhelm.findings import Severity
    from steadyhelm.lab.evaluation.expectations import LABELS, Question

    return Question(
        kind=kind.value,
        label=label or LABELS.get(kind.value, kind.value),
        severity=Severity(severity.upper()),
        adjacent=adjacent,
    )


def _status(sets: "list[RunSet]") -> int:
    return FAILED if any(one.broken for one in sets) else OK


def _write(target: Path, content: str) -> None:
    try:
        target.write_text(content, encoding="utf-8")
    except OSError as exc:
        fail(f"{safe(target)} cannot be written: {exc.strerror}.")
    say(f"Wrote {safe(target)}.")
