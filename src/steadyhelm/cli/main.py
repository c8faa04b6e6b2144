"""The `steadyhelm` command: run the subcommand, and turn every error into a message and an exit status."""

import io
import os
import sys
from pathlib import Path
from typing import Annotated, Any, Final

import typer
import typer.core

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
    judge,
    lab,
    models,
    profile,
    replies,
    runs,
    scan,
    serve,
    show,
)
from steadyhelm.cli import hook as hook_commands
from steadyhelm.cli import run as run_command
from steadyhelm.cli.context import AgentCommand, GlobalOptions
from steadyhelm.cli.output import EXIT_FAILED, EXIT_USAGE
from steadyhelm.errors import SettingsError, SteadyhelmError
from steadyhelm.reports.terminal import safe, say

_GLOBAL_OPTIONS: Final = ("--db", "--config")


class _Commands(typer.core.TyperGroup):
    """The commands, with errors of usage that say what to do."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except Exception as exc:
            _reword(exc, str(ctx.invoked_subcommand))
            raise


def _reword(error: Any, command: str) -> None:
    """Say where an option of all commands goes, and leave out the word for a validator's exception."""
    option = getattr(error, "option_name", "")
    if option in _GLOBAL_OPTIONS:
        error.message = f"{option} goes before the command: steadyhelm {option} ... {command}"
    elif isinstance(getattr(error, "message", None), str):
        error.message = error.message.removeprefix("Value error, ")


app = typer.Typer(
    name="steadyhelm",
    cls=_Commands,
    help="Keeps AI agents on course: notices loops, goal drift and runaway spending, explains and steers.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

app.command("demo")(demo.demo)
app.command("init")(init.init)
app.command("run", context_settings={"allow_interspersed_args": False})(run_command.run)
app.command("scan")(scan.scan)
app.add_typer(hook_commands.app, name="hook")
app.command("runs", cls=AgentCommand)(runs.runs)
app.command("show")(show.show)
app.command("traces", cls=AgentCommand)(show.traces)
app.add_typer(alerts.app, name="alerts")
app.command("interventions", cls=AgentCommand)(interventions.interventions)
app.command("judge", cls=AgentCommand)(judge.judge)
app.command("corrections")(corrections.corrections)
app.command("replies")(replies.replies)
app.add_typer(baseline.app, name="baseline")
app.add_typer(budget.app, name="budget")
app.add_typer(profile.app, name="profile")
app.command("export", cls=AgentCommand)(export.export)
app.add_typer(models.app, name="models")
app.add_typer(lab.app, name="lab")
app.add_typer(db.app, name="db")
app.command("serve")(serve.serve)
app.command("doctor")(doctor.doctor)
app.add_typer(config.app, name="config")


def _print_version(wanted: bool) -> None:
    if wanted:
        from steadyhelm import __version__

        typer.echo(f"steadyhelm {__version__}")
        raise typer.Exit


Database = Annotated[
    str | None,
    typer.Option(
        "--db",
        metavar="FILE|URL",
        help="The database: a file, or postgresql://…; by default the one in the settings.",
    ),
]
ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", help="The settings file; by default steadyhelm.toml in this folder."),
]
Version = Annotated[
    bool,
    typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
]


@app.callback()
def _read_global_options(
    context: typer.Context,
    database: Database = None,
    config_file: ConfigFile = None,
    version: Version = False,  # noqa: ARG001 - handled by its callback
) -> None:
    context.obj = GlobalOptions(database=database, config_file=config_file)


def run() -> None:
    """Run the command line, and end the process with its status."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal without ▲ gets an escape instead of a traceback.
            stream.reconfigure(errors="backslashreplace")
    try:
        _run_app()
    except run_command.Program as exc:
        program = exc
    except SettingsError as exc:
        say(f"steadyhelm: {safe(exc)}")
        sys.exit(EXIT_USAGE)
    except SteadyhelmError as exc:
        say(f"steadyhelm: {safe(exc)}")
        sys.exit(EXIT_FAILED)
    except BrokenPipeError:
        # The reader closed the pipe (`| head`).
        _drop_output()
        sys.exit(EXIT_FAILED)
    except OSError as exc:  # such as a full disk behind standard output, or a working directory that is gone
        _drop_output()
        say(f"steadyhelm: {safe(exc)}")
        sys.exit(EXIT_FAILED)
    except KeyboardInterrupt:
        sys.exit(130)
    program.start()


def _run_app() -> None:
    try:
        app()
    finally:
        # Now, and not while Python shuts down: what cannot be written is reported.
        if sys.stdout is not None:
            sys.stdout.flush()


def _drop_output() -> None:
    """Print nothing more to standard output, so that there is no error while Python shuts down."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
