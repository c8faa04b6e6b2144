"""Read the events of Gemini CLI's hooks: calls have no id, so a repeated notice is recognised by its time."""

import re
from collections.abc import Mapping
from typing import Any, Final

from steadyhelm.decisions import Verdict
from steadyhelm.recordings.hook_events.hook_step import (
    HookAnswer,
    HookStep,
    StepKind,
    compute_mark,
    find_failure,
    format_exit,
    get_id,
    get_text,
)

AGENT: Final = "gemini-cli"
SHELL: Final = "run_shell_command"
_SHELL_TRAILER: Final = re.compile(
    r"(Exit Code|Signal|Process Group PGID|Background PIDs): ([0-9]{1,9})(?:, [0-9]+)*"
)

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
    """Return the step of one event."""
    event = get_text(payload, "hook_event_name")
    kind = KINDS.get(event, "other")
    tool, args, at = get_text(payload, "tool_name"), payload.get("tool_input"), get_id(payload, "timestamp")
    response = payload.get("tool_response")
    result = response.get("llmContent", response) if isinstance(response, dict) else response
    error = find_failure(response)
    if tool == SHELL and isinstance(result, str):
        result, code = read_shell_result(result)
        error = error or (format_exit(code, result) if code else None)
    text = get_text(payload, "prompt_response") if kind == "reply" else get_text(payload, "prompt")
    return HookStep(
        kind=kind,
        event=event,
        session_id=get_id(payload, "session_id"),
        text=text,
        tool=tool,
        args=args,
        result=result,
        error=error,
        call_id=compute_mark(tool, args) if tool else "",
        once=f"{event}:{at}:{compute_mark(tool, args, text)}" if at else "",
        transcript=get_text(payload, "transcript_path"),
    )


def read_shell_result(told: str) -> tuple[str, int]:
    r"""Return what a command printed, without process numbers, and its exit code.

    >>> read_shell_result("Output: 2 failed\nExit Code: 1\nProcess Group PGID: 41")
    ('2 failed', 1)
    """
    whole = told.strip().removeprefix("<untrusted_context>").removesuffix("</untrusted_context>")
    lines = whole.strip().split("\n")
    code = 0
    while lines and (found := _SHELL_TRAILER.fullmatch(lines[-1])):
        if found[1] in {"Exit Code", "Signal"}:
            code = int(found[2]) or code
        del lines[-1]
    return "\n".join(lines).removeprefix("Output: "), code


def write(step: HookStep, answer: HookAnswer) -> dict[str, Any]:
    """Return the response in Gemini CLI's format."""
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
