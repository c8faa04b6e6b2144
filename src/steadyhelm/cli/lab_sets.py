"""What the commands of `steadyhelm lab` share: options, and reading sets of runs."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from steadyhelm.cli.output import EXIT_FAILED, EXIT_OK, EXIT_USAGE, fail, show_progress
from steadyhelm.reports.terminal import safe, say

if TYPE_CHECKING:
    from steadyhelm.lab.evaluation.labelled_runs import RunSet
    from steadyhelm.recordings.run_file import ReadRun

_Item = TypeVar("_Item")


Paths = Annotated[
    list[str],
    typer.Argument(
        metavar="PATH",
        help="Run files, folders of them, or a Steadyhelm database: a file, or postgresql://…",
    ),
]
Groups = Annotated[
    list[str] | None, typer.Option("--group", help="Only runs of this group, such as a tier; repeatable.")
]
Seed = Annotated[int, typer.Option("--seed", help="Makes shuffling and intervals reproducible.")]


def read_runs(paths: Iterable[str | Path]) -> "list[ReadRun]":
    """Return the runs of all these files, folders and databases."""
    return [run for one in read_run_sets(paths) for run in one.runs]


def read_run_sets(paths: Iterable[str | Path]) -> "list[RunSet]":
    """Return the runs of each file, folder or database; report lines that cannot be read."""
    from steadyhelm.lab.evaluation.labelled_runs import read_sets
    from steadyhelm.stores.locations import DatabaseLocation, is_address

    sources = [DatabaseLocation(str(it)) if is_address(it) else Path(it) for it in paths]
    missing = next((it for it in sources if isinstance(it, Path) and not it.exists()), None)
    if missing is not None:
        fail(f"there is no file or folder {safe(missing)}.", EXIT_USAGE)
    sets = read_sets(sources)
    for one in sets:
        for broken in one.broken:
            say(f"steadyhelm: {safe(one.name)}:{broken.line}: {safe(broken.reason)}")
    if not any(one.runs for one in sets):
        fail("no runs were found. A run file holds one run a line; `steadyhelm lab import` writes one.")
    return [one for one in sets if one.runs]


def get_exit_status(sets: "list[RunSet]") -> int:
    """Return the exit status: 1 when a line could not be read."""
    return EXIT_FAILED if any(one.broken for one in sets) else EXIT_OK


def follow(title: str, items: "Iterable[_Item]", total: int) -> "Iterator[_Item]":
    """Yield the items under a progress bar."""
    with show_progress(title, total) as advance:
        for item in items:
            yield item
            advance()
