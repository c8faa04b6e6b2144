"""From decisions to instructions for the adapter: what can be done, what was asked, what was answered."""

import math
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final, Protocol

from msgspec import structs

from steadyhelm.adapter import CONTINUE, HookPoint, Instruction
from steadyhelm.decisions import UNDECIDED, DailyBudgetState, Decision, DriftAction, Verdict
from steadyhelm.engine.call_book import PendingCall
from steadyhelm.engine.pending_decisions import NOT_CALLED, format_question, format_reason, read_answer
from steadyhelm.errors import RunStopped
from steadyhelm.events import ANSWERS_QUESTION
from steadyhelm.forks import ForkSafeLock
from steadyhelm.host_objects import name_type
from steadyhelm.interrupts import pass_on_signal

if TYPE_CHECKING:
    from steadyhelm.engine.agent_run import AgentRun
    from steadyhelm.engine.monitor import Monitor
    from steadyhelm.engine.run_recorder import RunRecorder

NOT_JUDGED: Final = Decision(
    action=DriftAction.ASK_USER,
    verdict="stop",
    guidance="Steadyhelm could not judge this step, and is set to let nothing pass that it cannot judge.",
)
_TURNS_PER_CHECKPOINT: Final = 3
BUDGET_GRANT_SHARE: Final = 0.25
"""The share of a used-up budget that an answer other than no adds to it."""


class RunOwner(Protocol):
    """What a run knows of the adapter it belongs to; see `steadyhelm.boundary.driver.Boundary`."""

    monitor: "Monitor"
    source: str
    can: dict[HookPoint, frozenset[Verdict]]
    verdicts: frozenset[Verdict]
    ask: Callable[[str], str | bool] | None
    sees_models: bool
    control: tuple[type[BaseException], ...]

    def guard(self, where: str) -> AbstractContextManager[None]:
        """Return a context manager that counts errors of ours and hides them from the agent."""
        ...

    def forget(self, run: "AgentRun") -> None:
        """Forget a run that has ended."""
        ...


class RunInstructions:
    """Turns the decisions about one run into instructions; asks the user by the host's own function.

    Args:
        run: The run.
    """

    def __init__(self, run: "AgentRun") -> None:
        self._run = run
        self._asking = ForkSafeLock()
        self.answered = 0
        """How many questions were answered."""
        self.checkpoint_due = True

    def judge_failure(self, point: HookPoint) -> Instruction:
        """Return what to do where we fail ourselves: stop if nothing may pass that was not judged."""
        run = self._run
        if not run.boundary.monitor.fails_closed:
            return CONTINUE
        verdict: Verdict = "deny" if point == "before_tool" and "deny" in run.can.get(point, ()) else "stop"
        return Instruction(verdict=verdict, text=NOT_JUDGED.guidance, decision=NOT_JUDGED)

    def receive(self, decision: Decision, recorder: "RunRecorder | None") -> None:
        """Keep what was decided about a step until a hook point is reached where it can be carried out."""
        run, monitor = self._run, self._run.boundary.monitor
        if decision is UNDECIDED and monitor.fails_closed:
            decision = NOT_JUDGED
        if "force_checkpoint" in decision.hooks:
            self.checkpoint_due = True
        if decision.verdict != "proceed":
            if recorder is not None:
                recorder.waiting.take()  # it is delivered from here
            with run.lock:
                run.pending.add(decision)
        elif decision.wanted is not None:
            run.undelivered += 1
            monitor.health.count(f"{run.boundary.source} cannot carry out {decision.wanted} where it is used")

    def adopt_guidance(self, recorder: "RunRecorder") -> None:
        """Deliver guidance about a step that a function inside this run has recorded itself."""
        run = self._run
        with run.boundary.guard("guidance"):
            decision = recorder.take_guidance()
            if decision.guidance:
                with run.lock:
                    run.pending.add(structs.replace(decision, verdict="guide"))

    def take(self, point: HookPoint, only: Collection[Verdict] | None) -> Instruction:
        """Return what of the pending decisions can be carried out at this hook point."""
        run = self._run
        instruction, answers = self.judge_failure(point), self.answered
        with run.boundary.guard(point):
            with run.lock:
                instruction = run.pending.take(point, run.can, run.goal, only)
                if instruction.verdict == "rollback":
                    run.pending.clear_strong()
            if instruction.verdict == "rollback":
                instruction = self.roll_back(instruction)
        return self.settle(instruction, answers)

    def judge_call(self, call: PendingCall) -> Instruction:
        """Return what to do about a call that is about to be made."""
        run, monitor = self._run, self._run.boundary.monitor
        possible = run.can.get("before_tool", ())
        if not possible:
            return CONTINUE
        decision = monitor.before_tool(
            call.name,
            call.args,
            run_id=run.run_id,
            started_seq=call.started_seq,
            rolls_back="rollback" in run.can.get("before_model", ()),
        )
        if decision is UNDECIDED:
            return self.judge_failure("before_tool")
        if decision.verdict in {"proceed", "guide"}:
            return CONTINUE
        if "deny" not in possible and decision.wanted == "deny":
            return CONTINUE  # a call that cannot be refused is made, and its result answered
        if decision.verdict not in possible:
            with run.lock:
                run.pending.add(decision)
                return run.pending.take("before_tool", run.can, run.goal)
        text = format_question(decision, run.goal) if decision.verdict == "ask" else decision.guidance
        return Instruction(verdict=decision.verdict, text=text, decision=decision)

    def roll_back(self, instruction: Instruction) -> Instruction:
        """Go back to the last checkpoint, if it has a state of this adapter."""
        run, monitor = self._run, self._run.boundary.monitor
        found = monitor.get_last_checkpoint(run.run_id)
        mark = f"{run.boundary.source}:"
        is_ours = found is not None and found.label.startswith(mark)
        checkpoint = monitor.roll_back(run.run_id) if is_ours else None
        if checkpoint is None:
            run.report_not_carried_out("there is no checkpoint to return to")
            return Instruction(verdict="guide", text=instruction.text, decision=instruction.decision)
        checkpoint = structs.replace(checkpoint, label=checkpoint.label.removeprefix(mark))
        return Instruction(
            verdict="rollback", text=instruction.text, decision=instruction.decision, checkpoint=checkpoint
        )

    def take_checkpoint(self, state: str, turn: int) -> None:
        """Take a checkpoint at the beginning, every few turns, and when it is asked for."""
        run, monitor = self._run, self._run.boundary.monitor
        if monitor.mode != "enforce" or "rollback" not in run.verdicts:
            return
        if self.checkpoint_due or turn % _TURNS_PER_CHECKPOINT == 0:
            self.checkpoint_due = False
            monitor.checkpoint(label=f"{run.boundary.source}:{state}", turn=turn, run_id=run.run_id)

    def stop(self, decision: Decision) -> Instruction:
        """Stop the run: return the instruction, and repeat it at every hook point from now on."""
        why = format_reason(decision)
        run = self._run
        with run.lock:
            # A framework may swallow the stop and continue: then the next hook point repeats it.
            run.pending.strong = structs.replace(decision, verdict="stop")
            run.stopped = run.stopped or RunStopped(
                f"Run stopped. {why}", run_id=run.run_id, decision=decision
            )
        return Instruction(verdict="stop", text=why, decision=decision)

    def settle(self, instruction: Instruction, answered: int, call_id: str = "") -> Instruction:
        """Return the instruction to carry out: a stop is recorded first, a question is asked if possible.

        `answered` is the number of answers when the instruction was made.
        """
        run = self._run
        if instruction.verdict == "stop":
            return self.stop(instruction.decision)
        if instruction.verdict != "ask" or run.boundary.ask is None:
            return instruction
        with self._asking:
            if answered == self.answered:
                return self._ask(instruction, call_id)
        # Another question was answered in the meantime: it may have been the same.
        with run.lock:
            call = run.calls.end_question(call_id)
        if call is not None:
            return run.before_tool(call_id, call.name, call.args, surface=call.surface)
        return run.take_instruction("before_model")

    def apply_answer(self, answer: object, instruction: Instruction, call_id: str = "") -> Instruction:
        """Apply an answer; see `AgentRun.apply_answer`."""
        run = self._run
        allowed, text = read_answer(answer)
        call = None
        with run.boundary.guard("answer"):
            with run.lock:
                run.pending.clear_strong()
                self.answered += 1
                call = run.calls.end_question(call_id)
            if call is not None and allowed is not True:
                run.report_refused(call_id, call.name, instruction)
            run.record_words(text, **{ANSWERS_QUESTION: True})
            if allowed is not False:
                self._grant_budget(instruction.decision)
            if call is not None and allowed is True:
                run.begin_call(call_id, call)
        if allowed is True:
            return CONTINUE
        if allowed is False:
            return self._end_by_user(instruction.decision, before_call=call is not None)
        if call is not None:
            said = f"Not called. The user says: {text}"
            return Instruction(verdict="deny", text=said, decision=instruction.decision)
        return Instruction(
            verdict="guide", text=f"The user was asked, and says: {text}", decision=instruction.decision
        )

    def _end_by_user(self, decision: Decision, *, before_call: bool) -> Instruction:
        """Stop the run; before a call of a framework that cannot stop there, the call is refused first."""
        stop = self.stop(decision)
        if not before_call or "stop" in self._run.can.get("before_tool", ()):
            return stop
        return Instruction(verdict="deny", text=NOT_CALLED["stop"], decision=decision)

    def _ask(self, instruction: Instruction, call_id: str) -> Instruction:
        """Ask the user by the host's function; without an answer the run is stopped."""
        run = self._run
        assert run.boundary.ask is not None
        answer: object = None
        try:
            answer = run.boundary.ask(instruction.text)
        except BaseException as exc:  # noqa: BLE001 - the host's own function
            pass_on_signal(exc)
            run.boundary.monitor.health.count(f"the user could not be asked: {name_type(exc)}")
        if answer is None:
            run.report_not_carried_out("the user could not be asked")
            run.drop_call(call_id)
            return self.stop(instruction.decision)
        applied = self.apply_answer(answer, instruction, call_id)
        is_elsewhere = "guide" not in run.can.get("before_model", ()) and "guide" in run.verdicts
        if applied.verdict == "guide" and is_elsewhere:
            # No text can be given here: it goes where it can, with a tool's result.
            with run.lock:
                run.pending.add(structs.replace(applied.decision, verdict="guide", guidance=applied.text))
            return CONTINUE
        return applied

    def _grant_budget(self, decision: Decision) -> None:
        """Raise the budgets that are used up, of the run and of the day, by a quarter."""
        budget, daily = decision.budget, decision.daily_budget
        amounts: dict[str, Any] = {}
        if budget is not None and budget.exhausted:
            amounts["steps"] = math.ceil((budget.steps_limit or 0) * BUDGET_GRANT_SHARE)
            amounts["tokens"] = math.ceil((budget.tokens_limit or 0) * BUDGET_GRANT_SHARE)
            amounts["cost_usd"] = (budget.cost_limit_usd or 0.0) * BUDGET_GRANT_SHARE
            amounts["wall_s"] = (budget.wall_limit_s or 0.0) * BUDGET_GRANT_SHARE
        if daily is not None and daily.exhausted:
            amounts |= _list_daily_grants(daily)
        if amounts:
            monitor, run_id = self._run.boundary.monitor, self._run.run_id
            monitor.grant("the user was asked, and answered", **amounts, run_id=run_id)


def _list_daily_grants(daily: DailyBudgetState) -> dict[str, Any]:
    """Return what reopens the day's budget: what was spent beyond it, and a quarter of it."""
    spent = {
        "steps": (daily.steps_used, daily.steps_limit),
        "tokens": (daily.tokens_used, daily.tokens_limit),
        "cost_usd": (daily.cost_used_usd, daily.cost_limit_usd),
    }
    amounts: dict[str, Any] = {}
    for name in daily.exhausted_by:
        used, limit = spent[name]
        more = max(0.0, used - (limit or 0)) + (limit or 0) * BUDGET_GRANT_SHARE
        amounts[f"daily_{name}"] = more if name == "cost_usd" else math.ceil(more)
    return amounts
