"""One run of a watched agent at its boundaries: what there is to do before a model call and a tool call."""

import math
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final

from msgspec import structs

from steadyhelm.adapter import CONTINUE, Capabilities, HookPoint, Instruction
from steadyhelm.boundary.call_book import PendingCall
from steadyhelm.boundary.pending_decisions import meaning, question, reason
from steadyhelm.boundary.recorded_run import UNJUDGED, RecordedRun
from steadyhelm.decisions import UNDECIDED, Decision, Verdict
from steadyhelm.engine.runs import outcome_of
from steadyhelm.errors import RunStopped
from steadyhelm.events import STATE_TRANSITION
from steadyhelm.forks import ForkSafeLock

if TYPE_CHECKING:
    from steadyhelm.boundary.driver import Boundary

_GRANTED: Final = 0.25


class AgentRun(RecordedRun):
    """What an adapter tells about one run, and what it shall do about it.

    `stopped` is set before anybody is told to stop; `has_ended` when the run is over.
    """

    def __init__(self, boundary: "Boundary", run_id: str, goal: str, *, joined: bool) -> None:
        super().__init__(boundary, run_id, goal)
        self.stopped: RunStopped | None = None
        self.has_ended = False
        self._joined = joined
        self._asking_user = ForkSafeLock()
        self._answers_given = 0
        self._monitor.takes_part(run_id, self, boundary.verdicts)

    def set_capabilities(self, can: Capabilities) -> None:
        """From now on this can be carried out in this run, by place: another surface of it has shown up."""
        with self.boundary.guard("now_can"), self._lock:
            self.can = {place: frozenset(verdicts) for place, verdicts in can.items()}
            self._answers.can = self.can
            self._monitor.takes_part(self.run_id, self, self.verdicts)

    # --- before a call ---------------------------------------------------------------------------

    def before_model(self, *, key: str = "", state: str | None = None) -> Instruction:
        """The model is about to be asked: proceed, guide, rollback, ask or stop.

        `key` tells this call from others at the same time, `state` is the adapter's name for how things
        stand now, where it could return to that.
        """
        self.begin_model_call(key=key, state=state)
        instruction = self.take_instruction("before_model")
        if instruction.verdict in {"stop", "rollback"}:
            with self._lock:
                self._models.pop(key, None)  # it is not asked now
        return instruction

    def before_tool(self, call_id: str, name: str, args: Any = None, *, surface: str = "") -> Instruction:
        """A tool is about to be called: proceed, deny, ask or stop. Words about it wait for its result."""
        instruction, answers = self._unjudged("before_tool"), self._answers_given
        with self.boundary.guard("before_tool"):
            if not self._calls.owned(call_id, surface):
                return CONTINUE
            self._give_up(call_id)  # another attempt: what came of the last one nobody told
            call = self._call(name, args, surface)
            with self._lock:
                instruction = self._answers.at("before_tool", self.goal)
            if instruction.verdict == "proceed":
                instruction = self._foreseen(call)
            if instruction.verdict == "proceed":
                self._begin_call(call_id, call)
            elif instruction.verdict == "ask":
                self._calls.ask(call_id, call)
            else:
                self._refused(call_id, name, instruction)
        return self._settled(instruction, answers, call_id)

    # --- what there is to do ---------------------------------------------------------------------

    def take_instruction(self, place: HookPoint, *, only: Collection[Verdict] | None = None) -> Instruction:
        """What can be carried out here and now; the places before a call take it by themselves.

        A surface that can carry out `only` some of it leaves the rest for one that can do more.
        """
        instruction, answers = self._unjudged(place), self._answers_given
        with self.boundary.guard(place):
            with self._lock:
                instruction = self._answers.at(place, self.goal, only)
                if instruction.verdict == "rollback":
                    self._answers.done()
            if instruction.verdict == "rollback":
                instruction = self._returned(instruction)
        return self._settled(instruction, answers)

    def apply_answer(self, answer: object, instruction: Instruction, call_id: str = "") -> Instruction:
        """The user was asked what `steer` says: a yes lets the agent go on, a no does not, words guide it.

        Where they were asked before a call, the answer says what to do with it: proceed or deny.
        An answer other than no to a question about a used-up budget is worth a quarter of it.
        """
        allowed, words = meaning(answer)
        call = None
        with self.boundary.guard("answer"):
            with self._lock:
                self._answers.done()
                self._answers_given += 1
            call = self._calls.pop_asked(call_id)
            if call is not None and allowed is not True:
                self._refused(call_id, call.name, instruction)
            self._said(words)  # calls that are under way are not over because the user answers
            if allowed is not False:
                self._grant(instruction.decision)
            if call is not None and allowed is True:
                self._begin_call(call_id, call)
        if allowed is True:
            return CONTINUE
        if call is not None:
            said = "The user does not allow it." if allowed is False else f"The user says: {words}"
            return Instruction(verdict="deny", text=f"Not called. {said}", decision=instruction.decision)
        if allowed is False:
            return self._stop(instruction.decision)
        return Instruction(
            verdict="guide", text=f"The user was asked, and says: {words}", decision=instruction.decision
        )

    def report_not_carried_out(self, why: str) -> None:
        """The latest answer could not be carried out: it is reported, and not judged."""
        self._monitor.not_carried_out(why, run_id=self.run_id)

    # --- the end ---------------------------------------------------------------------------------

    def finish(self, error: BaseException | None = None, *, outcome: str = "") -> BaseException | None:
        """The outermost call is over; gives the exception that its caller shall receive, if any.

        What is no failure, such as a keyboard's interrupt or a task that is cancelled, stays itself.
        """
        self.end(error, outcome=outcome)
        if self.stopped is None or not (error is None or isinstance(error, Exception)):
            return error
        return self.stopped

    def end(self, error: BaseException | None = None, *, outcome: str = "") -> None:
        """The run is over; once is enough."""
        with self._lock:
            if self.has_ended:
                return
            self.has_ended = True
        try:
            with self.boundary.guard("end"):
                self._give_up_calls()
                if self._answers and self.stopped is None:
                    self.report_not_carried_out("the agent had finished before it could be carried out")
                if error is not None and self.stopped is None and self._is_failure(error):
                    self._record(STATE_TRANSITION, "agent_error", error=error)
        finally:
            self._monitor.leaves(self.run_id, self)
            if not self._joined:
                ended = "stopped" if self.stopped is not None else outcome_of(error)
                self._monitor.end_run(self.run_id, outcome=outcome or ended)
            self.boundary.forget(self)

    # --- inside ----------------------------------------------------------------------------------

    def _unjudged(self, place: HookPoint) -> Instruction:
        """What holds where we fail ourselves: to go on, unless nothing shall pass unjudged."""
        if not self._monitor.fails_closed:
            return CONTINUE
        verdict: Verdict = "deny" if place == "before_tool" and "deny" in self.can.get(place, ()) else "stop"
        return Instruction(verdict=verdict, text=UNJUDGED.guidance, decision=UNJUDGED)

    def _foreseen(self, call: PendingCall) -> Instruction:
        possible = self.can.get("before_tool", ())
        if self._monitor.mode != "enforce" or not possible:
            return CONTINUE  # words about a call are said once, with what came of it
        decision = self._monitor.before_tool(
            call.name, call.args, run_id=self.run_id, started_seq=call.started_seq
        )
        if decision is UNDECIDED:
            return self._unjudged("before_tool")
        if decision.verdict in {"proceed", "guide"}:
            return CONTINUE
        if "deny" not in possible and decision.wanted == "deny":
            return CONTINUE  # a call that cannot be refused is made, and its result answered
        with self._lock:
            if decision.verdict not in possible:
                self._answers.note(decision)
                return self._answers.at("before_tool", self.goal)
        words = question(decision, self.goal) if decision.verdict == "ask" else decision.guidance
        return Instruction(verdict=decision.verdict, text=words, decision=decision)

    def _settled(self, instruction: Instruction, answers: int, call_id: str = "") -> Instruction:
        """A stop is written down before anybody raises; a question is put where the host gave us a way."""
        if instruction.verdict == "stop":
            return self._stop(instruction.decision)
        if instruction.verdict != "ask" or self.boundary.ask is None:
            return instruction
        with self._asking_user:
            if answers == self._answers_given:
                return self._put(instruction, call_id)
        # Somebody else's question was answered in the meantime: it may have been this one.
        call = self._calls.pop_asked(call_id)
        if call is not None:
            return self.before_tool(call_id, call.name, call.args, surface=call.surface)
        return self.take_instruction("before_model")

    def _put(self, instruction: Instruction, call_id: str) -> Instruction:
        """Ask the user by the host's own function; who cannot be asked cannot let it go on."""
        assert self.boundary.ask is not None
        answer: object = None
        try:
            answer = self.boundary.ask(instruction.text)
        except Exception as exc:  # noqa: BLE001 - the host's own function
            self._monitor.health.count(f"the user could not be asked: {type(exc).__name__}")
        if answer is None:
            self.report_not_carried_out("the user could not be asked")
            self._calls.drop(call_id)
            return self._stop(instruction.decision)
        said = self.apply_answer(answer, instruction, call_id)
        is_elsewhere = "guide" not in self.can.get("before_model", ()) and "guide" in self.verdicts
        if said.verdict == "guide" and is_elsewhere:
            # Nothing can be said here: the words go where there is a place for them, with a tool's result.
            with self._lock:
                self._answers.note(structs.replace(said.decision, verdict="guide", guidance=said.text))
            return CONTINUE
        return said

    def _stop(self, decision: Decision) -> Instruction:
        why = reason(decision)
        with self._lock:
            # A framework may swallow it and go on: then the next place says it again.
            self._answers.strong = structs.replace(decision, verdict="stop")
            self.stopped = self.stopped or RunStopped(
                f"Run stopped. {why}", run_id=self.run_id, decision=decision
            )
        return Instruction(verdict="stop", text=why, decision=decision)

    def _returned(self, instruction: Instruction) -> Instruction:
        """Go back, if what there is to go back to is a state of this adapter's."""
        found = self._monitor.get_last_checkpoint(self.run_id)
        mark = f"{self.boundary.source}:"
        is_ours = found is not None and found.label.startswith(mark)
        checkpoint = self._monitor.roll_back(self.run_id) if is_ours else None
        if checkpoint is None:
            self.report_not_carried_out("there is no checkpoint to return to")
            return Instruction(verdict="guide", text=instruction.text, decision=instruction.decision)
        checkpoint = structs.replace(checkpoint, label=checkpoint.label.removeprefix(mark))
        return Instruction(
            verdict="rollback", text=instruction.text, decision=instruction.decision, checkpoint=checkpoint
        )

    def _refused(self, call_id: str, name: str, instruction: Instruction) -> None:
        self._monitor.call_refused(
            name, reason=instruction.text, decision=instruction.decision, call_id=call_id, run_id=self.run_id
        )

    def _grant(self, decision: Decision) -> None:
        budget = decision.budget
        if budget is None or not budget.exhausted:
            return
        self._monitor.grant(
            "the user was asked, and answered",
            steps=math.ceil((budget.steps_limit or 0) * _GRANTED),
            tokens=math.ceil((budget.tokens_limit or 0) * _GRANTED),
            cost_usd=(budget.cost_limit_usd or 0.0) * _GRANTED,
            wall_s=(budget.wall_limit_s or 0.0) * _GRANTED,
            run_id=self.run_id,
        )

    def _is_failure(self, error: BaseException) -> bool:
        """Whether the agent failed by an error that no step has told of."""
        is_left = outcome_of(error) == "left early" or isinstance(error, self.boundary.control)
        return not is_left and self._errors.is_new(error)
