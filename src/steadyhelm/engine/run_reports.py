"""What a host reports about the runs of one agent, and the decisions it gets back.

Nothing here raises into the host, blocks it, or changes its objects.
"""

from collections.abc import Collection
from typing import Any, Final

from steadyhelm.decisions import (
    PROCEED,
    UNDECIDED,
    BudgetDecision,
    BudgetState,
    DailyBudgetState,
    Decision,
    Mode,
    Verdict,
)
from steadyhelm.engine.run_control import RunControl
from steadyhelm.engine.run_recorder import RunRecorder
from steadyhelm.events import (
    ACTION_TYPES,
    BUDGET_GRANTED,
    CALL_REFUSED,
    EXTENSION_REQUESTED,
    NEW_GOAL,
    NOT_CARRIED_OUT,
    PLAN,
    PROGRESS,
    STATE_TRANSITION,
)
from steadyhelm.policy.response_levels import VERDICTS

_UNKNOWN_KIND: Final = f"step of a kind that no detector reads: the kinds are {', '.join(ACTION_TYPES)}"
_NO_BUDGET: Final = BudgetDecision(approved=False, reason="The run has no budget.")


class RunReports:
    """Takes the steps of an agent and what its host reports beside them; returns decisions.

    Args:
        control: The runs of the agent.
    """

    def __init__(self, control: RunControl) -> None:
        self.agent_id = control.agent_id
        self.mode: Mode = control.mode
        self.health = control.health
        self.disabled = control.disabled
        self.fails_closed = control.fails_closed
        """Whether a step that could not be judged is refused."""
        self.runs = control.runs
        self._control = control

    def record_event(
        self,
        action_type: str,
        action_name: str,
        *,
        run_id: str | None = None,
        timestamp: float | None = None,
        event_id: str | None = None,
        token_count: int = 0,
        input_data: Any = None,
        output_data: Any = None,
        duration_ms: float = 0.0,
        metadata: dict[str, Any] | None = None,
        started_seq: int | None = None,
        call_id: str | None = None,
        parent_run_id: str | None = None,
        error: object = None,
        cost_usd: float | None = None,
        can: Collection[Verdict] = VERDICTS,
    ) -> Decision:
        """Record one step of the agent, and return the decision about it.

        Without a `run_id` it belongs to the current run of this context; where there is none, one starts.
        `can` are the verdicts you can carry out at this step, where these are fewer than the run's: a set,
        list or tuple of texts.
        """
        if self.disabled:
            return PROCEED
        try:
            run_id = self._control.identify(run_id)
            recorder = self._control.find_or_start(run_id, parent_run_id)
            if recorder is None:
                return PROCEED if run_id is not None and self.runs.has_ended(run_id) else UNDECIDED
            if type(action_type) is str and action_type not in ACTION_TYPES:
                self.health.count(_UNKNOWN_KIND)
            return recorder.record(
                action_type,
                action_name,
                timestamp=timestamp,
                event_id=event_id,
                token_count=token_count,
                input_data=input_data,
                output_data=output_data,
                duration_ms=duration_ms,
                metadata=metadata,
                started_seq=started_seq,
                call_id=call_id,
                error=error,
                cost_usd=cost_usd,
                can=self._control.read_verdicts(can),
            )
        except RecursionError:
            self.health.out_of_stack += 1  # the host is at its limit: a call to count it would raise as well
            return UNDECIDED
        except Exception as exc:  # noqa: BLE001 - the agent must not notice
            self.health.swallow("record_event", exc, is_record_lost=True)
            return UNDECIDED

    def before_tool(
        self,
        name: str,
        args: Any = None,
        *,
        run_id: str | None = None,
        started_seq: int | None = None,
        rolls_back: bool = False,
    ) -> Decision:
        """Return the decision for a call that has not been made yet: proceed, guide, deny or ask.

        `started_seq` is how many events the agent had seen when it asked for the call, where that is known.
        With `rolls_back` you return to the last checkpoint where that is called for: then it is rollback.
        Records nothing.
        """
        try:
            run_id = self._control.identify(run_id)
            recorder = self._find(run_id)
            if recorder is None:
                return UNDECIDED if not self.disabled and self._control.is_lost(run_id) else PROCEED
            return recorder.foresee(name, args, started_seq=started_seq, rolls_back=rolls_back)
        except RecursionError:
            self.health.out_of_stack += 1
            return UNDECIDED
        except Exception as exc:  # noqa: BLE001 - the agent must not notice
            self.health.swallow("before_tool", exc)
            return UNDECIDED

    def call_refused(
        self,
        name: str,
        *,
        reason: str = "",
        decision: Decision | None = None,
        call_id: str | None = None,
        run_id: str | None = None,
    ) -> Decision:
        """Report that a call was refused, as `before_tool` asked with this decision: it is not progress.

        The refusal is stored and judged like guidance. It is lifted after any other call, or when the user
        sends a message.
        """
        refusal: dict[str, Any] = {"tool": name, "reason": reason}
        if type(decision) is Decision:
            why = decision.guidance if type(reason) is str and not reason else reason
            refusal = {"tool": name, "reason": why, "action": decision.action.value}
        return self._report(CALL_REFUSED, refusal, run_id=run_id, call_id=call_id)

    def not_carried_out(self, reason: str, *, run_id: str | None = None) -> Decision:
        """Report that the latest decision could not be carried out: then it is not judged either."""
        return self._report(NOT_CARRIED_OUT, {"reason": reason}, run_id=run_id)

    def progress(self, value: float, *, stuck: float | None = None, run_id: str | None = None) -> Decision:
        """Report how far the task is, and how stuck it is, both 0 to 1, for instance by a `GoalTree`.

        What is reported counts more than what is inferred from the steps.
        """
        return self._report(PROGRESS, {"value": value, "stuck": stuck}, run_id=run_id)

    def new_goal(self, goal: str, *, run_id: str | None = None) -> Decision:
        """Report that the run has another task from now on: its steps are compared with that alone.

        For hosts that know it. Without it, another task is recognised by the words of the user's messages.
        """
        return self.record_event(STATE_TRANSITION, NEW_GOAL, input_data={"text": goal}, run_id=run_id)

    def plan(self, steps: Any, *, run_id: str | None = None) -> Decision:
        """Report the plan of a run: a list of steps, as texts or with a `status`, or a text with a list.

        Guidance names the current step from then on, and what is done. It replaces the plan before; without
        one, the plan is read from the agent's plan tool and from its replies.
        """
        return self.record_event(STATE_TRANSITION, PLAN, input_data={"plan": steps}, run_id=run_id)

    def guidance(self, run_id: str | None = None) -> str:
        """Return the guidance for a run's next request to its model, each once; empty when there is none.

        What is returned counts as delivered, and its outcome is judged from then on.
        """
        try:
            recorder = self.runs.get(self._control.identify(run_id) or self.runs.find_current() or "")
            return recorder.take_guidance().guidance if recorder is not None else ""
        except RecursionError:
            self.health.out_of_stack += 1
            return ""
        except Exception as exc:  # noqa: BLE001 - the agent must not notice
            self.health.swallow("guidance", exc)
            return ""

    def budget(self, run_id: str | None = None) -> BudgetState | None:
        """Return what a run may still spend; None when it has no budget."""
        recorder = self._find(run_id)
        if recorder is None:
            return None
        with recorder.lock:
            return recorder.session.drift.budget.get_status()

    def daily_budget(self) -> DailyBudgetState | None:
        """Return what the agent has spent today over all its runs, and what it may; None without a limit.

        It is in memory: what other processes spend is known about a second later.
        """
        daily = self._control.services.daily
        return None if daily is None else daily.get_state()

    def request_extension(
        self,
        justification: str,
        *,
        steps: int = 0,
        tokens: int = 0,
        cost_usd: float = 0.0,
        wall_s: float = 0.0,
        daily_steps: int = 0,
        daily_tokens: int = 0,
        daily_cost_usd: float = 0.0,
        run_id: str | None = None,
    ) -> BudgetDecision:
        """Ask for a little more than the budget allows; the rules decide, and the decision is stored.

        What is granted of the daily budget holds for all runs of the agent until the day ends.
        """
        asked = {"steps": steps, "tokens": tokens, "cost_usd": cost_usd, "wall_s": wall_s}
        asked |= _name_daily(daily_steps, daily_tokens, daily_cost_usd)
        return self._extend_budget(EXTENSION_REQUESTED, {"justification": justification, **asked}, run_id)

    def grant(
        self,
        reason: str,
        *,
        steps: int = 0,
        tokens: int = 0,
        cost_usd: float = 0.0,
        wall_s: float = 0.0,
        daily_steps: int = 0,
        daily_tokens: int = 0,
        daily_cost_usd: float = 0.0,
        run_id: str | None = None,
    ) -> BudgetDecision:
        """Add to the budget of a run because the user says so: no rule applies.

        What is added to the daily budget holds for all runs of the agent until the day ends.
        """
        given = {"steps": steps, "tokens": tokens, "cost_usd": cost_usd, "wall_s": wall_s}
        given |= _name_daily(daily_steps, daily_tokens, daily_cost_usd)
        return self._extend_budget(BUDGET_GRANTED, {"reason": reason, **given}, run_id)

    def _find(self, run_id: str | None) -> RunRecorder | None:
        """Return a live run that is recorded, by default that of this context."""
        return None if self.disabled else self._control.find(run_id)

    def _extend_budget(self, name: str, metadata: dict[str, Any], run_id: str | None) -> BudgetDecision:
        recorder = self._find(run_id)
        try:
            return _NO_BUDGET if recorder is None else recorder.extend_budget(name, metadata) or _NO_BUDGET
        except Exception as exc:  # noqa: BLE001 - the agent must not notice
            self.health.swallow("record_event", exc, is_record_lost=True)
            return _NO_BUDGET

    def _report(
        self, name: str, metadata: dict[str, Any], *, run_id: str | None, call_id: str | None = None
    ) -> Decision:
        if self.disabled:
            return PROCEED
        try:
            run_id = self._control.identify(run_id)
            recorder = self._control.find_or_start(run_id)
            if recorder is None:
                return PROCEED if run_id is not None and self.runs.has_ended(run_id) else UNDECIDED
            return recorder.report(name, metadata, call_id=call_id)
        except RecursionError:
            self.health.out_of_stack += 1
            return UNDECIDED
        except Exception as exc:  # noqa: BLE001 - the agent must not notice
            self.health.swallow("record_event", exc, is_record_lost=True)
            return UNDECIDED


def _name_daily(steps: int, tokens: int, cost_usd: float) -> dict[str, float]:
    """Return the amounts of a day that are asked for, by name."""
    amounts = {"daily_steps": steps, "daily_tokens": tokens, "daily_cost_usd": cost_usd}
    return {name: amount for name, amount in amounts.items() if amount}
