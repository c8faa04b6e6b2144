"""One run of a watched agent at its boundaries: before and after each model call and each tool call."""

import threading
import time
from collections.abc import Collection
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from msgspec import structs

from holdfast.adapter import GO_ON, Can, Place, Reply, Steer
from holdfast.boundary.answers import Answers, question, reason
from holdfast.boundary.calls import Call, Calls
from holdfast.boundary.errors_told import ErrorsTold
from holdfast.decisions import UNDECIDED, Decision, DriftAction, Verdict
from holdfast.errors import RunStopped
from holdfast.events import LLM_REQUEST, STATE_TRANSITION, TOOL_CALL, USER_MESSAGE

if TYPE_CHECKING:
    from holdfast.boundary.driver import Boundary

_MODELS_KEPT: Final = 1024
_CHECKPOINT_EVERY: Final = 3
_GRANTED: Final = 0.25
_UNJUDGED: Final = Decision(
    action=DriftAction.ASK_USER,
    verdict="stop",
    guidance="Holdfast could not judge this step, and is set to let nothing pass that it cannot judge.",
)

# The runs in whose model call the code now running is: a second surface that sees it tells nothing new.
asking: Final[ContextVar[tuple[str, ...]]] = ContextVar("holdfast_asking", default=())


class WatchedRun:
    """What an adapter tells about one run, and what it shall do about it.

    Every method may be called from any thread or task, and none raises.
    Where several surfaces of a framework see the same call, each names itself: the first that tells of a call
    owns it, and what the others tell of it is dropped.
    """

    def __init__(self, boundary: "Boundary", run_id: str, goal: str, *, joined: bool) -> None:
        self.boundary = boundary
        self.run_id = run_id
        self.goal = goal
        self.stopped: RunStopped | None = None
        self.has_ended = False
        self._monitor = boundary.monitor
        self._joined = joined
        self._lock = threading.RLock()
        self._calls = Calls()
        self._errors = ErrorsTold()
        self._models: dict[str, float] = {}
        self.can = boundary.can
        self._answers = Answers(boundary.can)
        self._issued_seq = 0
        self._turns = 0
        self._checkpoint_due = True
        self._monitor.takes_part(run_id, self, boundary.verdicts)

    def entered(self) -> AbstractContextManager[None]:
        """A block of code that belongs to this run: agents that begin inside it are its children."""
        return self._monitor.within(self.run_id)

    def now_can(self, can: Can) -> None:
        """From now on this can be carried out in this run, by place: another surface of it has shown up."""
        with self.boundary.guarded("now_can"), self._lock:
            self.can = {place: frozenset(verdicts) for place, verdicts in can.items()}
            self._answers.can = self.can
            self._monitor.takes_part(self.run_id, self, self.verdicts)

    @property
    def verdicts(self) -> frozenset[Verdict]:
        """Everything that can be carried out in this run, anywhere."""
        proceed: frozenset[Verdict] = frozenset(("proceed",))
        return proceed.union(*self.can.values())

    @property
    def is_asking(self) -> bool:
        """Whether a model call is under way."""
        return bool(self._models)

    # --- the user --------------------------------------------------------------------------------

    def user_said(self, text: str) -> None:
        """The user speaks: their goal at the beginning, or another turn."""
        with self.boundary.guarded("user turn"), self._lock:
            self._give_up_calls()
            self._said(text)

    def answered(self, answer: object, steer: Steer, call_id: str = "") -> Steer:
        """The user was asked what `steer` says: True lets the agent go on, False does not, words guide it.

        Where they were asked before a call, the answer says what to do with it: proceed or deny.
        An answer other than False to a question about a used-up budget is worth a quarter of it.
        """
        words = {True: "Go on.", False: "No."}.get(answer) if isinstance(answer, bool) else str(answer)
        with self.boundary.guarded("answer"), self._lock:
            self._answers.done()
            call = self._calls.answered(call_id)
            if call is not None and answer is not True:
                self._refused(call_id, call.name, steer)
            self._said(words or "")  # calls that are under way are not over because the user answers
            if answer is not False:
                self._grant(steer.decision)
            if answer is True:
                if call is not None:
                    self._begin_call(call_id, call)
                return GO_ON
            if call is not None:
                said = "The user does not allow it." if answer is False else f"The user says: {words}"
                return Steer(verdict="deny", words=f"Not called. {said}", decision=steer.decision)
            if answer is False:
                return self._stop(steer.decision)
        return Steer(verdict="guide", words=f"The user was asked, and says: {words}", decision=steer.decision)

    # --- the model -------------------------------------------------------------------------------

    def before_model(self, *, key: str = "", state: str | None = None) -> Steer:
        """The model is about to be asked: proceed, guide, rollback, ask or stop.

        `key` tells this call from others at the same time, `state` is the adapter's name for how things
        stand now, where it could return to that.
        """
        if self.run_id in asking.get():
            return GO_ON
        self.model_begins(key=key, state=state)
        return self.take("before_model")

    def model_begins(self, *, key: str = "", state: str | None = None) -> None:
        """The same, told by a surface that only looks on: what there is to do stays for one that can."""
        with self.boundary.guarded("before_model"), self._lock:
            self._models[key] = time.perf_counter()
            if len(self._models) > _MODELS_KEPT:
                del self._models[next(iter(self._models))]
            if state is not None:
                self._checkpoint(state)

    def after_model(self, reply: Reply | None = None, *, key: str = "", error: object = None) -> None:
        """The model has answered, or failed to."""
        with self.boundary.guarded("after_model"), self._lock:
            began_s = self._models.pop(key, None)
            if began_s is None and (key or self.run_id in asking.get()):
                return
            reply = reply or Reply()
            counts = {"input_tokens": reply.input_tokens, "output_tokens": reply.output_tokens}
            told = {"model": reply.model, **counts}
            self._turns += 1
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

    def before_tool(self, call_id: str, name: str, args: Any = None, *, surface: str = "") -> Steer:
        """A tool is about to be called: proceed, deny, ask or stop. Words about it wait for its result."""
        steer = GO_ON
        with self.boundary.guarded("before_tool"), self._lock:
            if not self._calls.owned(call_id, surface):
                return GO_ON
            self._give_up(call_id)  # another attempt: what came of the last one nobody told
            call = self._call(name, args, surface)
            steer = self._answers.at("before_tool", self.goal)
            if steer.verdict == "proceed":
                steer = self._foreseen(call)
            if steer.verdict == "proceed":
                self._begin_call(call_id, call)
            elif steer.verdict == "ask":
                self._calls.ask(call_id, call)
            else:
                self._refused(call_id, name, steer)
        return self._settled(steer, call_id)

    def tool_begins(self, call_id: str, name: str, args: Any = None, *, surface: str = "") -> None:
        """The same, told by a surface that only looks on: nobody is asked about the call."""
        with self.boundary.guarded("before_tool"), self._lock:
            if self._calls.owned(call_id, surface):
                self._give_up(call_id)
                self._begin_call(call_id, self._call(name, args, surface))

    def after_tool(
        self, call_id: str, result: Any = None, *, error: object = None, surface: str = ""
    ) -> None:
        """A tool has answered, or failed to; a call nobody announced is dropped."""
        with self.boundary.guarded("after_tool"), self._lock:
            call = self._calls.end(call_id, surface)
            if call is not None:
                self._record_call(call_id, call, result, error)

    def call_failed(
        self, call_id: str, name: str, args: Any = None, *, error: object, surface: str = ""
    ) -> None:
        """The model asked for a call that was never made: no such tool, or not with such arguments."""
        self.call_made(call_id, name, args, error=error, surface=surface)

    def call_made(
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
        with self.boundary.guarded("call_made"), self._lock:
            if self._calls.owned(call_id, surface):
                self._calls.drop(call_id)
                self._record_call(call_id, self._call(name, args, surface), result, error)

    def call_dropped(self, call_id: str) -> None:
        """A call that was announced was not made after all: there is nothing to tell of it."""
        with self.boundary.guarded("call_dropped"), self._lock:
            self._calls.drop(call_id)

    # --- what there is to do ---------------------------------------------------------------------

    def take(self, place: Place, *, only: Collection[Verdict] | None = None) -> Steer:
        """What can be carried out here and now; the places before a call take it by themselves.

        A surface that can carry out `only` some of it leaves the rest for one that can do more.
        """
        steer = GO_ON
        with self.boundary.guarded(place), self._lock:
            if self._answers:
                steer = self._answers.at(place, self.goal, only)
            if steer.verdict == "rollback":
                steer = self._returned(steer)
        return self._settled(steer)

    def could_not(self, why: str) -> None:
        """The latest answer could not be carried out: it is reported, and not judged."""
        self._monitor.not_carried_out(why, run_id=self.run_id)

    def tell(self, name: str, **told: Any) -> None:
        """Something else happened in the run, such as a hand-over to another agent."""
        with self.boundary.guarded(name), self._lock:
            self._record(STATE_TRANSITION, name, metadata=told)

    # --- the end ---------------------------------------------------------------------------------

    def finished(self, error: BaseException | None = None, *, outcome: str = "") -> BaseException | None:
        """The outermost call is over; gives the exception that its caller shall receive, if any."""
        self.end(error, outcome=outcome)
        return self.stopped if self.stopped is not None else error

    def end(self, error: BaseException | None = None, *, outcome: str = "") -> None:
        """The run is over; once is enough."""
        with self.boundary.guarded("end"), self._lock:
            if self.has_ended:
                return
            self.has_ended = True
            self._give_up_calls()
            if self._answers and self.stopped is None:
                self.could_not("the agent had finished before it could be carried out")
            if error is not None and self.stopped is None and self._is_failure(error):
                self._record(STATE_TRANSITION, "agent_error", error=error)
            self._monitor.leaves(self.run_id, self)
            if not self._joined:
                self._monitor.end_run(self.run_id, outcome=outcome or self._outcome(error))
        self.boundary.forget(self)

    def after_fork(self) -> None:
        """In a child process the lock may be held by a thread that is not there."""
        self._lock = threading.RLock()

    # --- inside ----------------------------------------------------------------------------------

    def _issued(self) -> int:
        """How many events the agent had seen when it asked for a call: those of one reply share it."""
        if self.boundary.sees_models:
            return self._issued_seq
        seq = self._calls.earliest_seq()
        return self._monitor.seen(self.run_id) if seq is None else seq

    def _call(self, name: str, args: Any, surface: str) -> Call:
        return Call(name, args, surface, self._issued(), time.perf_counter())

    def _begin_call(self, call_id: str, call: Call) -> None:
        for lost_id, lost in self._calls.open(call_id, call):
            self._record_call(lost_id, lost, None, None)

    def _foreseen(self, call: Call) -> Steer:
        if self._monitor.mode != "enforce":
            return GO_ON  # words about a call are said once, with what came of it
        decision = self._monitor.before_tool(
            call.name, call.args, run_id=self.run_id, started_seq=call.started_seq
        )
        if decision is UNDECIDED and self._monitor.fails_closed:
            decision = _UNJUDGED
        if decision.verdict in {"proceed", "guide"}:
            return GO_ON
        possible = self.can.get("before_tool", frozenset())
        if decision.verdict in possible:
            words = question(decision, self.goal) if decision.verdict == "ask" else decision.guidance
            return Steer(verdict=decision.verdict, words=words, decision=decision)
        self._answers.note(decision)
        return self._answers.at("before_tool", self.goal)

    def _settled(self, steer: Steer, call_id: str = "") -> Steer:
        """A stop is written down before anybody raises; a question is put where the host gave us a way."""
        if steer.verdict == "stop":
            return self._stop(steer.decision)
        if steer.verdict != "ask" or self.boundary.ask is None:
            return steer
        try:
            answer: object = self.boundary.ask(steer.words)
        except Exception as exc:  # noqa: BLE001 - the host's own function: what it raises is an answer too
            self._monitor.health.count(f"the user could not be asked: {type(exc).__name__}")
            self.could_not("the user could not be asked")
            answer = False
        said = self.answered(answer, steer, call_id)
        is_elsewhere = "guide" not in self.can.get("before_model", ()) and "guide" in self.verdicts
        if said.verdict == "guide" and is_elsewhere:
            # Nothing can be said here: the words go where there is a place for them, with a tool's result.
            self._answers.note(structs.replace(said.decision, verdict="guide", guidance=said.words))
            return GO_ON
        return said

    def _stop(self, decision: Decision) -> Steer:
        # A framework may swallow it and go on: then the next place says it again.
        self._answers.strong = structs.replace(decision, verdict="stop")
        why = reason(decision)
        self.stopped = self.stopped or RunStopped(
            f"Run stopped. {why}", run_id=self.run_id, decision=decision
        )
        return Steer(verdict="stop", words=why, decision=decision)

    def _returned(self, steer: Steer) -> Steer:
        self._answers.done()
        checkpoint = self._monitor.roll_back(self.run_id)
        if checkpoint is None:
            self.could_not("there is no checkpoint to return to")
            return Steer(verdict="guide", words=steer.words, decision=steer.decision)
        return Steer(verdict="rollback", words=steer.words, decision=steer.decision, checkpoint=checkpoint)

    def _refused(self, call_id: str, name: str, steer: Steer) -> None:
        self._monitor.call_refused(
            name, reason=steer.words, decision=steer.decision, call_id=call_id, run_id=self.run_id
        )

    def _checkpoint(self, state: str) -> None:
        """Something to return to, at the beginning, now and then, and when it is asked for."""
        if self._monitor.mode != "enforce" or "rollback" not in self.verdicts:
            return
        if self._checkpoint_due or self._turns % _CHECKPOINT_EVERY == 0:
            self._checkpoint_due = False
            self._monitor.checkpoint(label=state, turn=self._turns, run_id=self.run_id)

    def _grant(self, decision: Decision) -> None:
        budget = decision.budget
        if budget is None or not budget.exhausted:
            return
        self._monitor.grant(
            "the user was asked, and answered",
            steps=int((budget.steps_limit or 0) * _GRANTED),
            tokens=int((budget.tokens_limit or 0) * _GRANTED),
            cost_usd=(budget.cost_limit_usd or 0.0) * _GRANTED,
            wall_s=(budget.wall_limit_s or 0.0) * _GRANTED,
            run_id=self.run_id,
        )

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

    def _record_call(self, call_id: str, call: Call, result: Any, error: object) -> None:
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
            decision = _UNJUDGED
        if "force_checkpoint" in decision.hooks:
            self._checkpoint_due = True
        if decision.verdict != "proceed":
            self._answers.note(decision)

    def _is_failure(self, error: BaseException) -> bool:
        """Whether the agent failed by an error that no step has told of."""
        is_control = isinstance(error, (GeneratorExit, *self.boundary.control))
        return not is_control and self._errors.is_news(error)

    def _outcome(self, error: BaseException | None) -> str:
        if self.stopped is not None or isinstance(error, RunStopped):
            return "stopped"
        if error is None:
            return "done"
        return "left early" if isinstance(error, GeneratorExit) else f"error: {type(error).__name__}"


def _since_ms(began_s: float | None) -> float:
    return 0.0 if began_s is None else (time.perf_counter() - began_s) * 1000
