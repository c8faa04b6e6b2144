"""`steadyhelm export`: write stored runs as a run file, CSV or Parquet."""

import sys
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from steadyhelm.cli.context import find_agent
from steadyhelm.cli.output import EXIT_USAGE, confirm_replacing, fail, parse_duration
from steadyhelm.reports.formats import pluralize
from steadyhelm.reports.terminal import console, say

if TYPE_CHECKING:
    from steadyhelm.store import RunStore
    from steadyhelm.stores.exports import ExportCounts

Format = Literal["jsonl", "csv", "parquet"]


def export(
    context: typer.Context,
    agent: Annotated[str | None, typer.Option("--agent", help="Only runs of this agent.")] = None,
    run: Annotated[
        str | None, typer.Option("--run", help="Only this run, by its id or the beginning of it.")
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", help="Only runs active in this time: 30m, 24h, 7d.")
    ] = None,
    form: Annotated[
        Format,
        typer.Option("--format", help="jsonl is the run-file format; csv and parquet have a row per step."),
    ] = "jsonl",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file to write; a name in .gz is compressed.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Replace a file that exists.")] = False,
) -> None:
    """Write stored runs to a file or to standard output."""
    if form == "parquet" and output is None:
        fail("Parquet needs a file: name one with -o FILE.", EXIT_USAGE)
    after = None if since is None else time.time() - parse_duration(since)
    with closing(context.obj.open_store()) as store:
        name = find_agent(store, agent) if agent is not None else None
        confirm_replacing(output, yes=yes)
        written = _write_runs(store, output, form, name, run, after)
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
