"""`steadyhelm runs`: the runs that were watched, newest first."""

from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steadyhelm.cli.context import agent_named
from steadyhelm.cli.output import ago, print_fitting, print_json
from steadyhelm.reports.formats import compact
from steadyhelm.reports.terminal import safe, severity

if TYPE_CHECKING:
    from steadyhelm.store import RunRow

_TITLES = ("run", "agent", "started", "state", "steps", "tokens", "errors", "findings", "incidents", "goal")
_SPARE = ("errors", "findings", "state", "tokens", "steps", "started")


def runs(
    context: typer.Context,
    agent: Annotated[str | None, typer.Argument(help="Only runs of this agent.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many runs to show.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document a line.")] = False,
) -> None:
    """List the runs that were watched, newest first."""
    with closing(context.obj.store()) as store:
        name = agent_named(store, agent) if agent is not None else None
        found = store.list_runs(name, limit=limit)
    if as_json:
        for row in found:
            print_json(row)
        return
    print_fitting(
        _TITLES,
        [_line(row) for row in found],
        spare=(*(["agent"] if agent is not None else []), *_SPARE),
        empty="No runs yet. `steadyhelm init` shows the two lines that make an agent watched; "
        "`steadyhelm demo` shows one at work.",
    )


def _line(row: "RunRow") -> tuple[Any, ...]:
    return (
        row.run_id,
        safe(row.agent_id, most=24),
        ago(row.started_at),
        safe(row.outcome or row.state, most=16),
        row.events,
        compact(row.tokens),
        row.errors or "-",
        row.findings or "-",
        _incidents(row),
        safe(row.goal, most=60),
    )


def _incidents(row: "RunRow") -> Any:
    from rich.text import Text

    from steadyhelm.findings import Severity

    if not row.incidents:
        return "-"
    return Text.assemble(f"{row.incidents} ", severity(Severity.from_score(row.peak)))
