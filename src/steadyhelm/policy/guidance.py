"""The words for the model: what repeats or went wrong, what came of it, and what to do instead."""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

from msgspec import Struct

from steadyhelm.decisions import DriftAction
from steadyhelm.findings import DriftEvent, Severity

_LONGEST: Final = 300


class Wordings(Struct, frozen=True, kw_only=True):
    """The sentence each rung opens with. A sentence of your own is measured under a name of its own."""

    remind: str = "Before you go on:"
    replan: str = "Stop here. Sum up in two sentences what you know, then write a new plan."
    reset: str = "Go back to your last good state, and take another way from there."
    ask: str = "Do not go on alone: tell the user what stands in the way, and ask how to proceed."


OURS: Final = Wordings()
_RUNGS: Final = {
    DriftAction.INJECT_REMINDER: "remind",
    DriftAction.SUMMARIZE_REPLAN: "replan",
    DriftAction.CHECKPOINT_RESET: "reset",
    DriftAction.ASK_USER: "ask",
}


class Words(NamedTuple):
    """What the model is told, and the name under which its effect is counted."""

    text: str = ""
    wording: str = ""


def guidance(
    action: DriftAction,
    findings: Sequence[DriftEvent],
    goal: str,
    *,
    wordings: Wordings = OURS,
    tried: Sequence[str] = (),
    user_words: str = "",
) -> Words:
    """What to tell the model, naming the evidence; nothing when there is nothing to say.

    `tried` are earlier ways that led nowhere, which the model should not take again; `user_words` what the
    user said since the goal was set.
    """
    if action is DriftAction.CONTINUE:
        return Words()
    rung = _RUNGS[action]
    opening: str = getattr(wordings, rung)
    worst = _worst(findings)
    lines = [opening]
    lines += [f"- {_one_line(finding.message)}. {finding.suggested_action}" for finding in worst]
    if tried:
        lines.append(f"Already tried, do not repeat: {'; '.join(_one_line(it) for it in tried)}")
    if goal:
        lines.append(f"Your goal: {_one_line(goal)}")
    if user_words:
        lines.append(f"The user said last: {_one_line(user_words)}")
    name = f"{rung}.{'+'.join(finding.kind for finding in worst)}" if worst else rung
    if opening != getattr(OURS, rung):
        digest = blake2b(opening.encode("utf-8", "replace"), digest_size=2).hexdigest()
        name = f"{name}@{digest}"
    return Words("\n".join(lines), name)


def _worst(findings: Sequence[DriftEvent]) -> list[DriftEvent]:
    """The worst finding of each kind: several detectors may see one loop, and the model hears of it once."""
    worst: dict[str, DriftEvent] = {}
    for finding in findings:
        known = worst.get(finding.kind)
        if finding.severity is not Severity.LOW and (known is None or finding.score > known.score):
            worst[finding.kind] = finding
    return list(worst.values())


def _one_line(text: str) -> str:
    """A tool's name or a goal may hold anything: it stays on its line, and short."""
    return " ".join(text.split())[:_LONGEST]
