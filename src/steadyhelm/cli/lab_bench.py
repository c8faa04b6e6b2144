"""`steadyhelm lab mutate` and `lab splice`, and what `lab accuracy` prints about the files they write."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from steadyhelm.cli.output import (
    EXIT_FAILED,
    EXIT_FLAGGED,
    EXIT_OK,
    EXIT_USAGE,
    confirm,
    fail,
    print_json,
    show_progress,
)
from steadyhelm.reports.formats import pluralize
from steadyhelm.reports.terminal import safe, say

if TYPE_CHECKING:
    from steadyhelm.lab.evaluation.labelled_runs import RunSet
    from steadyhelm.lab.mutations.hosts import HostRuns
    from steadyhelm.recordings.run_file import ReadRun
    from steadyhelm.replay_pool import Workers
    from steadyhelm.settings import Settings

_Item = TypeVar("_Item")

HealthyRuns = Annotated[list[Path], typer.Argument(metavar="PATH...", help="Run files of healthy runs.")]
Output = Annotated[
    Path, typer.Option("--output", "-o", help="The run file to write; a name in .gz is compressed.")
]
Seed = Annotated[int, typer.Option("--seed", help="Makes the plants reproducible.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Replace a file that exists.")]


def mutate(
    paths: HealthyRuns,
    output: Output,
    plants: Annotated[int, typer.Option("--plants", min=1, help="Plants of each class.")] = 30,
    only: Annotated[
        list[str] | None, typer.Option("--class", help="Only this class of plants; repeatable.")
    ] = None,
    seed: Seed = 0,
    yes: Yes = False,
) -> None:
    """Plant loops and healthy stretches into runs. `lab accuracy` measures the result.

    Each run gets one plant of a named class; its line says which, and where it begins and ends.
    Runs that failed or have a loop label are left out.
    """
    from steadyhelm.lab.mutations.classes import choose_classes
    from steadyhelm.lab.mutations.planting import plant

    classes = choose_classes(only)
    hosts = _read_hosts(paths)
    lines = plant(hosts.runs, classes, plants=plants, seed=seed)
    written = _write_lines(lines, plants * len(classes), output, yes=yes)
    left_out = f"; {pluralize(hosts.left_out, 'run')} left out as not healthy" * bool(hosts.left_out)
    say(f"Wrote {pluralize(written, 'run')} of {len(classes)} classes to {safe(output)}{left_out}.")


def splice(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Run files.")],
    output: Output,
    others: Annotated[
        list[Path] | None,
        typer.Option("--with", help="Take all steps from these run files of another source; repeatable."),
    ] = None,
    plants: Annotated[int, typer.Option("--plants", min=1, help="How many runs to write.")] = 30,
    seed: Seed = 0,
    yes: Yes = False,
) -> None:
    """Let runs continue with steps of another task. `lab accuracy` measures the result.

    From the middle on, with steps of another run of the same files; with `--with`, from the user's first
    message on, with steps of a run of those files.
    """
    from steadyhelm.lab.mutations.splicing import replace_steps
    from steadyhelm.lab.mutations.splicing import splice as splice_runs

    runs = _read_hosts(paths, only_healthy=False).runs
    if others:
        steps = _read_hosts(others, only_healthy=False).runs
        lines = replace_steps(runs, steps, plants=plants, seed=seed)
    else:
        lines = splice_runs(runs, plants=plants, seed=seed)
    written = _write_lines(lines, plants, output, yes=yes)
    say(f"Wrote {pluralize(written, 'run')} to {safe(output)}.")


def _read_hosts(paths: "Sequence[Path]", *, only_healthy: bool = True) -> "HostRuns":
    from steadyhelm.lab.mutations.hosts import read_hosts

    missing = next((path for path in paths if not path.is_file()), None)
    if missing is not None:
        fail(f"there is no file {safe(missing)}.", EXIT_USAGE)
    return read_hosts(paths, only_healthy=only_healthy)


def _write_lines(lines: "Iterable[dict[str, Any]]", total: int, output: Path, *, yes: bool) -> int:
    from steadyhelm.lab.importers.layouts import write_runs

    if output.exists():
        confirm(f"{safe(output)} exists. Replace it?", yes=yes)
    return write_runs(_follow("Writing", lines, total), output)


def measure_planted(
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
    from steadyhelm.replay_pool import open_judge

    if not all(has_plant(run) for run in runs):
        fail("a run without a plant was found: `steadyhelm lab mutate` writes files for this.", EXIT_USAGE)
    with (
        learn_baseline(_follow("Learning", teachers, len(teachers)), settings) as store,
        open_judge(
            settings, store=store if teachers else None, kinds={"loop", "goal"}, workers=workers
        ) as judge,
    ):
        judged = map(as_one_agent, runs) if teachers else runs
        result = measure_plants(_follow("Judging", judged, len(runs)), judge)
    if as_json:
        print_json(plants_to_builtins(result))
    else:
        typer.echo(format_plants(result, wrong=wrong))
    return EXIT_OK if result.is_met else EXIT_FLAGGED


def print_false_alarms(
    sets: "Sequence[RunSet]",
    settings: "Settings",
    *,
    learn_from: int,
    seed: int,
    wrong: bool,
    as_json: bool,
    workers: "Workers",
) -> None:
    """Print how many runs of each set are flagged, by kind."""
    from steadyhelm.lab.evaluation.false_alarms import count_false_alarms, format_false_alarms

    if any(learn_from >= len(one.runs) for one in sets):
        fail(f"--learn-from {learn_from} leaves no run to judge.", EXIT_USAGE)
    counted = [
        count_false_alarms(one.name, one.runs, settings, learn_from=learn_from, seed=seed, workers=workers)
        for one in sets
    ]
    if as_json:
        print_json({"sets": counted})
    else:
        typer.echo("\n\n".join(format_false_alarms(one, wrong=wrong) for one in counted))


def read_runs(paths: list[Path]) -> "list[ReadRun]":
    """Return the runs of all these files, folders and databases."""
    return [run for one in read_run_sets(paths) for run in one.runs]


def read_run_sets(paths: list[Path]) -> "list[RunSet]":
    """Return the runs of each file, folder or database; report lines that cannot be read."""
    from steadyhelm.lab.evaluation.labelled_runs import read_sets

    missing = next((path for path in paths if not path.exists()), None)
    if missing is not None:
        fail(f"there is no file or folder {safe(missing)}.", EXIT_USAGE)
    sets = read_sets(paths)
    for one in sets:
        for broken in one.broken:
            say(f"steadyhelm: {safe(one.name)}:{broken.line}: {safe(broken.reason)}")
    if not any(one.runs for one in sets):
        fail("no runs were found. A run file holds one run a line; `steadyhelm lab import` writes one.")
    return [one for one in sets if one.runs]


def get_exit_status(sets: "list[RunSet]") -> int:
    """Return the exit status: 1 when a line could not be read."""
    return EXIT_FAILED if any(one.broken for one in sets) else EXIT_OK


def _follow(title: str, items: "Iterable[_Item]", total: int) -> "Iterator[_Item]":
    """Yield the items under a progress bar."""
    with show_progress(title, total) as advance:
        for item in items:
            yield item
            advance()
