"""A large database made quickly: runs of 200 events, written through the store in big batches."""

import json
import random

from benchmarks.workload import RUN_LENGTH, tool_event

from steadyhelm import (
    BaselineStats,
    DriftEvent,
    Incident,
    RunInfo,
    RunSummary,
    Severity,
    SQLiteStore,
    TraceEvent,
)
from steadyhelm.incidents import IncidentState
from steadyhelm.sink import Record, RecordedEvent

AGENTS = 20
STARTED_AT = 1_700_000_000.0
_BETWEEN_RUNS_S = 60.0
_RUNS_A_BATCH = 25
_PAYLOADS = [
    (json.dumps(event.arguments).encode(), json.dumps({"text": event.result}).encode(), event.name)
    for event in map(tool_event, range(1000))
]


def get_agent(run: int) -> str:
    """Return the agent of a run."""
    return f"agent-{run % AGENTS}"


def get_run_id(run: int) -> str:
    """Return the id of a run."""
    return f"run{run:09d}"


def get_start_time(run: int) -> float:
    """Return the time at which a run starts."""
    return STARTED_AT + run * _BETWEEN_RUNS_S


def fill(store: SQLiteStore, first: int, runs: int) -> None:
    """Write that many runs; one in ten has findings and an incident, one in a hundred a critical one."""
    random.seed(first)
    for start in range(first, first + runs, _RUNS_A_BATCH):
        records: list[Record] = []
        for run in range(start, min(start + _RUNS_A_BATCH, first + runs)):
            records.extend(
                list_run_records(
                    get_agent(run),
                    get_run_id(run),
                    get_start_time(run),
                    flagged=run % 10 == 0,
                    critical=run % 100 == 0,
                )
            )
        store.write(records)
    for number in range(AGENTS):
        agent_id = get_agent(number)
        store.save_baseline(BaselineStats(agent_id=agent_id, calibration_runs=50, word_counts=bytes(16_384)))


def list_run_records(
    agent_id: str,
    run_id: str,
    at: float,
    *,
    flagged: bool,
    critical: bool,
    events: int = RUN_LENGTH,
    incident_state: IncidentState = "closed",
    subject: str = "",
) -> list[Record]:
    """Return the records of one run, with findings and an incident when it is flagged."""
    first = random.randrange(1000)
    records: list[Record] = [RunInfo(agent_id=agent_id, run_id=run_id, started_at=at, goal="ship the orders")]
    for seq in range(events):
        input_json, output_json, name = _PAYLOADS[(first + seq) % 1000]
        event = TraceEvent(
            agent_id=agent_id,
            run_id=run_id,
            action_type="tool_call",
            action_name=name,
            timestamp=at + seq * 0.25,
            event_id=f"{run_id}.{seq}",
            token_count=20,
            duration_ms=12.5,
            seq=seq,
            call_hash=random.getrandbits(62),
            result_hash=random.getrandbits(62),
        )
        records.append(RecordedEvent(event, input_json, output_json))
    if flagged:
        records.extend(_drift(agent_id, run_id, at, critical=critical, state=incident_state, subject=subject))
    summary = RunSummary(
        agent_id=agent_id,
        run_id=run_id,
        started_at=at,
        ended_at=at + 50,
        events=events,
        had_incident=flagged,
    )
    return [*records, summary]


def _drift(
    agent_id: str, run_id: str, at: float, *, critical: bool, state: IncidentState, subject: str
) -> list[Record]:
    severity, score = (Severity.CRITICAL, 0.95) if critical else (Severity.MED, 0.6)
    findings = [
        DriftEvent(
            agent_id=agent_id,
            run_id=run_id,
            detector="action_loop",
            kind="loop",
            severity=severity,
            score=score,
            message="read_file called 5 times in a row with the same arguments and the same result",
            suggested_action="Change the approach.",
            timestamp=at + n,
            event_id=f"{run_id}.{n}/action_loop",
            context={"event_ids": [f"{run_id}.{n}"]},
        )
        for n in range(3)
    ]
    incident = Incident(
        incident_id=f"i{run_id}",
        agent_id=agent_id,
        run_id=run_id,
        detector="action_loop",
        kind="loop",
        severity=severity,
        peak=score,
        message=findings[0].message,
        suggested_action="Change the approach.",
        opened_at=at,
        opened_seq=0,
        last_at=at + 2,
        last_seq=2,
        state=state,
        closed_at=at + 12 if state == "closed" else None,
        findings=3,
        subject=subject,
    )
    return [*findings, incident]
