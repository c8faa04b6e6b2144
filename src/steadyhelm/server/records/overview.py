"""The overview page, and the search in the top bar."""

from typing import Literal

from steadyhelm.findings import Severity
from steadyhelm.server.records.common import AgentName, Count, Figure, IncidentRow, Key, Record, RunRow

AgentState = Literal["drifting", "unreviewed", "learning", "silent", "healthy"]
"""drifting: an incident from medium goes on, or nobody has dealt with one of the last run; unreviewed: open
incidents of earlier runs; silent: no run for 7 days; learning: too few clean runs. The first that holds."""


class AgentRow(Record, frozen=True, kw_only=True):
    """One agent of the overview.

    `reason` says why it is in its state. `learnt_runs` of `required_runs` are clean runs of its newest
    baseline. `runs`, `spend` (dollars) and `tokens` are those of the days that were asked for; for one day
    their normal range is that of its days before, and the limit of `spend` its daily budget.
    `drift_days` has the mean of the runs' highest drift scores per day, oldest first, for the last 7 days,
    None for a day without runs; `drift_p95` is what is normal. `drift_now` is the score of its latest run.
    `open_incidents` by severity, from CRITICAL to LOW, those above 0 only.
    """

    key: Key
    name: str
    state: AgentState
    reason: str
    version: str
    learnt_runs: int
    required_runs: int
    runs: Figure
    running: int
    drift_days: list[float | None]
    drift_p95: float | None
    drift_now: float | None
    open_incidents: list[Count]
    spend: Figure
    tokens: int
    last_run: Key | None
    last_at: float


class Overview(Record, frozen=True, kw_only=True):
    """Everything on the overview.

    Days are days of UTC, the present one included: `days` of them were asked for. `runs`, `spend` and
    `tokens` are the sums of all agents; for one day their normal range is that of the 30 days before.
    `runs_before` counts the same number of days before these. What is before yesterday may be a minute old.
    `spend_forecast_usd` is what today will have cost at its end if the rest of it is as the rest of the last
    7 days was; None while no cost is known. `responses` counts those of the days; with `responses_capped`
    there are more. `lost` counts all lost records. `waiting` are runs that wait for somebody, `needs_you`
    open incidents from high; 5 together at most. `agents` holds at most 200, in the order of the page;
    `agents_total` says how many there are. `empty` is true while nothing was ever recorded: `database` is
    then the path that is read.
    """

    now: float
    days: int
    empty: bool
    database: str
    runs: Figure
    runs_before: int
    agents_drifting: int
    agents_total: int
    open_incidents: int
    responses: int
    responses_capped: bool
    response_outcomes: list[Count]
    spend: Figure
    spend_forecast_usd: float | None
    tokens: int
    lost: int
    waiting: list[RunRow]
    needs_you: list[IncidentRow]
    agents: list[AgentRow]


class SearchHit(Record, frozen=True, kw_only=True):
    """One result: a run whose id or goal begins so, an agent, or a tool with the agents that use it."""

    kind: Literal["run", "agent", "tool"]
    text: str
    agent: AgentName | None
    run: Key | None
    severity: Severity | None
    at: float | None


class SearchResults(Record, frozen=True, kw_only=True):
    """At most 20 results of a prefix search over run ids, goals, agents and tools."""

    query: str
    hits: list[SearchHit]
