"""The inbox: incidents grouped by agent, kind and pattern; the why card; precision per detector."""

# ruff: noqa: S608 - every piece of these queries is our own text; what comes from outside is bound

import heapq
import itertools
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from steadyhelm.errors import NotFoundError
from steadyhelm.findings import Kind
from steadyhelm.incidents import IN_INBOX_S, Incident, IncidentTab, Mute
from steadyhelm.server.agent_views import AgentViews
from steadyhelm.server.queries.inbox import name_inbox_tab, read_agent_inbox
from steadyhelm.server.queries.normal import MEASURES, read_ranges
from steadyhelm.server.queries.rows import (
    EARLIEST,
    INCIDENTS,
    find_first_step,
    to_incident_row,
)
from steadyhelm.server.records.common import AgentName, Figure, IncidentRow
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
_CLOSED_COUNTED: Final = 200
_MARKED_DAYS: Final = 90
_MIN_MARKS: Final = 5
_REVIEWS: Final = (
    "SELECT detector, count(*) FILTER (WHERE review = 'confirmed'),"
    " count(*) FILTER (WHERE review = 'false_alarm'), count(*) FILTER (WHERE review = '')"
    " FROM (SELECT detector, review FROM incidents WHERE last_at >= ?"
    " ORDER BY last_at DESC LIMIT 20000) latest"
    " GROUP BY detector ORDER BY detector"
)
_ALIKE: Final = (
    "SELECT o.incident_id FROM incidents i JOIN incidents o"
    " ON o.agent = i.agent AND o.kind = i.kind AND o.pattern = i.pattern"
)
_TABS: Final[tuple[IncidentTab, ...]] = ("open", "acknowledged", "muted", "closed")
_MEMBERS: Final = """
    SELECT i.id, i.agent, i.kind, i.pattern, i.detector, i.severity, i.review, i.acknowledged_at, i.last_at,
        i.opened_at, i.state
    FROM incidents i """
_OF_GROUP: Final = "WHERE i.review = '' AND i.agent = ? AND i.kind = ? AND i.pattern = ? AND i.last_at > ?"
_ONGOING: Final = f"{_MEMBERS}INDEXED BY incidents_open_groups {_OF_GROUP} AND i.state = 'open'"
_ENDED: Final = f"{_MEMBERS}INDEXED BY incidents_by_pattern {_OF_GROUP} AND i.state = 'closed'"
# An incident that is reviewed and old is in both.
_DEALT_WITH: Final = (
    "INDEXED BY incidents_reviewed WHERE i.review != ''",
    "INDEXED BY incidents_closed WHERE i.state = 'closed' AND i.last_at <= ?",
)
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
        now: The time.
    """

    def __init__(
        self, views: AgentViews, connection: Connection, query: Mapping[str, Any], now: float
    ) -> None:
        self._views = views
        self._connection = connection
        self._kinds = tuple(query.get("kind") or ())
        self._least = _find_rank(query.get("severity"))
        self._agents: Sequence[int] = query.get("agent") or ()
        self._extra = _select(query)
        self._now = now
        self._muted = views.read_mutes(connection, now)
        names = views.read_names(connection)
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
        mutes = self._find_mutes(agent)
        asked = ("tabs", self._kinds, self._least, mutes)
        return self._views.get(agent).keep(asked, self._now, lambda: self._sort_groups(agent, mutes))

    def _find_mutes(self, agent: int) -> tuple[Mute, ...]:
        return self._muted.get(self.names[agent], ())

    def _sort_groups(self, agent: int, mutes: Sequence[Mute]) -> tuple[Tabs, float]:
        inbox = read_agent_inbox(self._views, self._connection, agent, self._now)
        latest: dict[IncidentTab, dict[GroupKey, float]] = {name: {} for name in _TABS}
        for it in inbox.counts:
            if it.severity < self._least or (self._kinds and it.kind not in self._kinds):
                continue
            tab = name_inbox_tab(mutes, it.detector, it.severity, is_acknowledged=it.is_acknowledged)
            groups, key = latest[tab], (agent, it.kind, it.pattern)
            groups[key] = max(it.last_at, groups.get(key, it.last_at))
        tabs = {tab: [(-at, key) for key, at in groups.items()] for tab, groups in latest.items()}
        return tabs, inbox.until

    def read_closed(self) -> dict[GroupKey, list[Member]]:
        """Return the groups of the latest incidents that are reviewed, and of those that ended long ago."""
        rows = _read_dealt_with(self._connection, _MEMBERS, self._extra, self._now, CLOSED_READ)
        groups: dict[GroupKey, list[Member]] = {}
        for member in {row[0]: Member._make(row) for row in rows}.values():
            groups.setdefault((member.agent, member.kind, member.pattern), []).append(member)
        return groups

    def read_group(self, tab: IncidentTab, key: GroupKey) -> Group | None:
        """Return a group of this tab that is not closed; None when another process just took it away."""
        asked = ("group", tab, key, self._kinds, self._least, self._find_mutes(key[0]))
        return self._views.get(key[0]).keep(asked, self._now, lambda: self._build_group(tab, key))

    def _build_group(self, tab: IncidentTab, key: GroupKey) -> tuple[Group | None, float]:
        """Return a group, and until when it holds: its bars end with today."""
        mutes, since = self._find_mutes(key[0]), self._now - IN_INBOX_S
        rows = [
            *self._connection.execute(f"{_ONGOING}{self._extra}", (*key, EARLIEST)),
            *self._connection.execute(f"{_ENDED}{self._extra}", (*key, since)),
        ]
        members = []
        until = (self._now // _DAY_S + 1) * _DAY_S
        for member in map(Member._make, rows):
            is_acknowledged = member.acknowledged_at is not None
            if tab == name_inbox_tab(
                mutes, member.detector, member.severity, is_acknowledged=is_acknowledged
            ):
                members.append(member)
                if member.state == "closed":
                    until = min(until, member.last_at + IN_INBOX_S)
        if not members:
            return None, until
        return make_group(self._connection, members, self.names, self._now), until


def _read_dealt_with(
    connection: Connection, query: str, extra: str, now: float, limit: int
) -> list[tuple[Any, ...]]:
    """Return the latest incidents of the tab Closed; one may come twice."""
    newest = f"{extra} ORDER BY i.last_at DESC LIMIT {limit}"
    reviewed, ended = (f"{query}{condition}{newest}" for condition in _DEALT_WITH)
    return [*connection.execute(reviewed), *connection.execute(ended, (now - IN_INBOX_S,))]


def _find_rank(severity: str | None) -> int:
    return [it.value for it in SEVERITIES].index(severity) if severity else 0


def list_groups(views: AgentViews, query: Mapping[str, Any], limit: int) -> GroupList:
    """Return a page of the groups of one tab, the one with the latest finding first."""
    now = time.time()
    tab: IncidentTab = query.get("tab") or "open"
    with views.reading() as connection:
        inbox = Inbox(views, connection, query, now)
        after = _find_place(connection, query.get("after"))
        if tab == "closed":
            closed = inbox.read_closed()
            places = [(-max(it.last_at for it in members), key) for key, members in closed.items()]
            count = len(places)
            places = heapq.nsmallest(limit + 1, (it for it in places if after is None or it > after))
            found = [make_group(connection, closed[key], inbox.names, now) for _, key in places[:limit]]
        else:
            count = _count_closed(connection, now)
            places = inbox.list_places(tab, after, limit + 1)
            read = [inbox.read_group(tab, key) for _, key in places[:limit]]
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


def _count_closed(connection: Connection, now: float) -> int:
    query = "SELECT i.agent, i.kind, i.pattern FROM incidents i "
    return len(set(_read_dealt_with(connection, query, "", now, _CLOSED_COUNTED)))


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
        ongoing=sum(it.state == "open" for it in members),
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


def read_row(connection: Connection, incident_id: str, mutes: Sequence[Mute], now: float) -> IncidentRow:
    """Return one incident; raises NotFoundError."""
    row = connection.execute(
        f"{INCIDENTS.format(index='')} WHERE i.incident_id = ?", (incident_id,)
    ).fetchone()
    if row is None:
        raise NotFoundError("There is no such incident. Its run may have been deleted.")
    return to_incident_row(row, [mute for mute in mutes if mute.agent_id == row[2]], now)


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
    rows = connection.execute(_REVIEWS, (now - _MARKED_DAYS * _DAY_S,))
    return PrecisionList(
        detectors=[
            Precision(
                detector=detector,
                right=right,
                false=false,
                unmarked=unmarked,
                precision=round(right / (right + false), 4) if right + false >= _MIN_MARKS else None,
            )
            for detector, right, false, unmarked in rows
        ]
    )


def list_like(
    store: SQLStore, incident: Incident, limit: int, *, in_inbox_at: float | None = None
) -> list[Incident]:
    """Return the latest incidents of the same agent, kind and pattern, newest first.

    With `in_inbox_at`, those that are in the inbox at that time: not reviewed, and going on or seen lately.
    """
    where = Conditions().add("i.incident_id = ?", incident.incident_id)
    if in_inbox_at is not None:
        where.require("o.review = ''")
        where.add("(o.state = 'open' OR o.last_at > ?)", in_inbox_at - IN_INBOX_S)
    with store.reading() as connection:
        sql = f"{_ALIKE}{where} ORDER BY o.last_at DESC LIMIT ?"
        ids = connection.execute(sql, (*where.values, limit)).fetchall()
    return [store.find_incident(incident_id) for (incident_id,) in ids]
