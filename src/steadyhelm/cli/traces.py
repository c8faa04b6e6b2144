"""`steadyhelm traces`: the steps of one run as they are stored, one a row."""

from collections import deque
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from steadyhelm.cli.context import RUN_HELP, AgentArgument, find_run
from steadyhelm.cli.output import AsJson, print_json, print_table
from steadyhelm.cli.timeline import format_value
from steadyhelm.reports.formats import format_count, format_duration, pluralize, step_number
from steadyhelm.reports.terminal import safe, say

if TYPE_CHECKING:
    from steadyhelm.sink import RecordedEvent

_TITLES: Final = ("step", "after", "type", "name", "tokens", "took", "input", "output or error")
_NAME_WIDTH: Final = 40
_VALUE_WIDTH: Final = 60


def traces(
    context: typer.Context,
    agent: AgentArgument,
    run: Annotated[str, typer.Option("--run", metavar="RUN", help=RUN_HELP)] = "latest",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="The most steps to list.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List the last steps of a run as they are stored.

    `steadyhelm show` shows the same run with its findings and interventions.
    """
    with closing(context.obj.open_store()) as store:
        row = find_run(store, run, agent)
        steps = deque(store.iter_run_events(row.agent_id, row.run_id), maxlen=limit)
    if as_json:
        events = [recorded.event.to_dict() for recorded in steps]
        print_json({"run": row, "events": events, "events_left_out": row.events - len(events)})
        return
    run_id = safe(row.run_id)
    print_table(
        _TITLES,
        [_format_row(recorded, row.started_at) for recorded in steps],
        empty=f"No steps of run {run_id} are stored.",
    )
    if steps and row.events > len(steps):
        say(f"The last {len(steps):,} of {pluralize(row.events, 'step')}; --limit {row.events} lists all.")
    say(f"Findings and interventions: steadyhelm show {run_id}")


def _format_row(recorded: "RecordedEvent", started_at: float) -> tuple[Any, ...]:
    event = recorded.event
    result = safe(event.error, most=_VALUE_WIDTH) if event.error is not None else _format(event.output_data)
    return (
        step_number(event.seq),
        format_duration(event.timestamp - started_at),
        event.action_type,
        safe(event.action_name, most=_NAME_WIDTH),
        format_count(event.token_count) if event.token_count else "-",
        format_duration(event.duration_ms / 1000) if event.duration_ms else "-",
        _format(event.input_data),
        f"✖ {result}" if event.error is not None else result,
    )


def _format(value: Any) -> str:
    return format_value(value, most=_VALUE_WIDTH) if value else "-"
