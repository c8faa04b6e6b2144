"""Choose the response level for findings, and the verdict that a caller can carry out."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from steadyhelm.decisions import DriftAction, Mode, Outcome, Verdict
from steadyhelm.findings import DriftEvent, Severity
from steadyhelm.incidents import Incident

DRIFT_SCORE: Final = "drift_score"
"""The detector name of findings that the weighted sum of all signals makes."""

FIRST_LEVEL: Final = {
    Severity.LOW: DriftAction.CONTINUE,
    Severity.MED: DriftAction.INJECT_REMINDER,
    Severity.HIGH: DriftAction.SUMMARIZE_REPLAN,
    Severity.CRITICAL: DriftAction.CHECKPOINT_RESET,
}

# The verdict for each action in enforce mode; in guide mode it is never more than guidance.
VERDICTS_AFTER_STEP: Final[dict[DriftAction, Verdict]] = {
    DriftAction.CONTINUE: "proceed",
    DriftAction.INJECT_REMINDER: "guide",
    DriftAction.SUMMARIZE_REPLAN: "guide",
    DriftAction.CHECKPOINT_RESET: "rollback",
    DriftAction.ASK_USER: "ask",
}

# The same for a call that has not been made yet: there is nothing to roll back, but it can be denied.
VERDICTS_BEFORE_CALL: Final[dict[DriftAction, Verdict]] = {
    DriftAction.CONTINUE: "proceed",
    DriftAction.INJECT_REMINDER: "guide",
    DriftAction.SUMMARIZE_REPLAN: "deny",
    DriftAction.CHECKPOINT_RESET: "deny",
    DriftAction.ASK_USER: "ask",
}

VERDICTS: Final[tuple[Verdict, ...]] = ("proceed", "guide", "deny", "rollback", "ask", "stop")
"""Every verdict, gentlest first."""

REMINDER_ONLY_KINDS: Final = frozenset({"correction", "style"})
"""Kinds of drift that get a reminder and never more: with corrections the user is steering already,
and the style of replies is no reason to stop the work."""

SPENDING: Final = "resource"
"""The kind of drift that cannot be taken back: a rollback refunds nothing."""

FAILED_OUTCOMES: Final[frozenset[Outcome]] = frozenset({"ignored", "worse"})


class LastResponse(NamedTuple):
    """The latest response to drift of one kind in this run, and its outcome.

    `going_on` says that its incident is open: within one incident no response is weaker than the one before.
    """

    action: DriftAction
    outcome: Outcome = "unknown"
    going_on: bool = False


class Response(NamedTuple):
    """The action, whether it is based on something certain, and why it is stronger or gentler than usual."""

    action: DriftAction = DriftAction.CONTINUE
    certain: bool = False
    reasons: tuple[str, ...] = ()


class VerdictChoice(NamedTuple):
    """What the caller must do now, and the verdict it would have got if it could carry out every one."""

    verdict: Verdict
    wanted: Verdict | None = None


NO_RESPONSE: Final = Response()


def respond(
    findings: Sequence[DriftEvent],
    last: Mapping[str, LastResponse],
    *,
    by_score: DriftAction = DriftAction.CONTINUE,
    chronic: Collection[str] = (),
) -> Response:
    """Return the strongest response that any finding calls for.

    Drift that was observed itself (a loop, a limit that was passed) gets the level of its severity; a mere
    sign of drift, such as a reply far from the goal, gets a reminder, and more by the drift score alone.
    A passed limit leads to no rollback, and a run that is longer than usual to no more than a reminder.

    Args:
        findings: What was noticed at this event.
        last: The latest response to each kind of drift, with its outcome.
        by_score: What the drift score calls for; it is used for findings named `drift_score`.
        chronic: The kinds of drift that come back again and again.
    """
    strongest = NO_RESPONSE
    for finding in findings:
        if finding.severity is Severity.LOW:
            continue
        action = by_score if finding.detector == DRIFT_SCORE else choose_first_level(finding)
        response = _adjust_level(finding, action, last.get(finding.kind), chronic=finding.kind in chronic)
        if finding.kind == SPENDING and response.action is DriftAction.CHECKPOINT_RESET:
            # The steps after a checkpoint would be paid for twice.
            response = response._replace(action=DriftAction.ASK_USER)
        if response.action.level > strongest.action.level:
            strongest = response
    return strongest


def is_direct_evidence(finding: DriftEvent) -> bool:
    """Return whether a finding shows drift itself, a loop or a limit passed, and not just a sign of it."""
    return finding.kind == "loop" or bool(finding.context.get("hard_limit"))


def is_unusual_spending(finding: DriftEvent) -> bool:
    """Return whether a run has used more than is usual for its agent, within every limit that was set.

    It may be a longer task. What was spent stays spent: this is true until the run ends, whatever the agent
    does about it, so no outcome can be read from it.
    """
    is_signal = finding.detector == DRIFT_SCORE  # of a budget that is spent too fast, which may pass
    return finding.kind == SPENDING and not is_signal and not finding.context.get("hard_limit")


def is_unlike_earlier_runs(incident: Incident) -> bool:
    """Return whether an incident says only that a run differs from the agent's earlier runs."""
    is_signal = incident.detector == DRIFT_SCORE
    return incident.kind in {SPENDING, "transition"} and not (is_signal or incident.hard_limit)


def is_confirmed(finding: DriftEvent) -> bool:
    """Return whether a finding shows drift itself and is CRITICAL: then no weaker verdict may replace it."""
    return is_direct_evidence(finding) and finding.severity is Severity.CRITICAL


def choose_verdict(
    action: DriftAction,
    mode: Mode,
    can: Collection[Verdict] = VERDICTS,
    *,
    certain: bool = False,
    before_call: bool = False,
) -> VerdictChoice:
    """Return the verdict for an action, out of those the caller can carry out.

    A verdict it cannot carry out is replaced by the nearest weaker one it can. Where the response is certain,
    or the action is the strongest, a stronger one is preferred.

    >>> choose_verdict(DriftAction.ASK_USER, "enforce", {"proceed", "stop"})
    VerdictChoice(verdict='stop', wanted='ask')
    >>> choose_verdict(DriftAction.CHECKPOINT_RESET, "enforce", {"proceed", "guide", "stop"})
    VerdictChoice(verdict='guide', wanted='rollback')
    >>> choose_verdict(DriftAction.CHECKPOINT_RESET, "enforce", {"proceed", "guide", "stop"}, certain=True)
    VerdictChoice(verdict='stop', wanted='rollback')
    >>> choose_verdict(DriftAction.ASK_USER, "observe")
    VerdictChoice(verdict='proceed', wanted=None)
    """
    if mode == "observe" or action is DriftAction.CONTINUE:
        return VerdictChoice("proceed")
    table = VERDICTS_BEFORE_CALL if before_call else VERDICTS_AFTER_STEP
    wanted = table[action] if mode == "enforce" else "guide"
    if wanted in can:
        return VerdictChoice(wanted)
    # A call already made cannot be denied, and one not yet made needs no rollback.
    possible = set(can) - {"rollback" if before_call else "deny"}
    place = VERDICTS.index(wanted)
    weaker = [name for name in reversed(VERDICTS[:place]) if name in possible]
    stronger = [name for name in VERDICTS[place + 1 :] if name in possible]
    prefers_stronger = mode == "enforce" and (certain or action is DriftAction.ASK_USER)
    instead = (stronger or weaker) if prefers_stronger else weaker
    return VerdictChoice(instead[0] if instead else "proceed", wanted)


def choose_first_level(finding: DriftEvent) -> DriftAction:
    """Return the action a finding calls for when there was no response yet."""
    action = FIRST_LEVEL[finding.severity]
    if action.level > DriftAction.INJECT_REMINDER.level and not is_direct_evidence(finding):
        return DriftAction.INJECT_REMINDER
    return action


def _adjust_level(
    finding: DriftEvent, action: DriftAction, before: LastResponse | None, *, chronic: bool
) -> Response:
    """Return the response after the outcomes of earlier ones to this kind of drift: one level at a time."""
    is_reminder_only = finding.kind in REMINDER_ONLY_KINDS or is_unusual_spending(finding)
    if action is DriftAction.CONTINUE or is_reminder_only:
        return Response(action)
    reasons = []
    if before is not None and before.outcome in FAILED_OUTCOMES:
        action = _choose_stronger(action, before.action.next_stronger())
        reasons.append(
            f"the last response {'was ignored' if before.outcome == 'ignored' else 'made it worse'}"
        )
    elif before is not None and before.outcome == "worked" and action is not DriftAction.INJECT_REMINDER:
        action = action.next_gentler()
        reasons.append("the last response worked")
    elif before is not None and before.going_on and before.outcome == "unknown":
        action = _choose_stronger(action, before.action)
    if chronic:
        # Drift that goes on fails, becomes chronic and gets worse, all at once: that is one level, not three.
        action = _choose_stronger(action, (action if before is None else before.action).next_stronger())
        reasons.append("it has become chronic")
    return Response(action, is_confirmed(finding), tuple(reasons))


def _choose_stronger(one: DriftAction, other: DriftAction) -> DriftAction:
    return one if one.level >= other.level else other
