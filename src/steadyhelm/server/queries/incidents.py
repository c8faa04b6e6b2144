"""The inbox: incidents grouped by agent, kind and pattern; the why card; precision per detector."""

# ruff: noqa: S608 - every piece of these queries is our own text; what comes from outside is bound

import heapq
import itertools
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from steadyhelm.errors import NotFoundError
from steadyhelm.findings import Kind
from steadyhelm.incidents import Incident, Mute
from steadyhelm.server.agent_views import AgentViews
from steadyhelm.server.queries.normal import MEASURES, read_ranges
from steadyhelm.server.queries.rows import INCIDENTS, find_first_step, name_tab, to_incident_row
from steadyhelm.server.records.common import AgentName, Figure, IncidentRow, IncidentTab
from steadyhelm.server.records.incidents import (
    Against,
    Comment,
    Group,
    GroupList,
    Precision,
    PrecisionList,
)
from steadyhelm.stores.database import Connection
from steadyhelm.stores.sql import SEVERITIES, Conditions
from steadyhelm.stores.sql_store import SQLStore

_DAY_S: Final = 86_400.0
_DAYS: Final = 14
CLOSED_READ: Final = 2000
_MARKED_DAYS: Final = 90
_LEAST_MARKS: Final = 5
_TABS: Final[tuple[IncidentTab, ...]] = ("open", "acknowledged", "muted", "closed")
_GROUPS: Final = """
    SELECT i.kind, i.pattern, i.detector, i.severity, i.review,
        max(CASE WHEN i.acknowledged_at IS NULL THEN i.last_at END),
        max(CASE WHEN i.acknowledged_at IS NOT NULL THEN i.last_at END)
    FROM incidents i INDEXED BY incidents_open_groups WHERE i.state = 'open' AND i.agent = ?
    GROUP BY i.kind, i.pattern, i.detector, i.severity, i.review"""
_MEMBERS: Final = """
    SELECT i.id, i.agent, i.kind, i.pattern, i.detector, i.severity, i.review, i.acknowledged_at, i.last_at,
        i.opened_at, i.state
    FROM incidents i """
_NEWEST: Final = """
    SELECT i.incident_id, substr(i.message, 1, 400), i.opened_seq, i.last_seq, i.run, r.run_id, i.evidence
    FROM incidents i CROSS JOIN runs r ON r.id = i.run WHERE i.id = ?"""
_AGAINST: Final = (
    ("repeats", "Repeated calls", ""),
    ("failed", "Failed calls", ""),
    ("steps", "Steps", ""),
    ("tokens", "Tokens", ""),
    ("duration_s", "Duration", "s"),
)


class Member(NamedTuple):
    """What grouping reads of an incident."""

    id: int
    agent: int
    kind: Kind
    pattern: str
    detector: str
    severity: int
    review: str
    acknowledged_at: float | None
    last_at: float
    opened_at: float
    state: str


GroupKey = tuple[int, str, str]
"""Agent, kind and pattern."""


Place = tuple[float, GroupKey]
"""Where a group is in its tab: minus the time of its latest finding, and its key."""
Tabs = dict[IncidentTab, list[Place]]


class Inbox:
    """The groups of each tab, as they are kept for each agent.

    Args:
        views: What is kept of the agents.
        connection: Where the rest is read.
        query: The filters.
        mutes: Which incidents are muted now.
    """

    def __init__(
        self, views: AgentViews, connection: Connection, query: Mapping[str, Any], mutes: Sequence[Mute]
    ) -> None:
        self._views = views
        self._connection = connection
        self._kinds = tuple(query.get("kind") or ())
        self._least = _find_rank(query.get("severity"))
        self._agents: Sequence[int] = query.get("agent") or ()
        self._extra = _select(query)
        self._muted: dict[str, tuple[Mute, ...]] = {}
        for mute in mutes:
            self._muted[mute.agent_id] = (*self._muted.get(mute.agent_id, ()), mute)
        names: dict[int, str] = views.keep("names", 0.0, lambda: (_read_names(connection), float("inf")))
        self.names = {key: names[key] for key in self._agents if key in names} if self._agents else names
        self._tabs = [self._read_tabs(agent) for agent in self.names]

    def count(self, tab: IncidentTab) -> int:
        """Return how many groups a tab has."""
        return sum(len(tabs[tab]) for tabs in self._tabs)

    def list_places(self, tab: IncidentTab, after: Place | None, limit: int) -> list[Place]:
        """Return the first groups of a tab, those behind a place, latest first."""
        places = itertools.chain.from_iterable(tabs[tab] for tabs in self._tabs)
        return heapq.nsmallest(limit, places if after is None else (it for it in places if it > after))

    def _read_tabs(self, agent: int) -> Tabs:
        view, mutes = self._views.get(agent), self._find_mutes(agent)
        asked = ("tabs", self._kinds, self._least, mutes)
        return view.keep(asked, 0.0, lambda: (self._sort_groups(agent, mutes), float("inf")))

    def _find_mutes(self, agent: int) -> tuple[Mute, ...]:
        return self._muted.get(self.names[agent], ())

    def _sort_groups(self, agent: int, mutes: Sequence[Mute]) -> Tabs:
        latest: dict[IncidentTab, dict[GroupKey, float]] = {name: {} for name in _TABS}
        for kind, pattern, detector, severity, review, *times in self._connection.execute(_GROUPS, (agent,)):
            if severity < self._least or (self._kinds and kind not in self._kinds):
                continue
            is_muted = _is_muted(mutes, detector, severity)
            for acknowledged_at, last_at in zip((None, times[1]), times, strict=True):
                if last_at is not None:
                    groups = latest[name_tab("open", review, acknowledged_at, is_muted=is_muted)]
                    key = (agent, kind, pattern)
                    groups[key] = max(last_at, groups.get(key, 0.0))
        return {tab: [(-at, key) for key, at in groups.items()] for tab, groups in latest.items()}

    def read_closed(self) -> dict[GroupKey, list[Member]]:
        """Return the groups of the latest closed incidents, and of open ones that were false alarms."""
        newest = f"{self._extra} ORDER BY i.last_at DESC LIMIT {CLOSED_READ}"
        groups: dict[GroupKey, list[Member]] = {}
        for condition in (
            "INDEXED BY incidents_closed WHERE i.state = 'closed'",
            "INDEXED BY incidents_done WHERE i.state = 'open' AND i.review = 'false_alarm'",
        ):
            for member in map(Member._make, self._connection.execute(f"{_MEMBERS}{condition}{newest}")):
                key = (member.agent, member.kind, member.pattern)
                groups.setdefault(key, []).append(member)
        return groups

    def read_group(self, tab: IncidentTab, key: GroupKey, now: float) -> Group | None:
        """Return a group of this tab that is not closed; None when another process just took it away."""
        agent, today = key[0], int(now // _DAY_S)
        asked = ("group", tab, key, self._kinds, self._least, self._find_mutes(agent))
        return self._views.get(agent).keep(
            asked, now, lambda: (self._build_group(tab, key, now), (today + 1) * _DAY_S)
        )

    def _build_group(self, tab: IncidentTab, key: GroupKey, now: float) -> Group | None:
        mutes = self._find_mutes(key[0])
        rows = self._connection.execute(
            f"{_MEMBERS}INDEXED BY incidents_open_groups WHERE i.agent = ? AND i.kind = ? AND i.pattern = ?"
            f" AND i.state = 'open'{self._extra}",
            key,
        )
        members = [it for it in map(Member._make, rows) if _find_tab(it, mutes) == tab]
        return make_group(self._connection, members, self.names, now) if members else None


def _find_tab(member: Member, mutes: Sequence[Mute]) -> IncidentTab:
    is_muted = _is_muted(mutes, member.detector, member.severity)
    return name_tab(member.state, member.review, member.acknowledged_at, is_muted=is_muted)


def _is_muted(mutes: Sequence[Mute], detector: str, severity: int) -> bool:
    return any(it.detector == detector and (it.up_to is None or severity <= it.up_to.rank) for it in mutes)


def _read_names(connection: Connection) -> dict[int, str]:
    return dict(connection.execute("SELECT id, agent_id FROM agents").fetchall())


def _find_rank(severity: str | None) -> int:
    return [it.value for it in SEVERITIES].index(severity) if severity else 0


def list_groups(views: AgentViews, store: SQLStore, query: Mapping[str, Any], limit: int) -> GroupList:
    """Return a page of the groups of one tab, the one with the latest finding first."""
    now = time.time()
    tab: IncidentTab = query.get("tab") or "open"
    mutes = store.list_mutes(at=now)
    with views.reading() as connection:
        inbox = Inbox(views, connection, query, mutes)
        after = _find_place(connection, query.get("after"))
        if tab == "closed":
            closed = inbox.read_closed()
            places = [(-max(it.last_at for it in members), key) for key, members in closed.items()]
            count = len(places)
            places = heapq.nsmallest(limit + 1, (it for it in places if after is None or it > after))
            found = [make_group(connection, closed[key], inbox.names, now) for _, key in places[:limit]]
        else:
            count = _count_closed(connection)
            places = inbox.list_places(tab, after, limit + 1)
            read = [inbox.read_group(tab, key, now) for _, key in places[:limit]]
            found = [it for it in read if it is not None]
        totals = {name: inbox.count(name) for name in _TABS} | {"closed": count}
    more = f"{found[-1].last_at!r}_{found[-1].newest}" if len(places) > limit and found else None
    return GroupList(groups=found, next=more, totals=totals)


def _find_place(connection: Connection, after: str | None) -> Place | None:
    """Return the place of the group that `next` named: where it was, wherever it is now."""
    if not after:
        return None
    last_at, _, incident_id = after.partition("_")
    row = connection.execute(
        "SELECT agent, kind, pattern FROM incidents WHERE incident_id = ?", (incident_id,)
    ).fetchone()
    return -float(last_at), (0, "", "") if row is None else (row[0], row[1], row[2])


def _count_closed(connection: Connection) -> int:
    row = connection.execute(
        "SELECT count(*) FROM (SELECT DISTINCT agent, kind, pattern FROM (SELECT agent, kind, pattern"
        " FROM incidents INDEXED BY incidents_closed WHERE state = 'closed'"
        " ORDER BY last_at DESC LIMIT 200) latest) groups_of_them"
    ).fetchone()
    return int(row[0])


def _select(query: Mapping[str, Any]) -> str:
    """Return the conditions of the filters, to be added to others."""
    where = Conditions()
    if query.get("agent"):
        where.require(f"i.agent IN ({', '.join(str(int(key)) for key in query['agent'])})")
    if query.get("kind"):
        where.require(f"i.kind IN ({', '.join(repr(kind) for kind in query['kind'])})")
    if query.get("severity"):
        where.require(f"i.severity >= {_find_rank(query['severity'])}")
    return f" AND {str(where).removeprefix(' WHERE ')}" if str(where) else ""


def read_pattern(connection: Connection, key: GroupKey) -> list[Member]:
    """Return the latest incidents of a group, open and closed."""
    rows = connection.execute(
        f"{_MEMBERS}WHERE i.agent = ? AND i.kind = ? AND i.pattern = ? ORDER BY i.last_at DESC LIMIT ?",
        (*key, CLOSED_READ),
    )
    return list(map(Member._make, rows))


def make_group(
    connection: Connection, members: Sequence[Member], names: Mapping[int, str], now: float
) -> Group:
    """Return a group of incidents."""
    newest = max(members, key=lambda it: (it.last_at, it.id))
    today = int(now // _DAY_S)
    days = [0] * _DAYS
    for member in members:
        place = _DAYS - 1 - (today - int(member.last_at // _DAY_S))
        if 0 <= place < _DAYS:
            days[place] += 1
    incident_id, message, opened_seq, last_seq, run, run_id, evidence = connection.execute(
        _NEWEST, (newest.id,)
    ).fetchone()
    return Group(
        newest=incident_id,
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
        first_step=find_first_step(run_id, evidence, opened_seq),
        last_step=last_seq + 1,
        run=run,
    )


def read_comments(store: SQLStore, incident_ids: Sequence[str]) -> list[Comment]:
    """Return the comments on these incidents, oldest first."""
    return [
        Comment(id=it.comment_id, by=it.author, at=it.at, text=it.content)
        for it in store.list_comments(incident_ids)
    ]


def read_row(connection: Connection, incident_id: str, mutes: Sequence[Mute]) -> IncidentRow:
    """Return one incident; raises NotFoundError."""
    row = connection.execute(
        f"{INCIDENTS.format(index='')} WHERE i.incident_id = ?", (incident_id,)
    ).fetchone()
    if row is None:
        raise NotFoundError("There is no such incident. Its run may have been deleted.")
    return to_incident_row(row, {(mute.agent_id, mute.detector): mute for mute in mutes})


def compare_run(connection: Connection, row: IncidentRow) -> list[Against]:
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


def read_precision(connection: Connection, now: float) -> PrecisionList:
    """Return how often each detector was marked right and false in 90 days."""
    rows = connection.execute(
        "SELECT detector, count(*) FILTER (WHERE review = 'confirmed'),"
        " count(*) FILTER (WHERE review = 'false_alarm'), count(*) FILTER (WHERE review = '')"
        " FROM (SELECT detector, review FROM incidents WHERE last_at >= ?"
        " ORDER BY last_at DESC LIMIT 20000) latest"
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


def list_like(store: SQLStore, incident: Incident, limit: int) -> list[Incident]:
    """Return the latest incidents of the same agent, kind and pattern, newest first."""
    with store.reading() as connection:
        ids = connection.execute(
            "SELECT o.incident_id FROM incidents i JOIN incidents o"
            " ON o.agent = i.agent AND o.kind = i.kind AND o.pattern = i.pattern"
            " WHERE i.incident_id = ? ORDER BY o.last_at DESC LIMIT ?",
            (incident.incident_id, limit),
        ).fetchall()
    return [store.find_incident(incident_id) for (incident_id,) in ids]
