"""`steadyhelm runs`: the runs that were watched, newest first."""

import sys
import time
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from steadyhelm.cli.context import OnlyAgent, Since, choose_agent, find_start
from steadyhelm.cli.output import AsJson, format_age, print_json, print_table
from steadyhelm.reports.formats import format_count
from steadyhelm.reports.terminal import console, format_severity, safe, say

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.text import Text

    from steadyhelm.cli.following import RunChange
    from steadyhelm.store_rows import StoredRun

_RUNS_FOLLOWED: Final = 500
"""How many of the newest runs are followed."""

_NO_RUNS: Final = (
    "No runs yet. `steadyhelm init` shows the two lines that watch an agent; "
    "`steadyhelm demo` shows an example."
)
_TITLES = ("run", "agent", "started", "state", "steps", "tokens", "errors", "findings", "incidents", "goal")


def runs(
    context: typer.Context,
    agent: OnlyAgent = None,
    since: Since = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many runs to list.")] = 20,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Then print what changes, until Ctrl-C.")
    ] = False,
    follow_for: Annotated[
        float | None,
        typer.Option("--follow-for", min=0, metavar="SECONDS", help="Follow for at most this long."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the runs that were watched, newest first."""
    starts_at = find_start(since) or 0.0
    follows = follow or follow_for is not None
    with closing(context.obj.open_store()) as store:
        name = choose_agent(store, agent)
        found = store.list_runs(name, limit=max(limit, _RUNS_FOLLOWED) if follows else limit)
        shown = [row for row in found[:limit] if row.started_at >= starts_at]
        if as_json:
            print_json({"runs": shown})
        else:
            print_table(
                _TITLES,
                [_format_row(row) for row in shown],
                empty=f"No run started in the last {since}." if found else _NO_RUNS,
            )
        if follows:
            _follow(found, lambda: store.list_runs(name, limit=_RUNS_FOLLOWED), follow_for, as_json=as_json)


def _follow(
    known: "Sequence[StoredRun]",
    read: "Callable[[], Sequence[StoredRun]]",
    seconds: float | None,
    *,
    as_json: bool,
) -> None:
    """Print a line, or a JSON object, for each run that starts, gets an incident, or ends."""
    from steadyhelm.cli.following import follow_runs, until_interrupted

    def report(change: "RunChange") -> None:
        print_json(change) if as_json else console().print(_describe_change(change))
        sys.stdout.flush()

    sys.stdout.flush()
    with until_interrupted(seconds) as is_over:
        say("steadyhelm: following; Ctrl-C ends it.")
        follow_runs(known, read, report, is_over=is_over)


def _describe_change(change: "RunChange") -> "Text":
    from rich.text import Text

    row = change.run
    said: list[Any] = [f"{time.strftime('%H:%M:%S')}  {safe(row.run_id)}  {safe(row.agent_id, most=24)}  "]
    if change.change == "started":
        said.append(f"started: {safe(row.goal, most=60)}" if row.goal else "started")
    elif change.change == "incident":
        said += ["incident: ", _format_incidents(row)]
    else:
        tokens = format_count(row.tokens)
        said.append(f"{safe(row.outcome or row.state, most=16)}: {row.events} steps, {tokens} tokens")
    return Text.assemble(*said)


def _format_row(row: "StoredRun") -> tuple[Any, ...]:
    return (
        row.run_id,
        safe(row.agent_id, most=24),
        format_age(row.started_at),
        safe(row.outcome or row.state, most=16),
        row.events,
        format_count(row.tokens),
        row.errors or "-",
        row.findings or "-",
        _format_incidents(row),
        safe(row.goal, most=60),
    )


def _format_incidents(row: "StoredRun") -> Any:
    from rich.text import Text

    from steadyhelm.findings import Severity

    if not row.incidents:
        return "-"
    return Text.assemble(f"{row.incidents} ", format_severity(Severity.from_score(row.peak)))
