"""Findings and incidents, and what people say about them."""

# ruff: noqa: S608 - every piece of these queries is our own text; what comes from outside is bound

import heapq
import sqlite3
from typing import Any, Final

import msgspec

from steadyhelm.decisions import Intervention
from steadyhelm.errors import NotFoundError
from steadyhelm.findings import DriftEvent, Severity
from steadyhelm.incidents import Incident, IncidentState, Mute, Review, Threshold
from steadyhelm.store import KeptIntervention
from steadyhelm.stores.conditions import Conditions, beginning_with, candidates, unicode
from steadyhelm.stores.timeline import decoded
from steadyhelm.stores.writing import JUDGED

SEVERITIES: Final = tuple(Severity)
_FINDINGS: Final = """
    SELECT a.agent_id, r.run_id, f.detector, f.kind, f.severity, f.score, f.message, f.suggested_action, f.ts,
        f.event_id, f.context_json
    FROM findings f CROSS JOIN runs r ON r.id = f.run CROSS JOIN agents a ON a.id = f.agent"""
_INCIDENTS: Final = """
    SELECT i.incident_id, a.agent_id, r.run_id, i.detector, i.kind, i.severity, i.peak, i.message,
        i.suggested_action, i.opened_at, i.opened_seq, i.last_at, i.last_seq, i.state, i.closed_at,
        i.findings, i.hard_limit, i.review, i.acknowledged_at, i.evidence
    FROM incidents i {index} CROSS JOIN runs r ON r.id = i.run CROSS JOIN agents a ON a.id = i.agent"""
_INCIDENT_FIELDS: Final = (
    *("incident_id", "agent_id", "run_id", "detector", "kind", "severity", "peak", "message"),
    *("suggested_action", "opened_at", "opened_seq", "last_at", "last_seq", "state", "closed_at", "findings"),
    *("hard_limit", "review", "acknowledged_at"),
)
_evidence: Final = msgspec.msgpack.Decoder(tuple[tuple[str, ...], tuple[Intervention, ...]])


def _of(table: str, agent_id: str | None, run_id: str | None) -> Conditions:
    """The conditions for one agent, one run, or both; whichever is narrower leads to the index."""
    where = Conditions()
    if run_id is None:
        agent = "(SELECT id FROM agents WHERE agent_id = ?)"
        return where.add(f"{table}.agent = {agent}", agent_id)
    where.add(f"{table}.run IN (SELECT id FROM runs WHERE run_id = ?)", run_id)
    return where.add("a.agent_id = ?", agent_id)


def drift_events(
    connection: sqlite3.Connection,
    agent_id: str | None,
    run_id: str | None,
    severity: Severity | None,
    since: float | None,
    limit: int,
) -> list[DriftEvent]:
    """Findings, newest first."""
    where = _of("f", agent_id, run_id).add("f.ts >= ?", since)
    where.add("f.severity >= ?", severity and severity.rank)
    rows = connection.execute(
        f"{_FINDINGS}{where} ORDER BY f.ts DESC, f.id DESC LIMIT ?", (*where.values, limit)
    )
    return [_finding(row) for row in rows]


def _finding(row: tuple[Any, ...]) -> DriftEvent:
    agent_id, run_id, detector, kind, severity, score, message, suggested_action, ts, event_id, context = row
    evidence = decoded(context)
    return DriftEvent(
        agent_id=agent_id,
        run_id=run_id,
        detector=detector,
        kind=kind,
        severity=SEVERITIES[severity],
        score=score,
        message=message,
        suggested_action=suggested_action,
        timestamp=ts,
        event_id=event_id,
        context=evidence if isinstance(evidence, dict) else {},
    )


def incidents(
    connection: sqlite3.Connection,
    agent_id: str | None,
    run_id: str | None,
    state: IncidentState | None,
    detector: str | None,
    severity: Severity | None,
    since: float | None,
    limit: int,
) -> list[Incident]:
    """Incidents, the one with the latest finding first; `since` leaves out what was over before."""
    where = _of("i", agent_id, run_id).add("i.last_at >= ?", since).add("i.detector = ?", detector)
    where.add("i.severity >= ?", severity and severity.rank)
    index = ""
    if state == "open":
        # Written out, not given as a value: only then does SQLite know that the partial index will do.
        where.require("i.state = 'open'")
        # However many incidents an agent has had, few are open.
        index = "" if run_id is not None else "INDEXED BY incidents_open"
    else:
        where.add("i.state = ?", state)
    query = f"{_INCIDENTS.format(index=index)}{where} ORDER BY i.last_at DESC, i.id DESC LIMIT ?"
    return [_incident(row) for row in connection.execute(query, (*where.values, limit))]


def _incident(row: tuple[Any, ...]) -> Incident:
    fields = dict(zip(_INCIDENT_FIELDS, row[:-1], strict=True))
    event_ids, interventions = _evidence.decode(row[-1])
    fields |= {"severity": SEVERITIES[fields["severity"]], "hard_limit": bool(fields["hard_limit"])}
    return Incident(**fields, event_ids=event_ids, interventions=interventions)


def interventions(
    connection: sqlite3.Connection, agent_id: str | None, since: float | None, limit: int
) -> list[KeptIntervention]:
    """Answers to incidents, newest first.

    Incidents are read in the order of their latest finding, and no answer is later than that: those whose
    latest finding is older than every answer already found cannot add anything.
    """
    where = _of("i", agent_id, None).add("i.last_at >= ?", since)
    query = f"{_INCIDENTS.format(index='')}{where} ORDER BY i.last_at DESC, i.id DESC"
    newest: list[tuple[float, int, KeptIntervention]] = []
    read = 0
    for incident in map(_incident, connection.execute(query, where.values)):
        if len(newest) >= limit and (not newest or incident.last_at < newest[0][0]):
            break
        for kept in _kept(incident):
            read += 1
            at = kept.intervention.timestamp
            if since is None or at >= since:
                heapq.heappush(newest, (at, -read, kept))
        while len(newest) > limit:
            heapq.heappop(newest)
    return [kept for _, _, kept in sorted(newest, reverse=True)]


def _kept(incident: Incident) -> list[KeptIntervention]:
    return [
        KeptIntervention(
            incident_id=incident.incident_id,
            agent_id=incident.agent_id,
            run_id=incident.run_id,
            kind=incident.kind,
            detector=incident.detector,
            intervention=answer,
            review=incident.review,
        )
        for answer in reversed(incident.interventions)
    ]


def find_incident(connection: sqlite3.Connection, incident_id: str) -> Incident:
    """The one incident with this id, or with an id that begins so."""
    prefix = unicode(incident_id)
    query = f"{_INCIDENTS.format(index='')} WHERE i.incident_id = ?"
    row = connection.execute(query, (prefix,)).fetchone()
    if row is None:
        count, first = beginning_with(connection, "incidents", "incident_id", prefix) if prefix else (0, [])
        if count != 1:
            raise NotFoundError(candidates("incident", prefix, count, first))
        row = connection.execute(query, (first[0],)).fetchone()
    return _incident(row)


def acknowledge(connection: sqlite3.Connection, incident_id: str, at: float) -> None:
    """Somebody has seen it."""
    found = find_incident(connection, incident_id)
    connection.execute(
        "UPDATE incidents SET acknowledged_at = ? WHERE incident_id = ?", (at, found.incident_id)
    )


def review(connection: sqlite3.Connection, incident_id: str, verdict: Review) -> None:
    """Somebody says whether it was right: that also decides whether its run may teach the baseline."""
    found = find_incident(connection, incident_id)
    connection.execute("UPDATE incidents SET review = ? WHERE incident_id = ?", (verdict, found.incident_id))
    (run,) = connection.execute(
        "SELECT run FROM incidents WHERE incident_id = ?", (found.incident_id,)
    ).fetchone()
    connection.execute(JUDGED, (run,))


def mute(connection: sqlite3.Connection, muted: Mute) -> None:
    """Replace an earlier mute of the same detector."""
    row = (muted.agent_id, muted.detector, muted.until, muted.set_at)
    connection.execute("REPLACE INTO mutes (agent_id, detector, until, set_at) VALUES (?, ?, ?, ?)", row)


def unmute(connection: sqlite3.Connection, agent_id: str, detector: str) -> bool:
    """Alerts again; whether it was muted at all."""
    gone = connection.execute("DELETE FROM mutes WHERE agent_id = ? AND detector = ?", (agent_id, detector))
    return gone.rowcount > 0


def mutes(connection: sqlite3.Connection, at: float) -> list[Mute]:
    """Mutes that have not ended by then."""
    rows = connection.execute(
        "SELECT agent_id, detector, until, set_at FROM mutes WHERE until > ? ORDER BY agent_id, detector",
        (at,),
    )
    return [
        Mute(agent_id=agent_id, detector=detector, until=until, set_at=set_at)
        for agent_id, detector, until, set_at in rows
    ]


def thresholds(connection: sqlite3.Connection, agent_id: str | None) -> list[Threshold]:
    """Moved thresholds that nobody took back, newest last."""
    where = Conditions().add("agent_id = ?", agent_id)
    rows = connection.execute(
        f"SELECT agent_id, detector, min_score, incident_id, set_at FROM thresholds{where}"
        " ORDER BY set_at, agent_id, detector, incident_id",
        where.values,
    )
    return [Threshold(**dict(zip(Threshold.__struct_fields__, row, strict=True))) for row in rows]


def save_threshold(connection: sqlite3.Connection, moved: Threshold) -> None:
    """Move a threshold; the same incident moves it once, however often it is saved."""
    row = (moved.agent_id, moved.detector, moved.incident_id, moved.min_score, moved.set_at)
    connection.execute(
        "REPLACE INTO thresholds (agent_id, detector, incident_id, min_score, set_at) VALUES (?, ?, ?, ?, ?)",
        row,
    )


def drop_threshold(connection: sqlite3.Connection, incident_id: str) -> bool:
    """Take back the move that an incident caused; whether there was one."""
    return connection.execute("DELETE FROM thresholds WHERE incident_id = ?", (incident_id,)).rowcount > 0
