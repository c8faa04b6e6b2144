"""The budget of one run: record each step, ask what is left."""

from collections.abc import Iterable
from typing import Any, Self, Unpack

from steadyhelm.budgets.adjustments import velocity
from steadyhelm.budgets.amounts import LIMITS, UNITS, LimitName, plain, units
from steadyhelm.budgets.extensions import extended, granted
from steadyhelm.budgets.forecasts import Forecast, forecast
from steadyhelm.budgets.learning import keep, learn, recommend
from steadyhelm.budgets.lending import lend, take_back
from steadyhelm.budgets.memory import BudgetMemory, decoded, encoded
from steadyhelm.budgets.meters import Meter
from steadyhelm.budgets.profiles import LONGEST_NAME, BudgetRecommendation, merged, of_agent, one_task
from steadyhelm.budgets.rules import BudgetRules, FurtherRules, checked_limit
from steadyhelm.budgets.status import not_checked, outlook, pace, status
from steadyhelm.budgets.steps import count_progress, count_spending, count_step, is_exhausted, rewind
from steadyhelm.decisions import BudgetDecision, BudgetState, TaskProfile
from steadyhelm.errors import SettingsError

__all__ = ["AdaptiveBudget", "BudgetDecision", "BudgetState"]


class AdaptiveBudget:
    """Limits on steps, tokens, money and time that follow a run's progress.

    Good progress lets steps and tokens grow up to a ceiling, poor progress or none lets them shrink, once per
    full window of steps. Money and time stay as they were set, unless `adaptive_limits` names them.
    What is used up stays used up, until an extension is granted; every change is written down.

    Args:
        initial_steps: Steps the run may take; None for no limit, here as for the other three.
        initial_tokens: Tokens it may use.
        min_velocity, velocity_window, expansion_factor, contraction_factor, enable_historical_profiling,
            enable_emergency_extensions: See `BudgetRules`, where all further rules are.
        cost_usd: Dollars it may cost.
        wall_s: Seconds it may take.
        agent_id: Whose task profiles are kept.
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
        **further: Unpack[FurtherRules],
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
            budget_id=_name("budget_id", budget_id),
            agent_id=_name("agent_id", agent_id),
            rules=rules,
            steps=Meter.of(checked_limit("initial_steps", "steps", initial_steps)),
            tokens=Meter.of(checked_limit("initial_tokens", "tokens", initial_tokens)),
            cost_usd=Meter.of(checked_limit("cost_usd", "cost_usd", cost_usd)),
            wall_s=Meter.of(checked_limit("wall_s", "wall_s", wall_s)),
        )
        for profile in merged(of_agent(self._memory.agent_id, task_profiles)):
            keep(self._memory, profile)

    @classmethod
    def from_state(cls, state: bytes) -> Self:
        """The budget that gave this state; raises FormatError when it is none of ours."""
        return cls._over(decoded(state))

    def state(self) -> bytes:
        """Everything it remembers, its rules among it."""
        return encoded(self._memory)

    def restore(self, state: bytes) -> None:
        """Go on from a state that `state` gave, with the rules it had then; raises FormatError."""
        self._memory = decoded(state)

    def rewind(self, state: bytes) -> None:
        """The run went back to a checkpoint with this state: progress is what it was then.

        What was spent since stays spent, and limits and decisions stay as they are.
        """
        rewind(self._memory, decoded(state))

    @property
    def budget_id(self) -> str:
        """Its name; a child's is its parent's, a slash and a number."""
        return self._memory.budget_id

    @property
    def rules(self) -> BudgetRules:
        """The rules it goes by."""
        return self._memory.rules

    @property
    def decisions(self) -> tuple[BudgetDecision, ...]:
        """The latest adjustments and extensions, oldest first, with turn and reason."""
        return tuple(self._memory.decisions)

    @property
    def decisions_made(self) -> int:
        """How many there were in all, those no longer kept included."""
        return self._memory.decisions_made

    @property
    def not_checked(self) -> dict[LimitName, str]:
        """The limits that are set but cannot be judged, each with the reason."""
        return not_checked(self._memory)

    @property
    def not_counted(self) -> int:
        """How many numbers made no sense and counted as nothing."""
        return self._memory.not_counted

    @property
    def task_profiles(self) -> tuple[TaskProfile, ...]:
        """What is known of completed tasks, one profile for each type."""
        return tuple(self._memory.profiles.values())

    def record_step(
        self,
        turn: int,
        tokens_used: int,
        progress_delta: float | None,
        cost_usd: float | None = 0.0,
        wall_s: float | None = 0.0,
    ) -> None:
        """Take one step in: what it used, and how much nearer it brought the goal (None: unknown)."""
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
        """Take in what was used between two steps, such as by a model's reply that calls no tool."""
        count_spending(self._memory, tokens=tokens_used, cost_usd=cost_usd, wall_s=wall_s)

    def record_progress(self, progress_delta: float) -> None:
        """Take in progress that was told between two steps."""
        count_progress(self._memory, progress_delta)

    def get_status(self) -> BudgetState:
        """What is used and left, and how the run gets on."""
        return status(self._memory)

    def get_velocity(self) -> float | None:
        """The progress per step over the latest window, or the steps so far; None while it is unknown."""
        return velocity(self._memory.deltas)

    def get_pace(self) -> float | None:
        """The progress made minus the largest share of any limit used, -1 to 1; None while it is unknown.

        Below 0 the run spends faster than it gets on.
        """
        return pace(self._memory)

    def is_landing(self) -> bool:
        """Whether only the reserve for handing over in order is left of some limit."""
        return outlook(self._memory).landing

    def is_exhausted(self) -> bool:
        """Whether any limit is used up. It stays so until an extension is granted."""
        return is_exhausted(self._memory)

    def forecast(self) -> Forecast:
        """How many more steps it is good for at the rate of the latest ones, and which limit ends it."""
        return forecast(
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
        """Ask for a little more; the rules decide, and the decision is kept either way."""
        asked = (requested_steps, requested_tokens, requested_cost_usd, requested_wall_s)
        return extended(self._memory, justification, _in_units(asked))

    def grant(
        self, reason: str, steps: int = 0, tokens: int = 0, *, cost_usd: float = 0.0, wall_s: float = 0.0
    ) -> BudgetDecision:
        """Give more because the user, whose limits they are, says so; it is kept like every decision."""
        return granted(self._memory, reason, _in_units((steps, tokens, cost_usd, wall_s)))

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
        """Learn what a task of this type took; the profile as it is now, None when nothing was learnt.

        A task that ended before nine tenths of it were done says nothing about what it takes.
        """
        agent = self._memory.agent_id
        task = one_task(agent, task_type, steps_used, tokens_used, cost_usd=cost_usd, wall_s=wall_s)
        return learn(self._memory, task, total_progress)

    def get_task_budget_recommendation(self, task_type: str) -> BudgetRecommendation:
        """What to give a task of this type: the mean of those completed and a fifth more, rounded up.

        Without any, the answer counts as false, its limits are None, and it says why.
        """
        return recommend(self._memory, task_type)

    def reserve(
        self,
        *,
        steps: int | None = None,
        tokens: int | None = None,
        cost_usd: float | None = None,
        wall_s: float | None = None,
    ) -> Self:
        """A budget for a child of this run, set aside from what is left beside the landing reserve.

        It may be smaller than asked for. A limit not named is all that may be given: name every limit
        when several children run side by side. Time is not set aside, it passes for all at once.
        """
        asked: dict[LimitName, Any] = dict(zip(LIMITS, (steps, tokens, cost_usd, wall_s), strict=True))
        return self._over(lend(self._memory, asked))

    def give_back(self, child: "AdaptiveBudget") -> bool:
        """A child is done: what it used is spent, the rest is free again, and the child has nothing left.

        False, and nothing happens, when it is not a child of this budget or was given back before.
        """
        return take_back(self._memory, child._memory)  # noqa: SLF001 - one of us

    @classmethod
    def _over(cls, memory: BudgetMemory) -> Self:
        budget = cls.__new__(cls)
        budget._memory = memory  # noqa: SLF001 - one of us
        return budget


def _in_units(asked: tuple[Any, ...]) -> dict[LimitName, int | None]:
    """Amounts of the four limits in whole units."""
    return {name: units(value, UNITS[name]) for name, value in zip(LIMITS, asked, strict=True)}


def _name(setting: str, value: Any) -> str:
    if not isinstance(value, str):
        raise SettingsError(f"{setting} must be text, got {value!r}.")
    return plain(value, LONGEST_NAME)
