"""`steadyhelm show`: one run from its first step to its last, with what was noticed and what was done."""

from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from steadyhelm.cli import timeline
from steadyhelm.cli.baseline import not_checked_yet
from steadyhelm.cli.context import agent_named
from steadyhelm.cli.output import print_json, print_rows, when
from steadyhelm.reports.formats import counted, lasting, steps
from steadyhelm.reports.terminal import console, safe, say, severity

if TYPE_CHECKING:
    from steadyhelm.findings import DriftEvent
    from steadyhelm.incidents import Incident
    from steadyhelm.store import BaselineStore, RunRow, RunStore, Store, ToolRow

_SHOWN: Final = 40
_FINDINGS_READ: Final = 2000
_INCIDENTS_READ: Final = 200
_CHILDREN_LOOKED_AT: Final = 500
_PAYLOAD: Final = ("input_data", "output_data", "metadata")


class _Report(NamedTuple):
    """Everything that is told about one run."""

    run: "RunRow"
    children: list[str]
    findings: list["DriftEvent"]
    incidents: list["Incident"]
    answered: dict[int, list[timeline.ShownIntervention]]
    tools: list["ToolRow"]
    not_checked: dict[str, str]
    selection: timeline.Selection


def show(
    context: typer.Context,
    run: Annotated[str, typer.Argument(help="The run's id, or the beginning of it.")],
    agent: Annotated[
        str | None, typer.Option("--agent", help="Whose run, when several agents have one of that id.")
    ] = None,
    events: Annotated[int, typer.Option("--events", min=1, help="The most steps to show.")] = _SHOWN,
    everything: Annotated[bool, typer.Option("--all", help="Show every step.")] = False,
    payloads: Annotated[
        bool, typer.Option("--payloads", help="Show arguments and results in full, as they are kept.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
) -> None:
    """Show one run: its steps, what was noticed, and what was done about it."""
    with closing(context.obj.store()) as store:
        row = store.find_run(run, agent_id=agent_named(store, agent) if agent is not None else None)
        report = _report(store, row, None if everything else events)
    if as_json:
        print_json(_plain(report, payloads=payloads))
        return
    _print_header(report)
    _print_timeline(report, payloads=payloads)
    _print_incidents(report)
    _print_tools(report)
    _print_not_checked(report)


def _report(store: "Store", run: "RunRow", most: int | None) -> _Report:
    findings = store.get_drift_events(run.agent_id, run.run_id, limit=_FINDINGS_READ)[::-1]
    incidents = store.list_incidents(run.agent_id, run.run_id, limit=_INCIDENTS_READ)[::-1]
    answered = timeline.interventions_by_step(incidents)
    evidence = {event_id for incident in incidents for event_id in incident.event_ids}
    return _Report(
        run=run,
        children=_children(store, run),
        findings=findings,
        incidents=incidents,
        answered=answered,
        tools=store.list_run_tools(run.agent_id, run.run_id),
        not_checked=_not_checked(store, run),
        selection=timeline.select(store, run, findings, answered, evidence, most),
    )


def _children(store: "RunStore", run: "RunRow") -> list[str]:
    """Runs that this one started: they began while it went on."""
    just_after = run.last_at + 1.0
    begun = store.list_runs(before=just_after, limit=_CHILDREN_LOOKED_AT)
    return [child.run_id for child in reversed(begun) if child.parent_run_id == run.run_id]


def _not_checked(store: "BaselineStore", run: "RunRow") -> dict[str, str]:
    from steadyhelm.baselines import BaselineStats

    learnt = store.get_baseline(run.agent_id, run.version, run.task_type)
    reasons = not_checked_yet(learnt or BaselineStats(agent_id=run.agent_id))
    return reasons if run.goal else reasons | {"goal_drift": "not checked: the run has no goal"}


def _plain(report: _Report, *, payloads: bool) -> dict[str, Any]:
    hidden = () if payloads else _PAYLOAD
    places = report.selection.places
    return {
        "run": report.run,
        "children": report.children,
        "events": [
            {name: value for name, value in step.recorded.event.to_dict().items() if name not in hidden}
            for step in report.selection.steps
        ],
        "events_left_out": report.run.events - len(report.selection.steps),
        "findings": [
            {**finding.to_dict(), "seq": places.get(timeline.event_of(finding))}
            for finding in report.findings
        ],
        "incidents": [
            {**incident.to_dict(), "evidence": report.selection.seqs(incident.event_ids)}
            for incident in report.incidents
        ],
        "interventions": timeline.interventions_as_data(report.answered),
        "tools": report.tools,
        "not_checked": report.not_checked,
    }


def _print_header(report: _Report) -> None:
    run = report.run
    took = f", took {lasting(run.last_at - run.started_at)}" if run.state == "ended" else ""
    totals = [
        counted(run.events, "step"),
        counted(run.tool_calls, "tool call"),
        counted(run.llm_calls, "model call"),
    ]
    totals += [counted(run.tokens, "token"), counted(run.errors, "error")]
    if run.cost_usd:
        totals.append(f"${run.cost_usd:,.4f}")
    lines = [
        ("run", run.run_id),
        ("agent", f"{run.agent_id} {run.version}".rstrip()),
        ("goal", run.goal or "(none given)"),
        ("task", run.task_type),
        ("state", f"{run.state}: {run.outcome}" if run.outcome else run.state),
        ("started", f"{when(run.started_at)}{took}"),
        ("totals", ", ".join(totals)),
        ("parent", run.parent_run_id or ""),
        ("children", ", ".join(report.children)),
    ]
    screen = console()
    for label, value in lines:
        if value:
            screen.print(f"{label:<9} {safe(value)}")


def _print_timeline(report: _Report, *, payloads: bool) -> None:
    screen = console()
    screen.print("")
    if not report.selection.steps:
        say("No steps were kept of this run.")
        return
    for line in timeline.lines(report.selection, report.run, payloads=payloads):
        screen.print(line)
    if report.run.events > len(report.selection.steps):
        say(f"Not all steps are shown. All of them: steadyhelm show {safe(report.run.run_id)} --all")


def _print_incidents(report: _Report) -> None:
    from rich.text import Text

    screen = console()
    for incident in report.incidents:
        head = Text("\n").append_text(severity(incident.severity))
        head.append(f" incident {incident.incident_id}, {safe(incident.detector)}, {_standing(incident)}")
        screen.print(head)
        screen.print(f"   {safe(incident.message)}")
        screen.print(f"   advice: {safe(incident.suggested_action)}")
        proof = steps(report.selection.seqs(incident.event_ids))
        screen.print(
            f"   evidence: {counted(incident.findings, 'finding')}, steps {proof}; peak {incident.peak:.2f}"
        )
        for answer in incident.interventions:
            screen.print(f"   {timeline.describe_intervention(answer)}")
    if report.incidents:
        say(f"\nMore on one of them: steadyhelm alerts show {report.incidents[-1].incident_id}")


def _standing(incident: "Incident") -> str:
    marks: list[str] = [incident.state]
    if incident.hard_limit:
        marks.append("hard limit")
    if incident.acknowledged_at is not None:
        marks.append("acknowledged")
    if incident.review:
        marks.append(incident.review.replace("_", " "))
    return ", ".join(marks)


def _print_tools(report: _Report) -> None:
    if not report.tools:
        return
    rows = [
        (
            safe(tool.action_name, most=40),
            tool.calls,
            tool.errors or "-",
            tool.tokens,
            lasting(tool.duration_ms / 1000),
        )
        for tool in report.tools
    ]
    print_rows(("tool", "calls", "errors", "tokens", "time"), rows, empty="")


def _print_not_checked(report: _Report) -> None:
    if not report.not_checked:
        return
    screen = console()
    screen.print("Not judged in full, going by what is learnt of this agent now:")
    for detector, reason in report.not_checked.items():
        screen.print(f"   {safe(detector)}: {safe(reason)}")
