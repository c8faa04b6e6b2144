"""The results of a stream: rows that a sink writes by key, so that a repeated batch changes nothing."""

from typing import Any, Final, Literal

from msgspec import Struct

from steadyhelm.engine.responses import Ending
from steadyhelm.engine.totals import Skipped
from steadyhelm.events import RunInfo, TraceEvent
from steadyhelm.findings import DriftEvent
from steadyhelm.hostile_text import encode_safe_json
from steadyhelm.incidents import Incident

ResultKind = Literal["finding", "incident", "run", "skipped", "unreadable"]

RESULT_COLUMNS: Final = (
    "agent_id string, run_id string, kind string, id string, version long, severity string, at double, "
    "body string"
)
"""What a result is in a frame. The first four columns are its key; of several versions the highest counts."""


class Result(Struct, frozen=True, kw_only=True, array_like=True):
    """One result; `body` is JSON."""

    agent_id: str
    run_id: str
    kind: ResultKind
    id: str
    version: int
    severity: str
    at: float
    body: str


def report_finding(run: RunInfo, event: TraceEvent, finding: DriftEvent, *, at_end: bool = False) -> Result:
    """Return a finding at an event; one about the run as a whole has an id of its own."""
    body = {
        "detector": finding.detector,
        "kind": finding.kind,
        "severity": finding.severity,
        "score": round(finding.score, 4),
        "message": finding.message,
        "suggested_action": finding.suggested_action,
        "event_id": event.event_id,
        "seq": event.seq,
        "evidence": [str(proof) for proof in finding.event_ids],
    }
    key = f"{event.event_id}/{finding.detector}" + ("/end" if at_end else "")
    return _make(run, "finding", key, event.seq, finding.severity, event.timestamp, body)


def report_incident(run: RunInfo, incident: Incident, seq: int) -> Result:
    """Return an incident as it is after the event at this place."""
    at, severity = incident.last_at, incident.severity
    return _make(run, "incident", incident.incident_id, seq, severity, at, incident.to_dict())


def report_end(
    run: RunInfo,
    ending: Ending,
    not_checked: dict[str, str],
    seq: int,
    *,
    action: str,
    tokens_saved: int | None,
) -> Result:
    """Return the summary of a run that has ended."""
    summary = ending.summary
    body = {
        "goal": run.goal,
        "version": run.version,
        "task_type": run.task_type,
        "started_at": summary.started_at,
        "ended_at": summary.ended_at,
        "events": summary.events,
        "tokens": summary.tokens,
        "tool_calls": summary.tool_calls,
        "errors": summary.errors,
        "had_incident": summary.had_incident,
        "action": action,
        "tokens_saved": tokens_saved,
        "not_checked": not_checked,
    }
    return _make(run, "run", run.run_id, seq, "", summary.ended_at, body)


def report_skipped(run: RunInfo, event: TraceEvent, skipped: Skipped) -> Result:
    """Return that an event was not judged, and why."""
    body = {"event_id": event.event_id, "seq": event.seq, "skipped": skipped}
    return _make(run, "skipped", f"{event.seq}/{skipped}", event.seq, "", event.timestamp, body)


def report_unreadable(agent_id: str, run_id: str, digest: str, reason: str) -> Result:
    """Return that a message could not be read, and why."""
    body = encode_safe_json({"reason": reason}).decode()
    return Result(
        agent_id=agent_id,
        run_id=run_id,
        kind="unreadable",
        id=digest,
        version=0,
        severity="",
        at=0.0,
        body=body,
    )


def _make(
    run: RunInfo, kind: ResultKind, key: str, version: int, severity: str, at: float, body: dict[str, Any]
) -> Result:
    return Result(
        agent_id=run.agent_id,
        run_id=run.run_id,
        kind=kind,
        id=key,
        version=version,
        severity=str(severity),
        at=at,
        body=encode_safe_json(body).decode(),
    )
