"""Cursor's hooks: events in camel case, one conversation as the session, words only after a tool call."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from steadyhelm.decisions import Verdict
from steadyhelm.recordings.hook_events.step import (
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

AGENT: Final = "cursor"

KINDS: Final[dict[str, StepKind]] = {
    "beforeSubmitPrompt": "prompt",
    "preToolUse": "before_tool",
    "postToolUse": "after_tool",
    "postToolUseFailure": "after_tool",
    "afterAgentResponse": "reply",
    "sessionEnd": "end",
}
CAN: Final[dict[StepKind, frozenset[Verdict]]] = {
    "before_tool": frozenset({"proceed", "guide", "deny"}),
    "after_tool": frozenset({"proceed", "guide"}),
}
SPEAKS: Final[frozenset[StepKind]] = frozenset({"after_tool"})


def read(payload: Mapping[str, Any]) -> HookStep:
    """What one event tells; arguments and results may come as a text of JSON."""
    event = text_of(payload, "hook_event_name")
    kind = KINDS.get(event, "other")
    tool, args = text_of(payload, "tool_name"), _opened(payload.get("tool_input"))
    response = _opened(payload.get("tool_output"))
    call_id, turn = id_of(payload, "tool_use_id"), id_of(payload, "generation_id")
    failed = event == "postToolUseFailure"
    text = text_of(payload, "prompt", "text")
    once = f"{event}:{call_id}" if call_id else f"{event}:{turn}:{mark_of(text)}" if turn and text else ""
    return HookStep(
        kind=kind,
        event=event,
        session_id=id_of(payload, "conversation_id", "session_id"),
        text=text,
        tool=tool,
        args=args,
        result=result_of(response),
        error=text_of(payload, "error_message", "error") or "error" if failed else failure_of(response),
        call_id=call_id or (mark_of(tool, args) if tool else ""),
        once=once,
        duration_ms=number_of(payload, "duration", "duration_ms"),
    )


def write(step: HookStep, answer: HookAnswer) -> dict[str, Any]:
    """The answer in its own words."""
    if answer.verdict == "deny" and step.kind == "before_tool":
        said = {"permission": "deny", "agent_message": answer.words}
        return said | ({"user_message": answer.note} if answer.note else {})
    return {"additional_context": answer.words} if answer.words and step.kind == "after_tool" else {}


def _opened(value: Any) -> Any:
    if not isinstance(value, str) or value.lstrip()[:1] not in {"{", "["}:
        return value
    try:
        return msgspec.json.decode(value)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return value
