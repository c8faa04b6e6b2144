"""Claude Code's hooks: its events read, its answers written."""

from collections.abc import Mapping
from typing import Any, Final

from holdfast.adapters.hooks.step import (
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
from holdfast.decisions import Verdict

AGENT: Final = "claude-code"

KINDS: Final[dict[str, StepKind]] = {
    "UserPromptSubmit": "prompt",
    "PreToolUse": "before_tool",
    "PostToolUse": "after_tool",
    "PostToolUseFailure": "after_tool",
    "Stop": "reply",
    "SubagentStop": "end",
    "SessionEnd": "end",
}
CAN: Final[dict[StepKind, frozenset[Verdict]]] = {
    "prompt": frozenset({"proceed", "guide"}),
    "before_tool": frozenset({"proceed", "guide", "deny", "stop"}),
    "after_tool": frozenset({"proceed", "guide", "stop"}),
}
SPEAKS: Final[frozenset[StepKind]] = frozenset({"prompt", "after_tool"})


def read(payload: Mapping[str, Any]) -> HookStep:
    """What one event tells; an event we do not know is of the kind `other`."""
    event = text_of(payload, "hook_event_name")
    kind = KINDS.get(event, "other")
    response = payload.get("tool_response")
    call_id = id_of(payload, "tool_use_id")
    # Without the id of the prompt two equal notices may be two equal steps: then both count.
    turn = id_of(payload, "prompt_id", "turn_id")
    text = text_of(payload, "prompt") if kind == "prompt" else text_of(payload, "last_assistant_message")
    once = f"{event}:{call_id}" if call_id else f"{event}:{turn}:{mark_of(text)}" if turn else ""
    return HookStep(
        kind=kind,
        event=event,
        session_id=id_of(payload, "session_id"),
        part=id_of(payload, "agent_id"),
        text=text,
        tool=text_of(payload, "tool_name"),
        args=payload.get("tool_input"),
        result=result_of(response),
        error=_error(event, payload, response),
        call_id=call_id,
        once=once,
        duration_ms=number_of(payload, "duration_ms"),
        transcript=text_of(payload, "transcript_path"),
    )


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
    return failure_of(response)
