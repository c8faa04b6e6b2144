"""The agent page: baselines, declarations, budgets by day, metrics and transitions."""

# ruff: noqa: S608 - every piece of these queries is our own text; what comes from outside is bound

import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from steadyhelm.baselines import BaselineStats
from steadyhelm.errors import NotFoundError
from steadyhelm.people import ToolMark
from steadyhelm.server.agent_views import AgentViews
from steadyhelm.server.queries.inbox import read_open
from steadyhelm.server.queries.normal import MEASURES, read_ranges
from steadyhelm.server.queries.overview import DAY_S, Period, read_agent_row
from steadyhelm.server.records.agents import (
    AgentDetail,
    Baseline,
    BaselineState,
    DayBudget,
    Declaration,
    Metric,
    Metrics,
    Node,
    RunPoint,
    Transition,
    Transitions,
)
from steadyhelm.server.records.common import Count
from steadyhelm.settings import Settings
from steadyhelm.stores.database import Connection
from steadyhelm.stores.sql_store import SQLStore

START: Final = "(start)"
OTHER: Final = "other"
_DAYS: Final = 14
_METRIC_RUNS: Final = 60
_NOW_RUNS: Final = 20
_NOW_STEPS: Final = 4000
_MOST_NODES: Final = 25
_MOST_EDGES: Final = 400
_LEAST_DIFFERENCE: Final = 0.1
_Z: Final = 2.576
_TITLES: Final = (
    ("steps", "Steps", ""),
    ("tokens", "Tokens", ""),
    ("cost_usd", "Cost", "$"),
    ("duration_s", "Duration", "s"),
    ("drift", "Peak drift", ""),
    ("failed", "Failed calls", ""),
    ("repeated_share", "Repeated share", "share"),
    ("reply_length", "Reply length", "characters"),
)
_SPENT_BY_DAY: Final = (
    "SELECT day, runs, tokens, cost_usd FROM agent_days"
    " WHERE agent = (SELECT id FROM agents WHERE agent_id = ?) AND day > ?"
)


def read_agent_name(connection: Connection, key: int) -> str:
    """Return an agent's name; raises NotFoundError."""
    row = connection.execute("SELECT agent_id FROM agents WHERE id = ?", (key,)).fetchone()
    if row is None:
        raise NotFoundError("There is no such agent. It may have been deleted.")
    return str(row[0])


def read_agent(
    views: AgentViews, store: SQLStore, settings: Settings, key: int, limit_cost_usd: float | None
) -> AgentDetail:
    """Return the agent page apart from its charts."""
    now = time.time()
    with views.reading() as connection:
        name = read_agent_name(connection, key)
        row = connection.execute("SELECT id, agent_id, last_at FROM agents WHERE id = ?", (key,)).fetchone()
        agent = read_agent_row(views, connection, row, Period(now, 1, limit_cost_usd))
        recent = connection.execute(
            "SELECT version, task_type FROM runs WHERE agent = ? ORDER BY started_at DESC LIMIT 200", (key,)
        ).fetchall()
        updated = {
            (version, task): (at, excluded)
            for version, task, at, excluded in connection.execute(
                "SELECT version, task_type, updated_at, (SELECT count(*) FROM runs r WHERE r.agent = b.agent"
                " AND r.excluded = 1) FROM baselines b WHERE agent = ? LIMIT 100",
                (key,),
            )
        }
        tools = connection.execute(
            "SELECT n.name, sum(t.calls) FROM run_tools t CROSS JOIN names n ON n.id = t.name WHERE t.run IN"
            " (SELECT id FROM runs WHERE agent = ? ORDER BY started_at DESC LIMIT 50)"
            " GROUP BY n.name ORDER BY 2 DESC, 1 LIMIT 100",
            (key,),
        ).fetchall()
        kinds = read_open(views, connection, key, now).by_kind
    return AgentDetail(
        agent=agent,
        versions=list(dict.fromkeys(version for version, _ in recent))[:20],
        task_types=list(dict.fromkeys(task for _, task in recent))[:20],
        baselines=[_to_baseline(it, updated) for it in store.list_baselines(name)],
        declarations=_list_declarations(store, settings, name, tools),
        days=_read_days(store, name, now, limit_cost_usd),
        open_by_kind=[
            Count(name=kind, count=count)
            for kind, count in sorted(kinds.items(), key=lambda it: (-it[1], it[0]))
        ],
    )


def _to_baseline(baseline: BaselineStats, updated: Mapping[tuple[str, str], tuple[float, int]]) -> Baseline:
    at, excluded = updated.get((baseline.version, baseline.task_type), (None, 0))
    state: BaselineState = "learning"
    if baseline.is_frozen:
        state = "frozen"
    elif baseline.is_calibrated:
        state = "calibrated"
    return Baseline(
        version=baseline.version,
        task_type=baseline.task_type,
        state=state,
        progress=baseline.progress,
        clean_runs=baseline.calibration_runs,
        required_runs=baseline.required_runs,
        updated_at=at or None,
        excluded_runs=excluded,
    )


def _list_declarations(
    store: SQLStore, settings: Settings, agent_id: str, tools: Sequence[tuple[str, int]]
) -> list[Declaration]:
    marks = {mark.tool: mark for mark in store.list_tool_marks(agent_id)}
    calls = dict(tools)
    return [
        _read_declaration(tool, calls.get(tool, 0), marks.get(tool), settings.tools.get(tool, {}))
        for tool in dict.fromkeys((*calls, *marks, *settings.tools))
    ]


def _read_declaration(
    tool: str, calls: int, mark: ToolMark | None, options: Mapping[str, Any]
) -> Declaration:
    """Return what is declared about a tool: a mark on the page comes before the settings."""
    if mark is not None:
        kind: Any = mark.kind
        return Declaration(tool=tool, kind=kind, calls=calls, source="page", by=mark.set_by, at=mark.set_at)
    kind = options.get("kind", "")
    return Declaration(tool=tool, kind=kind, calls=calls, source="settings" if kind else "", by="", at=None)


def _read_days(store: SQLStore, agent_id: str, now: float, limit_cost_usd: float | None) -> list[DayBudget]:
    today = int(now // DAY_S)
    with store.reading() as connection:
        found: dict[int, tuple[int, int, float]] = {
            day: (runs, tokens, cost)
            for day, runs, tokens, cost in connection.execute(_SPENT_BY_DAY, (agent_id, today - _DAYS))
        }
    days = range(today - _DAYS + 1, today + 1)
    return [_make_day(day, *found.get(day, (0, 0, 0.0)), limit_cost_usd) for day in days]


def _make_day(day: int, runs: int, tokens: int, cost_usd: float, limit_cost_usd: float | None) -> DayBudget:
    return DayBudget(
        day=time.strftime("%Y-%m-%d", time.gmtime(day * DAY_S)),
        runs=runs,
        tokens=tokens,
        cost_usd=round(cost_usd, 6) or None,
        limit_tokens=None,
        limit_cost_usd=limit_cost_usd,
    )


def read_metrics(connection: Connection, key: int) -> Metrics:
    """Return eight metrics of the latest runs, beside what is normal for the newest version."""
    read_agent_name(connection, key)
    columns = ", ".join(MEASURES[name] for name, _, _ in _TITLES)
    rows = connection.execute(
        f"SELECT id, run_id, started_at, version, task_type, teaches, {columns} FROM runs WHERE agent = ?"
        " AND state = 'ended' ORDER BY started_at DESC LIMIT ?",
        (key, _METRIC_RUNS),
    ).fetchall()[::-1]
    ranges = read_ranges(connection, key, rows[-1][3], rows[-1][4]) if rows else {}
    metrics = []
    for place, (name, title, unit) in enumerate(_TITLES):
        points = [_to_point(row, 6 + place) for row in rows]
        metrics.append(Metric(name=name, title=title, unit=unit, normal=ranges.get(name), points=points))
    return Metrics(metrics=metrics)


def _to_point(row: Sequence[Any], place: int) -> RunPoint:
    run, run_id, at, version, _, teaches = row[:6]
    return RunPoint(run=run, run_id=run_id, at=at, version=version, value=row[place], clean=bool(teaches))


def read_transitions(store: SQLStore, key: int, version: str | None, task_type: str | None) -> Transitions:
    """Return which action follows which: the baseline against the latest runs."""
    with store.reading() as connection:
        name = read_agent_name(connection, key)
        latest = connection.execute(
            "SELECT version, task_type FROM runs WHERE agent = ? ORDER BY started_at DESC LIMIT 1", (key,)
        ).fetchone() or ("", "")
        version = latest[0] if version is None else version
        task_type = latest[1] if task_type is None else task_type
        runs = connection.execute(
            "SELECT id FROM runs WHERE agent = ? AND version = ? AND task_type = ?"
            " ORDER BY started_at DESC LIMIT ?",
            (key, version, task_type, _NOW_RUNS),
        ).fetchall()
        now = _count_transitions(connection, [run for (run,) in runs])
    stats = store.get_baseline(name, version, task_type)
    before: Counter[tuple[str, str]] = Counter()
    for source, following in (stats.transitions if stats is not None else {}).items():
        for target, count in following.items():
            before[source or START, target] += count
    kept = _choose_nodes(before, now)
    before, now = _fold(before, kept), _fold(now, kept)
    return Transitions(
        version=version,
        task_type=task_type,
        baseline_runs=0 if stats is None else stats.calibration_runs,
        now_runs=len(runs),
        nodes=_make_nodes(before, now),
        edges=_make_edges(before, now),
    )


def _count_transitions(connection: Connection, runs: Sequence[int]) -> Counter[tuple[str, str]]:
    counts: Counter[tuple[str, str]] = Counter()
    for run in runs:
        last = START
        for (name,) in connection.execute(
            "SELECT n.name FROM events e CROSS JOIN names n ON n.id = e.name WHERE e.run = ? AND e.type = 0"
            " ORDER BY e.seq LIMIT ?",
            (run, _NOW_STEPS // _NOW_RUNS),
        ):
            counts[last, name] += 1
            last = name
    return counts


def _choose_nodes(*counts: Mapping[tuple[str, str], int]) -> set[str]:
    shares: Counter[str] = Counter()
    for one in counts:
        total = sum(one.values()) or 1
        for (_, target), count in one.items():
            shares[target] += count / total  # type: ignore[assignment]
    most = [name for name, _ in shares.most_common()]
    return set(most if len(most) <= _MOST_NODES else most[: _MOST_NODES - 1])


def _fold(counts: Mapping[tuple[str, str], int], kept: set[str]) -> Counter[tuple[str, str]]:
    folded: Counter[tuple[str, str]] = Counter()
    for (source, target), count in counts.items():
        folded[
            source if source in kept or source == START else OTHER, target if target in kept else OTHER
        ] += count
    return folded


def _make_nodes(before: Mapping[tuple[str, str], int], now: Mapping[tuple[str, str], int]) -> list[Node]:
    shares = [_share(before), _share(now)]
    names = sorted(
        {*shares[0], *shares[1]}, key=lambda it: (-shares[0].get(it, 0) - shares[1].get(it, 0), it)
    )
    nodes = [
        Node(name=it, baseline_share=shares[0].get(it, 0.0), now_share=shares[1].get(it, 0.0)) for it in names
    ]
    has_start = any(source == START for counts in (before, now) for source, _ in counts)
    return [*nodes, *([Node(name=START, baseline_share=0.0, now_share=0.0)] if has_start else [])]


def _share(counts: Mapping[tuple[str, str], int]) -> dict[str, float]:
    total = sum(counts.values())
    sums: Counter[str] = Counter()
    for (_, target), count in counts.items():
        sums[target] += count
    return {name: round(count / total, 4) for name, count in sums.items()}


def _make_edges(
    before: Mapping[tuple[str, str], int], now: Mapping[tuple[str, str], int]
) -> list[Transition]:
    totals = [Counter[str](), Counter[str]()]
    for counts, total in zip((before, now), totals, strict=True):
        for (source, _), count in counts.items():
            total[source] += count
    edges = []
    for source, target in {*before, *now}:
        seen = before.get((source, target), 0), now.get((source, target), 0)
        rates = [
            count / total[source] if total[source] else None
            for count, total in zip(seen, totals, strict=True)
        ]
        difference = _test_difference(seen, (totals[0][source], totals[1][source]))
        edges.append(
            Transition(
                from_=source,
                to=target,
                baseline=None if rates[0] is None else round(rates[0], 4),
                now=None if rates[1] is None else round(rates[1], 4),
                baseline_count=seen[0],
                now_count=seen[1],
                more=difference > 0,
                rarer=difference < 0,
            )
        )
    edges.sort(key=lambda it: (-max(it.baseline_count, it.now_count), it.from_, it.to))
    return edges[:_MOST_EDGES]


def _test_difference(counts: tuple[int, int], totals: tuple[int, int]) -> int:
    """Return 1 where the second rate is surely higher by a tenth or more, -1 where lower, else 0."""
    if not all(totals):
        return 0
    rates = counts[0] / totals[0], counts[1] / totals[1]
    pooled = sum(counts) / sum(totals)
    error = math.sqrt(pooled * (1 - pooled) * (1 / totals[0] + 1 / totals[1]))
    difference = rates[1] - rates[0]
    if abs(difference) < _LEAST_DIFFERENCE or error == 0 or abs(difference) / error < _Z:
        return 0
    return 1 if difference > 0 else -1
