"""What a change would have done to recent incidents: shown before it is saved."""

from collections.abc import Collection, Sequence
from typing import Final, Literal

from msgspec import structs

from steadyhelm.declarations import add_kinds, parse_declarations
from steadyhelm.errors import SettingsError
from steadyhelm.events import RunInfo
from steadyhelm.findings import Severity
from steadyhelm.incidents import Incident
from steadyhelm.policy.alerting import build_threshold, preview_threshold
from steadyhelm.replay import Replayer
from steadyhelm.server.context import Call
from steadyhelm.server.queries.incidents import list_like
from steadyhelm.server.queries.rows import ARROW
from steadyhelm.server.queries.why import describe_declaration, describe_false_alarm
from steadyhelm.server.records import agents, incidents

_COMPARED: Final = 10_000
_SHOWN: Final = 20
_STEPS_REPLAYED: Final = 2000
_STEPS_REPLAYED_IN_ALL: Final = 10_000


def preview_false_alarm(call: Call) -> incidents.Effect:
    """Return what marking an incident as a false alarm would have changed. Changes nothing."""
    request: incidents.FalseAlarm = call.body
    incident = call.store.find_incident(call.path["incident"])
    like = list_like(call.store, incident, _SHOWN)
    if request.reason == "polls":
        tool = find_tool(call, incident)
        return _preview_kind(call, incident.agent_id, tool, request.tool_kind, like)
    change = describe_false_alarm(incident, "")[request.reason]
    if request.reason == "new_task":
        return _make_effect(change, like, set())
    try:
        threshold = build_threshold(incident, at=0.0)
    except SettingsError:
        return structs.replace(_make_effect(change, like, set()), allowed=False)
    return _make_effect(change, like, preview_threshold(threshold, like).silenced_ids)


def preview_declaration(call: Call) -> incidents.Effect:
    """Return which recent incidents a declaration would have prevented. Changes nothing."""
    request: agents.Declare = call.body
    agent_id = call.find_agent()
    found = [
        it
        for it in call.store.list_incidents(agent_id, limit=_COMPARED)
        if it.kind == "loop" and request.tool in read_pattern(call, it).split(ARROW)
    ]
    return _preview_kind(call, agent_id, request.tool, request.kind, found[:_SHOWN])


def _make_replayer(call: Call, agent_id: str, tool: str, kind: str) -> Replayer:
    """Return a replayer that looks for loops, for which the tool is declared so."""
    chosen = call.context.settings
    known = parse_declarations(chosen.tools)
    marks = {mark.tool: mark.kind for mark in call.store.list_tool_marks(agent_id)}
    marks.pop(tool, None)
    tools = dict(add_kinds(known, {**marks, **({tool: kind} if kind else {})}))
    return Replayer(chosen, tools=tools, kinds={"loop"})


def _preview_kind(
    call: Call, agent_id: str, tool: str, kind: str, like: Sequence[Incident]
) -> incidents.Effect:
    """Judge the runs of these incidents again, with the tool declared so."""
    replayer = _make_replayer(call, agent_id, tool, kind)
    silenced: set[str] = set()
    unknown: set[str] = set()
    left = _STEPS_REPLAYED_IN_ALL
    for incident in like:
        run = call.store.find_run(incident.run_id, agent_id=agent_id)
        if run.events > min(left, _STEPS_REPLAYED):
            unknown.add(incident.incident_id)
            continue
        left -= run.events
        if not _is_raised(call, replayer, incident):
            silenced.add(incident.incident_id)
    return _make_effect(describe_declaration(tool, kind), like, silenced, unknown)


def _is_raised(call: Call, replayer: Replayer, incident: Incident) -> bool:
    replay = replayer.begin(RunInfo(agent_id=incident.agent_id, run_id=incident.run_id))
    for recorded in call.store.iter_run_events(incident.agent_id, incident.run_id):
        # A replay counts events by their ids.
        event = structs.replace(recorded.event, event_id=str(recorded.event.seq))
        found = replay.observe(event)
        if event.seq < incident.opened_seq or event.seq > incident.last_seq:
            continue
        if any(it.kind == incident.kind and it.severity is not Severity.LOW for it in found):
            return True
    return False


def _make_effect(
    change: str,
    like: Sequence[Incident],
    silenced: Collection[str],
    unknown: Collection[str] = (),
) -> incidents.Effect:
    lost = sum(it.incident_id in silenced and it.review == "confirmed" for it in like)
    count = sum(it.incident_id in silenced for it in like)
    right = f" {lost} that {'was' if lost == 1 else 'were'} marked right would be lost." if lost else ""
    return incidents.Effect(
        change=change,
        sentence=f"{count} of {len(like)} would not have been raised.{right}",
        silenced=count,
        right_lost=lost,
        incidents=[
            incidents.Effected(
                incident_id=it.incident_id,
                run_id=it.run_id,
                first_step=it.opened_seq + 1,
                last_step=it.last_seq + 1,
                at=it.last_at,
                effect=_name_effect(it, silenced, unknown),
                review=it.review,
            )
            for it in like
        ],
        allowed=True,
    )


def _name_effect(
    incident: Incident, silenced: Collection[str], unknown: Collection[str]
) -> Literal["silenced", "raised", "unknown"]:
    if incident.incident_id in silenced:
        return "silenced"
    return "unknown" if incident.incident_id in unknown else "raised"


def read_pattern(call: Call, incident: Incident) -> str:
    """Return the pattern an incident is grouped by."""
    with call.store.reading() as connection:
        row = connection.execute(
            "SELECT pattern FROM incidents WHERE incident_id = ?", (incident.incident_id,)
        ).fetchone()
    return str(row[0]) if row is not None else ""


def find_tool(call: Call, incident: Incident) -> str:
    """Return the tool whose declaration would make a loop expected; raises SettingsError."""
    pattern = read_pattern(call, incident)
    if incident.kind != "loop" or not pattern:
        raise SettingsError("Only a loop of calls can be declared: choose another reason.")
    return pattern.split(ARROW)[0]
