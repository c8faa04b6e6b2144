"""What a run's course shows by itself, as findings: too much drift in all, too little budget left."""

from collections.abc import Sequence
from typing import Any, Final

from steadyhelm.decisions import BudgetState, DriftAction, DriftAssessment
from steadyhelm.events import LLM_REQUEST, TraceEvent
from steadyhelm.findings import DriftEvent, Kind, Severity
from steadyhelm.policy.drift_engine import NAMES
from steadyhelm.policy.ladder import DRIFT_SCORE

BUDGET: Final = "budget"
"""The name under which a run's budget makes findings."""

_LIMITS: Final = ("steps", "tokens", "cost_usd", "wall_s")
# For the model: the assessment's recommendation is for whoever runs the agent.
_ADVICE: Final = {
    DriftAction.INJECT_REMINDER: "Say in one sentence how your next step serves the goal, then take it.",
    DriftAction.SUMMARIZE_REPLAN: "Leave what does not serve the goal, and plan from what you know.",
    DriftAction.CHECKPOINT_RESET: "What you did since then has led away from the goal.",
    DriftAction.ASK_USER: "Say what you have done, and what keeps you from the goal.",
}
_SCORES: Final = {
    DriftAction.INJECT_REMINDER: 0.5,
    DriftAction.SUMMARIZE_REPLAN: 0.7,
    DriftAction.CHECKPOINT_RESET: 0.9,
    DriftAction.ASK_USER: 1.0,
}


def off_course(event: TraceEvent, assessment: DriftAssessment, action: DriftAction) -> Sequence[DriftEvent]:
    """The drift score, where it calls for this action; what the goal signal leads, replies alone show."""
    leading = max(assessment.contributions, key=lambda name: assessment.contributions[name], default="")
    if leading in {"", "loop_risk"}:
        # A loop was found and answered as one; its echo in the score says nothing new.
        return ()
    if leading == "goal_dna_drift" and event.action_type != LLM_REQUEST:
        # Between two replies the goal signal stands still: calls neither show it nor can they cure it.
        return ()
    return [
        _finding(
            event,
            DRIFT_SCORE,
            "resource" if leading == "budget_velocity" else "goal",
            _SCORES[action],
            f"off course: drift {assessment.overall_score:.2f}, most of it {NAMES[leading]}",
            _ADVICE[action],
            drift=round(assessment.overall_score, 4),
            contributions=assessment.contributions,
        )
    ]


def short_of(event: TraceEvent, budget: BudgetState) -> Sequence[DriftEvent]:
    """A budget that is used up, or of which only the reserve for landing is left."""
    if budget.exhausted:
        return [
            _finding(
                event,
                BUDGET,
                "resource",
                1.0,
                f"the budget is used up: {_spent(budget, budget.exhausted_by)}",
                "Stop, hand over what there is, and ask the user whether to go on.",
                hard_limit=True,
            )
        ]
    if not budget.landing:
        return ()
    return [
        _finding(
            event,
            BUDGET,
            "resource",
            0.5,
            f"only the reserve for landing is left: {_spent(budget, _LIMITS)}",
            "Finish what is under way, then sum up what was done and what is left to do.",
            hard_limit=True,
        )
    ]


def _spent(budget: BudgetState, limits: Sequence[str]) -> str:
    """What was used of each of these limits, in words."""
    words = {
        "steps": _of(budget.steps_used, budget.steps_limit, "{:.0f}", "steps"),
        "tokens": _of(budget.tokens_used, budget.tokens_limit, "{:,.0f}", "tokens"),
        "cost_usd": _of(budget.cost_used_usd, budget.cost_limit_usd, "{:.2f}", "USD"),
        "wall_s": _of(budget.wall_used_s, budget.wall_limit_s, "{:.0f}", "seconds"),
    }
    return ", ".join(words[name] for name in limits if words.get(name))


def _of(used: float, limit: float | None, shape: str, unit: str) -> str:
    return "" if limit is None else f"{shape.format(used)} of {shape.format(limit)} {unit}"


def _finding(
    event: TraceEvent,
    detector: str,
    kind: Kind,
    score: float,
    message: str,
    suggested_action: str,
    **context: Any,
) -> DriftEvent:
    return DriftEvent(
        agent_id=event.agent_id,
        run_id=event.run_id,
        detector=detector,
        kind=kind,
        severity=Severity.from_score(score),
        score=score,
        message=message,
        suggested_action=suggested_action,
        timestamp=event.timestamp,
        event_id=f"{event.event_id}/{detector}",
        context={**context, "event_ids": [event.event_id]},
    )
