"""`steadyhelm runs`: the runs that were watched, newest first."""

from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steadyhelm.cli.context import find_agent
from steadyhelm.cli.output import AsJson, format_age, print_json, print_table
from steadyhelm.reports.formats import format_count
from steadyhelm.reports.terminal import safe, severity_label

if TYPE_CHECKING:
    from steadyhelm.store_rows import StoredRun

_TITLES = ("run", "agent", "started", "state", "steps", "tokens", "errors", "findings", "incidents", "goal")


def runs(
    context: typer.Context,
    agent: Annotated[str | None, typer.Argument(help="Only runs of this agent.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many runs to list.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List the runs that were watched, newest first."""
    with closing(context.obj.open_store()) as store:
        name = find_agent(store, agent) if agent is not None else None
        found = store.list_runs(name, limit=limit)
    if as_json:
        print_json({"runs": found})
        return
    print_table(
        _TITLES,
        [_row(row) for row in found],
        empty="No runs yet. `steadyhelm init` shows the two lines that watch an agent; "
        "`steadyhelm demo` shows an example.",
    )


def _row(row: "StoredRun") -> tuple[Any, ...]:
    return (
        row.run_id,
        safe(row.agent_id, most=24),
        format_age(row.started_at),
        safe(row.outcome or row.state, most=16),
        row.events,
        format_count(row.tokens),
        row.errors or "-",
        row.findings or "-",
        _incidents_cell(row),
        safe(row.goal, most=60),
    )


def _incidents_cell(row: "StoredRun") -> Any:
    from rich.text import Text

    from steadyhelm.findings import Severity

    if not row.incidents:
        return "-"
    return Text.assemble(f"{row.incidents} ", severity_label(Severity.from_score(row.peak)))
