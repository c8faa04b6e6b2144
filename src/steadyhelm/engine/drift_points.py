"""Note where the drift score of a run and the limits of its budget change: those places are stored."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from steadyhelm.budgets.adaptive_budget import AdaptiveBudget
from steadyhelm.sink import BudgetLimits, DriftPoint

_SCORE_DIGITS: Final = 4


class DriftPoints(Struct):
    """The latest point and limits of a run. Between two points the score stays as it is.

    `decisions` is how many changes of the limits were seen.
    """

    point: DriftPoint | None = None
    limits: BudgetLimits | None = None
    decisions: int = -1
    is_new: bool = False
    has_new_limits: bool = False

    def note_score(self, contributions: Sequence[float | None]) -> None:
        """Note the contributions to the score after an event, in the order of the signals."""
        known = [part for part in contributions if part is not None]
        score = round(min(1.0, sum(known)), _SCORE_DIGITS) if known else None
        point = DriftPoint(score, *contributions)
        if point != self.point:
            self.point, self.is_new = point, True

    def note_limits(self, budget: AdaptiveBudget, *, are_set: bool = False) -> None:
        """Note the limits of the budget after an event; `are_set` says that it has set them."""
        # Building the status of a budget costs as much as judging a step: it is done where one was changed.
        if budget.decisions_made == self.decisions and not are_set:
            return
        self.decisions = budget.decisions_made
        status = budget.get_status()
        limits = BudgetLimits(
            status.steps_limit,
            status.tokens_limit,
            status.cost_limit_usd,
            status.wall_limit_s,
            budget.rules.landing_reserve,
        )
        if limits != self.limits:
            self.limits, self.has_new_limits = limits, True

    def take(self) -> tuple[DriftPoint | None, BudgetLimits | None] | None:
        """Return what changed since the last time; None when nothing did."""
        if not self.is_new and not self.has_new_limits:
            return None
        changes = (self.point if self.is_new else None, self.limits if self.has_new_limits else None)
        self.is_new = self.has_new_limits = False
        return changes
