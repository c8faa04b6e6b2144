"""Read the events of Cursor's hooks: camel case names, and guidance only after a tool call."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from steadyhelm.decisions import Verdict
from steadyhelm.recordings.hook_events.hook_step import (
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
    """Return the step of one event; arguments and results may be texts of JSON."""
    event = get_text(payload, "hook_event_name")
    kind = KINDS.get(event, "other")
    tool, args = get_text(payload, "tool_name"), _parse_json_text(payload.get("tool_input"))
    response = _parse_json_text(payload.get("tool_output"))
    call_id, turn = get_id(payload, "tool_use_id"), get_id(payload, "generation_id")
    failed = event == "postToolUseFailure"
    text = get_text(payload, "prompt", "text")
    once = (
        f"{event}:{call_id}" if call_id else f"{event}:{turn}:{compute_mark(text)}" if turn and text else ""
    )
    return HookStep(
        kind=kind,
        event=event,
        session_id=get_id(payload, "conversation_id", "session_id"),
        text=text,
        tool=tool,
        args=args,
        result=simplify_result(response),
        error=get_text(payload, "error_message", "error") or "error" if failed else find_failure(response),
        call_id=call_id or (compute_mark(tool, args) if tool else ""),
        once=once,
        duration_ms=get_number(payload, "duration", "duration_ms"),
    )


def write(step: HookStep, answer: HookAnswer) -> dict[str, Any]:
    """Return the response in Cursor's format."""
    if answer.verdict == "deny" and step.kind == "before_tool":
        said = {"permission": "deny", "agent_message": answer.words}
        return said | ({"user_message": answer.note} if answer.note else {})
    return {"additional_context": answer.words} if answer.words and step.kind == "after_tool" else {}


def _parse_json_text(value: Any) -> Any:
    if not isinstance(value, str) or value.lstrip()[:1] not in {"{", "["}:
        return value
    try:
        return msgspec.json.decode(value)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return value
