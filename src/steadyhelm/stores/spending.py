"""What agents spend in each quarter of an hour, over all their runs, and what users granted them."""

# ruff: noqa: S608 - every piece of these queries is our own text; what comes from outside is bound

from collections.abc import Sequence
from typing import Final

from steadyhelm.sink import DailyGrant, to_unicode
from steadyhelm.store import SpendingStore
from steadyhelm.store_rows import AgentSpending
from steadyhelm.stores.batch import TOOL_CODE, Batch, EventRow
from steadyhelm.stores.database import Connection, StorePart
from steadyhelm.stores.sql import AGENT_ROW_ID

QUARTER_HOUR_S: Final = 900
_LATEST_S: Final = 1e12
# Beyond it a sum is no longer exact, and would in the end exceed the integers of a column.
_MAX_SUM: Final = 2**53
_ADD_SPENDING: Final = f"""
    INSERT INTO spending VALUES (?, ?, ?, ?, ?) ON CONFLICT (agent, quarter_hour) DO UPDATE SET
        steps = spending.steps + excluded.steps,
        tokens = min(spending.tokens + excluded.tokens, {_MAX_SUM}),
        cost_usd = spending.cost_usd + excluded.cost_usd"""
_ADD_AGENT: Final = "INSERT INTO agents (agent_id) VALUES (?) ON CONFLICT DO NOTHING"
_ADD_GRANT: Final = f"""
    INSERT INTO daily_grants (agent, grant_id, at, run_id, steps, tokens, cost_usd, reason)
    VALUES ({AGENT_ROW_ID}, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (agent, grant_id) DO NOTHING"""
_SELECT_SPENT: Final = """
    SELECT agent, sum(steps) AS steps, sum(tokens) AS tokens, sum(cost_usd) AS cost_usd, 0 AS granted_steps,
        0 AS granted_tokens, 0.0 AS granted_cost_usd
    FROM spending WHERE quarter_hour >= :first AND quarter_hour < :last {agent} GROUP BY agent"""
_SELECT_GRANTED: Final = """
    SELECT agent, 0, 0, 0.0, sum(steps), sum(tokens), sum(cost_usd)
    FROM daily_grants WHERE at >= :since AND at < :until {agent} GROUP BY agent"""
_COLUMNS: Final = AgentSpending.__struct_fields__
# The places of what is summed in the row of an event.
_TYPE_COLUMN: Final = 2
_TIME_COLUMN: Final = 4
_TOKENS_COLUMN: Final = 5
_COST_COLUMN: Final = 7

_Sums = dict[tuple[int, int], tuple[int, int, float]]
"""Steps, tokens and dollars by agent and quarter of an hour."""


class SQLSpending(StorePart, SpendingStore):
    """A store of spending in a database."""

    def list_spending(
        self, *, since: float, until: float, agent_id: str | None = None
    ) -> list[AgentSpending]:
        """Return what each agent spent or was granted from one time to another, by agent."""
        # With the agent named first the primary key finds its rows.
        only = "" if agent_id is None else "AND agent = (SELECT id FROM agents WHERE agent_id = :agent_id)"
        sums = ", ".join(f"sum({name})" for name in _COLUMNS[1:])
        both = f"{_SELECT_SPENT.format(agent=only)} UNION ALL {_SELECT_GRANTED.format(agent=only)}"
        query = (
            f"SELECT a.agent_id, {sums} FROM ({both}) s JOIN agents a ON a.id = s.agent"
            " GROUP BY a.id ORDER BY a.agent_id"
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


def write_spending(connection: Connection, batch: Batch) -> None:
    """Add what the new events of a batch spent to the quarters of an hour they happened in."""
    if not batch.events:
        return
    times = [row[_TIME_COLUMN] for row in batch.events]
    quarter_hour = find_quarter_hour(min(times))
    # Most batches lie within one quarter of an hour, and then the totals of their runs are the sums.
    is_simple = quarter_hour == find_quarter_hour(max(times)) and not _has_negative(batch.events)
    sums = _sum_totals(batch, quarter_hour) if is_simple else _sum_events(batch)
    rows = [(*key, steps, min(tokens, _MAX_SUM), cost) for key, (steps, tokens, cost) in sorted(sums.items())]
    connection.executemany(_ADD_SPENDING, rows)


def _has_negative(events: Sequence[EventRow]) -> bool:
    costs = [row[_COST_COLUMN] for row in events]
    known = [cost for cost in costs if cost is not None]
    return min([row[_TOKENS_COLUMN] for row in events]) < 0 or (bool(known) and min(known) < 0)


def _sum_totals(batch: Batch, quarter_hour: int) -> _Sums:
    sums: _Sums = {}
    for totals in batch.totals.values():
        _add(sums, (totals.cached.agent, quarter_hour), totals.tool_calls, totals.tokens, totals.cost_usd)
    return sums


def _sum_events(batch: Batch) -> _Sums:
    agents = {totals.run: totals.cached.agent for totals in batch.totals.values()}
    sums: _Sums = {}
    for row in batch.events:
        key = (agents[row[0]], find_quarter_hour(row[_TIME_COLUMN]))
        _add(
            sums,
            key,
            row[_TYPE_COLUMN] == TOOL_CODE,
            max(0, row[_TOKENS_COLUMN]),
            max(0.0, row[_COST_COLUMN] or 0.0),
        )
    return sums


def _add(sums: _Sums, key: tuple[int, int], steps: int, tokens: int, cost_usd: float) -> None:
    if not steps and not tokens and not cost_usd:
        return
    before = sums.get(key, (0, 0, 0.0))
    sums[key] = (before[0] + steps, before[1] + tokens, before[2] + cost_usd)


def write_grants(connection: Connection, grants: Sequence[DailyGrant]) -> None:
    """Store what users granted; a grant that is stored already is left unchanged."""
    for grant in sorted(grants, key=lambda it: (it.agent_id, it.grant_id)):
        connection.execute(_ADD_AGENT, (grant.agent_id,))
        row = (
            *(grant.agent_id, grant.grant_id, grant.timestamp, grant.run_id),
            *(grant.steps, grant.tokens, grant.cost_usd, grant.reason),
        )
        connection.execute(_ADD_GRANT, row)


def delete_spending(connection: Connection, before: float) -> None:
    """Delete what was spent and granted before a time."""
    connection.execute("DELETE FROM spending WHERE quarter_hour < ?", (find_quarter_hour(before),))
    connection.execute("DELETE FROM daily_grants WHERE at < ?", (before,))
    connection.execute("DELETE FROM agent_days WHERE day < ? AND runs = 0", (int(before // 86_400) - 1,))


def find_quarter_hour(at: float) -> int:
    """Return the number of the quarter of an hour since 1970 that a time is in; 0 for a time that is none."""
    return int(at // QUARTER_HOUR_S) if 0.0 <= at < _LATEST_S else 0
