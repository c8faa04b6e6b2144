"""What one agent has spent today, in memory: a step is judged without waiting for the store.

What is stored is read on the writer's thread, about twice a second; what this process has recorded since
then is added to it. What other processes spend is known about a second later.
"""

from collections.abc import Callable, Sequence

from msgspec import structs

from steadyhelm.budgets.daily import DailyLimits, Day
from steadyhelm.decisions import DailyBudgetState
from steadyhelm.events import TOOL_CALL
from steadyhelm.forks import ForkSafeLock
from steadyhelm.sink import DailyGrant, Record, RecordedEvent
from steadyhelm.store import SpendingStore
from steadyhelm.store_rows import AgentSpending


class DailyLedger:
    """What one agent has spent today over all its runs, and what it may spend.

    Args:
        agent_id: The agent.
        limits: What it may spend in one day.
        clock: Returns the time.
    """

    def __init__(self, agent_id: str, limits: DailyLimits, clock: Callable[[], float]) -> None:
        self._agent_id = agent_id
        self._limits = limits
        self._clock = clock
        self.lock = ForkSafeLock()
        self._day_read: Day | None = None
        self._set_day(limits.find_day(clock()))

    def _set_day(self, day: Day) -> None:
        self._day = day
        self._stored = AgentSpending(agent_id=self._agent_id)
        # Totals of what this process has queued, and of what of that is stored; both of this day alone.
        self._recorded = self._written = self._written_when_read = AgentSpending(agent_id=self._agent_id)

    def read(self, store: SpendingStore) -> None:
        """Read what is stored. Runs on the writer's thread; raises StoreError."""
        with self.lock:
            self._follow_clock()
            day, written = self._day, self._written
        found = store.list_spending(since=day.start, until=day.end, agent_id=self._agent_id)
        with self.lock:
            if day == self._day:
                self._stored = found[0] if found else AgentSpending(agent_id=self._agent_id)
                self._written_when_read, self._day_read = written, day

    def is_outdated(self) -> bool:
        """Return whether what is stored of this day was not read yet."""
        day = self._day_read
        return day is None or not day.start <= self._clock() < day.end

    def record(self, records: Sequence[Record]) -> None:
        """Count records of this agent that are queued, or held until it is known how their run continues."""
        with self.lock:
            self._follow_clock()
            self._recorded = self._add(self._recorded, records)

    def withdraw(self, records: Sequence[Record]) -> None:
        """Count held records no longer: their steps are judged and counted again."""
        with self.lock:
            self._follow_clock()
            held = self._add(AgentSpending(agent_id=self._agent_id), records)
            self._recorded = _subtract(self._recorded, held)

    def note_written(self, records: Sequence[Record]) -> None:
        """Note that queued records are stored. Runs on the writer's thread."""
        with self.lock:
            self._written = self._add(self._written, records)

    def get_state(self, *, steps: int = 0, tokens: int = 0, cost_usd: float = 0.0) -> DailyBudgetState:
        """Return what is spent today, with what a step that is not queued yet spends."""
        with self.lock:
            self._follow_clock()
            spent = _subtract(_sum(self._stored, self._recorded), self._written_when_read)
            day = self._day
        step = AgentSpending(agent_id=self._agent_id, steps=steps, tokens=tokens, cost_usd=cost_usd)
        return self._limits.build_state(day, _sum(spent, step))

    def after_fork(self) -> None:
        """Forget in a child process what the parent will store."""
        self._recorded = self._written = self._written_when_read = AgentSpending(agent_id=self._agent_id)

    def _follow_clock(self) -> None:
        now = self._clock()
        if now >= self._day.end or now < self._day.start:
            self._set_day(self._limits.find_day(now))

    def _add(self, total: AgentSpending, records: Sequence[Record]) -> AgentSpending:
        """Return the total with what records of this day have spent and granted."""
        day, agent_id = self._day, self._agent_id
        for record in records:
            if isinstance(record, RecordedEvent):
                event = record.event
                if event.agent_id == agent_id and day.start <= event.timestamp < day.end:
                    total = structs.replace(
                        total,
                        steps=total.steps + (event.action_type == TOOL_CALL),
                        tokens=total.tokens + event.token_count,
                        cost_usd=total.cost_usd + (event.cost_usd or 0.0),
                    )
            elif isinstance(record, DailyGrant) and day.start <= record.timestamp < day.end:
                total = structs.replace(
                    total,
                    granted_steps=total.granted_steps + record.steps,
                    granted_tokens=total.granted_tokens + record.tokens,
                    granted_cost_usd=total.granted_cost_usd + record.cost_usd,
                )
        return total


def _sum(one: AgentSpending, other: AgentSpending) -> AgentSpending:
    return AgentSpending(
        agent_id=one.agent_id,
        steps=one.steps + other.steps,
        tokens=one.tokens + other.tokens,
        cost_usd=one.cost_usd + other.cost_usd,
        granted_steps=one.granted_steps + other.granted_steps,
        granted_tokens=one.granted_tokens + other.granted_tokens,
        granted_cost_usd=one.granted_cost_usd + other.granted_cost_usd,
    )


def _subtract(one: AgentSpending, other: AgentSpending) -> AgentSpending:
    return AgentSpending(
        agent_id=one.agent_id,
        steps=max(0, one.steps - other.steps),
        tokens=max(0, one.tokens - other.tokens),
        cost_usd=max(0.0, one.cost_usd - other.cost_usd),
        granted_steps=max(0, one.granted_steps - other.granted_steps),
        granted_tokens=max(0, one.granted_tokens - other.granted_tokens),
        granted_cost_usd=max(0.0, one.granted_cost_usd - other.granted_cost_usd),
    )
