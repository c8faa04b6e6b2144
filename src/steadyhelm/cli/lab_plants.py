"""`steadyhelm lab mutate`, and what `steadyhelm lab accuracy` prints about the files it writes."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from steadyhelm.cli.output import (
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
    from steadyhelm.recordings.run_file import ReadRun
    from steadyhelm.settings import Settings

_Item = TypeVar("_Item")


def mutate(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Run files of healthy runs.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The run file to write; a name in .gz is compressed.")
    ],
    plants: Annotated[int, typer.Option("--plants", min=1, help="Plants of each class.")] = 30,
    only: Annotated[
        list[str] | None, typer.Option("--class", help="Only this class of plants; repeatable.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Makes the plants reproducible.")] = 0,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Replace a file that exists.")] = False,
) -> None:
    """Plant loops and healthy stretches into recorded runs, for `lab accuracy`.

    Each run gets one plant of a named class; its line says which, and where it begins and ends.
    Runs that failed or have a loop label are left out.
    """
    from steadyhelm.lab.importers.layouts import write_runs
    from steadyhelm.lab.mutations.classes import choose_classes
    from steadyhelm.lab.mutations.hosts import read_hosts
    from steadyhelm.lab.mutations.planting import plant

    missing = next((path for path in paths if not path.is_file()), None)
    if missing is not None:
        fail(f"there is no file {safe(missing)}.", EXIT_USAGE)
    classes = choose_classes(only)
    if output.exists():
        confirm(f"{safe(output)} exists. Replace it?", yes=yes)
    hosts = read_hosts(paths)
    lines = plant(hosts.runs, classes, plants=plants, seed=seed)
    written = write_runs(_follow("Planting", lines, plants * len(classes)), output)
    left_out = f"; {pluralize(hosts.left_out, 'run')} left out as not healthy" * bool(hosts.left_out)
    say(f"Wrote {pluralize(written, 'run')} of {len(classes)} classes to {safe(output)}{left_out}.")


def measure_planted(runs: "Sequence[ReadRun]", settings: "Settings", *, wrong: bool, as_json: bool) -> int:
    """Print by class what was found of the plants in these runs; return the exit status."""
    from steadyhelm.lab.evaluation.planted import format_plants, has_plant, measure_plants, plants_to_builtins
    from steadyhelm.replay import Judge

    if not all(has_plant(run) for run in runs):
        fail("a run without a plant was found: `steadyhelm lab mutate` writes files for this.", EXIT_USAGE)
    result = measure_plants(_follow("Judging", runs, len(runs)), Judge(settings, kinds={"loop"}))
    if as_json:
        print_json(plants_to_builtins(result))
    else:
        typer.echo(format_plants(result, wrong=wrong))
    return EXIT_OK if result.is_met else EXIT_FLAGGED


def _follow(title: str, items: "Iterable[_Item]", total: int) -> "Iterator[_Item]":
    """Yield the items under a progress bar."""
    with show_progress(title, total) as advance:
        for item in items:
            yield item
            advance()
