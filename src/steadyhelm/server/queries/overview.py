"""The overview: figures of today, what needs somebody, and one row an agent; and the search."""

# ruff: noqa: S608 - every piece of these queries is our own text; what comes from outside is bound

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Struct

from steadyhelm.engine.health import select_losses
from steadyhelm.findings import Severity
from steadyhelm.incidents import Mute
from steadyhelm.server.queries.normal import make_range
from steadyhelm.server.queries.rows import (
    INCIDENTS,
    IS_OPEN,
    RUNS,
    count_open,
    evidence_decoder,
    make_response,
    read_incidents,
    read_runs,
)
from steadyhelm.server.records.common import AgentName, Count, Figure, IncidentRow
from steadyhelm.server.records.overview import AgentRow, AgentState, Overview, SearchHit, SearchResults
from steadyhelm.store import JUDGE_ACCOUNT
from steadyhelm.store_rows import AgentSpending
from steadyhelm.stores.database import Connection
from steadyhelm.stores.sql import SEVERITIES
from steadyhelm.stores.sql_store import SQLStore

DAY_S: Final = 86_400.0
_DAYS: Final = 7
_MOST_AGENTS: Final = 200
_NEEDS_YOU: Final = 5
_CLEAN_READ: Final = 20
_RESPONSES_READ: Final = 200
_HITS: Final = 20
_HITS_OF_KIND: Final = 8
_LAST: Final = "\U0010ffff"
_BY_DAY: Final = f"""
    SELECT agent, CAST(started_at / {DAY_S} AS INTEGER), count(*), avg(top_score) FROM runs
    INDEXED BY runs_by_day WHERE started_at >= ? GROUP BY 1, 2"""
_RUNNING_BY_AGENT: Final = """
    SELECT agent, count(*) FROM runs INDEXED BY runs_not_ended WHERE state != 'ended'
    AND state = 'running' AND started_at >= ? GROUP BY agent"""
_ORDER: Final[dict[AgentState, int]] = {"drifting": 0, "learning": 1, "silent": 2, "healthy": 3}


class BaselineHead(Struct):
    """What a list reads of a baseline: the rest of it is large."""

    calibration_runs: int = 0
    required_runs: int = 30
    is_calibrated: bool = False
    is_frozen: bool = False


class Today(NamedTuple):
    """What was read for all agents at once."""

    now: float
    days: Mapping[int, Mapping[int, tuple[int, float | None]]]
    opened: Mapping[int, Mapping[int, int]]
    running: Mapping[int, int]
    spent: Mapping[str, AgentSpending]
    limit_cost_usd: float | None

    @property
    def day(self) -> int:
        """The number of the present day of UTC."""
        return int(self.now // DAY_S)


_head_decoder: Final = msgspec.msgpack.Decoder(BaselineHead, strict=False)


def read_overview(store: SQLStore, limit_cost_usd: float | None) -> Overview:
    """Return everything on the overview."""
    now = time.time()
    mutes = store.list_mutes(at=now)
    today = read_today(store, now, limit_cost_usd)
    with store.reading() as connection:
        (total,) = connection.execute(
            "SELECT count(*) FROM agents WHERE agent_id != ?", (JUDGE_ACCOUNT,)
        ).fetchone()
        found = connection.execute(
            "SELECT id, agent_id, runs, last_at FROM agents WHERE agent_id != ?"
            " ORDER BY last_at DESC, id DESC LIMIT ?",
            (JUDGE_ACCOUNT, _MOST_AGENTS),
        ).fetchall()
        agents = [read_agent_row(connection, row, today) for row in found]
        waiting = read_runs(
            connection,
            f"{RUNS.format(index='INDEXED BY runs_not_ended')} WHERE r.state != 'ended'"
            " AND r.state = 'suspended' ORDER BY r.started_at DESC LIMIT ?",
            (_NEEDS_YOU,),
        )
        outcomes = _count_responses(connection, now - now % DAY_S)
        needs_you = _read_needs_you(connection, mutes, _NEEDS_YOU - len(waiting))
    agents.sort(key=lambda it: (_ORDER[it.state], it.name))
    counts = [_count_day(today, today.day), _count_day(today, today.day - 1)]
    costs = [it.cost_usd for it in today.spent.values()]
    return Overview(
        now=now,
        empty=not total,
        database=str(store.location),
        runs_today=counts[0],
        runs_yesterday=counts[1],
        agents_drifting=sum(it.state == "drifting" for it in agents),
        agents_total=total,
        open_incidents=sum(sum(it.values()) for it in today.opened.values()),
        responses_today=sum(outcomes.values()),
        response_outcomes=[Count(name=name, count=count) for name, count in sorted(outcomes.items())],
        spend_today_usd=sum(costs) if any(costs) else None,
        tokens_today=sum(it.tokens for it in today.spent.values()),
        lost=sum(select_losses(store.get_losses()).values()),
        waiting=waiting,
        needs_you=needs_you,
        agents=agents,
    )


def read_today(store: SQLStore, now: float, limit_cost_usd: float | None) -> Today:
    """Return what the rows of agents need, read for all of them at once."""
    day = int(now // DAY_S)
    spent = {it.agent_id: it for it in store.list_spending(since=day * DAY_S, until=(day + 1) * DAY_S)}
    days: dict[int, dict[int, tuple[int, float | None]]] = {}
    opened: dict[int, dict[int, int]] = {}
    with store.reading() as connection:
        for agent, when, count, score in connection.execute(_BY_DAY, ((day - _DAYS + 1) * DAY_S,)):
            days.setdefault(agent, {})[when] = (count, score)
        for agent, severity, count in count_open(connection):
            opened.setdefault(agent, {})[severity] = count
        running = dict(connection.execute(_RUNNING_BY_AGENT, (now - _DAYS * DAY_S,)).fetchall())
    return Today(now, days, opened, running, spent, limit_cost_usd)


def read_agent_row(connection: Connection, row: Sequence[Any], today: Today) -> AgentRow:
    """Return one agent; `row` has its key, name, number of runs and last activity."""
    key, name, _, last_at = row
    latest = connection.execute(
        "SELECT id, version, task_type, last_score FROM runs INDEXED BY runs_by_activity WHERE agent = ?"
        " ORDER BY last_at DESC LIMIT 1",
        (key,),
    ).fetchone() or (None, "", "", None)
    head = read_baseline_head(connection, key)
    days = today.days.get(key, {})
    opened = today.opened.get(key, {})
    scores = connection.execute(
        "SELECT top_score FROM runs WHERE agent = ? AND version = ? AND task_type = ? AND teaches = 1"
        " ORDER BY id DESC LIMIT ?",
        (key, latest[1], latest[2], _CLEAN_READ),
    ).fetchall()
    normal = make_range([score for (score,) in scores if score is not None])
    spent = today.spent.get(name, AgentSpending(agent_id=name))
    state, reason = _judge(head, opened, last_at, today.now)
    return AgentRow(
        key=key,
        name=name,
        state=state,
        reason=reason,
        version=latest[1],
        learnt_runs=head.calibration_runs,
        required_runs=head.required_runs,
        runs_today=days.get(today.day, (0, None))[0],
        running=today.running.get(key, 0),
        drift_days=[
            None if (score := days.get(day, (0, None))[1]) is None else round(score, 4)
            for day in range(today.day - _DAYS + 1, today.day + 1)
        ],
        drift_p95=None if normal is None else normal.p95,
        drift_now=latest[3],
        open_incidents=[
            Count(name=SEVERITIES[rank].value, count=count)
            for rank, count in sorted(opened.items(), reverse=True)
        ],
        spend=Figure(value=spent.cost_usd or None, normal=None, limit=today.limit_cost_usd),
        tokens_today=spent.tokens,
        last_run=latest[0],
        last_at=last_at,
    )


def read_baseline_head(connection: Connection, agent: int) -> BaselineHead:
    """Return the state of an agent's newest baseline."""
    row = connection.execute(
        "SELECT stats FROM baselines WHERE agent = ? AND stats IS NOT NULL ORDER BY updated_at DESC LIMIT 1",
        (agent,),
    ).fetchone()
    try:
        return BaselineHead() if row is None else _head_decoder.decode(row[0])
    except msgspec.MsgspecError:
        return BaselineHead()


def _judge(
    head: BaselineHead, opened: Mapping[int, int], last_at: float, now: float
) -> tuple[AgentState, str]:
    reported = sum(count for rank, count in opened.items() if rank >= Severity.MED.rank)
    if reported:
        return "drifting", f"{reported:,} open incident{'s' if reported > 1 else ''}"
    if now - last_at > _DAYS * DAY_S:
        return "silent", f"no run for {int((now - last_at) / DAY_S):,} days"
    if not head.is_calibrated:
        return "learning", f"{head.calibration_runs} of {head.required_runs} clean runs"
    return "healthy", f"compared with {head.calibration_runs:,} clean runs"


def _count_day(today: Today, day: int) -> int:
    return sum(days.get(day, (0, None))[0] for days in today.days.values())


def _count_responses(connection: Connection, since: float) -> dict[str, int]:
    """Return the outcomes of the responses since a time, among the latest incidents."""
    counts: dict[str, int] = {}
    rows = connection.execute(
        "SELECT evidence FROM incidents INDEXED BY incidents_by_time WHERE last_at >= ?"
        " ORDER BY last_at DESC LIMIT ?",
        (since, _RESPONSES_READ),
    )
    for (evidence,) in rows:
        for intervention in evidence_decoder.decode(evidence)[1]:
            if intervention.said and intervention.timestamp >= since:
                outcome = make_response(intervention).outcome
                counts[outcome] = counts.get(outcome, 0) + 1
    return counts


def _read_needs_you(connection: Connection, mutes: Sequence[Mute], limit: int) -> list[IncidentRow]:
    """Return open incidents from high, the newest first; muted and acknowledged ones are left out."""
    if limit <= 0:
        return []
    found = read_incidents(
        connection,
        f"{INCIDENTS.format(index='INDEXED BY incidents_open')} WHERE {IS_OPEN} AND i.severity >= ?"
        " AND i.acknowledged_at IS NULL ORDER BY i.last_at DESC LIMIT ?",
        (Severity.HIGH.rank, 4 * limit),
        mutes,
    )
    return [it for it in found if it.tab == "open"][:limit]


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
