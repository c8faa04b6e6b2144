"""`steadyhelm alerts`: the incidents people are told about, and what people say about them."""

import time
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from steadyhelm.cli import sending, timeline, verdicts
from steadyhelm.cli.fitting import print_fitting
from steadyhelm.cli.lookup import agent_named
from steadyhelm.cli.output import ago, print_json, span, when
from steadyhelm.findings import Severity
from steadyhelm.reports.formats import counted, lasting, number, steps
from steadyhelm.reports.terminal import console, safe, say, severity

if TYPE_CHECKING:
    from rich.text import Text

    from steadyhelm.incidents import Incident, Mute
    from steadyhelm.store import Delivery, Store

app = typer.Typer(
    help="The incidents people are told about, and what people say about them.", rich_markup_mode=None
)

_MOST: Final = 1000
_LONGEST_MUTE_S: Final = 30 * 86_400
_PROOFS_SHOWN: Final = 12
_TITLES: Final = ("id", "severity", "state", "agent", "detector", "run", "last", "found", "what")

Agent = Annotated[str | None, typer.Option("--agent", help="Only incidents of this agent.")]
Lowest = Annotated[
    Severity | None, typer.Option("--severity", case_sensitive=False, help="The lowest severity that counts.")
]
Last = Annotated[str, typer.Option("--last", help="How far back closed incidents are shown: 30m, 24h, 7d.")]
Everything = Annotated[bool, typer.Option("--all", help="Closed incidents however old.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document a line.")]
Id = Annotated[str, typer.Argument(metavar="ID", help="The incident's id, or the beginning of it.")]

_DEFAULT_LAST: Final = "24h"


@app.callback(invoke_without_command=True)
def _alerts(
    context: typer.Context,
    agent: Agent = None,
    lowest: Lowest = None,
    last: Last = _DEFAULT_LAST,
    everything: Everything = False,
    as_json: AsJson = False,
) -> None:
    if context.invoked_subcommand is None:
        list_incidents(context, agent, lowest, last, everything, as_json)
    elif (agent, lowest, last, everything, as_json) != (None, None, _DEFAULT_LAST, False, False):
        raise typer.BadParameter(f"write the options behind `{context.invoked_subcommand}`.")


@app.command("list")
def list_incidents(
    context: typer.Context,
    agent: Agent = None,
    lowest: Lowest = None,
    last: Last = _DEFAULT_LAST,
    everything: Everything = False,
    as_json: AsJson = False,
) -> None:
    """List incidents: open ones first, then those that ended lately."""
    now = time.time()
    since = None if everything else now - span(last)
    with closing(context.obj.store()) as store:
        name = agent_named(store, agent) if agent is not None else None
        going_on = store.incidents(name, state="open", severity=lowest, limit=_MOST)
        over = store.incidents(name, state="closed", severity=lowest, since=since, limit=_MOST)
        muted = {(mute.agent_id, mute.detector): mute for mute in store.mutes(at=now)}
    found = [*going_on, *over]
    if as_json:
        for incident in found:
            print_json({**incident.to_dict(), "muted_until": _muted_until(incident, muted)})
        return
    period = "" if everything else f" in the last {last}"
    print_fitting(
        _TITLES,
        [_line(incident, muted, now) for incident in found],
        spare=("found", "run", "last", "detector"),
        empty=f"No open incidents, and none{period}. Older ones: steadyhelm alerts --all",
    )


@app.command("show")
def show_incident(context: typer.Context, incident_id: Id, as_json: AsJson = False) -> None:
    """Show one incident: its evidence, what was tried, and what people said about it."""
    now = time.time()
    with closing(context.obj.store()) as store:
        incident = store.find_incident(incident_id)
        muted = {(mute.agent_id, mute.detector): mute for mute in store.mutes(at=now)}
        sent = [it for it in store.deliveries(limit=_MOST) if it.incident_id == incident.incident_id]
        if as_json:
            told = [sending.plain(delivery) for delivery in sent]
            print_json(
                {**incident.to_dict(), "muted_until": _muted_until(incident, muted), "deliveries": told}
            )
            return
        _print_incident(incident, muted)
        _print_proof(store, incident)
    _print_answers(incident, sent)
    say(
        f"\nNext: steadyhelm alerts ack {incident.incident_id} | confirm | false-alarm | mute, "
        f"or the whole run: steadyhelm show {safe(incident.run_id)}"
    )


@app.command("ack")
def acknowledge(context: typer.Context, incident_id: Id) -> None:
    """Note that somebody has seen an incident."""
    with closing(context.obj.store(read_only=False)) as store:
        incident = store.find_incident(incident_id)
        if incident.acknowledged_at is not None:
            say(f"Incident {incident.incident_id} was acknowledged {ago(incident.acknowledged_at)} already.")
            return
        store.acknowledge(incident.incident_id, at=time.time())
    say(f"Acknowledged incident {incident.incident_id}: {safe(incident.message, most=100)}")


@app.command("mute")
def mute_alerts(
    context: typer.Context,
    incident_id: Id,
    lasts: Annotated[str, typer.Option("--for", help="For how long: 30m, 8h, 7d; at most 30d.")] = "8h",
) -> None:
    """Send no alerts like this one for a while: same agent, same detector. Incidents are still kept."""
    from steadyhelm.incidents import Mute

    seconds = span(lasts)
    if not 0 < seconds <= _LONGEST_MUTE_S:
        raise typer.BadParameter(f"--for must be more than 0 and at most 30d, got {lasts!r}.")
    now = time.time()
    with closing(context.obj.store(read_only=False)) as store:
        incident = store.find_incident(incident_id)
        store.mute(
            Mute(agent_id=incident.agent_id, detector=incident.detector, until=now + seconds, set_at=now)
        )
    what = f"{safe(incident.detector)} of {safe(incident.agent_id)}"
    say(f"No alerts of {what} until {when(now + seconds)}. Undo: steadyhelm alerts unmute {incident_id}")


@app.command("unmute")
def unmute_alerts(context: typer.Context, incident_id: Id) -> None:
    """Send alerts like this one again."""
    with closing(context.obj.store(read_only=False)) as store:
        incident = store.find_incident(incident_id)
        was_muted = store.unmute(incident.agent_id, incident.detector)
    what = f"{safe(incident.detector)} of {safe(incident.agent_id)}"
    say(f"Alerts of {what} are sent again." if was_muted else f"Alerts of {what} were not muted.")


app.command("false-alarm")(verdicts.false_alarm)
app.command("confirm")(verdicts.confirm_incident)
app.command("undo")(verdicts.undo)
app.command("deliveries")(sending.deliveries)
app.command("test")(sending.send_test)
app.command("send")(sending.send)


def _muted_until(incident: "Incident", muted: dict[tuple[str, str], "Mute"]) -> float | None:
    mute = muted.get((incident.agent_id, incident.detector))
    return None if mute is None else mute.until


def _standing(incident: "Incident", muted: dict[tuple[str, str], "Mute"]) -> str:
    marks: list[str] = [incident.state]
    if incident.acknowledged_at is not None:
        marks.append("seen")
    if incident.review:
        marks.append(incident.review.replace("_", " "))
    if (incident.agent_id, incident.detector) in muted:
        marks.append("muted")
    return ", ".join(marks)


def _line(incident: "Incident", muted: dict[tuple[str, str], "Mute"], now: float) -> tuple[Any, ...]:
    return (
        incident.incident_id,
        severity(incident.severity),
        _standing(incident, muted),
        safe(incident.agent_id, most=24),
        incident.detector,
        safe(incident.run_id, most=24),
        ago(incident.last_at, now=now),
        incident.findings,
        safe(incident.message, most=100),
    )


def _print_incident(incident: "Incident", muted: dict[tuple[str, str], "Mute"]) -> None:
    screen = console()
    screen.print(_headline(incident))
    until = _muted_until(incident, muted)
    seen_at = incident.acknowledged_at
    lines = [
        ("what", incident.message),
        ("advice", incident.suggested_action),
        ("agent", incident.agent_id),
        ("run", incident.run_id),
        ("state", _standing(incident, {})),
        ("opened", f"{when(incident.opened_at)}, step {number(incident.opened_seq)}"),
        ("latest", f"{when(incident.last_at)}, step {number(incident.last_seq)}"),
        ("lasted", lasting(incident.last_at - incident.opened_at)),
        ("peak", f"{incident.peak:.2f} in {counted(incident.findings, 'finding')}"),
        ("limit", "a hard limit of yours, which never adapts" if incident.hard_limit else ""),
        ("seen", when(seen_at) if seen_at is not None else ""),
        ("muted", f"until {when(until)}" if until is not None else ""),
    ]
    for label, value in lines:
        if value:
            screen.print(f"{label:<9} {safe(value)}")


def _headline(incident: "Incident") -> "Text":
    from rich.text import Text

    head = Text().append_text(severity(incident.severity))
    return head.append(f" incident {incident.incident_id}, {safe(incident.detector)} ({incident.kind})")


def _print_proof(store: "Store", incident: "Incident") -> None:
    run = store.find_run(incident.run_id, agent_id=incident.agent_id)
    proofs = set(incident.event_ids)
    shown = [it for it in store.run_events(run.agent_id, run.run_id) if it.event.event_id in proofs]
    screen = console()
    screen.print(f"{'evidence':<9} steps {steps(it.event.seq for it in shown)}")
    for recorded in shown[-_PROOFS_SHOWN:]:
        screen.print(timeline.step_line(recorded, run.started_at))


def _print_answers(incident: "Incident", sent: list["Delivery"]) -> None:
    screen = console()
    for answer in incident.interventions:
        words = f": {safe(answer.guidance, most=300)}" if answer.guidance else ""
        screen.print(f"{timeline.answer_line(answer)}{words}")
    for delivery in sent:
        trouble = f" ({safe(delivery.error)})" if delivery.error else ""
        screen.print(f"alert to {safe(delivery.channel)} ({delivery.reason}): {delivery.state}{trouble}")
