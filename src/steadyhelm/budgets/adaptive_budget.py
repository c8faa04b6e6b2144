"""The budget of one run: record each step, and read what is left."""

from collections.abc import Iterable
from typing import Any, Self, Unpack

from steadyhelm.budgets.adjustments import (
    count_inferred_progress,
    count_progress,
    count_spending,
    count_step,
    decide_extension,
    grant,
    is_exhausted,
    measure_velocity,
    rewind,
    set_limit,
)
from steadyhelm.budgets.limits import Budget
from steadyhelm.budgets.memory import (
    BudgetMemory,
    BudgetRuleOptions,
    BudgetRules,
    decode_memory,
    encode_memory,
    parse_limit,
    release_share,
    reserve_share,
)
from steadyhelm.budgets.meters import LIMITS, UNITS, LimitName, Meter, to_text, to_units
from steadyhelm.budgets.profiles import (
    MAX_NAME_CHARS,
    BudgetRecommendation,
    assign_to_agent,
    build_profile,
    learn_task,
    merge_profiles,
    recommend_from_memory,
    store_profile,
)
from steadyhelm.budgets.status import (
    BudgetForecast,
    build_status,
    check_limits,
    find_unchecked_limits,
    forecast_steps,
    measure_pace,
)
from steadyhelm.decisions import BudgetDecision, BudgetState, TaskProfile
from steadyhelm.errors import SettingsError

__all__ = ["AdaptiveBudget", "BudgetDecision", "BudgetState"]


class AdaptiveBudget:
    """Limits on steps, tokens, money and time that adapt to a run's progress.

    With good progress steps and tokens grow up to a ceiling, with poor progress or none they shrink, once per
    full window of steps. Money and time stay as they were set, unless `adaptive_limits` names them.
    What is used up stays used up, until an extension is granted; every change is recorded.

    Args:
        initial_steps: Steps the run may take; None for no limit, here as for the other three.
        initial_tokens: Tokens it may use.
        min_velocity, velocity_window, expansion_factor, contraction_factor, enable_historical_profiling,
            enable_emergency_extensions: See `BudgetRules`, where all further rules are.
        cost_usd: Dollars it may cost.
        wall_s: Seconds it may take.
        agent_id: The agent whose task profiles are kept.
        budget_id: A name of its own, such as the run's id; children are numbered below it.
        task_profiles: What is known of tasks completed before.
        further: Any other field of `BudgetRules` by name.

    >>> budget = AdaptiveBudget(initial_steps=50, initial_tokens=100_000)
    >>> budget.record_step(turn=1, tokens_used=1500, progress_delta=0.05)
    >>> budget.record_step(turn=2, tokens_used=2000, progress_delta=0.04)
    >>> now = budget.get_status()
    >>> now.steps_remaining, now.tokens_remaining, now.velocity, now.adjustment_factor
    (48, 96500, 0.045, 1.5)
    """

    def __init__(
        self,
        initial_steps: int | None = 50,
        initial_tokens: int | None = 100_000,
        min_velocity: float = 0.01,
        velocity_window: int = 10,
        expansion_factor: float = 1.5,
        contraction_factor: float = 0.7,
        enable_historical_profiling: bool = True,
        enable_emergency_extensions: bool = True,
        *,
        cost_usd: float | None = None,
        wall_s: float | None = None,
        agent_id: str = "",
        budget_id: str = "",
        task_profiles: Iterable[TaskProfile] = (),
        **further: Unpack[BudgetRuleOptions],
    ) -> None:
        rules = BudgetRules(
            min_velocity=min_velocity,
            velocity_window=velocity_window,
            expansion_factor=expansion_factor,
            contraction_factor=contraction_factor,
            enable_historical_profiling=enable_historical_profiling,
            enable_emergency_extensions=enable_emergency_extensions,
            **further,
        )
        self._memory = BudgetMemory(
            budget_id=_check_name("budget_id", budget_id),
            agent_id=_check_name("agent_id", agent_id),
            rules=rules,
            steps=Meter.with_limit(parse_limit("initial_steps", "steps", initial_steps)),
            tokens=Meter.with_limit(parse_limit("initial_tokens", "tokens", initial_tokens)),
            cost_usd=Meter.with_limit(parse_limit("cost_usd", "cost_usd", cost_usd)),
            wall_s=Meter.with_limit(parse_limit("wall_s", "wall_s", wall_s)),
        )
        for profile in merge_profiles(assign_to_agent(self._memory.agent_id, task_profiles)):
            store_profile(self._memory, profile)

    @classmethod
    def from_state(cls, state: bytes) -> Self:
        """Return the budget with this state; raises FormatError when it cannot be read."""
        return cls._from_memory(decode_memory(state))

    def state(self) -> bytes:
        """Return everything it remembers, including its rules."""
        return encode_memory(self._memory)

    def restore(self, state: bytes) -> None:
        """Replace everything with a state from `state`, including the rules of then; raises FormatError."""
        self._memory = decode_memory(state)

    def rewind(self, state: bytes) -> None:
        """Set the progress back to this state, after the run went back to a checkpoint.

        What was spent since stays spent, and limits and decisions stay as they are.
        """
        rewind(self._memory, decode_memory(state))

    @property
    def budget_id(self) -> str:
        """The name of the budget; a child has its parent's, a slash and a number."""
        return self._memory.budget_id

    @property
    def rules(self) -> BudgetRules:
        """The rules of the budget."""
        return self._memory.rules

    @property
    def decisions(self) -> tuple[BudgetDecision, ...]:
        """The latest adjustments and extensions, oldest first, with turn and reason."""
        return tuple(self._memory.decisions)

    @property
    def decisions_made(self) -> int:
        """The number of decisions so far, including those no longer kept."""
        return self._memory.decisions_made

    @property
    def not_checked(self) -> dict[LimitName, str]:
        """The limits that are set but cannot be checked, each with the reason."""
        return find_unchecked_limits(self._memory)

    @property
    def not_counted(self) -> int:
        """The number of values that were not usable and counted as 0."""
        return self._memory.not_counted

    @property
    def task_profiles(self) -> tuple[TaskProfile, ...]:
        """The profiles of completed tasks, one for each type."""
        return tuple(self._memory.profiles.values())

    def record_step(
        self,
        turn: int,
        tokens_used: int,
        progress_delta: float | None,
        cost_usd: float | None = 0.0,
        wall_s: float | None = 0.0,
    ) -> None:
        """Record one step: what it used, and its progress towards the goal (None: unknown)."""
        count_step(
            self._memory,
            turn=turn,
            tokens=tokens_used,
            progress=progress_delta,
            cost_usd=cost_usd,
            wall_s=wall_s,
        )

    def record_spending(
        self, tokens_used: int, cost_usd: float | None = 0.0, wall_s: float | None = 0.0
    ) -> None:
        """Record what was used between two steps, such as by a reply that calls no tool."""
        count_spending(self._memory, tokens=tokens_used, cost_usd=cost_usd, wall_s=wall_s)

    def record_progress(self, progress_delta: float) -> None:
        """Record progress that was reported between two steps; it covers the unknown steps before it."""
        count_progress(self._memory, progress_delta)

    def record_inferred_progress(self, progress_delta: float) -> None:
        """Record progress that nobody reported, such as items done of a plan: it says nothing of velocity."""
        count_inferred_progress(self._memory, progress_delta)

    def record_loop(self) -> None:
        """Record that the latest step is part of a loop: at the end of the window the limits shrink."""
        self._memory.looping = True

    def get_status(self) -> BudgetState:
        """Return what is used and left, and the progress of the run."""
        return build_status(self._memory)

    def get_velocity(self) -> float | None:
        """Return the progress per step over the latest window, or the steps so far; None while unknown."""
        return measure_velocity(self._memory.deltas)

    def get_pace(self) -> float | None:
        """Return the progress minus the largest share of any limit used, -1 to 1; None while it is unknown.

        Below 0 the run spends faster than it makes progress.
        """
        return measure_pace(self._memory)

    def is_landing(self) -> bool:
        """Return whether only the reserve for finishing in order is left of some limit."""
        return check_limits(self._memory).landing

    def is_exhausted(self) -> bool:
        """Return whether any limit is used up. It stays so until an extension is granted."""
        return is_exhausted(self._memory)

    def forecast(self) -> BudgetForecast:
        """Return how many more steps it allows at the rate of the latest ones, and which limit ends first."""
        return forecast_steps(
            self._memory.meters(), seen=self._memory.seen, window=self._memory.rules.velocity_window
        )

    def request_emergency_extension(
        self,
        justification: str,
        requested_steps: int = 0,
        requested_tokens: int = 0,
        *,
        requested_cost_usd: float = 0.0,
        requested_wall_s: float = 0.0,
    ) -> BudgetDecision:
        """Request more; the rules decide, and the decision is recorded either way."""
        requested = (requested_steps, requested_tokens, requested_cost_usd, requested_wall_s)
        return decide_extension(self._memory, justification, _name_amounts(requested))

    def grant(
        self, reason: str, steps: int = 0, tokens: int = 0, *, cost_usd: float = 0.0, wall_s: float = 0.0
    ) -> BudgetDecision:
        """Raise the limits because the user, who set them, says so; recorded like every decision."""
        return grant(self._memory, reason, _name_amounts((steps, tokens, cost_usd, wall_s)))

    def set_limits(self, given: Budget) -> None:
        """Set the limits that are given; the others stay, and what is used stays used.

        From here on they are ceilings. The limits of a child never become more than it was given.
        """
        for name in LIMITS:
            set_limit(self._memory, name, parse_limit(name, name, getattr(given, name)))

    def record_task_completion(
        self,
        task_type: str,
        steps_used: int,
        tokens_used: int,
        total_progress: float,
        *,
        cost_usd: float = 0.0,
        wall_s: float = 0.0,
    ) -> TaskProfile | None:
        """Add a completed task to the profile of its type, and return it; None when nothing was learnt.

        A task that ended before nine tenths of it were done is not learnt from.
        """
        agent = self._memory.agent_id
        task = build_profile(agent, task_type, steps_used, tokens_used, cost_usd=cost_usd, wall_s=wall_s)
        return learn_task(self._memory, task, total_progress)

    def get_task_budget_recommendation(self, task_type: str) -> BudgetRecommendation:
        """Return the budget for a task of this type: the mean of completed ones and a fifth more, rounded up.

        Without any, the result is false, its limits are None, and `reason` says why.
        """
        return recommend_from_memory(self._memory, task_type)

    def reserve(
        self,
        *,
        steps: int | None = None,
        tokens: int | None = None,
        cost_usd: float | None = None,
        wall_s: float | None = None,
    ) -> Self:
        """Return a budget for a child of this run, reserved from what is left except the landing reserve.

        It may be smaller than requested. A limit not named is all that is available: name every limit
        when several children run side by side. Time is not reserved, it passes for all at once.
        """
        asked: dict[LimitName, Any] = dict(zip(LIMITS, (steps, tokens, cost_usd, wall_s), strict=True))
        return self._from_memory(reserve_share(self._memory, asked))

    def give_back(self, child: "AdaptiveBudget") -> bool:
        """Count what an ended child used, and release the rest; the child has nothing left afterwards.

        Returns False, and changes nothing, when it is not a child of this budget or was given back before.
        """
        return release_share(self._memory, child._memory)  # noqa: SLF001 - one of us

    @classmethod
    def _from_memory(cls, memory: BudgetMemory) -> Self:
        budget = cls.__new__(cls)
        budget._memory = memory  # noqa: SLF001 - one of us
        return budget


def _name_amounts(values: tuple[Any, ...]) -> dict[LimitName, int | None]:
    """Return the amounts of the four limits in whole units."""
    return {name: to_units(value, UNITS[name]) for name, value in zip(LIMITS, values, strict=True)}


def _check_name(setting: str, value: Any) -> str:
    if not isinstance(value, str):
        raise SettingsError(f"{setting} must be text, got {value!r}.")
    return to_text(value, MAX_NAME_CHARS)
