"""The why card of an incident: its sentence, evidence, what was said and what came of it."""

# ruff: noqa: S608 - every piece of these queries is our own text; what comes from outside is bound

import time
from collections.abc import Sequence
from typing import Any, Final

from steadyhelm.decisions import Intervention
from steadyhelm.errors import NotFoundError, SettingsError
from steadyhelm.incidents import Incident, IncidentVerdict, Mute
from steadyhelm.policy.alerting import build_threshold, describe_threshold
from steadyhelm.server.queries.incidents import (
    compare_run,
    make_group,
    read_comments,
    read_pattern,
    read_row,
)
from steadyhelm.server.queries.rows import ARROW, INCIDENTS, find_seqs, make_response, read_incidents
from steadyhelm.server.queries.series import read_score_at
from steadyhelm.server.queries.steps import make_payload
from steadyhelm.server.records.incidents import (
    EvidencePair,
    FalseAlarmReason,
    GroupDetail,
    IncidentDetail,
    IncidentJudged,
    Pair,
    RunOfGroup,
    Said,
)
from steadyhelm.server.records.runs import Payload
from steadyhelm.stores.database import Connection
from steadyhelm.stores.sql import name_level, name_response
from steadyhelm.stores.sql_store import SQLStore

_PAIRS: Final = 50
_RUNS_OF_GROUP: Final = 50
_SHOWN_BYTES: Final = 32 << 10
_CALLS: Final = """
    SELECT e.seq, n.name, e.call_hash, e.result_hash, e.failed FROM events e
    CROSS JOIN names n ON n.id = e.name
    WHERE e.run = ? AND e.type = 0 AND e.seq IN ({marks}) ORDER BY e.seq"""
_PAYLOAD: Final = f"""
    SELECT substr(p.input_json, 1, {_SHOWN_BYTES}), length(p.input_json),
        substr(p.output_json, 1, {_SHOWN_BYTES}), length(p.output_json), coalesce(p.error, '')
    FROM events e JOIN payloads p ON p.id = e.payload WHERE e.run = ? AND e.seq = ?"""


def read_incident(store: SQLStore, incident_id: str) -> IncidentDetail:
    """Return the why card of an incident; raises NotFoundError."""
    now = time.time()
    mutes = store.list_mutes(at=now)
    incident = store.find_incident(incident_id)
    with store.reading() as connection:
        row = read_row(connection, incident.incident_id, mutes, now)
        seqs = find_seqs(connection, row.run, incident)
        pairs = read_pairs(connection, row.run, seqs)
        said = [_describe(connection, row.run, it) for it in incident.interventions]
        detectors = connection.execute(
            "SELECT DISTINCT detector FROM findings WHERE run = ? AND kind = ? AND ts >= ? AND ts <= ?",
            (row.run, row.kind, incident.opened_at, incident.last_at),
        ).fetchall()
        (acknowledged_by, reviewed_by) = connection.execute(
            "SELECT acknowledged_by, reviewed_by FROM incidents WHERE incident_id = ?", (row.incident_id,)
        ).fetchone()
        (elsewhere,) = connection.execute(
            "SELECT count(*) FROM (SELECT 1 FROM incidents WHERE agent = ? AND kind = ? AND pattern ="
            " (SELECT pattern FROM incidents WHERE incident_id = ?) LIMIT 10001) alike",
            (row.agent.key, row.kind, row.incident_id),
        ).fetchone()
        against = compare_run(connection, row)
    declare = row.pattern.split(ARROW)[0] if row.kind == "loop" and pairs else ""
    marks = {mark.tool: mark.kind for mark in store.list_tool_marks(row.agent.name)}
    mute = next((it for it in mutes if (it.agent_id, it.detector) == (row.agent.name, row.detector)), None)
    return IncidentDetail(
        row=row,
        sentence=incident.message,
        advice=incident.suggested_action,
        hard_limit=incident.hard_limit,
        noticed_at=incident.opened_seq + 1,
        detectors=sorted({row.detector, *(name for (name,) in detectors)}),
        proof=[seq + 1 for seq in seqs],
        against=against,
        pairs=pairs,
        said=said,
        comments=read_comments(store, [row.incident_id]),
        declare=declare,
        declared=marks.get(declare, ""),
        muted_until=None if mute is None else mute.until,
        mute_ends="" if mute is None else describe_mute(mute),
        acknowledged_at=incident.acknowledged_at,
        acknowledged_by=acknowledged_by,
        reviewed_by=reviewed_by,
        elsewhere=max(0, elsewhere - 1),
        judged=None if incident.judged is None else _describe_verdict(incident.judged),
        false_alarm_changes=describe_false_alarm(incident, declare),
    )


def describe_false_alarm(incident: Incident, tool: str) -> dict[FalseAlarmReason, str]:
    """Return what a mark as false alarm changes, by its reason. Without a tool nothing can be declared."""
    try:
        level = describe_threshold(build_threshold(incident, at=0.0))
    except SettingsError as exc:
        level = str(exc)
    return {
        **({"polls": describe_declaration(tool, "poll")} if tool else {}),
        "new_task": "The incident is marked; the run may teach the baseline. Nothing else changes.",
        "level": level,
        "other": f"{level} Your words are kept in the audit log.",
    }


def describe_declaration(tool: str, kind: str) -> str:
    """Return what a declaration changes; an empty kind takes one back."""
    return f"{tool} is declared as {kind} for this agent." if kind else f"{tool} is not declared any more."


def _describe_verdict(judged: IncidentVerdict) -> IncidentJudged:
    return IncidentJudged(
        step=judged.seq + 1,
        label=judged.label,
        confidence=judged.confidence,
        quote=judged.quote,
        moved_from=judged.moved_from,
        moved_to=judged.moved_to,
        cost_usd=judged.cost_usd,
    )


def read_group(store: SQLStore, incident_id: str) -> GroupDetail:
    """Return the group an incident belongs to, with its runs and comments.

    A group may be in several tabs: what people do concerns the newest incident in the tab of this one.
    """
    now = time.time()
    mutes = store.list_mutes(at=now)
    with store.reading() as connection:
        row = connection.execute(
            "SELECT agent, kind, pattern FROM incidents WHERE incident_id = ?", (incident_id,)
        ).fetchone()
        if row is None:
            raise NotFoundError("There is no such incident. Its run may have been deleted.")
        condition = " WHERE i.agent = ? AND i.kind = ? AND i.pattern = ? ORDER BY i.last_at DESC LIMIT ?"
        members = read_pattern(connection, row)
        names = dict(connection.execute("SELECT id, agent_id FROM agents WHERE id = ?", row[:1]))
        rows = read_incidents(
            connection,
            f"{INCIDENTS.format(index='')}{condition}",
            (*row, _RUNS_OF_GROUP),
            mutes,
            now,
        )
        asked = read_row(connection, incident_id, mutes, now)
        marks = ", ".join(str(it.run) for it in rows)
        goals: dict[int, str] = dict(
            connection.execute(f"SELECT id, substr(goal, 1, 300) FROM runs WHERE id IN ({marks})")
        )
        group = make_group(connection, members, names, now)
    newest = next((it for it in rows if it.tab == asked.tab), asked)
    return GroupDetail(
        group=group,
        newest=read_incident(store, newest.incident_id),
        runs=[RunOfGroup(incident=it, goal=goals.get(it.run, "")) for it in rows],
        comments=read_comments(store, [it.incident_id for it in rows]),
    )


def describe_mute(mute: Mute) -> str:
    """Return when a mute ends, in words."""
    until = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(mute.until))
    if mute.up_to is not None:
        return f"when it gets worse than {mute.up_to.value.lower()}, at the latest {until}"
    if mute.version is not None:
        return f"with the next version after {mute.version or 'this one'}, at the latest {until}"
    return until


def read_pairs(connection: Connection, run: int, seqs: Sequence[int]) -> list[Pair]:
    """Return the pairs of consecutive calls of one tool among these places."""
    marks = ", ".join(str(int(seq)) for seq in seqs[: 2 * _PAIRS])
    last: dict[str, Sequence[Any]] = {}
    pairs = []
    for row in connection.execute(_CALLS.format(marks=marks), (run,)):
        before = last.get(row[1])
        last[row[1]] = row
        if before is not None:
            pairs.append(_make_pair(before, row))
    return pairs[:_PAIRS]


def _make_pair(before: Sequence[Any], row: Sequence[Any]) -> Pair:
    return Pair(
        first=before[0] + 1,
        second=row[0] + 1,
        tool=row[1],
        same_arguments=before[2] == row[2],
        same_result=before[3] == row[3],
        failed_first=bool(before[4]),
        failed_second=bool(row[4]),
    )


def read_evidence(store: SQLStore, incident_id: str, place: int | None) -> EvidencePair:
    """Return the payloads of a pair; the first that differs unless one is named."""
    incident = store.find_incident(incident_id)
    with store.reading() as connection:
        row = read_row(connection, incident.incident_id, (), time.time())
        pairs = read_pairs(connection, row.run, find_seqs(connection, row.run, incident))
        pair = _choose(pairs, place, incident)
        first = connection.execute(_PAYLOAD, (row.run, pair.first - 1)).fetchone()
        second = connection.execute(_PAYLOAD, (row.run, pair.second - 1)).fetchone()
    return EvidencePair(
        pair=pair,
        arguments=(_take(first, 0), _take(second, 0)),
        results=(_take(first, 2), _take(second, 2)),
        errors=("" if first is None else first[4], "" if second is None else second[4]),
    )


def _choose(pairs: Sequence[Pair], place: int | None, incident: Incident) -> Pair:
    if place is None:
        return next((it for it in pairs if not it.same_arguments), None) or _require(pairs, 0, incident)
    return _require(pairs, place, incident)


def _require(pairs: Sequence[Pair], place: int, incident: Incident) -> Pair:
    if not 0 <= place < len(pairs):
        raise NotFoundError(f"Incident {incident.incident_id} has no pair of calls {place}.")
    return pairs[place]


def _take(row: Sequence[Any] | None, place: int) -> Payload | None:
    return None if row is None else make_payload(row[place], row[place + 1])


def _describe(connection: Connection, run: int, intervention: Intervention) -> Said:
    before = read_score_at(connection, run, intervention.seq)
    after = read_score_at(connection, run, intervention.settled_seq)
    is_known = before is not None and after is not None
    made = make_response(intervention) if intervention.said else None
    return Said(
        step=intervention.seq + 1,
        at=intervention.timestamp,
        response=name_response(intervention) or name_level(intervention),
        delivered=intervention.said and not intervention.not_carried_out,
        guidance=intervention.guidance,
        outcome=intervention.outcome if made is None else made.outcome,
        not_carried_out=intervention.not_carried_out,
        because=list(intervention.because),
        before=before,
        after=after,
        tokens_saved=intervention.tokens_saved,
        measure=f"Drift {before:.2f} → {after:.2f}" if is_known else "",
    )
