"""Build records for the checks of a store: each has defaults, and any field may be given."""

from collections.abc import Callable
from typing import Any, Final

from steadyhelm.decisions import DriftAction, Intervention, TaskProfile
from steadyhelm.events import RunSummary, TraceEvent
from steadyhelm.findings import DriftEvent, Severity
from steadyhelm.incidents import Incident
from steadyhelm.sink import Record, RecordedEvent
from steadyhelm.store import Store
from steadyhelm.store_rows import Delivery

MakeStore = Callable[[], Store]

AT: Final = 1_700_000_000.0
"""The time of the first event."""


def an_event(seq: int = 0, *, agent_id: str = "agent", run_id: str = "run", **fields: Any) -> RecordedEvent:
    """Return a tool call at this place of a run; any field may be given."""
    defaults: dict[str, Any] = {
        "action_type": "tool_call",
        "action_name": "read",
        "timestamp": AT + seq,
        "event_id": f"{run_id}.{seq}",
        "token_count": 10,
        "duration_ms": 5.0,
        "input_data": {"path": "a.py"},
        "output_data": {"text": "words"},
    }
    return RecordedEvent.of(TraceEvent(agent_id=agent_id, run_id=run_id, seq=seq, **defaults | fields))


def a_finding(seq: int = 0, *, score: float = 0.8, **fields: Any) -> DriftEvent:
    """Return a finding at this place of a run; any field may be given."""
    defaults: dict[str, Any] = {
        "agent_id": "agent",
        "run_id": "run",
        "detector": "action_loop",
        "kind": "loop",
        "severity": Severity.from_score(score),
        "message": "the same call again",
        "suggested_action": "stop and think",
        "timestamp": AT + seq,
        "event_id": f"run.{seq}/action_loop",
        "context": {"event_ids": [f"run.{seq}"], "repeats": 4},
    }
    return DriftEvent(score=score, **defaults | fields)


def an_incident(incident_id: str = "incident", **fields: Any) -> Incident:
    """Return an open incident; any field may be given."""
    defaults: dict[str, Any] = {
        "agent_id": "agent",
        "run_id": "run",
        "detector": "action_loop",
        "kind": "loop",
        "severity": Severity.HIGH,
        "peak": 0.8,
        "message": "the same call again",
        "suggested_action": "stop and think",
        "opened_at": AT,
        "opened_seq": 3,
        "last_at": AT,
        "last_seq": 3,
    }
    return Incident(incident_id=incident_id, **defaults | fields)


def an_intervention(seq: int = 0, **fields: Any) -> Intervention:
    """Return a reminder at this place of a run; any field may be given."""
    defaults: dict[str, Any] = {
        "action": DriftAction.INJECT_REMINDER,
        "verdict": "guide",
        "timestamp": AT + seq,
        "guidance": "look again",
        "wording": "remind.loop",
    }
    return Intervention(seq=seq, **defaults | fields)


def a_profile(**fields: Any) -> TaskProfile:
    """Return a profile of two tasks; any field may be given."""
    defaults: dict[str, Any] = {
        "agent_id": "agent",
        "task_type": "fix",
        "tasks": 2,
        "steps": 30,
        "tokens": 900,
    }
    return TaskProfile(**defaults | fields)


def a_delivery(delivery_id: str = "delivery", **fields: Any) -> Delivery:
    """Return a queued alert; any field may be given."""
    defaults: dict[str, Any] = {
        "agent_id": "agent",
        "run_id": "run",
        "incident_id": "incident",
        "detector": "action_loop",
        "severity": Severity.HIGH,
        "reason": "opened",
        "channel": "webhook",
        "body": b'{"text": "drift"}',
        "created_at": AT,
    }
    return Delivery(delivery_id=delivery_id, **defaults | fields)


def a_summary(run_id: str = "run", **fields: Any) -> RunSummary:
    """Return a summary of an ended run; any field may be given."""
    defaults: dict[str, Any] = {"agent_id": "agent", "started_at": AT, "ended_at": AT + 60, "events": 3}
    return RunSummary(run_id=run_id, **defaults | fields)


def fill_store(make_store: MakeStore, *records: Record) -> Store:
    """Return a new store with these records in it, written as one batch."""
    store = make_store()
    store.write(records)
    return store
