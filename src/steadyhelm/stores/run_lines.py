"""Convert a stored run into one line of a run file."""

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


def build_run_line(run: RunRow, metadata: dict[str, Any], events: Iterable[RecordedEvent]) -> dict[str, Any]:
    """Return the run as a line of a run file. What is not known is left out."""
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
    return {**known, "events": [build_entry(recorded.event) for recorded in events]}


def build_entry(event: TraceEvent) -> dict[str, Any]:
    """Return one event as an entry of a run file.

    Arguments are under `args`, texts under `text`, any other result under `result`.
    What a run file has no key for is under `meta`, so that nothing a detector reads is lost.
    """
    fields = {
        "type": _TYPES.get(event.action_type, "state"),
        "name": event.action_name,
        **_build_data(event),
        "error": _build_error(event),
        "tokens": event.token_count or None,
        "duration_ms": event.duration_ms or None,
        "t": event.timestamp,
        "call_id": event.call_id,
        "parent_run_id": event.parent_run_id,
        "cost_usd": event.cost_usd,
        "meta": _build_meta(event) or None,
    }
    return {key: value for key, value in fields.items() if value is not None}


def _build_data(event: TraceEvent) -> dict[str, Any]:
    if event.action_type == TOOL_CALL:
        return {"args": event.input_data, "result": event.output_data}
    if event.action_type == USER_MESSAGE:
        return _build_text(event.input_data)
    return {"args": event.input_data, **_build_text(event.output_data)}


def _build_text(data: Any) -> dict[str, Any]:
    if isinstance(data, dict) and data.keys() == {"text"} and isinstance(data["text"], str):
        return {"text": data["text"]}
    return {"text": data} if isinstance(data, str) else {"result": data}


def _build_error(event: TraceEvent) -> str | bool | None:
    if event.error is not None:
        return event.error or True
    # A call without any result has ended all the same: readers must not wait for an entry with the result.
    return False if event.action_type == TOOL_CALL and event.output_data is None else None


def _build_meta(event: TraceEvent) -> dict[str, Any]:
    meta = {
        "seq": event.seq,
        "started_seq": event.started_seq,
        "event_id": None if event.event_id == f"{event.run_id}.{event.seq}" else event.event_id,
        "action_type": None if event.action_type in _TYPES else event.action_type,
        "output_data": event.output_data if event.action_type == USER_MESSAGE else None,
        "metadata": event.metadata,
    }
    return {key: value for key, value in meta.items() if value is not None}
