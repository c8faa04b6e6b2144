"""What is in the inbox of an agent: incidents that nobody has reviewed, counted without reading each of them.

An incident is there while the drift goes on, and for some days after it was last seen. So what is read of an
agent is bounded by those days, and holds until the first of its incidents is older.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from steadyhelm.findings import Kind
from steadyhelm.incidents import IN_INBOX_S, IncidentTab, Mute, is_muted, name_tab
from steadyhelm.server.agent_views import AgentViews
from steadyhelm.server.queries.rows import EARLIEST
from steadyhelm.stores.database import Connection

_COUNTS: Final = """
    SELECT kind, pattern, detector, severity, CASE WHEN acknowledged_at IS NULL THEN 0 ELSE 1 END, count(*),
        max(last_at), min(last_at)
    FROM incidents INDEXED BY {index} WHERE state = '{state}' AND review = '' AND agent = ? AND last_at > ?
    GROUP BY 1, 2, 3, 4, 5"""
_ONGOING: Final = _COUNTS.format(state="open", index="incidents_open_groups")
_ENDED: Final = _COUNTS.format(state="closed", index="incidents_unreviewed")


class InboxCount(NamedTuple):
    """Incidents that are always in the same tab: how many, and when the first and the last was seen last."""

    kind: Kind
    pattern: str
    detector: str
    severity: int
    is_acknowledged: bool
    incidents: int
    last_at: float
    oldest_at: float


class AgentInbox(NamedTuple):
    """The incidents of an agent in the inbox, and until when they are there if nothing is written."""

    counts: list[InboxCount]
    until: float


class OpenIncidents(NamedTuple):
    """How many open incidents there are, and until when that holds if nothing is written."""

    by_severity: Counter[int]
    by_kind: Counter[Kind]
    until: float


def name_inbox_tab(
    mutes: Sequence[Mute], detector: str, severity: int, *, is_acknowledged: bool
) -> IncidentTab:
    """Return the tab of an incident that is in the inbox; `mutes` are those of its agent."""
    muted = is_muted(mutes, detector, severity)
    return name_tab("", is_current=True, is_acknowledged=is_acknowledged, is_muted=muted)


def read_agent_inbox(views: AgentViews, connection: Connection, agent: int, now: float) -> AgentInbox:
    """Return what is in the inbox of an agent; kept until the agent changes, or the oldest is too old."""

    def read() -> tuple[AgentInbox, float]:
        ended = list(map(InboxCount._make, connection.execute(_ENDED, (agent, now - IN_INBOX_S))))
        ongoing = map(InboxCount._make, connection.execute(_ONGOING, (agent, EARLIEST)))
        until = min((it.oldest_at for it in ended), default=float("inf")) + IN_INBOX_S
        return AgentInbox([*ended, *ongoing], until), until

    return views.get(agent).keep("inbox", now, read)


def read_open(views: AgentViews, connection: Connection, agent: int, now: float) -> OpenIncidents:
    """Return how many incidents of an agent nobody has dealt with yet."""
    name = views.read_names(connection).get(agent, "")
    return _read_open(views, connection, agent, views.read_mutes(connection, now).get(name, ()), now)


def _read_open(
    views: AgentViews, connection: Connection, agent: int, mutes: tuple[Mute, ...], now: float
) -> OpenIncidents:
    def read() -> tuple[OpenIncidents, float]:
        inbox = read_agent_inbox(views, connection, agent, now)
        opened = OpenIncidents(Counter(), Counter(), inbox.until)
        for it in inbox.counts:
            tab = name_inbox_tab(mutes, it.detector, it.severity, is_acknowledged=it.is_acknowledged)
            if tab == "open":
                opened.by_severity[it.severity] += it.incidents
                opened.by_kind[it.kind] += it.incidents
        return opened, inbox.until

    return views.get(agent).keep(("open", mutes), now, read)


def count_open(views: AgentViews, connection: Connection, now: float) -> Counter[int]:
    """Return how many incidents of all agents nobody has dealt with yet, by severity."""
    mutes = views.read_mutes(connection, now)

    def read() -> tuple[Counter[int], float]:
        of_agents = [
            _read_open(views, connection, agent, mutes.get(name, ()), now)
            for agent, name in views.read_names(connection).items()
        ]
        total: Counter[int] = Counter()
        for opened in of_agents:
            total.update(opened.by_severity)
        return total, min((it.until for it in of_agents), default=float("inf"))

    return views.keep(("open", tuple(mutes.items())), now, read)
