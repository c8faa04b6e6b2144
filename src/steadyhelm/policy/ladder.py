"""From what was noticed to what to do about it: the response ladder."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from steadyhelm.decisions import DriftAction, Mode, Outcome, Verdict
from steadyhelm.findings import DriftEvent, Severity

DRIFT_SCORE: Final = "drift_score"
"""The name under which the weighted sum of all signals makes findings of its own."""

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

# The same for a call that has not been made yet: there is nothing to go back to, but it can be refused.
BEFOREHAND: Final[dict[DriftAction, Verdict]] = {
    DriftAction.CONTINUE: "proceed",
    DriftAction.INJECT_REMINDER: "guide",
    DriftAction.SUMMARIZE_REPLAN: "deny",
    DriftAction.CHECKPOINT_RESET: "deny",
    DriftAction.ASK_USER: "ask",
}

VERDICTS: Final[tuple[Verdict, ...]] = ("proceed", "guide", "deny", "rollback", "ask", "stop")
"""Everything a caller may be asked for, gentlest first."""

WORDS_ONLY: Final = frozenset({"correction", "style"})
"""Drift that is answered with a reminder and never more: with corrections the user is at the helm already,
and how an agent speaks is no reason to stop its work."""

FAILED: Final[frozenset[Outcome]] = frozenset({"ignored", "worse"})


class Answered(NamedTuple):
    """The latest answer to drift of one kind in this run, and what came of it.

    `going_on` says that its incident is: within one incident no answer is weaker than the one before.
    """

    action: DriftAction
    outcome: Outcome = "unknown"
    going_on: bool = False


class Response(NamedTuple):
    """The answer, whether it rests on something certain, and why it is stronger or gentler than usual."""

    action: DriftAction = DriftAction.CONTINUE
    certain: bool = False
    reasons: tuple[str, ...] = ()


class Answer(NamedTuple):
    """What the caller shall do now, and what it would have been asked for if it could do everything."""

    verdict: Verdict
    wanted: Verdict | None = None


NOTHING: Final = Response()


def respond(
    findings: Sequence[DriftEvent],
    answered: Mapping[str, Answered],
    *,
    by_score: DriftAction = DriftAction.CONTINUE,
    chronic: Collection[str] = (),
) -> Response:
    """The strongest answer any finding calls for.

    What was seen itself (a loop, a limit that was passed) stands on the rung of its severity; what only
    points to drift, such as a reply far from the goal, reminds, and goes higher by the drift score alone.

    Args:
        findings: What was noticed at this event.
        answered: The latest answer to each kind of drift, with its outcome.
        by_score: What the drift score calls for; it stands behind findings named `drift_score`.
        chronic: The kinds of drift that come back again and again.
    """
    strongest = NOTHING
    for finding in findings:
        if finding.severity is Severity.LOW:
            continue
        action = by_score if finding.detector == DRIFT_SCORE else first_rung(finding)
        response = _moved(finding, action, answered.get(finding.kind), chronic=finding.kind in chronic)
        if response.action.rung > strongest.action.rung:
            strongest = response
    return strongest


def is_seen(finding: DriftEvent) -> bool:
    """Whether a finding shows drift itself, a loop or a limit that was passed, and not just signs of it."""
    return finding.kind == "loop" or bool(finding.context.get("hard_limit"))


def is_confirmed(finding: DriftEvent) -> bool:
    """Whether it is also beyond doubt: then the answer must not fade away."""
    return is_seen(finding) and finding.severity is Severity.CRITICAL


def verdict(
    action: DriftAction,
    mode: Mode,
    can: Collection[Verdict] = VERDICTS,
    *,
    certain: bool = False,
    beforehand: bool = False,
) -> Answer:
    """What the caller shall do now, out of what it can.

    What it cannot do falls to the nearest weaker answer it can give; what is certain must not fade away,
    nor may the strongest action, and look for a stronger one first.

    >>> verdict(DriftAction.ASK_USER, "enforce", {"proceed", "stop"})
    Answer(verdict='stop', wanted='ask')
    >>> verdict(DriftAction.CHECKPOINT_RESET, "enforce", {"proceed", "guide", "stop"})
    Answer(verdict='guide', wanted='rollback')
    >>> verdict(DriftAction.CHECKPOINT_RESET, "enforce", {"proceed", "guide", "stop"}, certain=True)
    Answer(verdict='stop', wanted='rollback')
    >>> verdict(DriftAction.ASK_USER, "observe")
    Answer(verdict='proceed', wanted=None)
    """
    if mode == "observe" or action is DriftAction.CONTINUE:
        return Answer("proceed")
    table = BEFOREHAND if beforehand else ENFORCED
    wanted = table[action] if mode == "enforce" else "guide"
    if wanted in can:
        return Answer(wanted)
    # A call already made cannot be refused, and one not yet made needs no going back.
    possible = set(can) - {"rollback" if beforehand else "deny"}
    place = VERDICTS.index(wanted)
    weaker = [name for name in reversed(VERDICTS[:place]) if name in possible]
    stronger = [name for name in VERDICTS[place + 1 :] if name in possible]
    must_not_fade = mode == "enforce" and (certain or action is DriftAction.ASK_USER)
    instead = (stronger or weaker) if must_not_fade else weaker
    return Answer(instead[0] if instead else "proceed", wanted)


def first_rung(finding: DriftEvent) -> DriftAction:
    """The answer a finding calls for when nothing was answered yet."""
    if finding.context.get("only_reported"):
        return DriftAction.CONTINUE  # nobody asked for that to be acted on
    action = FIRST_RUNG[finding.severity]
    if action.rung > DriftAction.INJECT_REMINDER.rung and not is_seen(finding):
        return DriftAction.INJECT_REMINDER
    return action


def _moved(finding: DriftEvent, action: DriftAction, before: Answered | None, *, chronic: bool) -> Response:
    """The answer after what earlier answers to this kind of drift did: one rung at a time."""
    if action is DriftAction.CONTINUE or finding.kind in WORDS_ONLY:
        return Response(action)
    reasons = []
    if before is not None and before.outcome in FAILED:
        action = _stronger(action, before.action.raised())
        reasons.append(f"the last answer {'was ignored' if before.outcome == 'ignored' else 'made it worse'}")
    elif before is not None and before.outcome == "worked" and action is not DriftAction.INJECT_REMINDER:
        action = action.lowered()
        reasons.append("the last answer worked")
    elif before is not None and before.going_on and before.outcome == "unknown":
        action = _stronger(action, before.action)
    if chronic:
        # What goes on fails, grows chronic and grows worse, all at once: that is one rung, not three.
        action = _stronger(action, (action if before is None else before.action).raised())
        reasons.append("it has become chronic")
    return Response(action, is_confirmed(finding), tuple(reasons))


def _stronger(one: DriftAction, other: DriftAction) -> DriftAction:
    return one if one.rung >= other.rung else other
