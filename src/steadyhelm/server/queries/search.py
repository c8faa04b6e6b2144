"""The search: runs, agents and tools that begin with a text."""

# ruff: noqa: S608 - every piece of these queries is our own text; what comes from outside is bound

from typing import Any, Final

from steadyhelm.server.records.common import AgentName
from steadyhelm.server.records.overview import SearchHit, SearchResults
from steadyhelm.store import JUDGE_ACCOUNT
from steadyhelm.stores.database import Connection
from steadyhelm.stores.sql import SEVERITIES

_HITS: Final = 20
_HITS_OF_KIND: Final = 8
_LAST: Final = "\U0010ffff"


def search(connection: Connection, text: str) -> SearchResults:
    """Return runs, agents and tools that begin so."""
    hits: list[SearchHit] = []
    bounds = (text, text + _LAST, _HITS_OF_KIND)
    for key, name in connection.execute(
        "SELECT id, agent_id FROM agents WHERE agent_id >= ? AND agent_id < ? AND agent_id != ?"
        " ORDER BY agent_id LIMIT ?",
        (text, text + _LAST, JUDGE_ACCOUNT, _HITS_OF_KIND),
    ):
        hits.append(_make_hit("agent", name, AgentName(key=key, name=name)))
    for column in ("run_id", "goal"):
        rows = connection.execute(
            f"SELECT r.id, r.run_id, substr(r.goal, 1, 200), a.id, a.agent_id, r.started_at, r.top_severity"
            f" FROM runs r JOIN agents a ON a.id = r.agent WHERE r.{column} >= ? AND r.{column} < ?"
            f" AND r.{column} != '' ORDER BY r.{column} LIMIT ?",
            bounds,
        )
        for run, run_id, goal, agent, name, at, severity in rows:
            shown = goal if column == "goal" else run_id
            hits.append(
                _make_hit("run", shown, AgentName(key=agent, name=name), run=run, at=at, severity=severity)
            )
    for (name,) in connection.execute(
        "SELECT name FROM names WHERE name >= ? AND name < ?"
        " AND EXISTS (SELECT 1 FROM run_tools WHERE name = names.id) ORDER BY name LIMIT ?",
        bounds,
    ):
        hits.append(_make_hit("tool", name, None))
    return SearchResults(query=text, hits=hits[:_HITS])


def _make_hit(
    kind: Any,
    text: str,
    agent: AgentName | None,
    *,
    run: int | None = None,
    at: float | None = None,
    severity: int = -1,
) -> SearchHit:
    shown = SEVERITIES[severity] if severity >= 0 else None
    return SearchHit(kind=kind, text=text, agent=agent, run=run, severity=shown, at=at)
