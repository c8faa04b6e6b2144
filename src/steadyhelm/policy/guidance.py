"""The guidance text for the model: what repeats or went wrong, its evidence, and what to do instead."""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

from msgspec import Struct

from steadyhelm.decisions import DriftAction
from steadyhelm.findings import DriftEvent, Severity
from steadyhelm.hostile_text import escape_unsafe

_MAX_LINE_CHARS: Final = 300

BLOCKED_CALL_OPENING: Final = "This call was not run."
"""How the text about a blocked call begins."""


class Wordings(Struct, frozen=True, kw_only=True):
    """The opening sentence of each response level. Your own sentence is measured under its own name."""

    remind: str = "Before you go on:"
    replan: str = "Stop here. Sum up in two sentences what you know, then write a new plan."
    rollback: str = "Go back to your last good state, and take another way from there."
    ask: str = "Do not go on alone: tell the user what stands in the way, and ask how to proceed."


DEFAULT_WORDINGS: Final = Wordings()
_LEVEL_NAMES: Final = {
    DriftAction.INJECT_REMINDER: "remind",
    DriftAction.SUMMARIZE_REPLAN: "replan",
    DriftAction.CHECKPOINT_RESET: "rollback",
    DriftAction.ASK_USER: "ask",
}


class GuidanceText(NamedTuple):
    """The text for the model, and the name under which its effect is counted."""

    text: str = ""
    wording: str = ""


def write_guidance(
    action: DriftAction,
    findings: Sequence[DriftEvent],
    goal: str,
    *,
    wordings: Wordings = DEFAULT_WORDINGS,
    tried: Sequence[str] = (),
    user_words: str = "",
    plan: Sequence[str] = (),
    is_blocked: bool = False,
) -> GuidanceText:
    """Return the guidance for an action, with the evidence; empty for CONTINUE.

    Where a call `is_blocked` that comes first: the model must not take the text for the call's result.
    `tried` are earlier attempts that led nowhere, which the model should not repeat; `user_words` is what
    the user said since the goal was set, `plan` where the agent is in its plan.
    """
    if action is DriftAction.CONTINUE:
        return GuidanceText()
    level = _LEVEL_NAMES[action]
    opening: str = getattr(wordings, level)
    worst = _find_worst_by_kind(findings)
    reasons = [f"- {_to_one_line(finding.message)}. {_get_advice(finding)}" for finding in worst]
    lines = [BLOCKED_CALL_OPENING, *reasons, opening] if is_blocked else [opening, *reasons]
    if tried:
        lines.append(f"Already tried, do not repeat: {'; '.join(_to_one_line(it) for it in tried)}")
    if goal:
        lines.append(f"Your goal: {_to_one_line(goal)}")
    if user_words:
        lines.append(f"The user said last: {_to_one_line(user_words)}")
    lines += plan
    name = f"{level}.{'+'.join(finding.kind for finding in worst)}" if worst else level
    if opening != getattr(DEFAULT_WORDINGS, level):
        digest = blake2b(opening.encode("utf-8", "replace"), digest_size=2).hexdigest()
        name = f"{name}@{digest}"
    return GuidanceText("\n".join(lines), name)


def _find_worst_by_kind(findings: Sequence[DriftEvent]) -> list[DriftEvent]:
    """Return the worst finding of each kind: several detectors may see one loop, which is named once."""
    worst: dict[str, DriftEvent] = {}
    for finding in findings:
        known = worst.get(finding.kind)
        if finding.severity is not Severity.LOW and (known is None or finding.score > known.score):
            worst[finding.kind] = finding
    return list(worst.values())


def _get_advice(finding: DriftEvent) -> str:
    """Return what the agent should do: the `advice` of a finding whose suggestion is meant for people."""
    advice = finding.context.get("advice")
    return advice if isinstance(advice, str) else finding.suggested_action


def _to_one_line(text: str) -> str:
    """Return the text on one line, harmless and cut: the name of a tool or a goal may hold anything."""
    return escape_unsafe(" ".join(text.split()))[:_MAX_LINE_CHARS]
