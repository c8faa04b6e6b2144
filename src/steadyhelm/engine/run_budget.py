"""The budget of one run, together with its agent's budget of the day: what is spent, granted and found."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from steadyhelm.budgets.adaptive_budget import AdaptiveBudget
from steadyhelm.budgets.daily import decide_daily_extension, grant_daily, read_daily_amounts
from steadyhelm.budgets.limits import Budget
from steadyhelm.budgets.memory import BudgetRules
from steadyhelm.decisions import BudgetDecision, BudgetState, DailyBudgetState
from steadyhelm.engine.drift_findings import (
    count_quarters_overspent,
    make_budget_findings,
    make_daily_budget_findings,
)
from steadyhelm.engine.steering import Steering
from steadyhelm.errors import SettingsError
from steadyhelm.events import (
    BUDGET_GRANTED,
    BUDGET_SET,
    DAILY_BUDGET,
    EXTENSION_REQUESTED,
    TOOL_CALL,
    USER_MESSAGE,
    RunInfo,
    TraceEvent,
)
from steadyhelm.findings import DriftEvent

if TYPE_CHECKING:
    from steadyhelm.engine.drift_state import SavedDriftState

_RUN_AMOUNTS: Final = ("steps", "tokens", "cost_usd", "wall_s")


class RunBudget:
    """What one run may spend, and whether its agent's budget of the day is used up.

    `limits` is the run's own budget, None where nothing limits it; `daily` is what the host last reported
    of the day's budget.
    """

    def __init__(self, run: RunInfo, steering: Steering, limits: AdaptiveBudget | None) -> None:
        self.limits = limits if limits is not None else steering.make_budget(run)
        self.daily: DailyBudgetState | None = None
        self.last_decision: BudgetDecision | None = None
        """The decision about the latest request or grant."""
        self.daily_grant: BudgetDecision | None = None
        """What the latest request or grant added to the day's budget; None for nothing."""
        self._run = run
        self._steering = steering
        self._last_at = -1.0
        self._landing_reported = False
        self._exhausted_quarters = -1
        self._daily_reported = False
        self._daily_extensions = 0

    @property
    def is_set(self) -> bool:
        """Whether anything limits the run."""
        return self.limits is not None or self.daily is not None

    @property
    def is_exhausted(self) -> bool:
        """Whether the run's budget, or that of the day, is used up."""
        is_over = self.limits is not None and self.limits.is_exhausted()
        return is_over or (self.daily is not None and self.daily.exhausted)

    @property
    def not_checked(self) -> dict[str, str]:
        """The limits that cannot be checked, with their reasons."""
        limits = self.limits.not_checked if self.limits is not None else {}
        return {f"budget.{name}": reason for name, reason in limits.items()}

    def get_pace(self) -> float | None:
        """Return the progress minus the share of the budget used; None while it is unknown."""
        return self.limits.get_pace() if self.limits is not None else None

    def get_status(self) -> BudgetState | None:
        """Return the state of the run's budget; None when it has none."""
        return self.limits.get_status() if self.limits is not None else None

    def spend(self, event: TraceEvent, turn: int, *, in_loop: bool, gained: float) -> None:
        """Count what an event used; `gained` is the progress that a plan shows.

        What is inferred never says that there is no progress: exploring changes no file, and files changed
        say nothing of how many there will be.
        """
        if self.limits is None:
            return
        began = self._last_at if self._last_at >= 0 else event.timestamp - event.duration_ms / 1000
        # The time a user takes to answer is not the agent's.
        passed = 0.0 if event.action_type == USER_MESSAGE else max(0.0, event.timestamp - began)
        self._last_at = max(self._last_at, event.timestamp)
        if in_loop:
            self.limits.record_loop()
        if event.action_type == TOOL_CALL:
            self.limits.record_step(turn, event.token_count, None, cost_usd=event.cost_usd, wall_s=passed)
        else:
            self.limits.record_spending(event.token_count, cost_usd=event.cost_usd, wall_s=passed)
        if gained:
            self.limits.record_inferred_progress(gained)

    def find(self, event: TraceEvent) -> Sequence[DriftEvent]:
        """Return findings: at one step when only the reserve is left, at every step when nothing is."""
        return [*self._check_run_budget(event), *self._check_daily_budget(event)]

    def foresee(self, call: TraceEvent) -> Sequence[DriftEvent]:
        """Return findings when a budget is used up before a call. Changes no state."""
        found: list[DriftEvent] = []
        if self.limits is not None and self.limits.is_exhausted():
            found += make_budget_findings(call, self.limits.get_status())
        if self.daily is not None and self.daily.exhausted:
            found += make_daily_budget_findings(call, self.daily)
        return found

    def apply_report(self, event: TraceEvent, progress: float | None) -> None:
        """Apply what the host reports about budgets: limits, grants, requests, the state of the day."""
        if event.action_name == BUDGET_SET:
            self._set_limits(event.metadata or {})
        elif event.action_name == DAILY_BUDGET:
            self._set_daily(event.metadata or {})
        elif event.action_name in {EXTENSION_REQUESTED, BUDGET_GRANTED}:
            self._decide(event.action_name, event.metadata or {}, progress)

    def forget_decisions(self) -> None:
        """Forget the latest decision, before another request or grant is reported."""
        self.last_decision = self.daily_grant = None

    def reserve_for_child(self, given: Budget | None = None) -> AdaptiveBudget | None:
        """Reserve a part of what is left for a run inside this one, or what is given to it of that.

        Returns None without a budget.
        """
        if self.limits is None:
            return None
        left, share = self.limits.get_status(), self._steering.child_share
        shares: dict[str, Any] = {
            "steps": _take_share(left.steps_remaining, share),
            "tokens": _take_share(left.tokens_remaining, share),
            "cost_usd": None if left.cost_remaining_usd is None else left.cost_remaining_usd * share,
        }
        return self.limits.reserve(**{**shares, **(given or Budget()).to_limits()})

    def return_reserve(self, child: AdaptiveBudget) -> None:
        """Take the reserve of an ended inner run back: what it used is spent, the rest is free again."""
        if self.limits is not None:
            self.limits.give_back(child)

    def save_into(self, memory: "SavedDriftState") -> None:
        """Write everything needed to restore it into what is saved of a run."""
        memory.budget = self.limits.state() if self.limits is not None else b""
        memory.last_at = self._last_at
        memory.landing_reported = self._landing_reported
        memory.exhausted_quarters = self._exhausted_quarters
        memory.daily, memory.daily_extensions = self.daily, self._daily_extensions
        memory.daily_reported = self._daily_reported

    def restore(self, saved: "SavedDriftState") -> None:
        """Restore from what was saved; raises FormatError when the budget cannot be read."""
        if saved.budget:
            if self.limits is None:
                self.limits = AdaptiveBudget()
            self.limits.restore(saved.budget)
        self._last_at = saved.last_at
        self._landing_reported = saved.landing_reported
        self._exhausted_quarters = saved.exhausted_quarters
        self.daily, self._daily_extensions = saved.daily, saved.daily_extensions
        self._daily_reported = saved.daily_reported

    def skip_pause(self) -> None:
        """Leave out the time since the latest event: the clock starts with the next one."""
        self._last_at = -1.0

    def roll_back(self, saved: "SavedDriftState") -> None:
        """Go back to the progress of a saved state; what was spent stays spent."""
        if saved.budget and self.limits is not None:
            self.limits.rewind(saved.budget)
        self._landing_reported = saved.landing_reported
        self._exhausted_quarters = saved.exhausted_quarters

    def _check_run_budget(self, event: TraceEvent) -> Sequence[DriftEvent]:
        """Return the run's budget as a finding.

        One that is used up is listed at once and at each further quarter of it; in between it goes on.
        """
        limits = self.limits
        if limits is None:
            return ()
        if limits.is_exhausted():
            status = limits.get_status()
            before, now = self._exhausted_quarters, max(0, count_quarters_overspent(status))
            self._exhausted_quarters = max(before, now)
            return make_budget_findings(event, status, ongoing=now <= before)
        self._exhausted_quarters = -1
        was_reported, self._landing_reported = self._landing_reported, limits.is_landing()
        # Reported again and again it would count as ignored: the reserve is there to be used.
        is_new = self._landing_reported and not was_reported
        return make_budget_findings(event, limits.get_status()) if is_new else ()

    def _check_daily_budget(self, event: TraceEvent) -> Sequence[DriftEvent]:
        """Return the day's budget as a finding, listed once in a run and day."""
        if self.daily is None or not self.daily.exhausted:
            self._daily_reported = False
            return ()
        was_reported, self._daily_reported = self._daily_reported, True
        return make_daily_budget_findings(event, self.daily, ongoing=was_reported)

    def _set_limits(self, reported: dict[str, Any]) -> None:
        """Set the limits of this run that were given with its start."""
        try:
            given = msgspec.convert(reported, Budget)
        except (msgspec.ValidationError, SettingsError):  # a recording may hold anything
            return
        if self.limits is not None:
            self.limits.set_limits(given)
        else:
            self.limits = self._steering.make_budget(self._run, given=given)

    def _set_daily(self, reported: dict[str, Any]) -> None:
        try:
            state = msgspec.convert(reported, DailyBudgetState, strict=False)
        except msgspec.ValidationError:  # see above
            return
        if self.daily is not None and state.day != self.daily.day:
            self._daily_reported = False
        self.daily = state

    def _decide(self, name: str, reported: dict[str, Any], progress: float | None) -> None:
        """Decide on a request or a grant, for the run and for the day, as far as it names them."""
        why = str(reported.get("justification" if name == EXTENSION_REQUESTED else "reason", ""))
        of_day = self._decide_on_day(name, reported, why, progress)
        is_of_run = any(reported.get(amount) for amount in _RUN_AMOUNTS) or of_day is None
        of_run = self._decide_on_run(name, reported, why) if is_of_run else None
        self.daily_grant = of_day if of_day is not None and of_day.approved else None
        decisions = [decision for decision in (of_run, of_day) if decision is not None]
        if not decisions:
            return
        refused = [decision for decision in decisions if not decision.approved]
        self.last_decision = refused[0] if refused else decisions[0]

    def _decide_on_run(self, name: str, reported: dict[str, Any], why: str) -> BudgetDecision | None:
        if self.limits is None:
            return None
        steps, tokens, cost_usd, wall_s = (reported.get(amount, 0) for amount in _RUN_AMOUNTS)
        if name == BUDGET_GRANTED:
            return self.limits.grant(why, steps, tokens, cost_usd=cost_usd, wall_s=wall_s)
        return self.limits.request_emergency_extension(
            why, steps, tokens, requested_cost_usd=cost_usd, requested_wall_s=wall_s
        )

    def _decide_on_day(
        self, name: str, reported: dict[str, Any], why: str, progress: float | None
    ) -> BudgetDecision | None:
        """Return the decision about what is asked of the day's budget; None when nothing is."""
        requested = read_daily_amounts(reported)
        if not requested or self.daily is None:
            return None
        try:
            if name == BUDGET_GRANTED:
                return grant_daily(self.daily, why, requested)
            decision = decide_daily_extension(
                self.daily,
                BudgetRules(**self._steering.budget_rules),
                progress=progress,
                granted_before=self._daily_extensions,
                justification=why,
                requested=requested,
            )
        except SettingsError:  # a recording may hold limits that are none
            return None
        self._daily_extensions += decision.approved
        return decision


def _take_share(amount: int | None, share: float) -> int | None:
    return None if amount is None else int(amount * share)
