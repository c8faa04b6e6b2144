"""One run of an agent: what adapters report about it, and what they do about it.

An adapter reports every user turn, model call and tool call once, and carries out the instructions it gets
back. Decisions wait here until a hook point is reached where they can be carried out.
"""

import time
from collections.abc import Collection
from contextlib import AbstractContextManager
from typing import Any, Final

from steadyhelm.adapter import CONTINUE, Capabilities, HookPoint, Instruction, ModelReply
from steadyhelm.bounded import BoundedDict
from steadyhelm.decisions import PROCEED, UNDECIDED, Verdict
from steadyhelm.engine.call_book import CallBook, PendingCall, ReportedErrors
from steadyhelm.engine.coercion import MAX_COUNT, to_count
from steadyhelm.engine.instructions import RunInstructions, RunOwner
from steadyhelm.engine.live_runs import describe_outcome
from steadyhelm.engine.pending_decisions import PendingDecisions
from steadyhelm.errors import RunStopped
from steadyhelm.events import LLM_REQUEST, NOT_RUN, STATE_TRANSITION, TOOL_CALL, USER_MESSAGE, NotRun
from steadyhelm.fingerprints import to_text
from steadyhelm.forks import ForkSafeLock
from steadyhelm.host_objects import is_a

_MODEL_CALLS_KEPT: Final = 1024


class AgentRun:
    """One run of a watched agent: its goal, capabilities, open calls, pending decisions, stop and session.

    Every method may be called from any thread or task, and none raises.
    Where several surfaces of a framework see the same call, each names itself: the first that reports a call
    owns it, and reports of the others are dropped.
    `stopped` is set before any instruction says so; `has_ended` when the run is over.
    """

    def __init__(self, boundary: RunOwner, run_id: str, goal: str, *, joined: bool) -> None:
        self.boundary = boundary
        self.run_id = run_id
        self.can: Capabilities = boundary.can
        self.stopped: RunStopped | None = None
        self.has_ended = False
        self.undelivered = 0
        """How many decisions could not be carried out, because this adapter has no way to."""
        self.pending = PendingDecisions()
        self.calls = CallBook()
        self._monitor = boundary.monitor
        self._recorder = self._monitor.runs.get(run_id)
        # One lock a run: for its session and for the books here. Host code never runs while it is held.
        self.lock = self._recorder.lock if self._recorder is not None else ForkSafeLock()
        self._given_goal = to_text(goal)
        self._first_goal = self._recorder.session.drift.goal if self._recorder is not None else ""
        self._joined = joined
        self._errors = ReportedErrors()
        self._instructions = RunInstructions(self)
        self._model_calls: BoundedDict[str, float] = BoundedDict(_MODEL_CALLS_KEPT)
        self._issued_seq = 0
        self._turns = 0
        self._monitor.runs.add_participant(run_id, self, boundary.verdicts)

    @property
    def goal(self) -> str:
        """The goal that holds now: a user's message may have changed it."""
        current = self._recorder.session.drift.goal if self._recorder is not None else ""
        return current if current and current != self._first_goal else self._given_goal or current

    @property
    def verdicts(self) -> frozenset[Verdict]:
        """Everything that can be carried out in this run, at any hook point."""
        return frozenset[Verdict](("proceed",)).union(*self.can.values())

    @property
    def is_asking(self) -> bool:
        """Whether a model call is under way."""
        return bool(self._model_calls)

    def activate(self) -> AbstractContextManager[None]:
        """Return a context manager: agents that start inside its block are children of this run."""
        return self._monitor.runs.activate(self.run_id)

    def set_capabilities(self, can: Capabilities) -> None:
        """Set what can be carried out in this run, by hook point: another surface of it was found."""
        with self.boundary.guard("set_capabilities"):
            self.can = {point: frozenset(verdicts) for point, verdicts in can.items()}
            self._monitor.runs.add_participant(self.run_id, self, self.verdicts)

    def record_user_message(self, text: str) -> None:
        """Record a message of the user. Calls still under way count as made, their results as unknown."""
        with self.boundary.guard("record_user_message"):
            self._close_calls()
            self.record_words(text)

    def record_words(self, text: str, **metadata: Any) -> None:
        """Record words of the user, such as the answer to a question: calls under way continue."""
        self._record(USER_MESSAGE, "user", input_data={"text": text}, metadata=metadata or None)
        self._issued_seq = self._count_events()

    def record_state(self, name: str, **details: Any) -> None:
        """Record something else that happened in the run, such as a hand-over to another agent."""
        with self.boundary.guard(name):
            self._record(STATE_TRANSITION, name, metadata=details)

    # --- the model -------------------------------------------------------------------------------

    def begin_model_call(self, *, key: str = "", state: str | None = None) -> None:
        """Record that a model call begins, without asking what to do.

        `key` identifies this call among others at the same time, `state` is the adapter's name for the
        present state, if it could return to it.
        """
        try:
            with self.lock:
                self._model_calls[key] = time.perf_counter()
            if state is not None:
                self._instructions.take_checkpoint(state, self._turns)
        except Exception as exc:  # noqa: BLE001 - the agent must not notice
            self._swallow("before_model", exc)

    def before_model(self, *, key: str = "", state: str | None = None) -> Instruction:
        """Record that a model call begins; return what to do: proceed, guide, rollback, ask or stop.

        After a rollback the call is made at once, from the state of the checkpoint.
        """
        self.begin_model_call(key=key, state=state)
        instruction = self.take_instruction("before_model")
        if instruction.verdict == "stop":
            self.drop_model_call(key)
        return instruction

    def drop_model_call(self, key: str) -> None:
        """Forget an announced model call that was not made."""
        with self.lock:
            self._model_calls.pop(key, None)

    def after_model(self, reply: ModelReply | None = None, *, key: str = "", error: object = None) -> None:
        """Record a model's reply, or that the call failed. A key that was not announced is dropped."""
        try:
            with self.lock:
                began_s = self._model_calls.pop(key, None)
                self._turns += 1
            if began_s is None and key:
                return
            reply = reply or ModelReply()
            sent, received = reply.input_tokens, reply.output_tokens
            if not (type(sent) is type(received) is int and 0 <= sent <= MAX_COUNT >= received >= 0):
                sent, received = to_count(sent), to_count(received)
            details = {"model": reply.model, "input_tokens": sent, "output_tokens": received}
            has_text = is_a(reply.text, str) and str.__len__(reply.text) > 0
            self._record(
                LLM_REQUEST,
                reply.model or "llm",
                output_data={"text": reply.text} if has_text else None,
                token_count=sent + received,
                duration_ms=0.0 if began_s is None else (time.perf_counter() - began_s) * 1000,
                metadata={name: value for name, value in details.items() if value},
                cost_usd=reply.cost_usd,
                error=error,
            )
            self._issued_seq = self._count_events()
        except Exception as exc:  # noqa: BLE001 - the agent must not notice
            self._swallow("after_model", exc)

    # --- tools -----------------------------------------------------------------------------------

    def begin_tool_call(self, call_id: str, name: str, args: Any = None, *, surface: str = "") -> None:
        """Record a tool call reported by an observe-only surface. No decision is made."""
        try:
            if self._claim_call(call_id, surface):
                self.begin_call(call_id, self._make_call(name, args, surface))
        except Exception as exc:  # noqa: BLE001 - the agent must not notice
            self._swallow("before_tool", exc)

    def before_tool(self, call_id: str, name: str, args: Any = None, *, surface: str = "") -> Instruction:
        """Record that a tool call begins; return what to do: proceed, deny, ask or stop.

        Guidance about the call waits for its result.
        """
        fails_closed = self._monitor.fails_closed
        instruction = self._instructions.judge_failure("before_tool") if fails_closed else CONTINUE
        answers = self._instructions.answered
        try:
            if not self._claim_call(call_id, surface):
                return CONTINUE
            call = self._make_call(name, args, surface)
            instruction = CONTINUE
            if self.pending.strong is not None:
                with self.lock:
                    instruction = self.pending.take("before_tool", self.can, self.goal)
            if instruction.verdict == "proceed" and self._monitor.mode == "enforce":
                instruction = self._instructions.judge_call(call)
            if instruction.verdict == "proceed":
                self.begin_call(call_id, call)
            elif instruction.verdict == "ask":
                with self.lock:
                    self.calls.begin_question(call_id, call)
            else:
                self.report_refused(call_id, name, instruction)
        except Exception as exc:  # noqa: BLE001 - the agent must not notice
            self._swallow("before_tool", exc)
        if instruction.verdict == "proceed":
            return instruction
        return self._instructions.settle(instruction, answers, call_id)

    def after_tool(
        self, call_id: str, result: Any = None, *, error: object = None, surface: str = ""
    ) -> None:
        """Record the result of a tool call, or that it failed. A call that was not announced is dropped."""
        try:
            with self.lock:
                call = self.calls.end(call_id, surface)
            if call is not None:
                self._record_call(call_id, call, result, error)
        except Exception as exc:  # noqa: BLE001 - the agent must not notice
            self._swallow("after_tool", exc)

    def record_call(
        self,
        call_id: str,
        name: str,
        args: Any = None,
        result: Any = None,
        *,
        error: object = None,
        surface: str = "",
        not_run: NotRun | None = None,
    ) -> None:
        """Record a call that was made without asking, for instance by the model's provider itself.

        With `not_run` one whose tool was not called, for instance because there is none of that name.
        """
        with self.boundary.guard("record_call"):
            with self.lock:
                is_owner = self.calls.claim(call_id, surface)
                if is_owner:
                    self.calls.drop(call_id)
            if is_owner:
                self._record_call(call_id, self._make_call(name, args, surface, not_run), result, error)

    def mark_not_run(self, call_id: str, why: NotRun) -> None:
        """Let the record of a call under way say that its tool was not called."""
        with self.lock:
            self.calls.mark_not_run(call_id, why)

    def drop_call(self, call_id: str) -> None:
        """Forget an announced call that was not made."""
        with self.lock:
            self.calls.drop(call_id)

    # --- what to do ------------------------------------------------------------------------------

    def take_instruction(self, point: HookPoint, *, only: Collection[Verdict] | None = None) -> Instruction:
        """Return what can be carried out at this hook point; `before_model` calls it by itself.

        A surface that can carry out `only` some verdicts leaves the others for one that can do more.
        """
        pending, recorder = self.pending, self._recorder
        if (
            recorder is not None
            and recorder.waiting.may_be_by_function
            and recorder.waiting.is_by_function
            and "guide" in self.can.get(point, ())
        ):
            self._instructions.adopt_guidance(recorder)
        if pending.strong is None and not pending.guidance:
            return CONTINUE
        return self._instructions.take(point, only)

    def apply_answer(self, answer: object, instruction: Instruction, call_id: str = "") -> Instruction:
        """Apply the user's answer to the question in `instruction`, and return what to do now.

        Yes lets the agent continue, no ends the run, other words guide it: before a call they replace its
        result. An answer other than no to a question about a used-up budget adds a quarter to it.
        """
        return self._instructions.apply_answer(answer, instruction, call_id)

    def report_not_carried_out(self, why: str) -> None:
        """Report that the latest decision could not be carried out: it is not judged."""
        self._monitor.not_carried_out(why, run_id=self.run_id)

    def report_failed_rollback(self, why: str) -> None:
        """Report that a rollback could not be carried out: from now on stronger decisions take its place.

        The loop it was for would otherwise lead to one after the other, and to nothing else.
        """
        self.report_not_carried_out(why)
        can = {point: [it for it in verdicts if it != "rollback"] for point, verdicts in self.can.items()}
        self.set_capabilities(can)

    # --- the end ---------------------------------------------------------------------------------

    def finish(self, error: BaseException | None = None, *, outcome: str = "") -> BaseException | None:
        """End the run when its outermost call is over; return the exception its caller must receive.

        What is no failure, such as a keyboard interrupt or a cancelled task, stays itself.
        """
        self.end(error, outcome=outcome)
        if self.stopped is None or not (error is None or is_a(error, Exception)):
            return error
        return self.stopped

    def end(self, error: BaseException | None = None, *, outcome: str = "") -> None:
        """End the run. Idempotent."""
        with self.lock:
            if self.has_ended:
                return
            self.has_ended = True
        try:
            with self.boundary.guard("end"):
                self._close_calls()
                if self.pending and self.stopped is None:
                    self.report_not_carried_out("the agent had finished before it could be carried out")
                failure = error if self.stopped is None else None
                if failure is not None and self._errors.is_failure(failure, self.boundary.control):
                    self._record(STATE_TRANSITION, "agent_error", error=failure)
        finally:
            self._monitor.runs.remove_participant(self.run_id, self)
            if not self._joined:
                ended = "stopped" if self.stopped is not None else describe_outcome(error)
                self._monitor.end_run(self.run_id, outcome=outcome or ended)
            self.boundary.forget(self)

    # --- calls -----------------------------------------------------------------------------------

    def begin_call(self, call_id: str, call: PendingCall) -> None:
        """Note that a call is made now."""
        with self.lock:
            dropped = self.calls.begin(call_id, call)
        for lost_id, lost in dropped:
            self._record_call(lost_id, lost, None, None)

    def report_refused(self, call_id: str, name: str, instruction: Instruction) -> None:
        """Report that a call was refused by this instruction."""
        why, decision = instruction.text, instruction.decision
        self._monitor.call_refused(name, reason=why, decision=decision, call_id=call_id, run_id=self.run_id)

    def _claim_call(self, call_id: str, surface: str) -> bool:
        """Return whether this surface reports the call; an earlier attempt of it is closed."""
        with self.lock:
            if not self.calls.claim(call_id, surface):
                return False
            earlier = self.calls.end(call_id) if self.calls.under_way else None
        if earlier is not None:
            self._record_call(call_id, earlier, None, None)
        return True

    def _make_call(self, name: str, args: Any, surface: str, not_run: NotRun | None = None) -> PendingCall:
        issued: int | None = self._issued_seq
        if not self.boundary.sees_models:
            with self.lock:  # calls that run at the same time count as asked for together
                issued = self.calls.find_earliest_seq()
        seq = self._count_events() if issued is None else issued
        return PendingCall(name, args, surface, seq, time.perf_counter(), not_run)

    def _close_calls(self) -> None:
        """Record the calls under way as made, with unknown results."""
        with self.lock:
            calls = self.calls.take_all()
        for call_id, call in calls:
            self._record_call(call_id, call, None, None)

    def _record_call(self, call_id: str, call: PendingCall, result: Any, error: object) -> None:
        if is_a(error, self.boundary.control):
            return
        self._record(
            TOOL_CALL,
            call.name,
            input_data=call.args,
            output_data={"text": result} if is_a(result, str) else result,
            duration_ms=(time.perf_counter() - call.began_s) * 1000,
            started_seq=call.started_seq,
            call_id=call_id,
            error=error,
            metadata=None if call.not_run is None else {NOT_RUN: call.not_run},
        )

    # --- inside ----------------------------------------------------------------------------------

    def _record(self, action_type: str, name: str, **fields: Any) -> None:
        if fields.get("error") is not None:
            self._errors.add(fields["error"])
        recorder = self._recorder
        if recorder is not None and recorder.is_live:
            try:
                decision = recorder.record(action_type, name, **fields)
            except Exception as exc:  # noqa: BLE001 - the agent must not notice
                decision = UNDECIDED
                self._monitor.health.swallow("record_event", exc, is_record_lost=True)
        else:  # suspended, or never started: the monitor resumes it
            decision = self._monitor.record_event(action_type, name, run_id=self.run_id, **fields)
            self._recorder = self._monitor.runs.get(self.run_id)
        if decision is not PROCEED:
            self._instructions.receive(decision, self._recorder)

    def _count_events(self) -> int:
        recorder = self._recorder
        return recorder.next_seq if recorder is not None and recorder.is_live else 0

    def _swallow(self, where: str, exc: Exception) -> None:
        self._monitor.health.swallow(f"{self.boundary.source} adapter, {where}", exc)
