"""Read the events of Claude Code's hooks and write responses to them."""

from collections.abc import Mapping
from typing import Any, Final

from steadyhelm.decisions import Verdict
from steadyhelm.recordings.hook_events.hook_step import (
    BatchCall,
    HookAnswer,
    HookStep,
    StepKind,
    compute_mark,
    find_failure,
    get_id,
    get_number,
    get_text,
    simplify_result,
)

AGENT: Final = "claude-code"

KINDS: Final[dict[str, StepKind]] = {
    "UserPromptSubmit": "prompt",
    "PreToolUse": "before_tool",
    "PostToolUse": "after_tool",
    "PostToolUseFailure": "after_tool",
    "PostToolBatch": "after_batch",
    "Stop": "reply",
    "StopFailure": "reply",
    "SubagentStop": "end",
    "SessionEnd": "end",
}
CAN: Final[dict[StepKind, frozenset[Verdict]]] = {
    "prompt": frozenset({"proceed", "guide"}),
    "notice": frozenset({"proceed", "guide"}),
    "before_tool": frozenset({"proceed", "guide", "deny", "stop"}),
    "after_tool": frozenset({"proceed", "guide", "stop"}),
    "after_batch": frozenset({"proceed", "guide", "stop"}),
}
SPEAKS: Final[frozenset[StepKind]] = frozenset({"prompt", "notice", "after_tool", "after_batch"})

_PROGRAM_PREFIXES: Final = ("<task-notification", "<teammate-message", "<system-reminder")
_MAX_CALLS: Final = 64


def read(payload: Mapping[str, Any]) -> HookStep:
    """Return the step of one event; an unknown event has the kind `other`."""
    event = get_text(payload, "hook_event_name")
    kind = KINDS.get(event, "other")
    text = get_text(payload, "prompt") if kind == "prompt" else get_text(payload, "last_assistant_message")
    if kind == "prompt" and text.lstrip().startswith(_PROGRAM_PREFIXES):
        kind = "notice"
    response = payload.get("tool_response")
    call_id, part = get_id(payload, "tool_use_id"), get_id(payload, "agent_id")
    turn = get_id(payload, "prompt_id", "turn_id")
    error = _read_error(event, payload, response)
    return HookStep(
        kind=kind,
        event=event,
        session_id=get_id(payload, "session_id"),
        part=part,
        text="" if event == "StopFailure" else text,
        tool=get_text(payload, "tool_name"),
        args=payload.get("tool_input"),
        result=simplify_result(response),
        error=error,
        calls=_read_calls(payload.get("tool_calls")) if kind == "after_batch" else (),
        call_id=call_id,
        once=_make_repeat_key(kind, event, call_id, turn, text),
        turn=turn,
        duration_ms=get_number(payload, "duration_ms"),
        # A sub-agent writes a transcript of its own; it is named when the sub-agent ends.
        transcript=get_text(payload, "agent_transcript_path" if part else "transcript_path"),
    )


def _make_repeat_key(kind: StepKind, event: str, call_id: str, turn: str, text: str) -> str:
    """Return the key by which a repeated notice is recognised."""
    if call_id:
        return f"{event}:{call_id}"
    # Without the id of the prompt two equal notices may be two equal steps: then both count.
    # The calls of a batch are known again one by one.
    return f"{event}:{turn}:{compute_mark(text)}" if turn and kind != "after_batch" else ""


def write(step: HookStep, answer: HookAnswer) -> dict[str, Any]:
    """Return the response in Claude Code's format; a stop is a denial that also ends the turn."""
    said: dict[str, Any] = {}
    if answer.verdict in {"deny", "stop"} and step.kind == "before_tool":
        said["hookSpecificOutput"] = {
            "hookEventName": step.event,
            "permissionDecision": "deny",
            "permissionDecisionReason": answer.words,
        }
    elif answer.words:
        said["hookSpecificOutput"] = {"hookEventName": step.event, "additionalContext": answer.words}
    if answer.verdict == "stop":
        said |= {"continue": False, "stopReason": answer.note or answer.words}
    if answer.note:
        said["systemMessage"] = answer.note
    return said


def _read_error(event: str, payload: Mapping[str, Any], response: Any) -> str | None:
    if event == "PostToolUseFailure":
        return get_text(payload, "error") or "error"
    if event == "StopFailure":
        return get_text(payload, "last_assistant_message", "error_details", "error") or "error"
    return find_failure(response)


def _read_calls(told: Any) -> tuple[BatchCall, ...]:
    given = [it for it in told if isinstance(it, dict)] if isinstance(told, list) else []
    return tuple(
        BatchCall(
            call_id=get_id(call, "tool_use_id"),
            tool=get_text(call, "tool_name"),
            args=call.get("tool_input"),
            told=_read_response(call.get("tool_response")),
        )
        for call in given[:_MAX_CALLS]
    )


def _read_response(response: Any) -> str:
    """Return the text the model received, without the error tags around it."""
    told = simplify_result(response)
    if not isinstance(told, str):
        return ""
    return told.removeprefix("<tool_use_error>").removesuffix("</tool_use_error>").strip()
