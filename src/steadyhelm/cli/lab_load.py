"""`steadyhelm lab simulate-load`: what a store takes, measured with simulated agents."""

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from steadyhelm.cli.lab_sets import read_runs
from steadyhelm.cli.output import EXIT_FLAGGED, EXIT_OK, AsJson, print_json, show_progress


def simulate_load(
    context: typer.Context,
    paths: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[PATH]...", help="Run files to draw lengths, steps and gaps from."),
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
