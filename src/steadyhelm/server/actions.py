"""What people do on the page. Each action is the command line's, with a line in the audit log.

Keys, retention and channels are what only an administrator changes.
"""

import time
from collections.abc import Sequence
from typing import Final, Literal

from msgspec import structs

from steadyhelm.errors import AddressRefusedError, NotFoundError, SettingsError
from steadyhelm.findings import Severity
from steadyhelm.incidents import Incident, Mute
from steadyhelm.people import ToolMark
from steadyhelm.policy.alerting import build_threshold
from steadyhelm.server.context import Call
from steadyhelm.server.effects import find_tool
from steadyhelm.server.queries.incidents import list_like
from steadyhelm.server.records import agents, common, incidents, settings

_HOUR_S: Final = 3600.0
_LONGEST_MUTE_S: Final = 14 * 24 * _HOUR_S
_MUTES_S: Final = {"1h": _HOUR_S, "8h": 8 * _HOUR_S, "tomorrow": 24 * _HOUR_S}
_MOST_OF_GROUP: Final = 1000
_BASELINE_MESSAGES: Final = {
    "freeze": "The baseline is frozen.",
    "unfreeze": "The baseline learns again.",
    "reset": "The baseline is learnt anew from the next run on.",
}
_DAY_S: Final = 86_400.0


def acknowledge(call: Call) -> common.Done:
    """Mark an incident as seen, or take that back."""
    request: incidents.Acknowledge = call.body
    if request.undo:
        return _take_back_acknowledgement(call, whole_group=request.whole_group)
    first, *others = _choose(call, whole_group=request.whole_group)
    # One that was acknowledged before stays as it is, also when this is undone.
    chosen = [first.incident_id, *(it.incident_id for it in others if it.acknowledged_at is None)]
    at = time.time()
    with call.store.transaction():
        for incident_id in chosen:
            call.store.acknowledge(incident_id, at=at, by=call.by)
        call.note("acknowledge", _name(chosen))
    return common.Done(message=f"Acknowledged: {_count(chosen)}.")


def _take_back_acknowledgement(call: Call, *, whole_group: bool) -> common.Done:
    incident = call.store.find_incident(call.path["incident"])
    chosen = [incident.incident_id]
    if whole_group:
        _, chosen = _list_changed_with(call, incident, "acknowledged_at")
    with call.store.transaction():
        for incident_id in chosen:
            call.store.acknowledge(incident_id, at=None)
        call.note("take back acknowledgement", _name(chosen))
    return common.Done(message=f"Not acknowledged any more: {_count(chosen)}.")


def mute(call: Call) -> common.Done:
    """Send no alerts of an incident's agent and detector for a while, or send them again."""
    request: incidents.MuteRequest = call.body
    if request.undo:
        return _unmute(call, whole_group=request.whole_group)
    chosen = _choose(call, whole_group=request.whole_group)
    incident, now = chosen[0], time.time()
    run = call.store.find_run(incident.run_id, agent_id=incident.agent_id)
    worst: dict[str, Severity] = {}
    for it in chosen:
        worst[it.detector] = max(it.severity, worst.get(it.detector, it.severity), key=lambda at: at.rank)
    what = f"{', '.join(worst)} of {incident.agent_id}"
    until = now + _MUTES_S.get(request.until, _LONGEST_MUTE_S)
    with call.store.transaction():
        for detector, severity in worst.items():
            mute = Mute(agent_id=incident.agent_id, detector=detector, until=until, set_at=now)
            up_to = severity if request.until == "worse" else None
            version = run.version if request.until == "version" else None
            call.store.mute(structs.replace(mute, up_to=up_to, version=version))
        call.note("mute", what, request.until)
    return common.Done(message=f"No alerts of {what} for now.")


def _unmute(call: Call, *, whole_group: bool) -> common.Done:
    """Send alerts of an incident's detector again; of a group, those of every detector muted with it."""
    incident = call.store.find_incident(call.path["incident"])
    set_at = {
        it.detector: it.set_at for it in call.store.list_mutes(at=0.0) if it.agent_id == incident.agent_id
    }
    detectors = [incident.detector]
    if whole_group and incident.detector in set_at:
        detectors = [it for it, at in set_at.items() if at == set_at[incident.detector]]
    with call.store.transaction():
        was_muted = [call.store.unmute(incident.agent_id, detector) for detector in detectors]
        call.note("unmute", f"{', '.join(detectors)} of {incident.agent_id}")
    return common.Done(message="Alerts are sent again." if any(was_muted) else "It was not muted.")


def mark_false_alarm(call: Call) -> common.Done:
    """Mark an incident as a false alarm, with what its reason changes."""
    request: incidents.FalseAlarm = call.body
    chosen, now = _choose(call, whole_group=request.whole_group), time.time()
    with call.store.transaction():
        if request.reason == "polls":
            _declare_tool(call, chosen[0], request.tool_kind, now)
        for incident in chosen:
            if request.reason in {"level", "other"}:
                call.store.save_threshold(build_threshold(incident, at=now))
            call.store.review(incident.incident_id, "false_alarm", at=now, by=call.by)
        marked = _name([it.incident_id for it in chosen])
        call.note("false alarm", marked, f"{request.reason} {request.note}".strip())
    return common.Done(message=f"Marked as false alarm: {_count(chosen)}.")


def mark_right(call: Call) -> common.Done:
    """Mark an incident as right. A threshold that it had raised goes back."""
    request: incidents.Right = call.body
    chosen = [it.incident_id for it in _choose(call, whole_group=request.whole_group)]
    now = time.time()
    with call.store.transaction():
        for incident_id in chosen:
            call.store.drop_threshold(incident_id)
            call.store.review(incident_id, "confirmed", at=now, by=call.by)
        call.note("right", _name(chosen), request.note)
    return common.Done(message=f"Marked as right: {_count(chosen)}.")


def undo_mark(call: Call) -> common.Done:
    """Take back the mark on an incident and on those marked with it, and what the marks changed."""
    incident = call.store.find_incident(call.path["incident"])
    reviewed, marked = _list_changed_with(call, incident, "reviewed_at")
    with call.store.transaction():
        moved_back = sum(call.store.drop_threshold(it) for it in marked) > 0
        if incident.review == "false_alarm" and reviewed is not None:
            moved_back = _undeclare_tools(call, incident.agent_id, reviewed) or moved_back
        for incident_id in marked:
            call.store.review(incident_id, "")
        call.note("undo mark", _name(marked))
    if not incident.review and not moved_back:
        return common.Done(message="There was no mark to take back.")
    return common.Done(
        message=f"Took the mark back: {_count(marked)}."
        + (" What it changed is undone." if moved_back else "")
    )


def add_comment(call: Call) -> incidents.Comment:
    """Write a comment on an incident."""
    request: incidents.NewComment = call.body
    with call.store.transaction():
        made = call.store.add_comment(
            call.path["incident"], at=time.time(), author=call.by, content=request.text
        )
        call.note("comment", made.incident_id)
    return incidents.Comment(id=made.comment_id, by=made.author, at=made.at, text=made.content)


def change_baseline(call: Call) -> common.Done:
    """Freeze a baseline, let it learn again, or reset it."""
    request: agents.BaselineChange = call.body
    agent_id = call.find_agent()
    key = (agent_id, request.version, request.task_type)
    # Read and written in one transaction: a run that ends meanwhile must not be lost.
    with call.store.transaction():
        found = call.store.get_baseline(*key)
        if found is None:
            raise NotFoundError("There is no baseline of this version and type of task yet.")
        if request.action == "reset":
            call.store.reset_baseline(*key)
        else:
            frozen = structs.replace(found, is_frozen=request.action == "freeze")
            call.store.save_baseline(frozen, updated_at=time.time())
        call.note(f"{request.action} baseline", agent_id, f"{request.version} {request.task_type}".strip())
    return common.Done(message=_BASELINE_MESSAGES[request.action])


def exclude_run(call: Call) -> common.Done:
    """Leave a run out of baselines, or take it in again."""
    request: agents.ExcludeRun = call.body
    agent_id = call.find_agent()
    with call.store.reading() as connection:
        row = connection.execute(
            "SELECT run_id FROM runs WHERE id = ? AND agent = ?", (request.run, call.path["agent"])
        ).fetchone()
    if row is None:
        raise NotFoundError("There is no such run of this agent.")
    with call.store.transaction():
        call.store.exclude_run(agent_id, row[0], excluded=request.excluded)
        call.note("exclude run" if request.excluded else "include run", row[0])
    return common.Done(message="Excluded from baselines." if request.excluded else "Taken in again.")


def declare_tool(call: Call) -> common.Done:
    """Declare a tool of an agent; it holds from the next run on."""
    request: agents.Declare = call.body
    agent_id = call.find_agent()
    with call.store.transaction():
        call.store.mark_tool(
            ToolMark(
                agent_id=agent_id, tool=request.tool, kind=request.kind, set_by=call.by, set_at=time.time()
            )
        )
        call.note("declare tool", request.tool, request.kind or "none")
    if not request.kind:
        return common.Done(message="The declaration is taken back, from the next run on.")
    return common.Done(message=f"Declared as {request.kind}, from the next run on.")


def _choose(call: Call, *, whole_group: bool) -> list[Incident]:
    incident = call.store.find_incident(call.path["incident"])
    if not whole_group:
        return [incident]
    others = list_like(call.store, incident, _MOST_OF_GROUP, in_inbox_at=time.time())
    return [incident, *(it for it in others if it.incident_id != incident.incident_id)]


def _name(chosen: Sequence[str]) -> str:
    more = f" and {len(chosen) - 1} more" if len(chosen) > 1 else ""
    return f"{chosen[0]}{more}"


def _count(chosen: Sequence[object]) -> str:
    return "1 incident" if len(chosen) == 1 else f"{len(chosen):,} incidents"


def _list_changed_with(
    call: Call, incident: Incident, column: Literal["acknowledged_at", "reviewed_at"]
) -> tuple[float | None, list[str]]:
    """Return when an incident was marked, and the ids of all that were marked by the same request."""
    with call.store.reading() as connection:
        rows = connection.execute(
            f"SELECT o.incident_id, o.{column} FROM incidents i JOIN incidents o"  # noqa: S608 - our own
            " ON o.agent = i.agent AND o.kind = i.kind AND o.pattern = i.pattern"
            f" AND o.{column} = i.{column} WHERE i.incident_id = ?",
            (incident.incident_id,),
        ).fetchall()
    others = [found for found, _ in rows if found != incident.incident_id]
    return (rows[0][1] if rows else None), [incident.incident_id, *others]


def _undeclare_tools(call: Call, agent_id: str, at: float) -> bool:
    """Take back what a mark of this moment declared about tools; return whether there was any of it."""
    marks = [mark for mark in call.store.list_tool_marks(agent_id) if mark.set_at == at]
    for mark in marks:
        call.store.mark_tool(structs.replace(mark, kind=""))
    return bool(marks)


def _declare_tool(call: Call, incident: Incident, kind: agents.ToolKind, now: float) -> None:
    mark = ToolMark(
        agent_id=incident.agent_id, tool=find_tool(call, incident), kind=kind, set_by=call.by, set_at=now
    )
    call.store.mark_tool(mark)


def make_key(call: Call) -> settings.MadeKey:
    """Make an API key; its secret is shown once."""
    request: settings.NewKey = call.body
    expires_at = None if request.days is None else time.time() + request.days * _DAY_S
    scopes = tuple(dict.fromkeys(request.scopes))
    key, secret = call.context.access.make_key(request.name, scopes, expires_at)
    call.note("make key", f"{key.name} ({key.prefix}…)", " ".join(scopes))
    shown = settings.ApiKey(
        id=key.key_id,
        name=key.name,
        prefix=key.prefix,
        scopes=list(scopes),
        created_at=key.created_at,
        expires_at=key.expires_at,
        last_used_at=None,
    )
    return settings.MadeKey(key=shown, secret=secret)


def revoke_key(call: Call) -> common.Done:
    """Revoke an API key."""
    known = {key.key_id: f"{key.name} ({key.prefix}…)" for key in call.store.list_keys()}
    if not call.store.delete_key(call.path["id"]):
        raise NotFoundError("There is no such key.")
    call.note("revoke key", known.get(call.path["id"], str(call.path["id"])))
    return common.Done(message="The key is revoked.")


def prune(call: Call) -> settings.Pruned:
    """Delete what is older than the retention settings allow."""
    chosen, now = call.context.settings, time.time()
    counts = call.store.prune(
        payloads_before=_find_limit(now, chosen.retention_payload_days),
        runs_before=_find_limit(now, chosen.retention_run_days),
    )
    call.note("prune", f"{counts.runs} runs, {counts.payloads} payloads")
    return settings.Pruned(payloads=counts.payloads, runs=counts.runs, events=counts.events)


def test_channel(call: Call) -> settings.TestResult:
    """Send a test alert to the channel of the settings."""
    if not call.context.settings.alerts_webhook:
        raise SettingsError("No channel is set up: set alerts.webhook.")
    try:
        sent = call.context.send_test()
    except AddressRefusedError as exc:
        return settings.TestResult(sent=False, message=str(exc))
    call.note("test channel", sent.host)
    return settings.TestResult(sent=sent.ok, message=sent.error or f"{sent.host} took the test alert.")


def _find_limit(now: float, days: float) -> float | None:
    return now - days * _DAY_S if days else None
