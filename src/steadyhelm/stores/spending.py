"""What agents spend in each quarter of an hour, over all their runs, and what users granted them."""

# ruff: noqa: S608 - every piece of these queries is our own text; what comes from outside is bound

import sqlite3
from collections.abc import Sequence
from typing import Final

from steadyhelm.sink import DailyGrant, to_unicode
from steadyhelm.store import AgentSpending, SpendingStore
from steadyhelm.stores.batch import TOOL_CODE, Batch
from steadyhelm.stores.connections import StorePart
from steadyhelm.stores.sql import AGENT_ROW_ID

QUARTER_HOUR_S: Final = 900
_LATEST_S: Final = 1e12
# Beyond it a sum is no longer exact, and would in the end exceed the integers of a column.
_MAX_SUM: Final = 2**53
_ADD_SPENDING: Final = f"""
    INSERT INTO spending VALUES (?, ?, ?, ?, ?) ON CONFLICT (agent, quarter_hour) DO UPDATE SET
        steps = steps + excluded.steps, tokens = min(tokens + excluded.tokens, {_MAX_SUM}),
        cost_usd = cost_usd + excluded.cost_usd"""
_ADD_AGENT: Final = "INSERT INTO agents (agent_id) VALUES (?) ON CONFLICT DO NOTHING"
_ADD_GRANT: Final = f"""
    INSERT INTO daily_grants (agent, grant_id, at, run_id, steps, tokens, cost_usd, reason)
    VALUES ({AGENT_ROW_ID}, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (agent, grant_id) DO NOTHING"""
_SPENT: Final = """
    SELECT agent, sum(steps) AS steps, sum(tokens) AS tokens, sum(cost_usd) AS cost_usd, 0 AS granted_steps,
        0 AS granted_tokens, 0.0 AS granted_cost_usd
    FROM spending WHERE quarter_hour >= :first AND quarter_hour < :last {agent} GROUP BY agent"""
_GRANTED: Final = """
    SELECT agent, 0, 0, 0.0, sum(steps), sum(tokens), sum(cost_usd)
    FROM daily_grants WHERE at >= :since AND at < :until {agent} GROUP BY agent"""
_COLUMNS: Final = AgentSpending.__struct_fields__


class SQLSpending(StorePart, SpendingStore):
    """A store of spending in a database."""

    def list_spending(
        self, *, since: float, until: float, agent_id: str | None = None
    ) -> list[AgentSpending]:
        """Return what each agent spent or was granted from one time to another, by agent."""
        # With the agent named first the primary key finds its rows.
        only = "" if agent_id is None else "AND agent = (SELECT id FROM agents WHERE agent_id = :agent_id)"
        sums = ", ".join(f"sum({name})" for name in _COLUMNS[1:])
        both = f"{_SPENT.format(agent=only)} UNION ALL {_GRANTED.format(agent=only)}"
        query = (
            f"SELECT a.agent_id, {sums} FROM ({both}) JOIN agents a ON a.id = agent"
            " GROUP BY agent ORDER BY a.agent_id"
        )
        values = {
            "first": find_quarter_hour(since),
            "last": find_quarter_hour(until),
            "since": since,
            "until": until,
            "agent_id": None if agent_id is None else to_unicode(agent_id),
        }
        with self._connections.reading() as connection:
            rows = connection.execute(query, values)
            return [AgentSpending(**dict(zip(_COLUMNS, row, strict=True))) for row in rows]


def write_spending(connection: sqlite3.Connection, batch: Batch) -> None:
    """Add what the new events of a batch spent to the quarters of an hour they happened in."""
    agents = {totals.run: totals.cached.agent for totals in batch.totals.values()}
    sums: dict[tuple[int, int], list[float]] = {}
    for run, _, code, _, at, tokens, _, cost_usd, *_ in batch.events:
        spends = code == TOOL_CODE or tokens > 0 or cost_usd
        if not spends:
            continue
        key = (agents[run], find_quarter_hour(at))
        spent = sums.get(key)
        if spent is None:
            spent = sums[key] = [0, 0, 0.0]
        spent[0] += code == TOOL_CODE
        spent[1] += max(0, tokens)
        spent[2] += max(0.0, cost_usd or 0.0)
    rows = [(*key, steps, min(tokens, _MAX_SUM), cost) for key, (steps, tokens, cost) in sums.items()]
    connection.executemany(_ADD_SPENDING, rows)


def write_grants(connection: sqlite3.Connection, grants: Sequence[DailyGrant]) -> None:
    """Store what users granted; a grant that is stored already is left unchanged."""
    for grant in grants:
        connection.execute(_ADD_AGENT, (grant.agent_id,))
        row = (
            *(grant.agent_id, grant.grant_id, grant.timestamp, grant.run_id),
            *(grant.steps, grant.tokens, grant.cost_usd, grant.reason),
        )
        connection.execute(_ADD_GRANT, row)


def delete_spending(connection: sqlite3.Connection, before: float) -> None:
    """Delete what was spent and granted before a time."""
    connection.execute("DELETE FROM spending WHERE quarter_hour < ?", (find_quarter_hour(before),))
    connection.execute("DELETE FROM daily_grants WHERE at < ?", (before,))


def find_quarter_hour(at: float) -> int:
    """Return the number of the quarter of an hour since 1970 that a time is in; 0 for a time that is none."""
    return int(at // QUARTER_HOUR_S) if 0.0 <= at < _LATEST_S else 0
