"""A stored run as one line of a run file."""

from collections.abc import Iterable
from typing import Any, Final

from steadyhelm.events import LLM_REQUEST, STATE_TRANSITION, TOOL_CALL, USER_MESSAGE, TraceEvent
from steadyhelm.sink import RecordedEvent
from steadyhelm.store import RunRow

_TYPES: Final = {
    TOOL_CALL: "tool_call",
    LLM_REQUEST: "llm_output",
    STATE_TRANSITION: "state",
    USER_MESSAGE: "user_message",
}


def run_line(run: RunRow, metadata: dict[str, Any], events: Iterable[RecordedEvent]) -> dict[str, Any]:
    """The run as a run file holds it; what is not known is left out."""
    line = {
        "run_id": run.run_id,
        "agent_id": run.agent_id,
        "goal": run.goal,
        "version": run.version,
        "task_type": run.task_type,
        "parent_run_id": run.parent_run_id,
        "started_at": run.started_at,
        "outcome": run.outcome,
        "meta": metadata,
    }
    known = {key: value for key, value in line.items() if value not in (None, "", {})}
    return {**known, "events": [entry(recorded.event) for recorded in events]}


def entry(event: TraceEvent) -> dict[str, Any]:
    """One event as an entry of a run file.

    Arguments stand under `args`, words under `text`, any other result under `result`.
    What a run file has no key for stands under `meta`, so that nothing a detector reads is lost.
    """
    written = {
        "type": _TYPES.get(event.action_type, "state"),
        "name": event.action_name,
        **_said(event),
        "error": _error(event),
        "tokens": event.token_count or None,
        "duration_ms": event.duration_ms or None,
        "t": event.timestamp,
        "call_id": event.call_id,
        "parent_run_id": event.parent_run_id,
        "cost_usd": event.cost_usd,
        "meta": _meta(event) or None,
    }
    return {key: value for key, value in written.items() if value is not None}


def _said(event: TraceEvent) -> dict[str, Any]:
    if event.action_type == TOOL_CALL:
        return {"args": event.input_data, "result": event.output_data}
    if event.action_type == USER_MESSAGE:
        return _words(event.input_data)
    return {"args": event.input_data, **_words(event.output_data)}


def _words(data: Any) -> dict[str, Any]:
    if isinstance(data, dict) and data.keys() == {"text"} and isinstance(data["text"], str):
        return {"text": data["text"]}
    return {"text": data} if isinstance(data, str) else {"result": data}


def _error(event: TraceEvent) -> str | bool | None:
    if event.error is not None:
        return event.error or True
    # A call without any result has ended all the same: readers must not wait for an entry that brings it.
    return False if event.action_type == TOOL_CALL and event.output_data is None else None


def _meta(event: TraceEvent) -> dict[str, Any]:
    meta = {
        "seq": event.seq,
        "started_seq": event.started_seq,
        "event_id": None if event.event_id == f"{event.run_id}.{event.seq}" else event.event_id,
        "action_type": None if event.action_type in _TYPES else event.action_type,
        "output_data": event.output_data if event.action_type == USER_MESSAGE else None,
        "metadata": event.metadata,
    }
    return {key: value for key, value in meta.items() if value is not None}
