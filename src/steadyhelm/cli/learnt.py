"""What a baseline cannot be used for yet, in words: the same for `baseline show` and `show`."""

from steadyhelm.baselines import BaselineStats


def not_checked_yet(baseline: BaselineStats) -> dict[str, str]:
    """By detector what is not checked with this baseline, and why.

    A threshold given in the settings makes goal drift independent of it.
    """
    reasons: dict[str, str] = {}
    if not baseline.is_calibrated:
        reasons["resource_spike"] = f"only hard limits count: {baseline.progress}"
    goal = _goal_reason(baseline)
    if goal:
        reasons["goal_drift"] = f"not checked unless a similarity_threshold is set: {goal}"
    return reasons


def _goal_reason(baseline: BaselineStats) -> str:
    from steadyhelm.detectors.goal_drift import ALPHA, WINDOWS_NEEDED
    from steadyhelm.windows import conformal_threshold

    if not baseline.is_calibrated:
        return baseline.progress
    known = len(baseline.similarities)
    if known < WINDOWS_NEEDED:
        return f"learning {known}/{WINDOWS_NEEDED} windows of outputs"
    if not conformal_threshold(baseline.similarities, ALPHA):
        return "this agent's outputs share too few words with its goals to judge by"
    return ""
