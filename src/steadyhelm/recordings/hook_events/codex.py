"""Read the events of Codex CLI's hooks: the format of Claude Code, with one id for each turn.

It rejects a response with unknown keys, and Claude Code's has none.
The exit code of a command is in the transcript, or above the output that a hook receives.
"""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import structs

from steadyhelm.decisions import Verdict
from steadyhelm.recordings.codex import AGENT, read_output
from steadyhelm.recordings.hook_events import claude_code
from steadyhelm.recordings.hook_events.claude_code import SPEAKS, write
from steadyhelm.recordings.hook_events.hook_step import HookStep, StepKind, format_exit

__all__ = ["AGENT", "CAN", "KINDS", "SPEAKS", "read", "write"]

KINDS: Final[dict[str, StepKind]] = {
    "UserPromptSubmit": "prompt",
    "PreToolUse": "before_tool",
    "PostToolUse": "after_tool",
    "Stop": "reply",
    "SubagentStop": "end",
    "SessionEnd": "end",
}
# Before a call Codex accepts a denial; it accepts the end of the turn only after a call.
CAN: Final[dict[StepKind, frozenset[Verdict]]] = {
    **claude_code.CAN,
    "before_tool": frozenset({"proceed", "guide", "deny"}),
}
_HEADERS: Final = ("Exit code:", "Chunk ID:", "Wall time:", '{"output"')


def read(payload: Mapping[str, Any]) -> HookStep:
    """Return the step of one event; a command that ended with another exit code than 0 has failed."""
    step = claude_code.read(payload)
    if step.error is not None or not isinstance(step.result, str) or not step.result.startswith(_HEADERS):
        return step
    words, about = read_output(step.result)
    code = about.get("exit_code", 0)
    return structs.replace(step, error=format_exit(code, words)) if code else step
