"""The `steadyhelm` command: finds the subcommand, and turns every error into words and an exit status."""

import io
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from steadyhelm.cli import (
    alerts,
    baseline,
    budget,
    config,
    corrections,
    db,
    demo,
    doctor,
    export,
    init,
    interventions,
    lab,
    models,
    profile,
    replies,
    runs,
    scan,
    show,
)
from steadyhelm.cli import hook as hook_commands
from steadyhelm.cli.context import Shared
from steadyhelm.cli.output import FAILED, USAGE
from steadyhelm.errors import SettingsError, SteadyhelmError
from steadyhelm.reports.terminal import safe, say

app = typer.Typer(
    name="steadyhelm",
    help="Keeps AI agents on course: notices loops, goal drift and runaway spending, explains and steers.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

app.command("demo")(demo.demo)
app.command("init")(init.init)
app.command("scan")(scan.scan)
app.add_typer(hook_commands.app, name="hook")
app.command("runs")(runs.runs)
app.command("show")(show.show)
app.add_typer(alerts.app, name="alerts")
app.command("interventions")(interventions.interventions)
app.command("corrections")(corrections.corrections)
app.command("replies")(replies.replies)
app.add_typer(baseline.app, name="baseline")
app.add_typer(budget.app, name="budget")
app.add_typer(profile.app, name="profile")
app.command("export")(export.export)
app.add_typer(models.app, name="models")
app.add_typer(lab.app, name="lab")
app.add_typer(db.app, name="db")
app.command("doctor")(doctor.doctor)
app.command("config")(config.config)


def _version(wanted: bool) -> None:
    if wanted:
        from steadyhelm import __version__

        typer.echo(f"steadyhelm {__version__}")
        raise typer.Exit


@app.callback()
def _shared(
    context: typer.Context,
    database: Annotated[
        Path | None, typer.Option("--db", help="The database file, instead of the one in the settings.")
    ] = None,
    config_file: Annotated[
        Path | None,
        typer.Option("--config", help="The settings file, instead of the one that would be found."),
    ] = None,
    version: Annotated[  # noqa: ARG001 - the callback answers
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say the version and end.")
    ] = False,
) -> None:
    context.obj = Shared(database=database, config_file=config_file)


def run() -> None:
    """Run the command line, and end the process with its status."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that knows no ▲ gets an escape instead of a traceback.
            stream.reconfigure(errors="backslashreplace")
    try:
        app()
    except SettingsError as exc:
        say(f"steadyhelm: {safe(exc)}")
        sys.exit(USAGE)
    except SteadyhelmError as exc:
        say(f"steadyhelm: {safe(exc)}")
        sys.exit(FAILED)
    except BrokenPipeError:
        # The reader went away (`| head`): nothing more to say, and no complaint while Python closes up.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(FAILED)
    except KeyboardInterrupt:
        sys.exit(130)
