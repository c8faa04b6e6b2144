"""Build the rows that several pages show: runs and incidents."""

# ruff: noqa: S608 - every piece of these queries is our own text; what comes from outside is bound

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

from steadyhelm.decisions import Intervention
from steadyhelm.incidents import Incident, Mute, is_current, is_muted, name_tab
from steadyhelm.server.records.common import (
    AgentName,
    IncidentRow,
    LoopBadge,
    ResponseMade,
    RunRow,
    RunState,
)
from steadyhelm.stores.database import Connection
from steadyhelm.stores.sql import KINDS, SEVERITIES, decode_evidence, from_bits, name_response

ARROW: Final = " → "
"""Between the tools of a cycle, in the pattern of an incident."""
GOAL_CHARS: Final = 300
MESSAGE_CHARS: Final = 600
_INCIDENTS_READ: Final = 5
_LEAST_POLLS: Final = 3
_DECLARED_READ: Final = 5000

RUNS: Final = f"""
    SELECT r.id, r.run_id, r.agent, a.agent_id, substr(r.goal, 1, {GOAL_CHARS}), r.version, r.task_type,
        r.state, r.outcome, r.started_at, r.last_at, r.events, r.tokens, r.cost_usd, r.errors, r.top_score,
        r.incidents, r.top_severity, r.kinds, r.parent_run_id
    FROM runs r {{index}} CROSS JOIN agents a ON a.id = r.agent"""
# In one statement for all runs of a list: a statement a run costs more than what it reads.
_FLAGS: Final = f"""
    SELECT i.run, i.kind, i.pattern, i.repeats, i.evidence FROM runs r CROSS JOIN incidents i ON i.id IN
        (SELECT o.id FROM incidents o INDEXED BY incidents_by_run WHERE o.run = r.id
        ORDER BY o.last_at DESC LIMIT {_INCIDENTS_READ})
    WHERE r.id IN ({{runs}}) ORDER BY i.run, i.last_at DESC"""
_DECLARED: Final = f"""
    SELECT agent, tool FROM declarations WHERE agent IN ({{agents}})
    AND kind IN ('poll', 'batch', 'schedule') LIMIT {_DECLARED_READ}"""
_POLLS: Final = """
    SELECT n.name, t.calls FROM run_tools t CROSS JOIN names n ON n.id = t.name
    WHERE t.run = ? ORDER BY t.calls DESC LIMIT 5"""

EARLIEST: Final = -1e300
"""Before every time that is stored."""
INCIDENTS: Final = f"""
    SELECT i.incident_id, i.agent, a.agent_id, i.run, r.run_id, i.kind, i.detector, i.severity, i.peak,
        i.pattern, substr(i.message, 1, {MESSAGE_CHARS}), i.state, i.acknowledged_at, i.opened_seq,
        i.last_seq, i.opened_at, i.last_at, i.findings, i.review, i.evidence
    FROM incidents i {{index}} CROSS JOIN runs r ON r.id = i.run CROSS JOIN agents a ON a.id = i.agent"""

_INCIDENTS_PLACE: Final = 16
_Flags = tuple[LoopBadge | None, ResponseMade | None]
_NO_FLAGS: Final[_Flags] = (None, None)
_KINDS_BY_BITS: Final = [from_bits(bits, KINDS) for bits in range(1 << len(KINDS))]


def read_runs(connection: Connection, query: str, values: Sequence[Any]) -> list[RunRow]:
    """Return the rows of a query that begins with RUNS."""
    rows = connection.execute(query, values).fetchall()
    declared = _read_declared(connection, {row[2] for row in rows})
    flags = _read_flags(connection, [row[0] for row in rows if row[_INCIDENTS_PLACE]])
    return [_to_run_row(connection, row, declared.get(row[2]), flags.get(row[0], _NO_FLAGS)) for row in rows]


def bind_keys(keys: Collection[int]) -> tuple[str, list[int]]:
    """Return the marks and values of a list of keys, with the last one repeated up to a power of two.

    A statement that differs with the number of keys would be compiled for almost every request.

    >>> bind_keys([7, 8, 9])
    ('?, ?, ?, ?', [7, 8, 9, 9])
    """
    values = list(keys)
    values += values[-1:] * ((1 << (len(values) - 1).bit_length()) - len(values))
    return ", ".join("?" * len(values)), values


def _read_declared(connection: Connection, agents: Collection[int]) -> dict[int, set[str]]:
    """Return the tools that agents may call again and again, by agent."""
    declared: dict[int, set[str]] = {}
    if agents:
        marks, values = bind_keys(agents)
        for agent, tool in connection.execute(_DECLARED.format(agents=marks), values):
            declared.setdefault(agent, set()).add(tool)
    return declared


def _to_run_row(
    connection: Connection, row: tuple[Any, ...], declared: set[str] | None, flags: _Flags
) -> RunRow:
    key, run_id, agent, agent_id, goal, version, task_type, state, outcome, started_at, last_at = row[:11]
    steps, tokens, cost_usd, errors, peak, incidents, severity, kinds, parent = row[11:]
    loop, response = flags
    if loop is None and declared:
        loop = _find_polling(connection, key, declared)
    return RunRow(
        key=key,
        run_id=run_id,
        agent=AgentName(key=agent, name=agent_id),
        goal=goal,
        version=version,
        task_type=task_type,
        state=name_state(state, outcome),
        outcome=outcome,
        started_at=started_at,
        last_at=last_at,
        duration_s=max(0.0, last_at - started_at),
        steps=steps,
        tokens=tokens,
        cost_usd=cost_usd or None,
        errors=errors,
        peak=peak,
        incidents=incidents,
        top_severity=SEVERITIES[severity] if severity >= 0 else None,
        kinds=_KINDS_BY_BITS[kinds],
        loop=loop,
        response=response,
        parent=parent,
    )


def name_state(state: str, outcome: str) -> RunState:
    """Return the state of a run as pages show it.

    >>> name_state("ended", "stopped"), name_state("suspended", ""), name_state("ended", "error: KeyError")
    ('stopped', 'waiting', 'crashed')
    """
    if state == "running":
        return "running"
    if state == "suspended":
        return "waiting"
    if outcome == "stopped":
        return "stopped"
    return "crashed" if outcome.startswith("error") else "ended"


# A range instead of GLOB, which only SQLite has: what begins with "error".
_IS_ERROR: Final = "(r.outcome >= 'error' AND r.outcome < 'erros')"
STATE_CONDITIONS: Final[dict[RunState, str]] = {
    "running": "r.state = 'running'",
    "waiting": "r.state = 'suspended'",
    "ended": f"(r.state = 'ended' AND r.outcome != 'stopped' AND NOT {_IS_ERROR})",
    "stopped": "(r.state = 'ended' AND r.outcome = 'stopped')",
    "crashed": f"(r.state = 'ended' AND {_IS_ERROR})",
}
"""The conditions of `name_state`, in SQL."""


def _read_flags(connection: Connection, runs: Sequence[int]) -> dict[int, _Flags]:
    """Return the loop badge and the latest response of each of these runs that has one."""
    if not runs:
        return {}
    flags: dict[int, _Flags] = {}
    latest: dict[int, Intervention] = {}
    marks, values = bind_keys(runs)
    for run, kind, pattern, repeats, evidence in connection.execute(_FLAGS.format(runs=marks), values):
        stored = decode_evidence(evidence)
        loop, response = flags.get(run, _NO_FLAGS)
        if kind == "loop" and loop is None:
            loop = make_loop_badge(pattern, repeats, len(stored.event_ids))
        for intervention in stored.interventions:
            if intervention.said and (run not in latest or intervention.seq > latest[run].seq):
                latest[run] = intervention
                response = make_response(intervention)
        flags[run] = loop, response
    return flags


def make_loop_badge(pattern: str, repeats: int, evidence: int) -> LoopBadge:
    """Return the badge of a loop: its repetitions, else as many as its events prove."""
    tools = pattern.split(ARROW)
    return LoopBadge(tools=tools, count=repeats or max(1, evidence // len(tools)), declared=False)


def make_response(intervention: Intervention) -> ResponseMade:
    """Return an intervention that was made, as lists show it."""
    return ResponseMade(
        response=name_response(intervention),  # type: ignore[arg-type]
        outcome="not_carried_out" if intervention.not_carried_out else intervention.outcome,
        step=intervention.seq + 1,
    )


def _find_polling(connection: Connection, run: int, declared: set[str]) -> LoopBadge | None:
    for name, calls in connection.execute(_POLLS, (run,)):
        if name in declared and calls >= _LEAST_POLLS:
            return LoopBadge(tools=[name], count=calls, declared=True)
    return None


def read_incidents(
    connection: Connection, query: str, values: Sequence[Any], mutes: Iterable[Mute], now: float
) -> list[IncidentRow]:
    """Return the rows of a query that begins with INCIDENTS."""
    muted: dict[str, list[Mute]] = {}
    for mute in mutes:
        muted.setdefault(mute.agent_id, []).append(mute)
    return [to_incident_row(row, muted.get(row[2], ()), now) for row in connection.execute(query, values)]


def to_incident_row(row: tuple[Any, ...], mutes: Iterable[Mute], now: float) -> IncidentRow:
    """Return one row of INCIDENTS as a record; `mutes` are those of its agent."""
    incident_id, agent, agent_id, run, run_id, kind, detector, severity, peak, pattern = row[:10]
    message, state, acknowledged_at, opened_seq, last_seq, opened_at, last_at = row[10:17]
    findings, review, evidence = row[17:]
    return IncidentRow(
        incident_id=incident_id,
        agent=AgentName(key=agent, name=agent_id),
        run=run,
        run_id=run_id,
        kind=kind,
        detector=detector,
        severity=SEVERITIES[severity],
        peak=peak,
        pattern=pattern or detector.replace("_", " "),
        message=message,
        tab=name_tab(
            review,
            is_current=is_current(state, last_at, now),
            is_acknowledged=acknowledged_at is not None,
            is_muted=is_muted(mutes, detector, severity),
        ),
        ongoing=state == "open",
        first_step=find_first_step(run_id, evidence, opened_seq),
        last_step=last_seq + 1,
        opened_at=opened_at,
        last_at=last_at,
        findings=findings,
        review=review,
    )


def find_first_step(run_id: str, evidence: bytes, opened_seq: int) -> int:
    """Return the first step of an incident: of those that prove it, else the one at which it was noticed."""
    return min(_read_seqs(run_id, decode_evidence(evidence).event_ids), default=opened_seq) + 1


def _read_seqs(run_id: str, event_ids: Iterable[str]) -> Iterable[int]:
    prefix = run_id + "."
    for event_id in event_ids:
        number = event_id.removeprefix(prefix)
        if event_id.startswith(prefix) and number.isdecimal():
            yield int(number)


def find_seqs(connection: Connection, run: int, incident: Incident) -> list[int]:
    """Return the places of an incident's evidence, in order."""
    seqs = set(_read_seqs(incident.run_id, incident.event_ids))
    others = [event_id for event_id in incident.event_ids if not event_id.startswith(f"{incident.run_id}.")]
    if others:
        sql = f"SELECT seq FROM events WHERE run = ? AND event_id IN ({', '.join('?' * len(others))})"
        seqs.update(seq for (seq,) in connection.execute(sql, (run, *others)))
    return sorted(seqs)
