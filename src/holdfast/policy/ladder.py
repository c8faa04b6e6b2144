"""From what was noticed to what to do about it: the response ladder."""

from collections.abc import Collection, Sequence
from typing import Final

from holdfast.decisions import DriftAction, Mode, Verdict
from holdfast.findings import DriftEvent, Severity

FIRST_RUNG: Final = {
    Severity.LOW: DriftAction.CONTINUE,
    Severity.MED: DriftAction.INJECT_REMINDER,
    Severity.HIGH: DriftAction.SUMMARIZE_REPLAN,
    Severity.CRITICAL: DriftAction.CHECKPOINT_RESET,
}

# What each action asks of the caller in enforce mode; guide mode only ever speaks.
ENFORCED: Final[dict[DriftAction, Verdict]] = {
    DriftAction.CONTINUE: "proceed",
    DriftAction.INJECT_REMINDER: "guide",
    DriftAction.SUMMARIZE_REPLAN: "guide",
    DriftAction.CHECKPOINT_RESET: "rollback",
    DriftAction.ASK_USER: "ask",
}

VERDICTS: Final[tuple[Verdict, ...]] = ("proceed", "guide", "deny", "rollback", "ask", "stop")


def respond(findings: Sequence[DriftEvent], going_on: Collection[str]) -> DriftAction:
    """The strongest answer any finding calls for; one rung higher where its incident was already answered.

    `going_on` names the kinds of drift whose incident got an answer before this event.
    """
    strongest = DriftAction.CONTINUE
    for finding in findings:
        action = FIRST_RUNG[finding.severity]
        if action is not DriftAction.CONTINUE and finding.kind in going_on:
            action = action.raised()
        if action.rung > strongest.rung:
            strongest = action
    return strongest


def verdict(action: DriftAction, mode: Mode, can: Collection[Verdict] = VERDICTS) -> Verdict:
    """What the caller shall do now, out of what it can.

    What it cannot do falls to the nearest weaker answer it can give; only the strongest action, which
    must not fade away, looks for a stronger one first.

    >>> verdict(DriftAction.ASK_USER, "enforce", {"proceed", "stop"})
    'stop'
    >>> verdict(DriftAction.CHECKPOINT_RESET, "enforce", {"proceed", "guide", "stop"})
    'guide'
    >>> verdict(DriftAction.ASK_USER, "observe")
    'proceed'
    """
    if mode == "observe" or action is DriftAction.CONTINUE:
        return "proceed"
    wanted = ENFORCED[action] if mode == "enforce" else "guide"
    place = VERDICTS.index(wanted)
    weaker = [name for name in reversed(VERDICTS[: place + 1]) if name in can]
    stronger = [name for name in VERDICTS[place:] if name in can]
    if action is DriftAction.ASK_USER and mode == "enforce":
        return (stronger or weaker or ["proceed"])[0]
    return (weaker or ["proceed"])[0]
