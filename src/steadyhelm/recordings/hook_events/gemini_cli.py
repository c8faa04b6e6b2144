"""Gemini CLI's hooks: its calls carry no id, so a notice is known again by the moment it was made."""

from collections.abc import Mapping
from typing import Any, Final

from steadyhelm.decisions import Verdict
from steadyhelm.recordings.hook_events.step import (
    HookAnswer,
    HookStep,
    StepKind,
    failure_of,
    id_of,
    mark_of,
    text_of,
)

AGENT: Final = "gemini-cli"

KINDS: Final[dict[str, StepKind]] = {
    "BeforeAgent": "prompt",
    "BeforeTool": "before_tool",
    "AfterTool": "after_tool",
    "AfterAgent": "reply",
    "SessionEnd": "end",
}
OTHERS: Final = frozenset({"BeforeModel", "AfterModel", "BeforeToolSelection", "PreCompress"})
CAN: Final[dict[StepKind, frozenset[Verdict]]] = {
    "prompt": frozenset({"proceed", "guide"}),
    "before_tool": frozenset({"proceed", "guide", "deny", "stop"}),
    "after_tool": frozenset({"proceed", "guide", "stop"}),
}
SPEAKS: Final[frozenset[StepKind]] = frozenset({"prompt", "after_tool"})


def read(payload: Mapping[str, Any]) -> HookStep:
    """What one event tells."""
    event = text_of(payload, "hook_event_name")
    kind = KINDS.get(event, "other")
    tool, args, at = text_of(payload, "tool_name"), payload.get("tool_input"), id_of(payload, "timestamp")
    response = payload.get("tool_response")
    text = text_of(payload, "prompt_response") if kind == "reply" else text_of(payload, "prompt")
    return HookStep(
        kind=kind,
        event=event,
        session_id=id_of(payload, "session_id"),
        text=text,
        tool=tool,
        args=args,
        result=response.get("llmContent", response) if isinstance(response, dict) else response,
        error=failure_of(response),
        call_id=mark_of(tool, args) if tool else "",
        once=f"{event}:{at}:{mark_of(tool, args, text)}" if at else "",
        transcript=text_of(payload, "transcript_path"),
    )


def write(step: HookStep, answer: HookAnswer) -> dict[str, Any]:
    """The answer in its own words."""
    said: dict[str, Any] = {}
    if answer.verdict in {"deny", "stop"} and step.kind == "before_tool":
        said |= {"decision": "deny", "reason": answer.words}
    elif answer.words:
        said["hookSpecificOutput"] = {"hookEventName": step.event, "additionalContext": answer.words}
    if answer.verdict == "stop":
        said |= {"continue": False, "stopReason": answer.note or answer.words}
    if answer.note:
        said["systemMessage"] = answer.note
    return said
