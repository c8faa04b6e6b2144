"""The overview: figures of some days, what needs somebody, and one row an agent."""

# ruff: noqa: S608 - every piece of these queries is our own text; what comes from outside is bound

import time
from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec
from msgspec import Struct

from steadyhelm.engine.health import select_losses
from steadyhelm.findings import Severity
from steadyhelm.incidents import IN_INBOX_S
from steadyhelm.reports.formats import pluralize
from steadyhelm.server.agent_views import AgentViews
from steadyhelm.server.queries.inbox import count_open, read_open
from steadyhelm.server.queries.normal import make_range
from steadyhelm.server.queries.rows import (
    EARLIEST,
    INCIDENTS,
    RUNS,
    make_response,
    read_incidents,
    read_runs,
)
from steadyhelm.server.records.common import Count, Figure, IncidentRow
from steadyhelm.server.records.overview import AgentRow, AgentState, Overview
from steadyhelm.store import JUDGE_ACCOUNT
from steadyhelm.stores.database import Connection
from steadyhelm.stores.spending import QUARTER_HOUR_S
from steadyhelm.stores.sql import SEVERITIES, decode_evidence
from steadyhelm.stores.sql_store import SQLStore

DAY_S: Final = 86_400.0
_SPARKLINE_DAYS: Final = 7
_SILENT_S: Final = 7 * DAY_S
_NORMAL_DAYS: Final = 30
_FORECAST_DAYS: Final = 7
_MOST_AGENTS: Final = 200
_MOST_TO_REVIEW: Final = 5
_CLEAN_RUNS_READ: Final = 20
_INCIDENTS_READ: Final = 500
_OLDER_KEPT_S: Final = 60.0
_QUARTER_HOURS_A_DAY: Final = int(DAY_S) // QUARTER_HOUR_S
_ALL_DAYS: Final = """
    SELECT day, sum(runs), 0, 0.0, sum(tokens), sum(cost_usd) FROM agent_days
    WHERE day >= ? AND day < ? GROUP BY day"""
_DAYS_OF_AGENT: Final = """
    SELECT day, runs, scored, scores, tokens, cost_usd FROM agent_days WHERE agent = ? AND day >= ?"""
_RUNNING: Final = """
    SELECT count(*) FROM runs INDEXED BY runs_running WHERE state = 'running' AND agent = ?
    AND started_at >= ?"""
_LATEST: Final = """
    SELECT id, version, task_type, last_score FROM runs INDEXED BY runs_by_activity WHERE agent = ?
    ORDER BY last_at DESC LIMIT 1"""
_CLEAN_SCORES: Final = """
    SELECT top_score FROM runs WHERE agent = ? AND version = ? AND task_type = ? AND teaches = 1
    ORDER BY id DESC LIMIT ?"""
_EVIDENCE: Final = """
    SELECT evidence FROM incidents INDEXED BY incidents_by_agent WHERE agent = ? AND last_at >= ?
    ORDER BY last_at DESC LIMIT ?"""
# Drift goes on where an incident is not closed; one that was a false alarm is no drift.
_ONGOING: Final = f"""
    SELECT count(*) FROM incidents INDEXED BY incidents_open_groups WHERE state = 'open'
    AND review != 'false_alarm' AND agent = ? AND severity >= {Severity.MED.rank}"""
_UNHANDLED: Final = """i.review = '' AND i.acknowledged_at IS NULL
    AND NOT EXISTS (SELECT 1 FROM mutes m WHERE m.agent_id = a.agent_id AND m.detector = i.detector
        AND m.until > ? AND (m.up_to_severity IS NULL OR i.severity <= m.up_to_severity))"""
_NEEDS: Final = f"""{INCIDENTS.format(index="INDEXED BY incidents_urgent")}
    WHERE i.severity >= {Severity.HIGH.rank} AND i.state = ? AND i.last_at > ? AND {_UNHANDLED}
    ORDER BY i.last_at DESC LIMIT ?"""
_UNHANDLED_IN_RUN: Final = f"""
    SELECT count(*) FROM incidents i INDEXED BY incidents_by_run JOIN agents a ON a.id = i.agent
    WHERE i.run = ? AND i.severity >= {Severity.MED.rank} AND {_UNHANDLED}"""
_REST_OF_DAYS: Final = f"""
    SELECT coalesce(sum(s.cost_usd), 0.0) FROM agents a CROSS JOIN spending s ON s.agent = a.id
    WHERE s.quarter_hour >= ? AND s.quarter_hour < ? AND s.quarter_hour % {_QUARTER_HOURS_A_DAY} >= ?"""
_ORDER: Final[dict[AgentState, int]] = {
    "drifting": 0,
    "unreviewed": 1,
    "learning": 2,
    "silent": 3,
    "healthy": 4,
}


class BaselineHead(Struct):
    """What a list reads of a baseline: the rest of it is large."""

    calibration_runs: int = 0
    required_runs: int = 30
    is_calibrated: bool = False
    is_frozen: bool = False


class DayTotals(NamedTuple):
    """One day: its runs, those with a score and the sum of these, tokens and dollars."""

    runs: int = 0
    scored: int = 0
    scores: float = 0.0
    tokens: int = 0
    cost_usd: float = 0.0


_NO_RUNS: Final = DayTotals()


class Period(NamedTuple):
    """The days that are shown, up to the present one, and what an agent may spend on one of them."""

    now: float
    days: int
    limit_cost_usd: float | None

    @property
    def day(self) -> int:
        """The number of the present day of UTC."""
        return int(self.now // DAY_S)

    @property
    def end_of_day(self) -> float:
        """When the present day is over, and with it what was read of it."""
        return (self.day + 1) * DAY_S

    def sum_runs(self, days: Mapping[int, DayTotals], *, before: int = 0) -> int:
        """Return the runs of these days, or of as many days before."""
        return sum(it.runs for it in self._select(days, before * self.days))

    def measure_runs(self, days: Mapping[int, DayTotals]) -> Figure:
        """Return the runs beside what is normal for a day."""
        normal = [float(it.runs) for it in self._list_past(days)] if self.days == 1 else ()
        return Figure(value=self.sum_runs(days), normal=make_range(normal), limit=None)

    def measure_spend(self, days: Mapping[int, DayTotals], limit_cost_usd: float | None) -> Figure:
        """Return the dollars beside what is normal for a day; None where no cost is known."""
        spent = sum(it.cost_usd for it in self._select(days, 0))
        past = self._list_past(days) if self.days == 1 else []
        normal = make_range([it.cost_usd for it in past]) if any(it.cost_usd > 0 for it in past) else None
        limit = limit_cost_usd if self.days == 1 else None
        return Figure(value=round(spent, 6) or None, normal=normal, limit=limit)

    def sum_tokens(self, days: Mapping[int, DayTotals]) -> int:
        """Return the tokens of these days."""
        return sum(it.tokens for it in self._select(days, 0))

    def _select(self, days: Mapping[int, DayTotals], back: int) -> list[DayTotals]:
        last = self.day - back
        return [days[day] for day in range(last - self.days + 1, last + 1) if day in days]

    def _list_past(self, days: Mapping[int, DayTotals]) -> list[DayTotals]:
        """Return the days before the present one, from the first with a run on."""
        today = self.day
        oldest = today - _NORMAL_DAYS
        known = [day for day, it in days.items() if it.runs and day >= oldest]
        return [days.get(day, _NO_RUNS) for day in range(min(known, default=today), today)]


_head_decoder: Final = msgspec.msgpack.Decoder(BaselineHead, strict=False)


def read_overview(views: AgentViews, store: SQLStore, days: int, limit_cost_usd: float | None) -> Overview:
    """Return everything on the overview, with the figures of so many days."""
    period = Period(time.time(), days, limit_cost_usd)
    with views.reading() as connection:
        (total,) = connection.execute(
            "SELECT count(*) FROM agents WHERE agent_id != ?", (JUDGE_ACCOUNT,)
        ).fetchone()
        found = connection.execute(
            "SELECT id, agent_id, last_at FROM agents WHERE agent_id != ?"
            " ORDER BY last_at DESC, id DESC LIMIT ?",
            (JUDGE_ACCOUNT, _MOST_AGENTS),
        ).fetchall()
        agents = [read_agent_row(views, connection, row, period) for row in found]
        waiting = read_runs(
            connection,
            f"{RUNS.format(index='INDEXED BY runs_not_ended')} WHERE r.state != 'ended'"
            " AND r.state = 'suspended' ORDER BY r.started_at DESC LIMIT ?",
            (_MOST_TO_REVIEW,),
        )
        totals = _read_all_days(views, connection, period)
        outcomes, capped = _count_responses(views, connection, period)
        forecast = _forecast_spend(views, connection, period, totals)
        needs_you = _read_needs_you(connection, period.now, _MOST_TO_REVIEW - len(waiting))
        opened = count_open(views, connection, period.now).total()
    agents.sort(key=lambda it: (_ORDER[it.state], it.name))
    limits = None if limit_cost_usd is None else limit_cost_usd * total
    return Overview(
        now=period.now,
        days=days,
        empty=not total,
        database=str(store.location),
        runs=period.measure_runs(totals),
        runs_before=period.sum_runs(totals, before=1),
        agents_drifting=sum(it.state == "drifting" for it in agents),
        agents_total=total,
        open_incidents=opened,
        responses=sum(outcomes.values()),
        responses_capped=capped,
        response_outcomes=[Count(name=name, count=count) for name, count in sorted(outcomes.items())],
        spend=period.measure_spend(totals, limits),
        spend_forecast_usd=forecast,
        tokens=period.sum_tokens(totals),
        lost=sum(select_losses(store.get_losses()).values()),
        waiting=waiting,
        needs_you=needs_you,
        agents=agents,
    )


def _read_all_days(views: AgentViews, connection: Connection, period: Period) -> dict[int, DayTotals]:
    """Return the days of all agents together; what is before yesterday may be a minute old."""
    first, recent = period.day - 2 * _NORMAL_DAYS, period.day - 1

    def read_older() -> tuple[dict[int, DayTotals], float]:
        return _sum_days(connection, first, recent), min(period.now + _OLDER_KEPT_S, period.end_of_day)

    def read_recent() -> tuple[dict[int, DayTotals], float]:
        return _sum_days(connection, recent, period.day + 1), period.end_of_day

    older = views.keep_over_changes("older days", period.now, read_older)
    return {**older, **views.keep("recent days", period.now, read_recent)}


def _sum_days(connection: Connection, first: int, end: int) -> dict[int, DayTotals]:
    return {day: DayTotals(*rest) for day, *rest in connection.execute(_ALL_DAYS, (first, end))}


def _forecast_spend(
    views: AgentViews, connection: Connection, period: Period, totals: Mapping[int, DayTotals]
) -> float | None:
    """Return what today costs at its end, if its rest is as the rest of the days before was."""
    known = [day for day in range(period.day - _FORECAST_DAYS, period.day) if day in totals]
    if not any(totals[day].cost_usd > 0 for day in known):
        return None
    quarter = int(period.now % DAY_S) // QUARTER_HOUR_S
    first, last = known[0] * _QUARTER_HOURS_A_DAY, period.day * _QUARTER_HOURS_A_DAY
    ends_at = (last + quarter + 1) * QUARTER_HOUR_S

    def read() -> tuple[float, float]:
        return float(connection.execute(_REST_OF_DAYS, (first, last, quarter + 1)).fetchone()[0]), ends_at

    rest = views.keep_over_changes(("rest of days", first), period.now, read)
    spent = totals.get(period.day, _NO_RUNS).cost_usd
    return round(spent + rest / (period.day - known[0]), 6)


def read_agent_row(
    views: AgentViews, connection: Connection, row: tuple[int, str, float], period: Period
) -> AgentRow:
    """Return one agent; `row` has its key, name and last activity."""
    key, name, _ = row
    asked = ("row", period.days, period.limit_cost_usd, views.read_mutes(connection, period.now).get(name))
    return views.get(key).keep(asked, period.now, lambda: _build_agent_row(views, connection, row, period))


def _build_agent_row(
    views: AgentViews, connection: Connection, row: tuple[int, str, float], period: Period
) -> tuple[AgentRow, float]:
    """Return the row of an agent, and until when it holds while nothing is written."""
    key, name, last_at = row
    last_run, version, task_type, last_score = connection.execute(_LATEST, (key,)).fetchone() or (
        *(None, "", ""),
        None,
    )
    head = read_baseline_head(connection, key)
    found = connection.execute(_DAYS_OF_AGENT, (key, period.day - _NORMAL_DAYS))
    days = {day: DayTotals(*rest) for day, *rest in found}
    opened = read_open(views, connection, key, period.now)
    (ongoing,) = connection.execute(_ONGOING, (key,)).fetchone()
    clean = connection.execute(_CLEAN_SCORES, (key, version, task_type, _CLEAN_RUNS_READ))
    normal = make_range([score for (score,) in clean if score is not None])
    (running,) = connection.execute(_RUNNING, (key, period.now - _SILENT_S)).fetchone()
    (ended,) = connection.execute(_UNHANDLED_IN_RUN, (last_run, period.now)).fetchone()
    unreviewed = sum(count for rank, count in opened.by_severity.items() if rank >= Severity.MED.rank)
    state, reason = _judge(head, ongoing, ended, unreviewed, last_at, period.now)
    until = min(period.end_of_day, _find_next_silence(last_at, period.now), opened.until)
    shown = AgentRow(
        key=key,
        name=name,
        state=state,
        reason=reason,
        version=version,
        learnt_runs=head.calibration_runs,
        required_runs=head.required_runs,
        runs=period.measure_runs(days),
        running=running,
        drift_days=[
            _average(days.get(day)) for day in range(period.day - _SPARKLINE_DAYS + 1, period.day + 1)
        ],
        drift_p95=None if normal is None else normal.p95,
        drift_now=last_score,
        open_incidents=[
            Count(name=SEVERITIES[rank].value, count=count)
            for rank, count in sorted(opened.by_severity.items(), reverse=True)
        ],
        spend=period.measure_spend(days, period.limit_cost_usd),
        tokens=period.sum_tokens(days),
        last_run=last_run,
        last_at=last_at,
    )
    return shown, until


def _average(day: DayTotals | None) -> float | None:
    return None if day is None or not day.scored else round(day.scores / day.scored, 4)


def _find_next_silence(last_at: float, now: float) -> float:
    """Return when an agent that stays silent is next shown otherwise: after 7 days, then each day."""
    silent_s = now - last_at
    return last_at + (_SILENT_S if silent_s <= _SILENT_S else (silent_s // DAY_S + 1) * DAY_S)


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
    head: BaselineHead, ongoing: int, ended: int, unreviewed: int, last_at: float, now: float
) -> tuple[AgentState, str]:
    """Return the state of an agent and its reason.

    `ended` are the incidents of its last run that nobody has dealt with, `unreviewed` those of all its runs.
    """
    silent_s = now - last_at
    silence = f"no run for {int(silent_s / DAY_S):,} days" if silent_s > _SILENT_S else ""
    if ongoing:
        return "drifting", f"{ongoing:,} incidents go on" if ongoing > 1 else "1 incident goes on"
    if ended and not silence:
        return "drifting", "its last run drifted"
    if unreviewed:
        opened = pluralize(unreviewed, "open incident")
        return "unreviewed", f"{opened}; {silence or 'its last run was clean'}"
    if silence:
        return "silent", silence
    if not head.is_calibrated:
        return "learning", f"{head.calibration_runs} of {head.required_runs} clean runs"
    return "healthy", f"compared with {head.calibration_runs:,} clean runs"


def _count_responses(views: AgentViews, connection: Connection, period: Period) -> tuple[Counter[str], bool]:
    """Return the outcomes of the responses of the days; True when an agent had more than are read."""
    counts: Counter[str] = Counter()
    is_capped = False
    for (agent,) in connection.execute("SELECT id FROM agents").fetchall():
        made, is_more = _read_responses(views, connection, agent, period)
        for outcome, count in made.items():
            counts[outcome] += count
        is_capped |= is_more
    return counts, is_capped


def _read_responses(
    views: AgentViews, connection: Connection, agent: int, period: Period
) -> tuple[Counter[str], bool]:
    since = (period.day - period.days + 1) * DAY_S

    def read() -> tuple[tuple[Counter[str], bool], float]:
        rows = connection.execute(_EVIDENCE, (agent, since, _INCIDENTS_READ)).fetchall()
        made = [it for (evidence,) in rows for it in decode_evidence(evidence).interventions]
        outcomes = (make_response(it).outcome for it in made if it.said and it.timestamp >= since)
        return (Counter(outcomes), len(rows) == _INCIDENTS_READ), period.end_of_day

    return views.get(agent).keep(("responses", period.days), period.now, read)


def _read_needs_you(connection: Connection, now: float, limit: int) -> list[IncidentRow]:
    """Return open incidents from high, the newest first: nobody has reviewed, acknowledged or muted them."""
    if limit <= 0:
        return []
    found = [
        row
        for state, since in (("open", EARLIEST), ("closed", now - IN_INBOX_S))
        for row in read_incidents(connection, _NEEDS, (state, since, now, limit), (), now)
    ]
    return sorted(found, key=lambda it: it.last_at, reverse=True)[:limit]
