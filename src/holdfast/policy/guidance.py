"""The words for the model: what repeats or went wrong, what came of it, and what to do instead."""

from collections.abc import Sequence

from holdfast.decisions import DriftAction
from holdfast.findings import DriftEvent, Severity

_OPENINGS = {
    DriftAction.INJECT_REMINDER: "Before you go on:",
    DriftAction.SUMMARIZE_REPLAN: "Stop here. Sum up in two sentences what you know, then write a new plan.",
    DriftAction.CHECKPOINT_RESET: "Go back to your last good state, and take another way from there.",
    DriftAction.ASK_USER: "Do not go on alone: tell the user what stands in the way, and ask how to proceed.",
}
_LONGEST = 300


def guidance(action: DriftAction, findings: Sequence[DriftEvent], goal: str) -> str:
    """What to tell the model, naming the evidence; empty when there is nothing to say."""
    if action is DriftAction.CONTINUE:
        return ""
    lines = [_OPENINGS[action]]
    lines += [f"- {_one_line(finding.message)}. {finding.suggested_action}" for finding in _worst(findings)]
    if goal:
        lines.append(f"Your goal: {_one_line(goal)}")
    return "\n".join(lines)


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
