"""How runs are steered: thresholds and weights of the policy, budget, texts."""

from typing import Any

from msgspec import Struct, field

from steadyhelm.budgets.adaptive_budget import AdaptiveBudget
from steadyhelm.budgets.daily import DailyLimits
from steadyhelm.budgets.limits import Budget
from steadyhelm.budgets.profiles import recommend_budget
from steadyhelm.decisions import TaskProfile
from steadyhelm.events import RunInfo
from steadyhelm.policy.drift_engine import DriftEngine
from steadyhelm.policy.guidance import DEFAULT_WORDINGS, Wordings


class Steering(Struct, frozen=True, kw_only=True):
    """How every run of an agent is steered.

    `budget` holds the limits of each run, and `budget_rules` the arguments of its `AdaptiveBudget`;
    `uses_profiles` is whether limits that are not set follow the tasks of its type completed before.
    `utc_offset_h` is how many hours the day of a daily limit begins before that of UTC.
    `child_share` is the share of what a run has left that a run inside it is given.
    `remind_every` is after how many steps the model is reminded of goal and plan, 0 for never.
    `context_window` is how many tokens the model's context holds, None when that is not known.
    """

    nudge_threshold: float = 0.3
    replan_threshold: float = 0.5
    checkpoint_threshold: float = 0.7
    stop_threshold: float = 0.9
    signal_weights: dict[str, float] = field(default_factory=dict)
    budget: Budget = Budget()
    budget_rules: dict[str, Any] = field(default_factory=dict)
    uses_profiles: bool = False
    utc_offset_h: float = 0.0
    child_share: float = 0.5
    context_window: int | None = None
    wordings: Wordings = DEFAULT_WORDINGS
    remind_every: int = 0

    def __post_init__(self) -> None:
        # Whatever makes no sense is refused now, not in the middle of a run.
        self.make_engine()
        AdaptiveBudget(**self.budget_rules)

    def make_engine(self) -> DriftEngine:
        """Return a fresh drift engine with these thresholds and weights."""
        return DriftEngine(
            self.nudge_threshold,
            self.replan_threshold,
            self.checkpoint_threshold,
            self.stop_threshold,
            self.signal_weights,
        )

    @property
    def daily_limits(self) -> DailyLimits | None:
        """What the agent may spend in a day; None where no limit is set for a day."""
        return DailyLimits.of(self.budget, utc_offset_h=self.utc_offset_h)

    def make_budget(
        self, run: RunInfo, profile: TaskProfile | None = None, given: Budget | None = None
    ) -> AdaptiveBudget | None:
        """Return a fresh budget for a run, None where nothing limits it.

        The limits of the settings, or those `given` instead, are ceilings; limits that follow the profile of
        its task type are only where the run starts.
        """
        known = recommend_budget(profile, run.task_type) if self.uses_profiles else None
        learnt = (known.steps, known.tokens) if known is not None and known.is_reliable else (None, None)
        limits = given or self.budget
        if not limits.to_limits() and not any(learnt):
            return None
        budget = AdaptiveBudget(*learnt, **self.budget_rules, agent_id=run.agent_id, budget_id=run.run_id)
        budget.set_limits(limits)
        return budget
