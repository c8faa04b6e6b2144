"""The agent page: transitions, metrics against normal, baseline, declarations, budgets by day."""

from typing import Annotated, Literal

from msgspec import Meta

from steadyhelm.server.records.common import Count, Key, Range, Record, Request
from steadyhelm.server.records.overview import AgentRow

ToolKind = Literal["poll", "read", "write", "batch", "schedule", "idempotent", ""]
BaselineState = Literal["learning", "calibrated", "frozen"]


class Baseline(Record, frozen=True, kw_only=True):
    """A baseline of the agent: one per version and type of task."""

    version: str
    task_type: str
    state: BaselineState
    progress: str
    clean_runs: int
    required_runs: int
    updated_at: float | None
    excluded_runs: int


class Declaration(Record, frozen=True, kw_only=True):
    """What a tool of this agent is declared as. `by` and `at` are empty for one from the settings."""

    tool: str
    kind: ToolKind
    calls: int
    source: Literal["settings", "page", ""]
    by: str
    at: float | None


class DayBudget(Record, frozen=True, kw_only=True):
    """What one day (of UTC) cost, against the daily budget where there is one. `day` is `2026-11-16`."""

    day: str
    runs: int
    tokens: int
    cost_usd: float | None
    limit_tokens: int | None
    limit_cost_usd: float | None


class AgentDetail(Record, frozen=True, kw_only=True):
    """The agent page apart from its charts. `days` covers the last 14 days, oldest first."""

    agent: AgentRow
    versions: list[str]
    task_types: list[str]
    baselines: list[Baseline]
    declarations: list[Declaration]
    days: list[DayBudget]
    open_by_kind: list[Count]


class Transition(Record, frozen=True, kw_only=True):
    """How often `to` follows `from_`: probabilities, None where `from_` was not seen there.

    `more` and `rarer` are set where the difference passes the test and is at least 0.1.
    """

    from_: str
    to: str
    baseline: float | None
    now: float | None
    baseline_count: int
    now_count: int
    more: bool
    rarer: bool


class Node(Record, frozen=True, kw_only=True):
    """An action of the graph. Shares of all steps; `other` groups what is beyond 25 actions."""

    name: str
    baseline_share: float
    now_share: float


class Transitions(Record, frozen=True, kw_only=True):
    """The graph of which action follows which: the baseline against the latest `now_runs` runs.

    `nodes` are ordered by share, `(start)` marks the beginning of a run.
    """

    version: str
    task_type: str
    baseline_runs: int
    now_runs: int
    nodes: list[Node]
    edges: list[Transition]


class RunPoint(Record, frozen=True, kw_only=True):
    """One run of a metric, oldest first."""

    run: Key
    run_id: str
    at: float
    version: str
    value: float | None
    clean: bool


class Metric(Record, frozen=True, kw_only=True):
    """One metric against normal.

    Names: steps, tokens, cost_usd, duration_s, drift, failed, repeated_share, reply_length.
    """

    name: str
    title: str
    unit: str
    normal: Range | None
    points: list[RunPoint]


class Metrics(Record, frozen=True, kw_only=True):
    """Eight metrics of the latest 60 runs."""

    metrics: list[Metric]


class BaselineChange(Request, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Freeze, let learn again, or reset the baseline of a version and type of task."""

    action: Literal["freeze", "unfreeze", "reset"]
    version: str = ""
    task_type: str = ""


class ExcludeRun(Request, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Leave a run out of baselines, or take it in again. A baseline that learnt it is not changed back."""

    run: Key
    excluded: bool = True


class Declare(Request, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Declare a tool of the agent; an empty kind takes the declaration back."""

    tool: Annotated[str, Meta(min_length=1, max_length=500)]
    kind: ToolKind
