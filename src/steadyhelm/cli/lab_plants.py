"""`steadyhelm lab mutate` and `lab splice`: runs with planted loops, or with steps of another task."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steadyhelm.cli.lab_sets import follow
from steadyhelm.cli.output import EXIT_USAGE, Yes, confirm_replacing, fail
from steadyhelm.reports.formats import pluralize
from steadyhelm.reports.terminal import safe, say

if TYPE_CHECKING:
    from steadyhelm.lab.mutations.planting import HostRuns

HealthyRuns = Annotated[list[Path], typer.Argument(metavar="PATH...", help="Run files of healthy runs.")]
Output = Annotated[
    Path, typer.Option("--output", "-o", help="The run file to write; a name in .gz is compressed.")
]
Seed = Annotated[int, typer.Option("--seed", help="Makes the plants reproducible.")]


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
    from steadyhelm.lab.mutations import choose_classes
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
    from steadyhelm.lab.mutations.planting import read_hosts

    missing = next((path for path in paths if not path.is_file()), None)
    if missing is not None:
        fail(f"there is no file {safe(missing)}.", EXIT_USAGE)
    return read_hosts(paths, only_healthy=only_healthy)


def _write_lines(lines: "Iterable[dict[str, Any]]", total: int, output: Path, *, yes: bool) -> int:
    from steadyhelm.lab.importers.layouts import write_runs

    confirm_replacing(output, yes=yes)
    return write_runs(follow("Writing", lines, total), output)
