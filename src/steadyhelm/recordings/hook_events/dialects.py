"""Find out which coding agent sent a hook event, and which module reads it."""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from steadyhelm.decisions import Verdict
from steadyhelm.recordings.hook_events import claude_code, codex, cursor, gemini_cli
from steadyhelm.recordings.hook_events.hook_step import HookAnswer, HookStep, StepKind, get_text


class HookDialect(NamedTuple):
    """The hook format of one coding agent.

    `kinds` are the events to install hooks for, `can` the verdicts it can carry out at each kind of step,
    `speaks` the kinds of step at which it accepts guidance for the model.
    """

    agent: str
    kinds: Mapping[str, StepKind]
    can: Mapping[StepKind, frozenset[Verdict]]
    speaks: frozenset[StepKind]
    read: Callable[[Mapping[str, Any]], HookStep]
    write: Callable[[HookStep, HookAnswer], dict[str, Any]]


def _make_dialect(module: Any) -> HookDialect:
    return HookDialect(module.AGENT, module.KINDS, module.CAN, module.SPEAKS, module.read, module.write)


DIALECTS: Final = {
    claude_code.AGENT: _make_dialect(claude_code),
    codex.AGENT: _make_dialect(codex),
    gemini_cli.AGENT: _make_dialect(gemini_cli),
    cursor.AGENT: _make_dialect(cursor),
}
AGENTS: Final = tuple(DIALECTS)


def recognise_dialect(payload: Mapping[str, Any]) -> HookDialect:
    """Return the dialect of a payload, by fields that only one has; Claude Code's when none matches.

    >>> recognise_dialect({"hook_event_name": "BeforeTool", "session_id": "s"}).agent
    'gemini-cli'
    >>> recognise_dialect({"hook_event_name": "preToolUse", "conversation_id": "c"}).agent
    'cursor'
    """
    event = get_text(payload, "hook_event_name")
    if "conversation_id" in payload or event[:1].islower():
        return DIALECTS[cursor.AGENT]
    if (event in gemini_cli.KINDS and event not in claude_code.KINDS) or event in gemini_cli.OTHERS:
        return DIALECTS[gemini_cli.AGENT]
    if "turn_id" in payload or (isinstance(payload.get("model"), str) and event != "SessionStart"):
        return DIALECTS[codex.AGENT]
    return DIALECTS[claude_code.AGENT]
