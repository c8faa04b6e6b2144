"""The inbox: incidents grouped by agent, kind and pattern; the why card; precision per detector."""

# ruff: noqa: S608 - every piece of these queries is our own text; what comes from outside is bound

import sqlite3
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from steadyhelm.errors import NotFoundError
from steadyhelm.findings import Kind
from steadyhelm.incidents import Incident, Mute
from steadyhelm.server.queries.normal import MEASURES, read_ranges
from steadyhelm.server.queries.rows import INCIDENTS, to_incident_row
from steadyhelm.server.records.common import AgentName, Figure, IncidentRow, IncidentTab
from steadyhelm.server.records.incidents import (
    Against,
    Comment,
    Group,
    GroupList,
    Precision,
    PrecisionList,
)
from steadyhelm.stores.sql import SEVERITIES, Conditions
from steadyhelm.stores.sqlite import SQLiteStore

_DAY_S: Final = 86_400.0
_DAYS: Final = 14
CLOSED_READ: Final = 2000
_OPEN_READ: Final = 20_000
_MARKED_DAYS: Final = 90
_LEAST_MARKS: Final = 5
_TABS: Final[tuple[IncidentTab, ...]] = ("open", "acknowledged", "muted", "closed")
LIGHT: Final = """
    SELECT i.incident_id, i.agent, i.kind, i.pattern, i.detector, i.severity, i.last_at, i.opened_at,
        i.acknowledged_at, i.state, i.opened_seq, i.last_seq, i.run
    FROM incidents i"""
_AGAINST: Final = (
    ("repeats", "repeated calls", ""),
    ("failed", "failed calls", ""),
    ("steps", "steps", ""),
    ("tokens", "tokens", ""),
    ("duration_s", "duration", "s"),
)


class Light(NamedTuple):
    """What grouping reads of an incident."""

    incident_id: str
    agent: int
    kind: Kind
    pattern: str
    detector: str
    severity: int
    last_at: float
    opened_at: float
    acknowledged_at: float | None
    state: str
    opened_seq: int
    last_seq: int
    run: int


def list_groups(store: SQLiteStore, query: Mapping[str, Any], limit: int) -> GroupList:
    """Return a page of the groups of one tab, the one with the latest finding first."""
    now = time.time()
    tab: IncidentTab = query.get("tab") or "open"
    mutes = store.list_mutes(at=now)
    with store.reading() as connection:
        names: dict[int, str] = dict(connection.execute("SELECT id, agent_id FROM agents"))
        muted = {(mute.agent_id, mute.detector): mute for mute in mutes}
        by_tab = _read_by_tab(connection, query, names, muted, with_closed=tab == "closed")
        groups = _group(by_tab[tab])
        if tab != "closed":
            totals = {name: len(_group(by_tab[name])) for name in _TABS[:3]}
            totals["closed"] = _count_closed(connection)
        else:
            totals = {name: len(_group(by_tab[name])) for name in _TABS}
        after = query.get("after")
        keys = list(groups)
        start = 0
        if after:
            ids = [groups[key][0].incident_id for key in keys]
            start = ids.index(after) + 1 if after in ids else len(ids)
        shown = keys[start : start + limit]
        found = [make_group(connection, groups[key], names, now) for key in shown]
    more = found[-1].newest if start + limit < len(keys) and found else None
    return GroupList(groups=found, next=more, totals=totals)


def _count_closed(connection: sqlite3.Connection) -> int:
    row = connection.execute(
        "SELECT count(*) FROM (SELECT DISTINCT agent, kind, pattern FROM (SELECT agent, kind, pattern"
        " FROM incidents WHERE state = 'closed' ORDER BY last_at DESC LIMIT 200))"
    ).fetchone()
    return int(row[0])


def _read_by_tab(
    connection: sqlite3.Connection,
    query: Mapping[str, Any],
    names: Mapping[int, str],
    muted: Mapping[tuple[str, str], Mute],
    *,
    with_closed: bool,
) -> dict[IncidentTab, list[Light]]:
    where = Conditions()
    if query.get("agent"):
        where.require(f"i.agent IN ({', '.join(str(int(key)) for key in query['agent'])})")
    if query.get("kind"):
        where.require(f"i.kind IN ({', '.join(repr(kind) for kind in query['kind'])})")
    if query.get("severity"):
        where.require(f"i.severity >= {[it.value for it in SEVERITIES].index(query['severity'])}")
    extra = f" AND {str(where).removeprefix(' WHERE ')}" if str(where) else ""
    newest = f"{extra} ORDER BY i.last_at DESC LIMIT"
    queries = [f"{LIGHT} INDEXED BY incidents_open WHERE i.state = 'open'{newest} {_OPEN_READ}"]
    if with_closed:
        queries.append(f"{LIGHT} WHERE i.state = 'closed'{newest} {CLOSED_READ}")
    by_tab: dict[IncidentTab, list[Light]] = {name: [] for name in _TABS}
    for sql in queries:
        for row in connection.execute(sql):
            light = Light._make(row)
            by_tab[_find_tab(light, names, muted)].append(light)
    return by_tab


def _find_tab(light: Light, names: Mapping[int, str], muted: Mapping[tuple[str, str], Mute]) -> IncidentTab:
    if light.state == "closed":
        return "closed"
    mute = muted.get((names.get(light.agent, ""), light.detector))
    if mute is not None and (mute.up_to is None or light.severity <= mute.up_to.rank):
        return "muted"
    return "open" if light.acknowledged_at is None else "acknowledged"


def _group(found: Sequence[Light]) -> dict[tuple[int, str, str], list[Light]]:
    groups: dict[tuple[int, str, str], list[Light]] = {}
    for light in found:
        groups.setdefault((light.agent, light.kind, light.pattern), []).append(light)
    return groups


def make_group(
    connection: sqlite3.Connection, members: Sequence[Light], names: Mapping[int, str], now: float
) -> Group:
    """Return a group of incidents, the newest of which comes first."""
    newest = members[0]
    today = int(now // _DAY_S)
    days = [0] * _DAYS
    for member in members:
        place = _DAYS - 1 - (today - int(member.last_at // _DAY_S))
        if 0 <= place < _DAYS:
            days[place] += 1
    (message,) = connection.execute(
        "SELECT substr(message, 1, 400) FROM incidents WHERE incident_id = ?", (newest.incident_id,)
    ).fetchone()
    return Group(
        newest=newest.incident_id,
        agent=AgentName(key=newest.agent, name=names.get(newest.agent, "")),
        kind=newest.kind,
        pattern=newest.pattern or newest.detector.replace("_", " "),
        message=message,
        detectors=sorted({it.detector for it in members}),
        severity=SEVERITIES[max(it.severity for it in members)],
        count=len(members),
        open=sum(it.state == "open" for it in members),
        first_at=min(it.opened_at for it in members),
        last_at=newest.last_at,
        days=days,
        first_step=newest.opened_seq + 1,
        last_step=newest.last_seq + 1,
        run=newest.run,
    )


def read_comments(store: SQLiteStore, incident_ids: Sequence[str]) -> list[Comment]:
    """Return the comments on these incidents, oldest first."""
    return [
        Comment(id=it.comment_id, by=it.author, at=it.at, text=it.content)
        for it in store.list_comments(incident_ids)
    ]


def read_row(connection: sqlite3.Connection, incident_id: str, mutes: Sequence[Mute]) -> IncidentRow:
    """Return one incident; raises NotFoundError."""
    row = connection.execute(
        f"{INCIDENTS.format(index='')} WHERE i.incident_id = ?", (incident_id,)
    ).fetchone()
    if row is None:
        raise NotFoundError("There is no such incident. Its run may have been deleted.")
    return to_incident_row(row, {(mute.agent_id, mute.detector): mute for mute in mutes})


def compare_run(connection: sqlite3.Connection, row: IncidentRow) -> list[Against]:
    """Return the figures of an incident's run beside what is normal for the agent."""
    names = [name for name, _, _ in _AGAINST]
    columns = ", ".join(MEASURES[name] for name in names)
    version, task_type, *values = connection.execute(
        f"SELECT version, task_type, {columns} FROM runs WHERE id = ?", (row.run,)
    ).fetchone()
    ranges = read_ranges(connection, row.agent.key, version, task_type, but=row.run)
    return [
        Against(label=label, unit=unit, figure=Figure(value=value, normal=ranges.get(name), limit=None))
        for (name, label, unit), value in zip(_AGAINST, values, strict=True)
        if value is not None
    ]


def read_precision(connection: sqlite3.Connection, now: float) -> PrecisionList:
    """Return how often each detector was marked right and false in 90 days."""
    rows = connection.execute(
        "SELECT detector, sum(review = 'confirmed'), sum(review = 'false_alarm'), sum(review = '')"
        " FROM (SELECT detector, review FROM incidents WHERE last_at >= ? ORDER BY last_at DESC LIMIT 20000)"
        " GROUP BY detector ORDER BY detector",
        (now - _MARKED_DAYS * _DAY_S,),
    )
    return PrecisionList(
        detectors=[
            Precision(
                detector=detector,
                right=right,
                false=false,
                unmarked=unmarked,
                precision=round(right / (right + false), 4) if right + false >= _LEAST_MARKS else None,
            )
            for detector, right, false, unmarked in rows
        ]
    )


def list_like(store: SQLiteStore, incident: Incident, limit: int) -> list[Incident]:
    """Return the latest incidents of the same agent, kind and pattern, newest first."""
    with store.reading() as connection:
        ids = connection.execute(
            "SELECT o.incident_id FROM incidents i JOIN incidents o"
            " ON o.agent = i.agent AND o.kind = i.kind AND o.pattern = i.pattern"
            " WHERE i.incident_id = ? ORDER BY o.last_at DESC LIMIT ?",
            (incident.incident_id, limit),
        ).fetchall()
    return [store.find_incident(incident_id) for (incident_id,) in ids]
