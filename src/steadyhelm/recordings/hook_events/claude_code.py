"""Claude Code's hooks: its events read, its answers written."""

from collections.abc import Mapping
from typing import Any, Final

from steadyhelm.decisions import Verdict
from steadyhelm.recordings.hook_events.step import (
    BatchCall,
    HookAnswer,
    HookStep,
    StepKind,
    failure_of,
    id_of,
    mark_of,
    number_of,
    result_of,
    text_of,
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

_BY_THE_PROGRAM: Final = ("<task-notification", "<teammate-message", "<system-reminder")
_MOST_CALLS: Final = 64


def read(payload: Mapping[str, Any]) -> HookStep:
    """What one event tells; an event we do not know is of the kind `other`."""
    event = text_of(payload, "hook_event_name")
    kind = KINDS.get(event, "other")
    text = text_of(payload, "prompt") if kind == "prompt" else text_of(payload, "last_assistant_message")
    if kind == "prompt" and text.lstrip().startswith(_BY_THE_PROGRAM):
        kind = "notice"
    response = payload.get("tool_response")
    call_id, part = id_of(payload, "tool_use_id"), id_of(payload, "agent_id")
    turn = id_of(payload, "prompt_id", "turn_id")
    error = _error(event, payload, response)
    return HookStep(
        kind=kind,
        event=event,
        session_id=id_of(payload, "session_id"),
        part=part,
        text="" if event == "StopFailure" else text,
        tool=text_of(payload, "tool_name"),
        args=payload.get("tool_input"),
        result=result_of(response),
        error=error,
        calls=_calls(payload.get("tool_calls")) if kind == "after_batch" else (),
        call_id=call_id,
        once=_once(kind, event, call_id, turn, text),
        turn=turn,
        duration_ms=number_of(payload, "duration_ms"),
        # A sub-agent writes a transcript of its own; it is named when the sub-agent ends.
        transcript=text_of(payload, "agent_transcript_path" if part else "transcript_path"),
    )


def _once(kind: StepKind, event: str, call_id: str, turn: str, text: str) -> str:
    """The mark by which this notice is known again."""
    if call_id:
        return f"{event}:{call_id}"
    # Without the id of the prompt two equal notices may be two equal steps: then both count.
    # The calls of a batch are known again one by one.
    return f"{event}:{turn}:{mark_of(text)}" if turn and kind != "after_batch" else ""


def write(step: HookStep, answer: HookAnswer) -> dict[str, Any]:
    """The answer in its own words; a stop is a denial that also ends the turn."""
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


def _error(event: str, payload: Mapping[str, Any], response: Any) -> str | None:
    if event == "PostToolUseFailure":
        return text_of(payload, "error") or "error"
    if event == "StopFailure":
        return text_of(payload, "last_assistant_message", "error_details", "error") or "error"
    return failure_of(response)


def _calls(told: Any) -> tuple[BatchCall, ...]:
    given = [it for it in told if isinstance(it, dict)] if isinstance(told, list) else []
    return tuple(
        BatchCall(
            call_id=id_of(call, "tool_use_id"),
            tool=text_of(call, "tool_name"),
            args=call.get("tool_input"),
            told=_words(call.get("tool_response")),
        )
        for call in given[:_MOST_CALLS]
    )


def _words(response: Any) -> str:
    """What the model was told, without the marks of an error around it."""
    told = result_of(response)
    if not isinstance(told, str):
        return ""
    return told.removeprefix("<tool_use_error>").removesuffix("</tool_use_error>").strip()
