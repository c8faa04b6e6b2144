"""What an adapter tells about one run: its user's turns, its model calls, its tool calls, each told once."""

import time
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final

from steadyhelm.adapter import Capabilities, ModelReply
from steadyhelm.boundary.call_book import CallBook, PendingCall
from steadyhelm.boundary.pending_decisions import PendingDecisions
from steadyhelm.boundary.seen_errors import SeenErrors
from steadyhelm.decisions import UNDECIDED, Decision, DriftAction, Verdict
from steadyhelm.events import LLM_REQUEST, STATE_TRANSITION, TOOL_CALL, USER_MESSAGE
from steadyhelm.forks import ForkSafeLock

if TYPE_CHECKING:
    from steadyhelm.boundary.driver import Boundary

UNJUDGED: Final = Decision(
    action=DriftAction.ASK_USER,
    verdict="stop",
    guidance="Steadyhelm could not judge this step, and is set to let nothing pass that it cannot judge.",
)
_MODELS_KEPT: Final = 1024
_CHECKPOINT_EVERY: Final = 3


class RecordedRun:
    """One run as an adapter tells of it; what there is to do about it is left to `WatchedRun`.

    Every method may be called from any thread or task, and none raises.
    Where several surfaces of a framework see the same call, each names itself: the first that tells of a call
    owns it, and what the others tell of it is dropped.
    """

    def __init__(self, boundary: "Boundary", run_id: str, goal: str) -> None:
        self.boundary = boundary
        self.run_id = run_id
        self.goal = goal
        self.can: Capabilities = boundary.can
        self._monitor = boundary.monitor
        # Held for our own books alone, never while the monitor works: its listeners are the host's code.
        self._lock = ForkSafeLock()
        self._calls = CallBook()
        self._errors = SeenErrors()
        self._models: dict[str, float] = {}
        self._answers = PendingDecisions(boundary.can)
        self._issued_seq = 0
        self._turns = 0
        self._checkpoint_due = True
        self.undelivered = 0
        """How many answers nobody could carry out, because this adapter has no way to."""

    @property
    def verdicts(self) -> frozenset[Verdict]:
        """Everything that can be carried out in this run, anywhere."""
        proceed: frozenset[Verdict] = frozenset(("proceed",))
        return proceed.union(*self.can.values())

    @property
    def is_asking(self) -> bool:
        """Whether a model call is under way."""
        return bool(self._models)

    def activate(self) -> AbstractContextManager[None]:
        """A block of code that belongs to this run: agents that begin inside it are its children."""
        return self._monitor.within(self.run_id)

    def record_user_message(self, text: str) -> None:
        """The user speaks: their goal at the beginning, or another turn."""
        with self.boundary.guard("user turn"):
            self._give_up_calls()
            self._said(text)

    def record_state(self, name: str, **told: Any) -> None:
        """Something else happened in the run, such as a hand-over to another agent."""
        with self.boundary.guard(name):
            self._record(STATE_TRANSITION, name, metadata=told)

    # --- the model -------------------------------------------------------------------------------

    def begin_model_call(self, *, key: str = "", state: str | None = None) -> None:
        """A model call begins, told by a surface that only looks on, or before anybody asks what to do."""
        with self.boundary.guard("before_model"):
            with self._lock:
                self._models[key] = time.perf_counter()
                if len(self._models) > _MODELS_KEPT:
                    del self._models[next(iter(self._models))]
            if state is not None:
                self._checkpoint(state)

    def after_model(self, reply: ModelReply | None = None, *, key: str = "", error: object = None) -> None:
        """The model has answered, or failed to; under a key that nobody announced it is dropped."""
        with self.boundary.guard("after_model"):
            with self._lock:
                began_s = self._models.pop(key, None)
                self._turns += 1
            if began_s is None and key:
                return
            reply = reply or ModelReply()
            counts = {"input_tokens": reply.input_tokens, "output_tokens": reply.output_tokens}
            told = {"model": reply.model, **counts}
            self._record(
                LLM_REQUEST,
                reply.model or "llm",
                output_data={"text": reply.text} if reply.text else None,
                token_count=reply.input_tokens + reply.output_tokens,
                duration_ms=_since_ms(began_s),
                metadata={name: value for name, value in told.items() if value},
                cost_usd=reply.cost_usd,
                error=error,
            )
            self._issued_seq = self._monitor.seen(self.run_id)

    # --- tools -----------------------------------------------------------------------------------

    def begin_tool_call(self, call_id: str, name: str, args: Any = None, *, surface: str = "") -> None:
        """A tool is called, told by a surface that only looks on: nobody is asked about the call."""
        with self.boundary.guard("before_tool"):
            if self._calls.owned(call_id, surface):
                self._give_up(call_id)
                self._begin_call(call_id, self._call(name, args, surface))

    def after_tool(
        self, call_id: str, result: Any = None, *, error: object = None, surface: str = ""
    ) -> None:
        """A tool has answered, or failed to; a call nobody announced is dropped."""
        with self.boundary.guard("after_tool"):
            call = self._calls.end(call_id, surface)
            if call is not None:
                self._record_call(call_id, call, result, error)

    def record_failed_call(
        self, call_id: str, name: str, args: Any = None, *, error: object, surface: str = ""
    ) -> None:
        """The model asked for a call that was never made: no such tool, or not with such arguments."""
        self.record_call(call_id, name, args, error=error, surface=surface)

    def record_call(
        self,
        call_id: str,
        name: str,
        args: Any = None,
        result: Any = None,
        *,
        error: object = None,
        surface: str = "",
    ) -> None:
        """A call was made without our being asked, for instance by the model's provider itself."""
        with self.boundary.guard("call_made"):
            if self._calls.owned(call_id, surface):
                self._calls.drop(call_id)
                self._record_call(call_id, self._call(name, args, surface), result, error)

    def drop_call(self, call_id: str) -> None:
        """A call that was announced was not made after all: there is nothing to tell of it."""
        with self.boundary.guard("call_dropped"):
            self._calls.drop(call_id)

    # --- inside ----------------------------------------------------------------------------------

    def _issued(self) -> int:
        """How many events the agent had seen when it asked for a call: those of one reply share it."""
        if self.boundary.sees_models:
            return self._issued_seq
        seq = self._calls.earliest_seq()
        return self._monitor.seen(self.run_id) if seq is None else seq

    def _call(self, name: str, args: Any, surface: str) -> PendingCall:
        return PendingCall(name, args, surface, self._issued(), time.perf_counter())

    def _begin_call(self, call_id: str, call: PendingCall) -> None:
        for lost_id, lost in self._calls.open(call_id, call):
            self._record_call(lost_id, lost, None, None)

    def _said(self, text: str) -> None:
        self._record(USER_MESSAGE, "user", input_data={"text": text})
        self._issued_seq = self._monitor.seen(self.run_id)

    def _give_up_calls(self) -> None:
        """Calls whose results nobody brought have been made all the same; what came of them is unknown."""
        for call_id, call in self._calls.take_all():
            self._record_call(call_id, call, None, None)

    def _give_up(self, call_id: str) -> None:
        call = self._calls.end(call_id)
        if call is not None:
            self._record_call(call_id, call, None, None)

    def _record_call(self, call_id: str, call: PendingCall, result: Any, error: object) -> None:
        if isinstance(error, self.boundary.control):
            return
        self._record(
            TOOL_CALL,
            call.name,
            input_data=call.args,
            output_data={"text": result} if isinstance(result, str) else result,
            duration_ms=_since_ms(call.began_s),
            started_seq=call.started_seq,
            call_id=call_id,
            error=error,
        )

    def _record(self, action_type: str, name: str, **fields: Any) -> None:
        if (error := fields.get("error")) is not None:
            self._errors.note(error)
        decision = self._monitor.record_event(action_type, name, run_id=self.run_id, **fields)
        if decision is UNDECIDED and self._monitor.fails_closed:
            decision = UNJUDGED
        if "force_checkpoint" in decision.hooks:
            self._checkpoint_due = True
        if decision.verdict != "proceed":
            with self._lock:
                self._answers.note(decision)
        elif decision.wanted is not None:
            self.undelivered += 1
            self._monitor.health.count(
                f"{self.boundary.source} has no way to carry out {decision.wanted} where it is used"
            )

    def _checkpoint(self, state: str) -> None:
        """Something to return to, at the beginning, now and then, and when it is asked for."""
        if self._monitor.mode != "enforce" or "rollback" not in self.verdicts:
            return
        if self._checkpoint_due or self._turns % _CHECKPOINT_EVERY == 0:
            self._checkpoint_due = False
            label = f"{self.boundary.source}:{state}"
            self._monitor.checkpoint(label=label, turn=self._turns, run_id=self.run_id)


def _since_ms(began_s: float | None) -> float:
    return 0.0 if began_s is None else (time.perf_counter() - began_s) * 1000
