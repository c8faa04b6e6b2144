"""What a judge may use, in one run and in one day: the worst case is reserved before it is asked.

The day is shared by all processes through the store: what all have reserved is read and the reservation
written in one transaction, so that two processes together use up a limit exactly.
"""

from collections.abc import Callable

from steadyhelm.budgets.daily import DailyLimits
from steadyhelm.errors import StoreError
from steadyhelm.events import new_id
from steadyhelm.judging.usage import JudgeAmounts, JudgeLimits
from steadyhelm.sink import DailyGrant
from steadyhelm.store import JUDGE_ACCOUNT, Store
from steadyhelm.store_rows import AgentSpending


class DailyAccount:
    """What judges have used today, over all runs, agents and processes of one store.

    Args:
        limits: What may be used in one day.
        store: Where it is shared; None counts in this process alone.
        clock: Returns the time.
        utc_offset_h: How many hours the day begins before that of UTC.
    """

    def __init__(
        self,
        limits: JudgeLimits,
        store: Store | None,
        clock: Callable[[], float],
        *,
        utc_offset_h: float = 0.0,
    ) -> None:
        self._limits = limits
        self._store = store
        self._clock = clock
        self._days = DailyLimits(utc_offset_h=utc_offset_h)
        self._date = ""
        self._used = JudgeAmounts()

    def reserve(self, amounts: JudgeAmounts) -> str:
        """Reserve what a question may use at most; return why it may not be asked, empty when it may."""
        try:
            passed = self._reserve(amounts)
        except StoreError:
            return "the database could not be reached to share the limit of the day"
        return f"the limit of {passed} of the day is reached" if passed else ""

    def _reserve(self, amounts: JudgeAmounts) -> str:
        """Reserve amounts unless that passes a limit; return that limit, empty for none."""
        now, store = self._clock(), self._store
        if store is None:
            passed = self._limits.find_passed(self.read().add(amounts))
            if not passed:
                self._count(amounts, now)
            return passed
        grant = _make_grant(amounts, now)  # outside: a transaction that is tried again reserves once

        def reserve_once() -> str:
            store.lock_agents([JUDGE_ACCOUNT])
            passed = self._limits.find_passed(self.read().add(amounts))
            if not passed:
                store.write([grant])
            return passed

        return store.run_transaction(reserve_once)

    def settle(self, reserved: JudgeAmounts, used: JudgeAmounts) -> None:
        """Return what was reserved and not used; raises StoreError, and then it stays reserved."""
        if used != reserved:
            self._write(used.add(reserved, -1))

    def read(self) -> JudgeAmounts:
        """Return what is used and reserved today; raises StoreError."""
        day = self._days.find_day(self._clock())
        if self._store is None:
            return self._used if day.date == self._date else JudgeAmounts()
        return read_daily_use(self._store, since=day.start, until=day.end)

    def _write(self, amounts: JudgeAmounts) -> None:
        now = self._clock()
        if self._store is not None:
            self._store.write([_make_grant(amounts, now)])
        else:
            self._count(amounts, now)

    def _count(self, amounts: JudgeAmounts, now: float) -> None:
        date = self._days.find_day(now).date
        self._used = amounts if date != self._date else self._used.add(amounts)
        self._date = date


def _make_grant(amounts: JudgeAmounts, at: float) -> DailyGrant:
    used = (amounts.calls, amounts.tokens, amounts.cost_usd)
    return DailyGrant(JUDGE_ACCOUNT, "", new_id(), at, *used, "judge")


def read_daily_use(store: Store, *, since: float, until: float) -> JudgeAmounts:
    """Return what judges have used from one time to another; raises StoreError."""
    found = store.list_spending(since=since, until=until, agent_id=JUDGE_ACCOUNT)
    total = found[0] if found else AgentSpending(agent_id=JUDGE_ACCOUNT)
    return JudgeAmounts(total.granted_steps, total.granted_tokens, total.granted_cost_usd)
