"""`steadyhelm lab accuracy` and `lab false-alarms`: what detectors find, miss and flag wrongly.

`lab mutate` and `lab splice` write runs to measure: with planted loops, or with steps of another task.
"""

import enum
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steadyhelm.cli.lab_sets import Paths, Seed, follow, get_exit_status, read_run_sets, read_runs
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
)
from steadyhelm.reports.formats import pluralize
from steadyhelm.reports.terminal import safe, say

if TYPE_CHECKING:
    from steadyhelm.corrections.model import CorrectionWeights
    from steadyhelm.lab.evaluation.labelled_runs import RunSet
    from steadyhelm.lab.mutations.planting import HostRuns
    from steadyhelm.recordings.run_file import ReadRun
    from steadyhelm.replay_pool import Workers
    from steadyhelm.settings import Settings

Learn = Annotated[
    list[Path] | None,
    typer.Option("--learn", help="Learn a baseline from these run files before; repeatable."),
]
LearnFrom = Annotated[int, typer.Option("--learn-from", min=1, help="How many runs to learn from.")]
HealthyRuns = Annotated[list[Path], typer.Argument(metavar="PATH", help="Run files of healthy runs.")]
Output = Annotated[
    Path, typer.Option("--output", "-o", help="The run file to write; a name in .gz is compressed.")
]
PlantSeed = Annotated[int, typer.Option("--seed", help="Makes the plants reproducible.")]


class HeldOutGroup(enum.StrEnum):
    """What the replies must not be from that weights are learnt from."""

    SESSION = "session"
    PROJECT = "project"


def accuracy(
    context: typer.Context,
    planted: Annotated[
        list[Path] | None,
        typer.Argument(metavar="PLANTED", help="Files of `lab mutate` or `splice`: measure these."),
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
        status = _measure_planted(
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
    from steadyhelm.replay_pool import open_replayer

    folder, settings = find_data_folder(data), context.obj.load().settings
    with open_replayer(
        settings, kinds=targets.MEASURED_KINDS, workers=choose_workers(jobs, engine, master)
    ) as replayer:
        measured = targets.AccuracyCheck(folder, settings, replayer=replayer).measure(cost=cost)
    if as_json:
        print_json({"targets": targets.targets_to_builtins(measured)})
    else:
        typer.echo(targets.format_targets(measured, wrong=wrong))
    raise typer.Exit(EXIT_OK if all(target.is_met for target in measured) else EXIT_FLAGGED)


def false_alarms(
    context: typer.Context,
    paths: Paths,
    learn_from: Annotated[
        int, typer.Option("--learn-from", min=0, help="Learn a baseline from so many of the runs before.")
    ] = 0,
    wrong: Annotated[bool, typer.Option("--wrong", help="Name every run that was flagged.")] = False,
    replies: Annotated[
        Path | None,
        typer.Option("--replies", help="Labelled replies: learn from them how to read messages."),
    ] = None,
    hold_out: Annotated[
        HeldOutGroup,
        typer.Option("--hold-out", help="Of these replies, leave out those of the run's session or project."),
    ] = HeldOutGroup.PROJECT,
    seed: Seed = 0,
    jobs: Jobs = 1,
    engine: OnEngine = Engine.LOCAL,
    master: Master = "",
    as_json: AsJson = False,
) -> None:
    """Count how many healthy runs are flagged. By kind of finding, with what was not checked.

    With labelled replies (`--replies`) messages are read by weights that never saw those of the run's session
    or project: figures on runs whose replies the shipped weights were learnt from would be too good.
    """
    if replies is not None and (jobs > 1 or engine is not Engine.LOCAL):
        fail("--replies judges in this process: leave out --jobs and --engine.", EXIT_USAGE)
    sets = read_run_sets(paths)
    _print_false_alarms(
        sets,
        context.obj.load().settings,
        learn_from=learn_from,
        seed=seed,
        wrong=wrong,
        as_json=as_json,
        labelled=None if replies is None else (replies, hold_out),
        workers=choose_workers(jobs, engine, master),
    )
    raise typer.Exit(get_exit_status(sets))


def _measure_planted(
    runs: "Sequence[ReadRun]",
    settings: "Settings",
    *,
    teachers: "Sequence[ReadRun]" = (),
    wrong: bool,
    as_json: bool,
    workers: "Workers",
) -> int:
    """Print by class what was found of the plants in these runs; return the exit status.

    `teachers` are runs that a baseline is learnt from before.
    """
    from steadyhelm.lab.evaluation.false_alarms import as_one_agent, learn_baseline
    from steadyhelm.lab.evaluation.planted import format_plants, has_plant, measure_plants, plants_to_builtins
    from steadyhelm.replay_pool import open_replayer

    if not all(has_plant(run) for run in runs):
        fail("a run without a plant was found: `steadyhelm lab mutate` writes files for this.", EXIT_USAGE)
    with (
        learn_baseline(follow("Learning", teachers, len(teachers)), settings) as store,
        open_replayer(
            settings, store=store if teachers else None, kinds={"loop", "goal"}, workers=workers
        ) as replayer,
    ):
        judged = map(as_one_agent, runs) if teachers else runs
        result = measure_plants(follow("Judging", judged, len(runs)), replayer)
    if as_json:
        print_json(plants_to_builtins(result))
    else:
        typer.echo(format_plants(result, wrong=wrong))
    return EXIT_OK if result.is_met else EXIT_FLAGGED


def _print_false_alarms(
    sets: "Sequence[RunSet]",
    settings: "Settings",
    *,
    learn_from: int,
    seed: int,
    wrong: bool,
    as_json: bool,
    labelled: tuple[Path, HeldOutGroup] | None,
    workers: "Workers",
) -> None:
    """Print how many runs of each set are flagged, by kind."""
    from steadyhelm.lab.evaluation.false_alarms import count_false_alarms, format_false_alarms

    if any(learn_from >= len(one.runs) for one in sets):
        fail(f"--learn-from {learn_from} leaves no run to judge.", EXIT_USAGE)
    counted = [
        count_false_alarms(
            one.name,
            one.runs,
            settings,
            learn_from=learn_from,
            seed=seed,
            weights=None if labelled is None else _learn_weights(one.runs, *labelled),
            workers=workers,
        )
        for one in sets
    ]
    if as_json:
        print_json({"sets": counted})
    else:
        typer.echo("\n\n".join(format_false_alarms(one, wrong=wrong) for one in counted))


def _learn_weights(
    runs: "Sequence[ReadRun]", replies: Path, hold_out: HeldOutGroup
) -> "Mapping[str, CorrectionWeights]":
    from steadyhelm.lab.evaluation.false_alarms import learn_weights_by_run
    from steadyhelm.lab.training.labelled_replies import read_replies

    return learn_weights_by_run(runs, read_replies(replies), hold_out.value)


def mutate(
    paths: HealthyRuns,
    output: Output,
    plants: Annotated[int, typer.Option("--plants", min=1, help="Plants of each class.")] = 30,
    only: Annotated[
        list[str] | None, typer.Option("--class", help="Only this class of plants; repeatable.")
    ] = None,
    seed: PlantSeed = 0,
    yes: Yes = False,
) -> None:
    """Plant loops and healthy stretches into runs. `lab accuracy` measures the result.

    Each run gets one plant of a named class; its line says which, and where it begins and ends.
    Runs that failed or have a loop label are left out.
    """
    from steadyhelm.lab.mutations import choose_classes
    from steadyhelm.lab.mutations.planting import plant

    classes = choose_classes(only)
    hosts = _read_hosts(paths)
    lines = plant(hosts.runs, classes, plants=plants, seed=seed)
    written = _write_lines(lines, plants * len(classes), output, yes=yes)
    left_out = f"; {pluralize(hosts.left_out, 'run')} left out as not healthy" * bool(hosts.left_out)
    say(f"Wrote {pluralize(written, 'run')} of {len(classes)} classes to {safe(output)}{left_out}.")


def splice(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH", help="Run files.")],
    output: Output,
    others: Annotated[
        list[Path] | None,
        typer.Option("--with", help="Take all steps from these run files of another source; repeatable."),
    ] = None,
    whole: Annotated[
        bool, typer.Option("--whole", help="Take all steps of the other run, not those from its middle on.")
    ] = False,
    plants: Annotated[int, typer.Option("--plants", min=1, help="How many runs to write.")] = 30,
    seed: PlantSeed = 0,
    yes: Yes = False,
) -> None:
    """Let runs continue with steps of another task. `lab accuracy` measures the result.

    From the middle on, with the second half of another run of the same files; with `--with`, from the
    user's first message on, with all steps of a run of those files.
    """
    from steadyhelm.lab.mutations.planting import replace_steps
    from steadyhelm.lab.mutations.planting import splice as splice_runs

    runs = _read_hosts(paths, only_healthy=False).runs
    if others:
        steps = _read_hosts(others, only_healthy=False).runs
        lines = replace_steps(runs, steps, plants=plants, seed=seed)
    else:
        lines = splice_runs(runs, plants=plants, seed=seed, whole=whole)
    written = _write_lines(lines, plants, output, yes=yes)
    say(f"Wrote {pluralize(written, 'run')} to {safe(output)}.")


def _read_hosts(paths: "Sequence[Path]", *, only_healthy: bool = True) -> "HostRuns":
    from steadyhelm.lab.mutations.planting import read_hosts

    missing = next((path for path in paths if not path.is_file()), None)
    if missing is not None:
        fail(f"there is no file {safe(missing)}.", EXIT_USAGE)
    return read_hosts(paths, only_healthy=only_healthy)


def _write_lines(lines: "Iterable[dict[str, Any]]", total: int, output: Path, *, yes: bool) -> int:
    from steadyhelm.lab.importers.layouts import write_runs

    confirm_replacing(output, yes=yes)
    return write_runs(follow("Writing", lines, total), output)
