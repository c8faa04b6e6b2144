"""`steadyhelm db`: inspect, check, back up, copy, prune and migrate the database."""

import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from steadyhelm.cli.context import OwnerOfRun, choose_agent, find_agent
from steadyhelm.cli.output import (
    EXIT_FAILED,
    AsJson,
    Yes,
    confirm,
    fail,
    print_json,
    print_table,
    refuse_early_options,
    show_progress,
)
from steadyhelm.errors import NotFoundError
from steadyhelm.reports.formats import pluralize
from steadyhelm.reports.terminal import safe, say

if TYPE_CHECKING:
    from steadyhelm.engine.capture import Capture
    from steadyhelm.settings import Settings

app = typer.Typer(
    help="Inspect, check, back up, copy, prune or migrate the data.",
    rich_markup_mode=None,
)

_DAY_S: Final = 86_400


@app.callback(invoke_without_command=True)
def _db(context: typer.Context, as_json: AsJson = False) -> None:
    if context.invoked_subcommand is None:
        info(context, as_json)
    elif as_json:
        refuse_early_options(context)


@app.command("info")
def info(context: typer.Context, as_json: AsJson = False) -> None:
    """Show the database's place, size, schema and contents."""
    with closing(context.obj.open_store()) as store:
        known = {**store.describe(), "losses": store.get_losses()}
    if as_json:
        print_json(known)
        return
    rows = known.pop("rows", {})
    losses = known.pop("losses")
    known["counted by run"] = known.pop("rows_from_sums", [])
    width = max(map(len, known))
    for name, value in known.items():
        typer.echo(f"{name.replace('_', ' '):<{width}} {safe(_format_amount(name, value))}")
    print_table(("table", "rows"), [(name, f"{count:,}") for name, count in rows.items()], empty="No tables.")
    if losses:
        print_table(("lost", "times"), list(losses.items()), empty="")


@app.command("check")
def check(context: typer.Context, as_json: AsJson = False) -> None:
    """Check the database for damage and wrong totals."""
    with closing(context.obj.open_store()) as store:
        faults = store.check()
    if as_json:
        print_json({"sound": not faults, "faults": faults})
    for fault in faults if not as_json else ():
        typer.echo(safe(fault))
    if not faults:
        say("The database is sound.")
        return
    say("Make a copy before you do anything else. `steadyhelm export` saves what can still be read.")
    raise typer.Exit(EXIT_FAILED)


@app.command("backup")
def backup(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The copy; it must be new.")],
) -> None:
    """Copy the database to a new file. Agents may keep writing meanwhile."""
    with closing(context.obj.open_store()) as store:
        store.backup(file)
        waiting = store.describe()["pending_records"]
    say(f"Copied to {file} ({_format_megabytes(file.expanduser().stat().st_size)}).")
    if waiting:
        say(f"{pluralize(waiting, 'record')} of agents at work wait in a journal, perhaps not in the copy.")


@app.command("copy")
def copy(
    context: typer.Context,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="The SQLite file to copy.")],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="An empty database: postgresql://…")],
) -> None:
    """Copy a SQLite file to an empty PostgreSQL database: all of it, or nothing.

    The copy is compared before it is kept: rows and sums of every table, and every step of up to 50 runs.
    """
    from msgspec import structs

    from steadyhelm.components import open_store, store_pending
    from steadyhelm.stores.copying import copy_store, count_rows

    settings: Settings = context.obj.load().settings
    from_file, to_server = (structs.replace(settings, db=where) for where in (source, target))
    if not from_file.database.may_exist():
        raise NotFoundError(f"There is no database at {from_file.database}.")
    store_pending(from_file)
    with closing(open_store(from_file, read_only=True)) as old, closing(open_store(to_server)) as new:
        rows = count_rows(old)
        with show_progress("copying", rows) as on_rows:
            copied = copy_store(old, new, on_rows)
    print_table(
        ("table", "rows", "copied"),
        [(it.table, f"{it.rows:,}", f"{it.copied:,}") for it in copied.tables if it.rows],
        empty="The database is empty.",
    )
    say(f"Copied {rows:,} rows to {copied.target}, and compared {pluralize(copied.runs_compared, 'run')}.")
    say("Set `db` to that address; agents that still write to the file are not in the copy.")


@app.command("prune")
def prune(
    context: typer.Context,
    payload_days: Annotated[
        float | None,
        typer.Option("--payload-days", min=0, help="Days to keep arguments and results; 0 keeps them."),
    ] = None,
    run_days: Annotated[
        float | None, typer.Option("--run-days", min=0, help="Days to keep runs; 0 keeps them.")
    ] = None,
    yes: Yes = False,
) -> None:
    """Remove old payloads and runs. The retention settings say how old."""
    settings: Settings = context.obj.load().settings
    payload_days = settings.retention_payload_days if payload_days is None else payload_days
    run_days = settings.retention_run_days if run_days is None else run_days
    if not payload_days and not run_days:
        say("These settings keep everything: there is nothing to remove.")
        return
    old = [f"arguments and results older than {payload_days:g} days"] if payload_days else []
    old += [f"runs older than {run_days:g} days"] if run_days else []
    with closing(context.obj.open_store(read_only=False)) as store:
        confirm(f"Remove {' and '.join(old)} from {settings.database}?", yes=yes)
        now = time.time()
        removed = store.prune(
            payloads_before=now - payload_days * _DAY_S if payload_days else None,
            runs_before=now - run_days * _DAY_S if run_days else None,
        )
    say(
        f"Removed {pluralize(removed.payloads, 'payload')} and {pluralize(removed.runs, 'run')} "
        f"with {pluralize(removed.events, 'step')}."
    )


@app.command("delete-run")
def delete_run(
    context: typer.Context,
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run's id, or the beginning of it.")],
    agent: OwnerOfRun = None,
    yes: Yes = False,
) -> None:
    """Delete a run and everything that belongs to it."""
    with closing(context.obj.open_store(read_only=False)) as store:
        try:
            row = store.find_run(run, agent_id=choose_agent(store, agent))
        except NotFoundError:
            if not _delete_unstored(context, run, agent, yes=yes):
                raise
            return
        name = f"run {safe(row.run_id)} of {safe(row.agent_id)}"
        confirm(f"Delete {name} with {pluralize(row.events, 'step')}, permanently?", yes=yes)
        waiting = _delete_waiting(context, row.agent_id, row.run_id)
        deleted = store.delete_run(row.agent_id, row.run_id)
    say(f"Deleted {name}: {pluralize(deleted, 'step')}{waiting}.")


@app.command("delete-agent")
def delete_agent(
    context: typer.Context,
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="The agent's name, in full.")],
    yes: Yes = False,
) -> None:
    """Delete an agent with all its runs, incidents and baselines."""
    with closing(context.obj.open_store(read_only=False)) as store:
        try:
            name = find_agent(store, agent)
        except NotFoundError:
            if not _delete_unstored(context, None, agent, yes=yes):
                raise
            return
        if name != agent:
            fail(f"to delete an agent its whole name is needed: {safe(name)}.")
        runs = next(row.runs for row in store.list_agents() if row.agent_id == name)
        confirm(f"Delete agent {safe(name)} with {pluralize(runs, 'run')}, permanently?", yes=yes)
        waiting = _delete_waiting(context, name)
        deleted = store.delete_agent(name)
    say(f"Deleted agent {safe(name)}: {pluralize(deleted, 'run')}{waiting}.")


def _delete_waiting(context: typer.Context, agent_id: str, run_id: str | None = None) -> str:
    """Delete the steps from hooks that are not stored yet; return how many, for the message."""
    from steadyhelm.hooks.waiting_steps import count_waiting, delete_steps

    if not count_waiting():
        return ""
    deleted = delete_steps(*_get_hook_place(context), agent_id, run_id)
    return f", and {pluralize(deleted, 'step')} from hooks not stored yet" if deleted else ""


def _delete_unstored(context: typer.Context, run_id: str | None, agent: str | None, *, yes: bool) -> bool:
    """Delete a run, or an agent, of which no step is stored yet; return whether there is one.

    Names must be given in full. Fails when several agents have steps of that run.
    """
    from steadyhelm.hooks.waiting_steps import count_waiting, delete_steps, find_agents

    if not count_waiting():
        return False
    place = _get_hook_place(context)
    owners = [it for it in find_agents(*place, run_id) if agent in (None, it)]
    if not owners:
        return False
    if len(owners) > 1:
        fail(f"several agents have steps of that run: {safe(', '.join(owners))}. Choose one with --agent.")
    owner = owners[0]
    name = f"agent {safe(owner)}" if run_id is None else f"run {safe(run_id)} of {safe(owner)}"
    confirm(f"Delete {name}, of which no step is stored yet, permanently?", yes=yes)
    deleted = delete_steps(*place, owner, run_id)
    say(f"Deleted {name}: {pluralize(deleted, 'step')} from hooks not stored yet.")
    return True


def _get_hook_place(context: typer.Context) -> "tuple[str, Capture]":
    """Return the database for which steps wait, and what their names were redacted with."""
    from steadyhelm.hooks.sessions import build_hook_parts

    settings: Settings = context.obj.load().settings
    return str(settings.database), build_hook_parts(settings).capture


@app.command("path")
def path(context: typer.Context, as_json: AsJson = False) -> None:
    """Print where the database is, or would be."""
    place = context.obj.load().settings.database
    if as_json:
        print_json({"path": str(place), "exists": place.may_exist()})
    else:
        typer.echo(str(place))


@app.command("migrate")
def migrate(context: typer.Context) -> None:
    """Migrate a database of an older Steadyhelm. A backup of a file is made next to it first."""
    from steadyhelm.stores.opening import read_applied_migrations

    place = context.obj.load().settings.database
    if place.is_server:
        with closing(context.obj.open_store(read_only=False)) as store:
            say(f"{place} is up to date ({store.describe()['schema']}).")
        return
    file = place.path.absolute()
    before = read_applied_migrations(file) if file.exists() else []
    with closing(context.obj.open_store(read_only=False)):
        applied = [step for step in read_applied_migrations(file) if step not in before]
    if not applied:
        say(f"{place} is up to date ({before[-1]}).")
        return
    say(f"Applied {', '.join(applied)} to {place}.")


def _format_amount(name: str, value: Any) -> str:
    if name.endswith("bytes"):
        return _format_megabytes(value)
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _format_megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
