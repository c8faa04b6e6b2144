"""The budget of an agent for one day, over all its runs."""

import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple, Self

from msgspec import Struct

from steadyhelm.budgets.adjustments import decide_extension, grant
from steadyhelm.budgets.limits import DAILY_LIMITS, DAILY_PREFIX, Budget
from steadyhelm.budgets.memory import BudgetMemory, BudgetRules, parse_limit
from steadyhelm.budgets.meters import UNITS, LimitName, Meter, to_units
from steadyhelm.decisions import BudgetDecision, DailyBudgetState
from steadyhelm.store_rows import AgentSpending

_DAY_S: Final = 86_400
_STEP_S: Final = 900
"""Spending is stored for quarters of an hour: a day begins with one."""
_TOLERANCE: Final = 1e-9
_LATEST_S: Final = 2e11
_FIRST_DAY: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Day(NamedTuple):
    """A day of an agent, from `start` until `end`, by its date."""

    start: float
    end: float
    date: str


class DailyLimits(Struct, frozen=True, kw_only=True):
    """What an agent may spend in one day, over all its runs; a limit of None is no limit.

    `utc_offset_h` is how many hours the day begins before that of UTC.
    """

    steps: int | None = None
    tokens: int | None = None
    cost_usd: float | None = None
    utc_offset_h: float = 0.0

    @classmethod
    def of(cls, budget: Budget, *, utc_offset_h: float = 0.0) -> Self | None:
        """Return the daily limits of a budget; None when it has none."""
        limits = {name: getattr(budget, DAILY_PREFIX + name) for name in DAILY_LIMITS}
        return cls(**limits, utc_offset_h=utc_offset_h) if any(limits.values()) else None

    def find_day(self, at: float) -> Day:
        """Return the day that a time belongs to.

        >>> DailyLimits().find_day(1_700_000_000.0).date
        '2023-11-14'
        """
        offset = round(self.utc_offset_h * 3600 / _STEP_S) * _STEP_S
        at = at if math.isfinite(at) and 0.0 <= at < _LATEST_S else 0.0
        start = (at + offset) // _DAY_S * _DAY_S - offset
        return Day(start, start + _DAY_S, _format_date(start + offset))

    def build_state(self, day: Day, spent: AgentSpending) -> DailyBudgetState:
        """Return what is spent and allowed on a day."""
        steps = None if self.steps is None else self.steps + spent.granted_steps
        tokens = None if self.tokens is None else self.tokens + spent.granted_tokens
        cost_usd = None if self.cost_usd is None else self.cost_usd + spent.granted_cost_usd
        used = ((spent.steps, steps), (spent.tokens, tokens), (spent.cost_usd, cost_usd))
        exhausted = tuple(
            name
            for name, (amount, limit) in zip(DAILY_LIMITS, used, strict=True)
            if limit is not None and amount >= limit - _TOLERANCE
        )
        return DailyBudgetState(
            day=day.date,
            opens_at=day.end,
            steps_used=spent.steps,
            steps_limit=steps,
            tokens_used=spent.tokens,
            tokens_limit=tokens,
            cost_used_usd=spent.cost_usd,
            cost_limit_usd=cost_usd,
            exhausted_by=exhausted,
        )


def _format_date(start: float) -> str:
    return (_FIRST_DAY + timedelta(seconds=start)).date().isoformat()


def format_time(at: float) -> str:
    """Return a time for people, in UTC.

    >>> format_time(1_700_006_400.0)
    '2023-11-15 00:00 UTC'
    """
    at = min(max(0.0, at), _LATEST_S) if math.isfinite(at) else 0.0
    return f"{_FIRST_DAY + timedelta(seconds=at):%Y-%m-%d %H:%M} UTC"


def read_daily_amounts(reported: Mapping[str, Any]) -> dict[LimitName, int | None]:
    """Return what a report names of the daily limits, in whole units; empty when it names none."""
    named = {name: reported.get(DAILY_PREFIX + name) for name in DAILY_LIMITS}
    if not any(named.values()):
        return {}
    return {name: to_units(value or 0, UNITS[name]) for name, value in named.items()}


def decide_daily_extension(
    state: DailyBudgetState,
    rules: BudgetRules,
    *,
    progress: float | None,
    granted_before: int,
    justification: str,
    requested: Mapping[LimitName, int | None],
) -> BudgetDecision:
    """Decide on a run's request for more of its agent's budget of the day, by the rules of its own budget."""
    memory = _build_memory(state, rules)
    memory.progress, memory.extensions = progress, granted_before
    return decide_extension(memory, justification, requested)


def grant_daily(
    state: DailyBudgetState, reason: str, requested: Mapping[LimitName, int | None]
) -> BudgetDecision:
    """Return the grant of a user, which raises the limits that are set for the rest of the day."""
    return grant(_build_memory(state, BudgetRules()), reason, requested)


def _build_memory(state: DailyBudgetState, rules: BudgetRules) -> BudgetMemory:
    """Return the day's budget as the memory of a run's, so that the same rules apply to it."""
    limits = (state.steps_limit, state.tokens_limit, state.cost_limit_usd)
    used = (state.steps_used, state.tokens_used, state.cost_used_usd)
    memory = BudgetMemory(rules=rules, steps=Meter(), tokens=Meter(), cost_usd=Meter(), wall_s=Meter())
    for name, limit, spent in zip(DAILY_LIMITS, limits, used, strict=True):
        meter = memory.meters()[name]
        meter.original = meter.limit = parse_limit(name, name, limit)
        meter.used = to_units(spent, UNITS[name]) or 0
        meter.exhausted = name in state.exhausted_by
    return memory
