"""Findings of the engine itself: the drift score is too high, or the budget is nearly used up."""

from collections.abc import Sequence
from typing import Any, Final

from steadyhelm.budgets.daily import format_time
from steadyhelm.decisions import BudgetState, DailyBudgetState, DriftAction, DriftAssessment
from steadyhelm.events import LLM_REQUEST, TraceEvent
from steadyhelm.findings import DriftEvent, count_quarters_past, make_finding
from steadyhelm.policy.drift_engine import SIGNAL_NAMES
from steadyhelm.policy.response_levels import DRIFT_SCORE

BUDGET: Final = "budget"
"""The name under which a run's budget makes findings."""

DAILY_BUDGET: Final = "daily_budget"
"""The name under which an agent's budget of the day makes findings."""

_LIMITS: Final = ("steps", "tokens", "cost_usd", "wall_s")
# For the model; the recommendation in the assessment is for people.
_ADVICE_BY_ACTION: Final = {
    DriftAction.INJECT_REMINDER: "Say in one sentence how your next step serves the goal, then take it.",
    DriftAction.SUMMARIZE_REPLAN: "Leave what does not serve the goal, and plan from what you know.",
    DriftAction.CHECKPOINT_RESET: "What you did since then has led away from the goal.",
    DriftAction.ASK_USER: "Say what you have done, and what keeps you from the goal.",
}
_SCORE_BY_ACTION: Final = {
    DriftAction.INJECT_REMINDER: 0.5,
    DriftAction.SUMMARIZE_REPLAN: 0.7,
    DriftAction.CHECKPOINT_RESET: 0.9,
    DriftAction.ASK_USER: 1.0,
}


def make_drift_score_findings(
    event: TraceEvent, assessment: DriftAssessment, action: DriftAction
) -> Sequence[DriftEvent]:
    """Return the drift score as a finding. Where goal drift leads, only replies can show it."""
    leading = max(assessment.contributions, key=lambda name: assessment.contributions[name], default="")
    if leading in {"", "loop_risk"}:
        # The loop itself was found and answered; its share of the score is no news.
        return ()
    if leading == "goal_dna_drift" and event.action_type != LLM_REQUEST:
        # Calls neither change the goal signal nor can they improve it.
        return ()
    return [
        make_finding(
            event,
            DRIFT_SCORE,
            "resource" if leading == "budget_velocity" else "goal",
            score=_SCORE_BY_ACTION[action],
            message=f"drift score {assessment.overall_score:.2f} of 1, mostly {SIGNAL_NAMES[leading]}",
            suggested_action=_ADVICE_BY_ACTION[action],
            drift=round(assessment.overall_score, 4),
            contributions=assessment.contributions,
        )
    ]


def count_quarters_overspent(budget: BudgetState) -> int:
    """Return by how many quarters of a limit more was spent than the budget allows, at most; -1 for none."""
    spent = (
        (budget.steps_used, budget.steps_limit),
        (budget.tokens_used, budget.tokens_limit),
        (budget.cost_used_usd, budget.cost_limit_usd),
        (budget.wall_used_s, budget.wall_limit_s),
    )
    return max(
        (count_quarters_past(used, limit) for used, limit in spent if limit and used >= limit), default=-1
    )


def make_budget_findings(
    event: TraceEvent, budget: BudgetState, *, ongoing: bool = False
) -> Sequence[DriftEvent]:
    """Return a finding when the budget is used up, or only the reserve is left."""
    if budget.exhausted:
        return [
            make_finding(
                event,
                BUDGET,
                "resource",
                score=1.0,
                message=f"the budget is used up: {_describe_spending(budget, budget.exhausted_by)}",
                suggested_action="Stop, hand over what there is, and ask the user whether to go on.",
                hard_limit=True,
                **_mark_ongoing(ongoing),
            )
        ]
    if not budget.landing:
        return ()
    return [
        make_finding(
            event,
            BUDGET,
            "resource",
            score=0.5,
            message=f"only the reserve for landing is left: {_describe_spending(budget, _LIMITS)}",
            suggested_action="Finish what is under way, then sum up what was done and what is left to do.",
            hard_limit=True,
        )
    ]


def make_daily_budget_findings(
    event: TraceEvent, daily: DailyBudgetState, *, ongoing: bool = False
) -> Sequence[DriftEvent]:
    """Return a finding when the agent's budget of the day is used up: what is spent, and when it opens."""
    amounts = {
        "steps": _describe_amount(daily.steps_used, daily.steps_limit, "{:,.0f}", "tool calls"),
        "tokens": _describe_amount(daily.tokens_used, daily.tokens_limit, "{:,.0f}", "tokens"),
        "cost_usd": _describe_amount(daily.cost_used_usd, daily.cost_limit_usd, "{:.2f}", "USD"),
    }
    spent = ", ".join(amounts[name] for name in daily.exhausted_by if amounts.get(name))
    return [
        make_finding(
            event,
            DAILY_BUDGET,
            "resource",
            score=1.0,
            message=f"the agent's daily budget is used up: {spent} on {daily.day}, over all its runs; "
            f"it opens again at {format_time(daily.opens_at)}",
            suggested_action="Stop, hand over what there is, and ask the user whether to go on today.",
            hard_limit=True,
            opens_at=daily.opens_at,
            **_mark_ongoing(ongoing),
        )
    ]


def _describe_spending(budget: BudgetState, limits: Sequence[str]) -> str:
    """Return the use of each of these limits as text."""
    words = {
        "steps": _describe_amount(budget.steps_used, budget.steps_limit, "{:.0f}", "tool calls"),
        "tokens": _describe_amount(budget.tokens_used, budget.tokens_limit, "{:,.0f}", "tokens"),
        "cost_usd": _describe_amount(budget.cost_used_usd, budget.cost_limit_usd, "{:.2f}", "USD"),
        "wall_s": _describe_amount(budget.wall_used_s, budget.wall_limit_s, "{:.0f}", "seconds"),
    }
    return ", ".join(words[name] for name in limits if words.get(name))


def _describe_amount(used: float, limit: float | None, shape: str, unit: str) -> str:
    return "" if limit is None else f"{shape.format(used)} of {shape.format(limit)} {unit}"


def _mark_ongoing(ongoing: bool) -> dict[str, Any]:
    return {"ongoing": True} if ongoing else {}
