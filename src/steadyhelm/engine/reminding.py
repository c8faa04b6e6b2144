"""Remind the model of goal and plan every few steps, where the host asks for it."""

from collections.abc import Collection
from typing import Final

from msgspec import structs

from steadyhelm.decisions import Decision, DriftAction, Mode, Verdict
from steadyhelm.engine.drift_state import DriftState
from steadyhelm.goals.plan_tracker import PlanTracker
from steadyhelm.goals.reminders import GoalReminderInjector
from steadyhelm.policy.response_levels import choose_verdict

REMINDER: Final = "reminder"
"""The wording of a reminder that nothing but the number of steps called for."""


def add_reminder(
    decision: Decision, drift: DriftState, plan: PlanTracker, mode: Mode, can: Collection[Verdict]
) -> Decision:
    """Return the decision with a reminder, when one is due: the model was given nothing for long enough.

    It is no response to drift, and its outcome is not judged.
    """
    if decision.guidance:
        plan.reminded_turn = drift.turn
        return decision
    is_due = drift.turn - plan.reminded_turn >= drift.steering.remind_every
    if mode == "observe" or not is_due or not (drift.goal or plan):
        return decision
    plan.reminded_turn = drift.turn
    tree = plan.build_tree(drift.goal) if plan.is_followed else None
    injector = GoalReminderInjector(drift.goal, tree)
    injector.note_drift(drift.score)
    choice = choose_verdict(DriftAction.INJECT_REMINDER, mode, can)
    if choice.verdict == "guide":
        drift.note_goal_stated()
    return structs.replace(
        decision,
        verdict=choice.verdict,
        wanted=choice.wanted,
        guidance=injector.get_reminder(drift.turn),
        wording=REMINDER,
    )
