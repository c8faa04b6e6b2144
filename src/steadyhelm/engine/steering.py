"""How runs are steered: thresholds and weights of the policy, budget, texts."""

from typing import Any

from msgspec import Struct, field

from steadyhelm.budgets.adaptive_budget import AdaptiveBudget
from steadyhelm.budgets.profiles import recommend_budget
from steadyhelm.decisions import TaskProfile
from steadyhelm.events import RunInfo
from steadyhelm.policy.drift_engine import DriftEngine
from steadyhelm.policy.guidance import DEFAULT_WORDINGS, Wordings


class Steering(Struct, frozen=True, kw_only=True):
    """How every run of an agent is steered.

    `budget` holds the arguments of the `AdaptiveBudget` each run gets, None for no budget;
    `budget_rules` those of a run whose limits come from tasks of its type completed before, None for none;
    `child_share` is the share of what a run has left that a run inside it is given.
    `context_window` is how many tokens the model's context holds, None when that is not known.
    """

    nudge_threshold: float = 0.3
    replan_threshold: float = 0.5
    checkpoint_threshold: float = 0.7
    stop_threshold: float = 0.9
    signal_weights: dict[str, float] = field(default_factory=dict)
    budget: dict[str, Any] | None = None
    budget_rules: dict[str, Any] | None = None
    child_share: float = 0.5
    context_window: int | None = None
    wordings: Wordings = DEFAULT_WORDINGS

    def __post_init__(self) -> None:
        # Whatever makes no sense is refused now, not in the middle of a run.
        self.make_engine()
        if self.budget is not None:
            AdaptiveBudget(**self.budget)

    def make_engine(self) -> DriftEngine:
        """Return a fresh drift engine with these thresholds and weights."""
        return DriftEngine(
            self.nudge_threshold,
            self.replan_threshold,
            self.checkpoint_threshold,
            self.stop_threshold,
            self.signal_weights,
        )

    def make_budget(self, run: RunInfo, profile: TaskProfile | None = None) -> AdaptiveBudget | None:
        """Return a fresh budget for a run, by the profile of its task type if there is one."""
        options = self.budget
        if self.budget_rules is not None and profile is not None:
            known = recommend_budget(profile, run.task_type)
            if known:
                limits = {"initial_steps": known.steps, "initial_tokens": known.tokens}
                options = {**(options or self.budget_rules), **limits}
        if options is None:
            return None
        return AdaptiveBudget(**options, agent_id=run.agent_id, budget_id=run.run_id)
