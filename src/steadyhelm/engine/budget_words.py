"""What a caller says about a run's budget: that it needs more, or that it was given more."""

from steadyhelm.budgets.adaptive_budget import AdaptiveBudget
from steadyhelm.decisions import BudgetDecision
from steadyhelm.events import BUDGET_GRANTED, EXTENSION_REQUESTED, TraceEvent


def extended(budget: AdaptiveBudget, event: TraceEvent) -> BudgetDecision | None:
    """What became of a request or a grant; None when the event is neither."""
    told = event.metadata or {}
    if event.action_name == EXTENSION_REQUESTED:
        return budget.request_emergency_extension(
            str(told.get("justification", "")),
            told.get("steps", 0),
            told.get("tokens", 0),
            requested_cost_usd=told.get("cost_usd", 0.0),
            requested_wall_s=told.get("wall_s", 0.0),
        )
    if event.action_name == BUDGET_GRANTED:
        return budget.grant(
            str(told.get("reason", "")),
            told.get("steps", 0),
            told.get("tokens", 0),
            cost_usd=told.get("cost_usd", 0.0),
            wall_s=told.get("wall_s", 0.0),
        )
    return None
