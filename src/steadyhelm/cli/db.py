"""`steadyhelm db`: the database file itself."""

import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from steadyhelm.cli.context import agent_named
from steadyhelm.cli.output import FAILED, confirm, fail, print_json, print_rows
from steadyhelm.reports.formats import counted
from steadyhelm.reports.terminal import safe, say

if TYPE_CHECKING:
    from steadyhelm.settings import Settings

app = typer.Typer(help="The database file.", no_args_is_help=True, rich_markup_mode=None)

_DAY_S: Final = 86_400

AsJson = Annotated[bool, typer.Option("--json", help="One JSON document.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@app.command("info")
def info(context: typer.Context, as_json: AsJson = False) -> None:
    """Say where the database is, its size, its schema, and how much is in it."""
    with closing(context.obj.store()) as store:
        known = {**store.describe(), "losses": store.get_losses()}
    if as_json:
        print_json(known)
        return
    rows = known.pop("rows", {})
    losses = known.pop("losses")
    for name, value in known.items():
        typer.echo(f"{name.replace('_', ' '):<15} {safe(_amount(name, value))}")
    print_rows(("table", "rows"), [(name, f"{count:,}") for name, count in rows.items()], empty="No tables.")
    if losses:
        print_rows(("not kept or not done", "times"), list(losses.items()), empty="")


@app.command("check")
def check(context: typer.Context, as_json: AsJson = False) -> None:
    """Look for damage in the file and for sums that do not add up."""
    with closing(context.obj.store()) as store:
        faults = store.check()
    if as_json:
        print_json({"sound": not faults, "faults": faults})
    for fault in faults if not as_json else ():
        typer.echo(safe(fault))
    if not faults:
        say("The database is sound.")
        return
    say("Keep a copy of the file before anything else. `steadyhelm export` saves what can still be read.")
    raise typer.Exit(FAILED)


@app.command("backup")
def backup(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The copy; it must be new.")],
) -> None:
    """Copy the database to a new file, while agents go on writing."""
    with closing(context.obj.store()) as store:
        store.backup(file)
    say(f"Copied to {file} ({_megabytes(file.expanduser().stat().st_size)}).")


@app.command("prune")
def prune(
    context: typer.Context,
    payload_days: Annotated[
        float | None,
        typer.Option("--payload-days", min=0, help="Days that arguments and results are kept; 0 for ever."),
    ] = None,
    run_days: Annotated[
        float | None, typer.Option("--run-days", min=0, help="Days that runs are kept; 0 for ever.")
    ] = None,
    yes: Yes = False,
) -> None:
    """Remove what is older than retention allows: payloads first, whole runs later."""
    settings: Settings = context.obj.load().settings
    payload_days = settings.retention_payload_days if payload_days is None else payload_days
    run_days = settings.retention_run_days if run_days is None else run_days
    if not payload_days and not run_days:
        say("Everything is kept for ever by these settings: there is nothing to remove.")
        return
    old = [f"arguments and results older than {payload_days:g} days"] if payload_days else []
    old += [f"runs older than {run_days:g} days"] if run_days else []
    with closing(context.obj.store(read_only=False)) as store:
        confirm(f"Remove {' and '.join(old)} from {settings.database}?", yes=yes)
        now = time.time()
        gone = store.prune(
            payloads_before=now - payload_days * _DAY_S if payload_days else None,
            runs_before=now - run_days * _DAY_S if run_days else None,
        )
    say(
        f"Removed {counted(gone.payloads, 'payload')} and {counted(gone.runs, 'run')} "
        f"with {counted(gone.events, 'step')}."
    )


@app.command("delete-run")
def delete_run(
    context: typer.Context,
    run: Annotated[str, typer.Argument(metavar="ID", help="The run's id, or the beginning of it.")],
    agent: Annotated[
        str | None, typer.Option("--agent", help="Whose run, when several agents have one of that id.")
    ] = None,
    yes: Yes = False,
) -> None:
    """Remove a run and all that belongs to it."""
    with closing(context.obj.store(read_only=False)) as store:
        row = store.find_run(run, agent_id=agent_named(store, agent) if agent is not None else None)
        name = f"run {safe(row.run_id)} of {safe(row.agent_id)}"
        confirm(f"Delete {name} with {counted(row.events, 'step')}, for good?", yes=yes)
        gone = store.delete_run(row.agent_id, row.run_id)
    say(f"Deleted {name}: {counted(gone, 'step')}.")


@app.command("delete-agent")
def delete_agent(
    context: typer.Context,
    agent: Annotated[str, typer.Argument(metavar="NAME", help="The agent's name, in full.")],
    yes: Yes = False,
) -> None:
    """Remove an agent with all its runs, incidents and baselines."""
    with closing(context.obj.store(read_only=False)) as store:
        name = agent_named(store, agent)
        if name != agent:
            fail(f"to delete an agent its whole name is needed: {safe(name)}.")
        runs = next(row.runs for row in store.list_agents() if row.agent_id == name)
        confirm(f"Delete agent {safe(name)} with {counted(runs, 'run')}, for good?", yes=yes)
        gone = store.delete_agent(name)
    say(f"Deleted agent {safe(name)}: {counted(gone, 'run')}.")


@app.command("path")
def path(context: typer.Context) -> None:
    """Say where the database is, or would be."""
    typer.echo(context.obj.load().settings.database)


@app.command("migrate")
def migrate(context: typer.Context) -> None:
    """Bring a database of an older Steadyhelm up to date, after making a backup beside it."""
    from steadyhelm.stores.opening import read_applied_migrations

    place = context.obj.load().settings.database
    before = read_applied_migrations(place.absolute()) if place.exists() else []
    with closing(context.obj.store(read_only=False)):
        applied = [step for step in read_applied_migrations(place.absolute()) if step not in before]
    if not applied:
        say(f"{place} is up to date ({before[-1]}).")
        return
    say(f"Applied {', '.join(applied)} to {place}.")


def _amount(name: str, value: Any) -> str:
    if name.endswith("bytes"):
        return _megabytes(value)
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
