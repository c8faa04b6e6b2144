"""Codex CLI's hooks: the envelope of Claude Code, read strictly, with one id for each turn."""

from collections.abc import Mapping
from typing import Any, Final

from steadyhelm.decisions import Verdict
from steadyhelm.recordings.hook_events import claude_code
from steadyhelm.recordings.hook_events.step import HookAnswer, HookStep, StepKind

AGENT: Final = "codex"

KINDS: Final[dict[str, StepKind]] = {
    "UserPromptSubmit": "prompt",
    "PreToolUse": "before_tool",
    "PostToolUse": "after_tool",
    "Stop": "reply",
    "SubagentStop": "end",
}
# Before a call it takes a denial; that the turn ends too, it only takes after one.
CAN: Final[dict[StepKind, frozenset[Verdict]]] = {
    **claude_code.CAN,
    "before_tool": frozenset({"proceed", "guide", "deny"}),
}
SPEAKS: Final = claude_code.SPEAKS


def read(payload: Mapping[str, Any]) -> HookStep:
    """What one event tells."""
    return claude_code.read(payload)


def write(step: HookStep, answer: HookAnswer) -> dict[str, Any]:
    """The answer; keys it does not know would make it throw the answer away, and there are none."""
    return claude_code.write(step, answer)
