"""The list of runs, and the head of the run page."""

# ruff: noqa: S608 - every piece of these queries is our own text; what comes from outside is bound

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from steadyhelm.baselines import BaselineStats
from steadyhelm.engine.agent_knowledge import Reference
from steadyhelm.errors import NotFoundError
from steadyhelm.server.agent_views import AgentViews
from steadyhelm.server.queries.judged import list_judged
from steadyhelm.server.queries.normal import MEASURES, read_ranges
from steadyhelm.server.queries.rows import RUNS, STATE_CONDITIONS, bind_keys, read_runs
from steadyhelm.server.records.common import Figure, Reason, RunRow
from steadyhelm.server.records.runs import ChildRun, Levels, RunDetail, RunFigures, RunList, ToolUse
from steadyhelm.settings import Settings
from steadyhelm.stores.database import Connection
from steadyhelm.stores.sql import KINDS, RESPONSES, SEVERITIES, Conditions, to_bits
from steadyhelm.stores.sql_store import SQLStore

_COUNTED: Final = 10_000
_LATEST_SUMMARY: Final = """
    SELECT summary FROM runs INDEXED BY runs_by_activity WHERE agent = ? AND summary IS NOT NULL
    ORDER BY last_at DESC LIMIT 1"""
_STEP_TIME: Final = "SELECT ts FROM events WHERE run = ? AND seq >= ? ORDER BY seq LIMIT 1"
_NO_FILTERS: Final = frozenset({"agent", "after", "limit"})
_CHILDREN: Final = 50
_TOOLS: Final = 200
_LAST: Final = "\U0010ffff"
_SIGNALS: Final = ("goal", "loop", "budget", "quality", "stuck")
_DECLARED: Final = "SELECT tool, kind FROM declarations WHERE agent = ?"
_TOOLS_USED: Final = (
    "SELECT n.name, t.calls, t.errors, t.tokens, t.duration_ms FROM run_tools t"
    " CROSS JOIN names n ON n.id = t.name WHERE t.run = ? ORDER BY t.calls DESC, t.name LIMIT ?"
)


def list_runs(
    views: AgentViews, connection: Connection, query: Mapping[str, Any], limit: int, settings: Settings
) -> RunList:
    """Return a page of runs that match, newest first. Only runs of agents that changed are read again."""
    where, index = _select(query)
    values = list(where.values)
    after = parse_cursor(query.get("after"))
    text = str(where)
    if after is not None:
        text += (" AND " if text else " WHERE ") + "(r.started_at, r.id) < (?, ?)"
        values += after
    sql = f"SELECT r.id, r.agent FROM runs r {index}{text} ORDER BY r.started_at DESC, r.id DESC LIMIT ?"
    found = connection.execute(sql, (*values, limit + 1)).fetchall()
    shown = views.keep_runs(found[:limit], lambda runs: _read_by_keys(connection, runs))
    total = _count(connection, query, where, index)
    more = make_cursor(shown[-1]) if len(found) > limit else None
    return RunList(runs=shown, next=more, total=total, levels=read_levels(settings))


def read_levels(settings: Settings) -> Levels:
    """Return the drift scores from which each response is advised."""
    return Levels(
        remind=settings.policy_remind_threshold,
        replan=settings.policy_replan_threshold,
        rollback=settings.policy_rollback_threshold,
        stop=settings.policy_ask_threshold,
    )


def _read_by_keys(connection: Connection, runs: Sequence[int]) -> list[RunRow]:
    marks, values = bind_keys(runs)
    return read_runs(connection, f"{RUNS.format(index='')} WHERE r.id IN ({marks})", values)


def _count(connection: Connection, query: Mapping[str, Any], where: Conditions, index: str) -> int:
    """Return how many runs match, 10,000 at most; the runs of an agent are counted when they are written."""
    if any(value for name, value in query.items() if name not in _NO_FILTERS):
        (total,) = connection.execute(
            f"SELECT count(*) FROM (SELECT 1 FROM runs r {index}{where} LIMIT {_COUNTED}) counted",
            where.values,
        ).fetchone()
        return int(total)
    only = f" WHERE id IN ({', '.join(map(str, query['agent']))})" if query.get("agent") else ""
    (total,) = connection.execute(f"SELECT coalesce(sum(runs), 0) FROM agents{only}").fetchone()
    return min(int(total), _COUNTED)


def _select(query: Mapping[str, Any]) -> tuple[Conditions, str]:
    """Return the conditions of the filters, and the index they are read along."""
    where, index = Conditions(), ""
    agents: Sequence[int] = query.get("agent") or ()
    if agents:
        where.require(f"r.agent IN ({', '.join(str(int(key)) for key in agents)})")
    where.add("r.started_at >= ?", query.get("since"))
    states = query.get("state") or ()
    if states:
        where.require("(" + " OR ".join(STATE_CONDITIONS[state] for state in states) + ")")
        if {"running", "waiting"}.issuperset(states) and not agents:
            where.require("r.state != 'ended'")
            index = "INDEXED BY runs_not_ended"
        elif {"stopped", "crashed"}.issuperset(states) and not agents:
            where.require("r.outcome != ''")
            index = "INDEXED BY runs_by_outcome"
    flagged = _select_flags(where, query)
    if flagged and not agents and not index:
        index = "INDEXED BY runs_flagged"
    text = query.get("q")
    if text:
        where.require(
            "r.id IN (SELECT id FROM (SELECT id FROM runs WHERE run_id >= ? AND run_id < ? LIMIT 500) by_id"
            " UNION SELECT id FROM"
            " (SELECT id FROM runs WHERE goal >= ? AND goal < ? AND goal != '' LIMIT 500) by_goal"
            " UNION SELECT run FROM (SELECT t.run FROM names n JOIN run_tools t ON t.name = n.id"
            " WHERE n.name = ? ORDER BY t.run DESC LIMIT 500) by_tool)"
        )
        where.values += [text, text + _LAST, text, text + _LAST, text]
    return where, index


def _select_flags(where: Conditions, query: Mapping[str, Any]) -> bool:
    kinds = to_bits(query.get("kind") or (), KINDS)
    responses = to_bits(query.get("response") or (), RESPONSES)
    severity = query.get("severity")
    if not (kinds or responses or severity):
        return False
    where.require("r.kinds > 0")
    if kinds:
        where.require(f"r.kinds & {kinds} != 0")
    if responses:
        where.require(f"r.responses & {responses} != 0")
    if severity:
        where.require(f"r.top_severity >= {[it.value for it in SEVERITIES].index(severity)}")
    return True


def make_cursor(run: RunRow) -> str:
    """Return the place behind a run in the list."""
    return f"{run.started_at!r}_{run.key}"


def parse_cursor(text: str | None) -> tuple[float, int] | None:
    """Return the place a cursor stands for, None for none; raises ValueError for anything else."""
    if not text:
        return None
    started_at, _, key = text.partition("_")
    return float(started_at), int(key)


def read_run(connection: Connection, key: int) -> RunRow:
    """Return one run; raises NotFoundError."""
    found = read_runs(connection, f"{RUNS.format(index='')} WHERE r.id = ?", (key,))
    if not found:
        raise NotFoundError("There is no such run. It may have been deleted.")
    return found[0]


def read_tools(connection: Connection, run: RunRow) -> list[ToolUse]:
    """Return the tools of a run, the most used first: others refer to a tool by its place here."""
    declared = dict(connection.execute(_DECLARED, (run.agent.key,)).fetchall())
    rows = connection.execute(_TOOLS_USED, (run.key, _TOOLS))
    return [
        ToolUse(
            name=name,
            calls=calls,
            errors=errors,
            tokens=tokens,
            duration_ms=duration_ms,
            declared=declared.get(name, ""),
        )
        for name, calls, errors, tokens, duration_ms in rows
    ]


def read_figures(connection: Connection, run: RunRow, settings: Settings) -> RunFigures:
    """Return the figures of a run beside what is normal, and its limits."""
    columns = ", ".join(MEASURES.values())
    row = connection.execute(f"SELECT {columns} FROM runs WHERE id = ?", (run.key,)).fetchone()
    values = dict(zip(MEASURES, row, strict=True))
    ranges = read_ranges(connection, run.agent.key, run.version, run.task_type, but=run.key)
    limits = _read_limits(connection, run.key)

    def figure(name: str, limit: float | None = None) -> Figure:
        return Figure(value=values[name], normal=ranges.get(name), limit=limit)

    return RunFigures(
        steps=figure("steps", limits.get("steps")),
        drift=figure("drift", settings.policy_remind_threshold),
        tokens=figure("tokens", limits.get("tokens")),
        cost_usd=figure("cost_usd", limits.get("cost_usd")),
        duration_s=figure("duration_s", limits.get("wall_s")),
        failed=figure("failed"),
        repeated_share=figure("repeated_share"),
    )


def _read_limits(connection: Connection, run: int) -> dict[str, float]:
    row = connection.execute(
        "SELECT steps, tokens, cost_usd, wall_s FROM limits WHERE run = ? ORDER BY seq DESC LIMIT 1", (run,)
    ).fetchone()
    names = ("steps", "tokens", "cost_usd", "wall_s")
    return {name: value for name, value in zip(names, row or (), strict=False) if value is not None}


def read_detail(store: SQLStore, settings: Settings, key: int, trace_url: str) -> RunDetail:
    """Return the head of the run page."""
    with store.reading() as connection:
        run = read_run(connection, key)
        tools = read_tools(connection, run)
        (goal, metadata_json, excluded, summary) = connection.execute(
            "SELECT substr(goal, 1, 20000), metadata_json, excluded, summary FROM runs WHERE id = ?", (key,)
        ).fetchone()
        incidents = connection.execute(
            "SELECT incident_id FROM incidents WHERE run = ? ORDER BY opened_seq, id LIMIT 200", (key,)
        ).fetchall()
        children = _read_children(connection, run)
        parents = (
            read_runs(connection, f"{RUNS.format(index='')} WHERE r.run_id = ? LIMIT 2", (run.parent,))
            if run.parent
            else []
        )
        figures = read_figures(connection, run, settings)
        model = _find_model(connection, key)
        checks = _read_checks(summary)
        unknown = list_unknown(connection, key) if checks is None else checks.list_reasons()
        judged = list_judged(connection, key)
    metadata = _decode_object(metadata_json)
    reference = Reference.decode(store.get_pinned_baseline(run.agent.name, run.run_id))
    given = metadata.get("trace_id")
    trace_id = given if isinstance(given, str) and given.isalnum() and given.isascii() else None
    return RunDetail(
        run=msgspec.structs.replace(run, goal=goal),
        model=model,
        trace_id=trace_id,
        trace_url=trace_url.replace("{trace_id}", trace_id) if trace_url and trace_id else None,
        metadata=metadata,
        figures=figures,
        levels=read_levels(settings),
        tools=tools,
        incidents=[incident_id for (incident_id,) in incidents],
        children=children,
        parent=parents[0] if len(parents) == 1 else None,
        baseline="not compared with a baseline" if reference is None else reference.baseline.progress,
        checked_by=[] if checks is None else checks.checked,
        not_checked=[*unknown, *_explain_baseline(None if reference is None else reference.baseline)],
        excluded=bool(excluded),
        judged=judged,
    )


def _read_children(connection: Connection, run: RunRow) -> list[ChildRun]:
    """Return the runs that a run started, each with the step that started it."""
    found = read_runs(
        connection,
        f"{RUNS.format(index='')} WHERE r.parent_run_id = ? ORDER BY r.started_at LIMIT {_CHILDREN}",
        (run.run_id,),
    )

    def read_time(step: int) -> float:
        row = connection.execute(_STEP_TIME, (run.key, step - 1)).fetchone()
        return math.inf if row is None else row[0]

    # A call is recorded when it is over: the first step after a child began is the call that started it.
    steps = range(1, max(1, run.steps))
    return [
        ChildRun(run=child, step=1 + bisect_left(steps, child.started_at, key=read_time)) for child in found
    ]


class RunChecks(msgspec.Struct):
    """What the summary of a run says about who looked at it."""

    checked: list[str] = []
    not_checked: dict[str, str] = {}

    def list_reasons(self) -> list[Reason]:
        """Return what could not be checked, with the reasons."""
        return [Reason(name=name, reason=reason) for name, reason in self.not_checked.items()]


_checks_decoder: Final = msgspec.msgpack.Decoder(RunChecks, strict=False)


def _read_checks(summary: bytes | None) -> RunChecks | None:
    """Return who looked at a run; None while it goes on, and where that was not stored yet."""
    try:
        found = RunChecks() if summary is None else _checks_decoder.decode(summary)
    except msgspec.MsgspecError:
        return None
    return found if found.checked or found.not_checked else None


def list_not_checked(views: AgentViews, connection: Connection, most: int) -> list[Reason]:
    """Return what could not be checked in the latest ended run of each agent, and in how many of them."""
    counts: Counter[tuple[str, str]] = Counter()
    for (agent,) in connection.execute("SELECT id FROM agents").fetchall():
        counts.update(views.get(agent).keep("not checked", 0.0, lambda: _read_latest(connection, agent)))  # noqa: B023 - called at once
    return [
        Reason(name=name, reason=reason if count == 1 else f"{reason} ({count:,} agents)")
        for (name, reason), count in sorted(counts.items(), key=lambda it: (-it[1], it[0]))[:most]
    ]


def _read_latest(connection: Connection, agent: int) -> tuple[list[tuple[str, str]], float]:
    row = connection.execute(_LATEST_SUMMARY, (agent,)).fetchone()
    checks = None if row is None else _read_checks(row[0])
    return [] if checks is None else list(checks.not_checked.items()), float("inf")


def _explain_baseline(baseline: BaselineStats | None) -> list[Reason]:
    if baseline is not None and baseline.is_calibrated:
        return []
    progress = "no baseline was known" if baseline is None else baseline.progress
    return [Reason(name="baseline", reason=f"only fixed rules and limits were checked: {progress}")]


def list_unknown(connection: Connection, run: int) -> list[Reason]:
    """Return the signals that the latest score does not know."""
    row = connection.execute(
        f"SELECT {', '.join(_SIGNALS)} FROM scores WHERE run = ? ORDER BY seq DESC LIMIT 1", (run,)
    ).fetchone()
    if row is None:
        return [Reason(name="drift score", reason="no score was stored")]
    reasons = {"budget": "no budget was set, or its progress is not known", "goal": "no output to judge yet"}
    return [
        Reason(name=name, reason=reasons.get(name, "too little was seen yet"))
        for name, value in zip(_SIGNALS, row, strict=True)
        if value is None
    ]


def _find_model(connection: Connection, run: int) -> str:
    row = connection.execute(
        "SELECT p.metadata_json FROM events e JOIN payloads p ON p.id = e.payload"
        " WHERE e.run = ? AND e.type = 1 AND p.metadata_json IS NOT NULL ORDER BY e.seq DESC LIMIT 1",
        (run,),
    ).fetchone()
    model = _decode_object(row[0]).get("model") if row else None
    return model[:100] if isinstance(model, str) else ""


def _decode_object(encoded: bytes | None) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(encoded) if encoded else {}
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
