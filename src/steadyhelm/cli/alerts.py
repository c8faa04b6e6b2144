"""`steadyhelm alerts`: incidents, what people say about them, and the alerts that were sent."""

import shlex
import time
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from steadyhelm.cli import alert_deliveries, timeline
from steadyhelm.cli.context import SEVERITY_CHOICES, AgentCommand, OnlyAgent, choose_agent, parse_severity
from steadyhelm.cli.output import (
    AsJson,
    Yes,
    confirm,
    format_age,
    format_time,
    parse_duration,
    print_fields,
    print_json,
    print_table,
    refuse_early_options,
)
from steadyhelm.findings import Severity
from steadyhelm.reports.formats import format_duration, format_steps, pluralize, step_number
from steadyhelm.reports.terminal import console, format_severity, print_wrapped, safe, say

if TYPE_CHECKING:
    from rich.text import Text

    from steadyhelm.incidents import Incident, ThresholdEffect
    from steadyhelm.store import IncidentStore, RunStore
    from steadyhelm.store_rows import Delivery

app = typer.Typer(help="List, acknowledge, mute or mark incidents; send alerts.", rich_markup_mode=None)

_MOST_ROWS: Final = 1000
_LONGEST_MUTE_S: Final = 30 * 86_400
_EVIDENCE_STEPS_SHOWN: Final = 12
_TITLES: Final = ("id", "severity", "state", "agent", "detector", "run", "last", "findings", "what")

Lowest = Annotated[
    Severity | None,
    typer.Option(
        "--severity", parser=parse_severity, metavar=SEVERITY_CHOICES, help="The lowest severity to list."
    ),
]
Since = Annotated[
    str | None,
    typer.Option("--since", "--last", metavar="TIME", help="Only incidents seen in this time: 30m, 24h, 7d."),
]
Everything = Annotated[bool, typer.Option("--all", help="List incidents of any age.")]
Id = Annotated[str, typer.Argument(metavar="ID", help="The incident's id, or the beginning of it.")]

_RECENT: Final = "24h"
"""How far back incidents are listed that are not open."""


@app.callback(invoke_without_command=True)
def _alerts(
    context: typer.Context,
    agent: OnlyAgent = None,
    lowest: Lowest = None,
    since: Since = None,
    everything: Everything = False,
    as_json: AsJson = False,
) -> None:
    if context.invoked_subcommand is None:
        list_incidents(context, agent, lowest, since, everything, as_json)
    elif (agent, lowest, since, everything, as_json) != (None, None, None, False, False):
        refuse_early_options(context)


@app.command("list", cls=AgentCommand)
def list_incidents(
    context: typer.Context,
    agent: OnlyAgent = None,
    lowest: Lowest = None,
    since: Since = None,
    everything: Everything = False,
    as_json: AsJson = False,
) -> None:
    """List incidents that nobody has dealt with yet, and others of the last day."""
    now = time.time()
    begins_at = 0.0 if everything else now - parse_duration(since or _RECENT, "--since")
    with closing(context.obj.open_store()) as store:
        name = choose_agent(store, agent)
        mutes = timeline.Mutes(store, now)
        found = _select_incidents(store, name, lowest, begins_at, mutes, now, lists_open=since is None)
    if as_json:
        print_json({"incidents": [_to_data(it, mutes) for it in found]})
        return
    period = "" if everything else f" in the last {since or _RECENT}"
    print_table(
        _TITLES,
        [_format_row(incident, mutes, now) for incident in found],
        empty=f"No open incidents, and none{period}. Older ones: {context.obj.command} alerts --all",
    )


def _select_incidents(
    store: "IncidentStore",
    agent: str | None,
    lowest: Severity | None,
    begins_at: float,
    mutes: timeline.Mutes,
    now: float,
    *,
    lists_open: bool,
) -> "list[Incident]":
    """Return the incidents that go on or were seen since then; `lists_open` adds older ones that are open."""
    from steadyhelm.incidents import IN_INBOX_S

    ongoing = store.list_incidents(agent, state="open", severity=lowest, limit=_MOST_ROWS)
    since = min(begins_at, now - IN_INBOX_S) if lists_open else begins_at
    ended = store.list_incidents(agent, state="closed", severity=lowest, since=since, limit=_MOST_ROWS)

    def is_open(incident: "Incident") -> bool:
        return mutes.find_tab(incident) == "open"

    listed = [*ongoing, *(it for it in ended if it.last_at >= begins_at or is_open(it))]
    return sorted(listed, key=is_open, reverse=True)


@app.command("show")
def show_incident(context: typer.Context, incident_id: Id, as_json: AsJson = False) -> None:
    """Show one incident, its evidence and interventions."""
    now = time.time()
    with closing(context.obj.open_store()) as store:
        incident = store.find_incident(incident_id)
        mutes = timeline.Mutes(store, now)
        sent = [
            it for it in store.list_deliveries(limit=_MOST_ROWS) if it.incident_id == incident.incident_id
        ]
        if as_json:
            deliveries = [alert_deliveries.delivery_to_data(delivery) for delivery in sent]
            print_json({**_to_data(incident, mutes), "deliveries": deliveries})
            return
        _print_incident(incident, mutes)
        _print_evidence(store, incident)
    _print_interventions(incident, sent)
    command = context.obj.command
    say(
        f"\nNext: {command} alerts ack {incident.incident_id} | confirm | false-alarm | mute, "
        f"or the whole run: {command} show {safe(incident.run_id)}"
    )


@app.command("ack")
def acknowledge(context: typer.Context, incident_id: Id) -> None:
    """Acknowledge an incident: a person has seen it."""
    with closing(context.obj.open_store(read_only=False)) as store:
        incident = store.find_incident(incident_id)
        if incident.acknowledged_at is not None:
            age = format_age(incident.acknowledged_at)
            say(f"Incident {incident.incident_id} was already acknowledged {age}.")
            return
        store.acknowledge(incident.incident_id, at=time.time())
    say(f"Acknowledged incident {incident.incident_id}: {safe(incident.message, most=100)}")


@app.command("mute")
def mute_alerts(
    context: typer.Context,
    incident_id: Id,
    lasts: Annotated[str, typer.Option("--for", help="For how long: 30m, 8h, 7d; at most 30d.")] = "8h",
) -> None:
    """Send no alerts of this agent and detector for a while. Incidents are still recorded."""
    from steadyhelm.incidents import Mute

    now = time.time()
    until = now + _parse_mute(lasts)
    with closing(context.obj.open_store(read_only=False)) as store:
        muted = store.find_incident(incident_id)
        store.mute(Mute(agent_id=muted.agent_id, detector=muted.detector, until=until, set_at=now))
    what = f"{safe(muted.detector)} of {safe(muted.agent_id)}"
    command = f"{context.obj.command} alerts unmute {incident_id}"
    say(f"No alerts of {what} until {format_time(until)}. Undo: {command}")


@app.command("unmute")
def unmute_alerts(context: typer.Context, incident_id: Id) -> None:
    """Send alerts of this agent and detector again."""
    with closing(context.obj.open_store(read_only=False)) as store:
        incident = store.find_incident(incident_id)
        was_muted = store.unmute(incident.agent_id, incident.detector)
    what = f"{safe(incident.detector)} of {safe(incident.agent_id)}"
    say(f"Alerts of {what} are sent again." if was_muted else f"Alerts of {what} were not muted.")


app.command("deliveries")(alert_deliveries.deliveries)
app.command("test")(alert_deliveries.send_test)
app.command("send")(alert_deliveries.send)


def _to_data(incident: "Incident", mutes: timeline.Mutes) -> dict[str, Any]:
    mute = mutes.find(incident)
    until = None if mute is None else mute.until
    return {**incident.to_dict(), "tab": mutes.find_tab(incident), "muted_until": until}


def _format_row(incident: "Incident", mutes: timeline.Mutes, now: float) -> tuple[Any, ...]:
    return (
        incident.incident_id,
        format_severity(incident.severity),
        mutes.describe_state(incident),
        safe(incident.agent_id, most=24),
        incident.detector,
        safe(incident.run_id, most=24),
        format_age(incident.last_at, now=now),
        incident.findings,
        safe(incident.message, most=100),
    )


def _parse_mute(lasts: str) -> float:
    seconds = parse_duration(lasts, "--for")
    if not 0 < seconds <= _LONGEST_MUTE_S:
        raise typer.BadParameter(f"--for must be more than 0 and at most 30d, got {lasts!r}.")
    return seconds


def _print_incident(incident: "Incident", mutes: timeline.Mutes) -> None:
    console().print(_format_headline(incident))
    print_fields(_list_fields(incident, mutes))


def _list_fields(incident: "Incident", mutes: timeline.Mutes) -> list[tuple[str, str]]:
    mute = mutes.find(incident)
    acknowledged_at = incident.acknowledged_at
    return [
        ("what", incident.message),
        ("advice", incident.suggested_action),
        ("agent", incident.agent_id),
        ("run", incident.run_id),
        ("state", mutes.describe_state(incident)),
        ("opened", f"{format_time(incident.opened_at)}, step {step_number(incident.opened_seq)}"),
        ("latest", f"{format_time(incident.last_at)}, step {step_number(incident.last_seq)}"),
        ("lasted", format_duration(incident.last_at - incident.opened_at)),
        ("peak", f"{incident.peak:.2f} in {pluralize(incident.findings, 'finding')}"),
        ("limit", "a hard limit from your settings, which never adapts" if incident.hard_limit else ""),
        ("acked", format_time(acknowledged_at) if acknowledged_at is not None else ""),
        ("muted", f"until {format_time(mute.until)}" if mute is not None else ""),
    ]


def _format_headline(incident: "Incident") -> "Text":
    from rich.text import Text

    head = Text().append_text(format_severity(incident.severity))
    return head.append(f" incident {incident.incident_id}, {safe(incident.detector)} ({incident.kind})")


def _print_evidence(store: "RunStore", incident: "Incident") -> None:
    run = store.find_run(incident.run_id, agent_id=incident.agent_id)
    evidence = set(incident.event_ids)
    shown = [it for it in store.iter_run_events(run.agent_id, run.run_id) if it.event.event_id in evidence]
    screen = console()
    screen.print(f"{'evidence':<9} steps {format_steps(it.event.seq for it in shown)}")
    for recorded in shown[-_EVIDENCE_STEPS_SHOWN:]:
        print_wrapped(screen, timeline.step_line(recorded, run.started_at), indent=timeline.WRAPPED_INDENT)


def _print_interventions(incident: "Incident", sent: list["Delivery"]) -> None:
    screen = console()
    for intervention in incident.interventions:
        guidance = f": {safe(intervention.guidance, most=300)}" if intervention.guidance else ""
        print_wrapped(screen, f"{timeline.describe_intervention(intervention)}{guidance}")
    for delivery in sent:
        error = f" ({safe(delivery.error)})" if delivery.error else ""
        screen.print(f"alert to {safe(delivery.channel)} ({delivery.reason}): {delivery.state}{error}")


_INCIDENTS_COMPARED: Final = 10_000


@app.command("false-alarm")
def false_alarm(
    context: typer.Context,
    incident_id: Id,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what it would change, and stop.")] = False,
    yes: Yes = False,
) -> None:
    """Mark an incident as a false alarm. The same is then reported for this agent only when stronger."""
    from steadyhelm.policy.alerting import build_threshold

    with closing(context.obj.open_store(read_only=dry_run)) as store:
        incident = store.find_incident(incident_id)
        if incident.review == "false_alarm":
            say(f"Incident {incident.incident_id} is already marked as a false alarm.")
            return
        threshold = build_threshold(incident, at=time.time())
        _print_threshold_effect(incident, _preview_threshold(store, incident))
        if dry_run:
            say("Nothing was changed (--dry-run).")
            return
        confirm(f"Mark incident {incident.incident_id} as a false alarm?", yes=yes)
        with store.transaction():
            store.save_threshold(threshold)
            store.review(incident.incident_id, "false_alarm")
    agent = safe(incident.agent_id)
    say(
        f"Saved; it takes effect with the next run of {agent}. "
        f"Undo: {context.obj.command} alerts undo {incident.incident_id}"
    )


@app.command("confirm")
def confirm_incident(context: typer.Context, incident_id: Id) -> None:
    """Confirm that an incident was right. If it was marked as a false alarm, the mark is removed."""
    with closing(context.obj.open_store(read_only=False)) as store:
        incident = store.find_incident(incident_id)
        with store.transaction():
            moved_back = store.drop_threshold(incident.incident_id)
            store.review(incident.incident_id, "confirmed")
    back = " The threshold it had raised is back where it was." if moved_back else ""
    say(f"Confirmed incident {incident.incident_id}.{back}")


@app.command("undo")
def undo(context: typer.Context, incident_id: Id) -> None:
    """Remove the mark from an incident, and the threshold that it raised."""
    with closing(context.obj.open_store(read_only=False)) as store:
        incident = store.find_incident(incident_id)
        with store.transaction():
            moved_back = store.drop_threshold(incident.incident_id)
            store.review(incident.incident_id, "")
    if not incident.review and not moved_back:
        say(f"Incident {incident.incident_id} has no mark to take back; nothing was changed.")
        return
    back = " and the threshold it had raised" if moved_back else ""
    mark = (incident.review or "false_alarm").replace("_", " ")
    say(f"Took back {mark!r} on incident {incident.incident_id}{back}.")


def _preview_threshold(store: "IncidentStore", incident: "Incident") -> "ThresholdEffect":
    from steadyhelm.policy.alerting import build_threshold, preview_threshold

    past = store.list_incidents(incident.agent_id, limit=_INCIDENTS_COMPARED)
    return preview_threshold(build_threshold(incident, at=0.0), past)


def _print_threshold_effect(incident: "Incident", effect: "ThresholdEffect") -> None:
    from steadyhelm.policy.alerting import describe_threshold

    typer.echo(safe(describe_threshold(effect.threshold)))
    confirmed = f", {effect.confirmed_silenced} of them confirmed" if effect.confirmed_silenced else ""
    past = pluralize(effect.incidents, "incident")
    typer.echo(f"It would have silenced {effect.silenced} of {past} so far{confirmed}.")
    if incident.kind == "loop" and incident.subject and " → " not in incident.subject:
        name = shlex.quote(f"tools.{safe(incident.subject)}.kind")
        typer.echo(f"If the tool is meant to repeat, declare it: steadyhelm config set {name} poll")
        typer.echo(
            "(poll asks until something changes, batch does one thing after another, schedule repeats.)"
        )
