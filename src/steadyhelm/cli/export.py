"""`steadyhelm export`: write stored runs as a run file, CSV or Parquet."""

import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from steadyhelm.cli.context import RUN_HELP, OnlyAgent, Since, choose_agent, find_run, find_start
from steadyhelm.cli.output import EXIT_USAGE, Yes, confirm_replacing, fail
from steadyhelm.reports.formats import pluralize
from steadyhelm.reports.terminal import console, say

if TYPE_CHECKING:
    from steadyhelm.store import RunStore
    from steadyhelm.stores.exports import ExportCounts

Format = Literal["jsonl", "csv", "parquet"]


def export(
    context: typer.Context,
    agent: OnlyAgent = None,
    run: Annotated[
        str | None, typer.Option("--run", metavar="RUN", help=f"Only this run. {RUN_HELP}")
    ] = None,
    since: Since = None,
    form: Annotated[
        Format,
        typer.Option("--format", help="jsonl is the run-file format; csv and parquet have a row per step."),
    ] = "jsonl",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file to write; a name in .gz is compressed.")
    ] = None,
    yes: Yes = False,
) -> None:
    """Write stored runs to a file or to standard output."""
    if form == "parquet" and output is None:
        fail("Parquet needs a file: name one with -o FILE.", EXIT_USAGE)
    after = find_start(since)
    with closing(context.obj.open_store()) as store:
        name, run_id = choose_agent(store, agent), None
        if run is not None:
            row = find_run(store, run, agent)
            name, run_id = row.agent_id, row.run_id
        confirm_replacing(output, yes=yes)
        written = _write_runs(store, output, form, name, run_id, after)
    where = f" to {output}" if output is not None else ""
    say(f"Exported {pluralize(written.runs, 'run')} with {pluralize(written.events, 'step')}{where}.")


def _write_runs(
    store: "RunStore",
    output: Path | None,
    form: Format,
    agent: str | None,
    run: str | None,
    since: float | None,
) -> "ExportCounts":
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from steadyhelm.stores.exports import export as write

    target = sys.stdout.buffer if output is None else output
    screen = console(stderr=True)
    columns = (TextColumn("Exporting"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as progress:
        progress.add_task("export", total=None)
        written = write(store, target, format=form, agent_id=agent, run_id=run, since=since)
    if output is None:
        sys.stdout.buffer.flush()
    return written
