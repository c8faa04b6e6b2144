"""Which coding agent is speaking, and who understands it."""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from steadyhelm.decisions import Verdict
from steadyhelm.recordings.hook_events import claude_code, codex, cursor, gemini_cli
from steadyhelm.recordings.hook_events.step import HookAnswer, HookStep, StepKind


class Dialect(NamedTuple):
    """How one coding agent speaks.

    `kinds` are the events we ask it for, `can` what it can be asked to do at each kind of step, `speaks`
    the kinds at which words for the model can be handed over.
    """

    agent: str
    kinds: Mapping[str, StepKind]
    can: Mapping[StepKind, frozenset[Verdict]]
    speaks: frozenset[StepKind]
    read: Callable[[Mapping[str, Any]], HookStep]
    write: Callable[[HookStep, HookAnswer], dict[str, Any]]


def _dialect(module: Any) -> Dialect:
    return Dialect(module.AGENT, module.KINDS, module.CAN, module.SPEAKS, module.read, module.write)


DIALECTS: Final = {module.AGENT: _dialect(module) for module in (claude_code, codex, gemini_cli, cursor)}
AGENTS: Final = tuple(DIALECTS)


def recognised(payload: Mapping[str, Any]) -> Dialect:
    """The dialect of a payload, by the fields only one of them has; Claude Code's when none shows.

    >>> recognised({"hook_event_name": "BeforeTool", "session_id": "s"}).agent
    'gemini-cli'
    >>> recognised({"hook_event_name": "preToolUse", "conversation_id": "c"}).agent
    'cursor'
    """
    event = payload.get("hook_event_name")
    if "conversation_id" in payload or (isinstance(event, str) and event[:1].islower()):
        return DIALECTS[cursor.AGENT]
    if (event in gemini_cli.KINDS and event not in claude_code.KINDS) or event in gemini_cli.OTHERS:
        return DIALECTS[gemini_cli.AGENT]
    if "turn_id" in payload or (isinstance(payload.get("model"), str) and event != "SessionStart"):
        return DIALECTS[codex.AGENT]
    return DIALECTS[claude_code.AGENT]
