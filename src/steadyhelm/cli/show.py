"""`steadyhelm show`: one run from its first step to its last, with its findings and interventions.

`steadyhelm traces` lists the steps of one run as they are stored, one a row.
"""

import time
from collections import deque
from collections.abc import Container, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from steadyhelm.cli import timeline
from steadyhelm.cli.baseline import list_not_checked
from steadyhelm.cli.context import RUN_HELP, AgentArgument, OwnerOfRun, find_run
from steadyhelm.cli.output import AsJson, format_time, print_fields, print_json, print_table
from steadyhelm.cli.timeline import format_value
from steadyhelm.events import TraceEvent
from steadyhelm.reports.formats import format_count, format_duration, format_steps, pluralize, step_number
from steadyhelm.reports.terminal import console, format_severity, print_wrapped, safe, say

if TYPE_CHECKING:
    from steadyhelm.findings import DriftEvent
    from steadyhelm.incidents import Incident
    from steadyhelm.sink import RecordedEvent
    from steadyhelm.store import BaselineStore, RunStore, Store
    from steadyhelm.store_rows import StoredRun, ToolRow

_STEPS_SHOWN: Final = 40
_FINDINGS_READ: Final = 2000
_INCIDENTS_READ: Final = 200
_CHILDREN_READ: Final = 500
_PAYLOAD_FIELDS: Final = ("input_data", "output_data", "metadata")
_TITLES: Final = ("step", "after", "type", "name", "tokens", "took", "input", "output or error")
_NAME_WIDTH: Final = 40
_VALUE_WIDTH: Final = 60


class _RunDetails(NamedTuple):
    """Everything that is shown about one run."""

    run: "StoredRun"
    children: list[str]
    findings: list["DriftEvent"]
    incidents: list["Incident"]
    mutes: timeline.Mutes
    interventions: dict[int, list[timeline.ShownIntervention]]
    tools: list["ToolRow"]
    not_checked: dict[str, str]
    selection: timeline.Selection


def show(
    context: typer.Context,
    run: Annotated[str, typer.Argument(metavar="RUN", help=RUN_HELP)] = "latest",
    agent: OwnerOfRun = None,
    events: Annotated[
        int,
        typer.Option(
            "--events", min=1, help="The most steps to show: calls, messages and what else is recorded."
        ),
    ] = _STEPS_SHOWN,
    everything: Annotated[bool, typer.Option("--all", help="Show every step.")] = False,
    payloads: Annotated[
        bool, typer.Option("--payloads", help="Show arguments and results in full, as they are stored.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show one run with its findings and interventions."""
    with closing(context.obj.open_store()) as store:
        row = find_run(store, run, agent)
        report = _read_run(store, row, None if everything else events)
    if as_json:
        print_json(_to_data(report, payloads=payloads))
        return
    _print_header(report)
    command = context.obj.command
    _print_timeline(report, command, payloads=payloads)
    _print_incidents(report, command)
    _print_tools(report)
    _print_not_checked(report)


def _read_run(store: "Store", run: "StoredRun", most: int | None) -> _RunDetails:
    findings = store.get_drift_events(run.agent_id, run.run_id, limit=_FINDINGS_READ)[::-1]
    incidents = store.list_incidents(run.agent_id, run.run_id, limit=_INCIDENTS_READ)[::-1]
    interventions = timeline.group_interventions_by_step(incidents)
    evidence = {event_id for incident in incidents for event_id in incident.event_ids}
    return _RunDetails(
        run=run,
        children=_find_children(store, run),
        findings=findings,
        incidents=incidents,
        mutes=timeline.Mutes(store, time.time()),
        interventions=interventions,
        tools=store.list_run_tools(run.agent_id, run.run_id),
        not_checked=_find_not_checked(store, run),
        selection=timeline.select_steps(store, run, findings, interventions, evidence, most),
    )


def _find_children(store: "RunStore", run: "StoredRun") -> list[str]:
    """Return the runs that this one started; they began before it ended."""
    just_after = run.last_at + 1.0
    begun = store.list_runs(before=just_after, limit=_CHILDREN_READ)
    return [child.run_id for child in reversed(begun) if child.parent_run_id == run.run_id]


def _find_not_checked(store: "BaselineStore", run: "StoredRun") -> dict[str, str]:
    from steadyhelm.baselines import BaselineStats

    learnt = store.get_baseline(run.agent_id, run.version, run.task_type)
    reasons = list_not_checked(learnt or BaselineStats(agent_id=run.agent_id))
    return reasons if run.goal else reasons | {"goal_drift": "not checked: the run has no goal"}


def _to_data(report: _RunDetails, *, payloads: bool) -> dict[str, Any]:
    hidden = () if payloads else _PAYLOAD_FIELDS
    places = report.selection.places
    return {
        "run": report.run,
        "children": report.children,
        "events": [_event_to_data(step.recorded.event, hidden) for step in report.selection.steps],
        "events_left_out": report.run.events - len(report.selection.steps),
        "findings": [
            {**it.to_dict(), "seq": places.get(timeline.get_event_id(it))} for it in report.findings
        ],
        "incidents": [
            {**it.to_dict(), "evidence": report.selection.seqs(it.event_ids)} for it in report.incidents
        ],
        "interventions": timeline.interventions_to_data(report.interventions),
        "tools": report.tools,
        "not_checked": report.not_checked,
    }


def _event_to_data(event: "TraceEvent", hidden: "Container[str]") -> dict[str, Any]:
    return {name: value for name, value in event.to_dict().items() if name not in hidden}


def _list_totals(run: "StoredRun") -> Iterator[str]:
    yield pluralize(run.events, "step")
    yield pluralize(run.tool_calls, "tool call")
    yield pluralize(run.llm_calls, "model call")
    yield pluralize(run.tokens, "token")
    yield pluralize(run.errors, "error")
    if run.cost_usd:
        yield f"${run.cost_usd:,.4f}"


def _print_header(report: _RunDetails) -> None:
    run = report.run
    took = f", took {format_duration(run.last_at - run.started_at)}" if run.state == "ended" else ""
    lines = [
        ("run", run.run_id),
        ("agent", f"{run.agent_id} {run.version}".rstrip()),
        ("goal", run.goal or "(none given)"),
        ("task", run.task_type),
        ("state", f"{run.state}: {run.outcome}" if run.outcome else run.state),
        ("started", f"{format_time(run.started_at)}{took}"),
        ("totals", ", ".join(_list_totals(run))),
        ("parent", run.parent_run_id or ""),
        ("children", ", ".join(report.children)),
    ]
    print_fields(lines)


def _print_timeline(report: _RunDetails, command: str, *, payloads: bool) -> None:
    screen = console()
    screen.print("")
    if not report.selection.steps:
        say("No steps of this run are stored.")
        return
    for line in timeline.iter_timeline_lines(report.selection, report.run, payloads=payloads):
        print_wrapped(screen, line, indent=timeline.WRAPPED_INDENT)
    if report.run.events > len(report.selection.steps):
        say(f"Not all steps are shown. All of them: {command} show {safe(report.run.run_id)} --all")


def _list_incident_lines(incident: "Incident", evidence: list[int]) -> Iterator[str]:
    yield safe(incident.message)
    yield f"advice: {safe(incident.suggested_action)}"
    found = pluralize(incident.findings, "finding")
    yield f"evidence: {found}, steps {format_steps(evidence)}; peak {incident.peak:.2f}"
    yield from map(timeline.describe_intervention, incident.interventions)


def _print_incidents(report: _RunDetails, command: str) -> None:
    from rich.text import Text

    screen = console()
    for incident in report.incidents:
        head = Text("\n").append_text(format_severity(incident.severity))
        state = report.mutes.describe_state(incident) + ", hard limit" * incident.hard_limit
        head.append(f" incident {incident.incident_id}, {safe(incident.detector)}, {state}")
        screen.print(head)
        for line in _list_incident_lines(incident, report.selection.seqs(incident.event_ids)):
            print_wrapped(screen, f"   {line}")
    if report.incidents:
        say(f"\nDetails of an incident: {command} alerts show {report.incidents[-1].incident_id}")


def _print_tools(report: _RunDetails) -> None:
    if not report.tools:
        return
    rows = [
        (
            safe(tool.action_name, most=40),
            tool.calls,
            tool.errors or "-",
            tool.tokens,
            format_duration(tool.duration_ms / 1000),
        )
        for tool in report.tools
    ]
    console().print("")
    print_table(("tool", "calls", "errors", "tokens", "time"), rows, empty="")


def _print_not_checked(report: _RunDetails) -> None:
    if not report.not_checked:
        return
    screen = console()
    screen.print("")
    head = "Not checked, or checked only in part, with what this agent's baseline has learnt so far:"
    print_wrapped(screen, head)
    for detector, reason in report.not_checked.items():
        print_wrapped(screen, f"   {safe(detector)}: {safe(reason)}")


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
    say(f"Findings and interventions: {context.obj.command} show {run_id}")


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
