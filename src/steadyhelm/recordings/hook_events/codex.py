"""Read the events of Codex CLI's hooks: the format of Claude Code, with one id for each turn."""

from collections.abc import Mapping
from typing import Any, Final

from steadyhelm.decisions import Verdict
from steadyhelm.recordings.hook_events import claude_code
from steadyhelm.recordings.hook_events.hook_step import HookAnswer, HookStep, StepKind

AGENT: Final = "codex"

KINDS: Final[dict[str, StepKind]] = {
    "UserPromptSubmit": "prompt",
    "PreToolUse": "before_tool",
    "PostToolUse": "after_tool",
    "Stop": "reply",
    "SubagentStop": "end",
}
# Before a call Codex accepts a denial; it accepts the end of the turn only after a call.
CAN: Final[dict[StepKind, frozenset[Verdict]]] = {
    **claude_code.CAN,
    "before_tool": frozenset({"proceed", "guide", "deny"}),
}
SPEAKS: Final = claude_code.SPEAKS


def read(payload: Mapping[str, Any]) -> HookStep:
    """Return the step of one event."""
    return claude_code.read(payload)


def write(step: HookStep, answer: HookAnswer) -> dict[str, Any]:
    """Return the response; Codex rejects a response with unknown keys, and there are none."""
    return claude_code.write(step, answer)
