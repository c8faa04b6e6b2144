"""Record the events of one run in order: from a host's objects to its session and to the sinks.

Everything that may run the host's own code (`__str__`, callbacks, log handlers) happens before the lock is
taken or after it is released.
"""

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from msgspec import structs

from steadyhelm.decisions import PROCEED, BudgetDecision, Decision, Verdict
from steadyhelm.engine.agent_knowledge import Reference
from steadyhelm.engine.coercion import MAX_COUNT, to_count, to_number
from steadyhelm.engine.judge_calls import is_judging
from steadyhelm.engine.pending_decisions import PlacedDecision, WaitingGuidance
from steadyhelm.engine.responses import Observation
from steadyhelm.engine.run_services import RunServices
from steadyhelm.engine.session import Session
from steadyhelm.engine.session_writer import SessionWriter
from steadyhelm.engine.turns import STEPS_AT_ONCE, PostponedSteps, RecordHolder, Turns, split_questions
from steadyhelm.errors import RunStopped
from steadyhelm.events import ACTION_TYPES, BUDGET_DECIDED, GUIDANCE_DELIVERED, JUDGED, STATE_TRANSITION
from steadyhelm.forks import ForkSafeLock
from steadyhelm.judge import JudgedReport, Question
from steadyhelm.judging.usage import JudgeAmounts
from steadyhelm.logs import logger
from steadyhelm.policy.response_levels import VERDICTS

T = TypeVar("T")


NOT_STORED: Final = "not stored yet: the database could not be written in time"


class RunRecorder:
    """One live run: its session, and the one lock under which its events are put in order.

    Methods may be called from any thread; they raise nothing but errors of our own.

    Args:
        session: The session of the run.
        services: What it shares with the agent's other runs.
        is_sampled: Whether events of this run are recorded at all.
        reference: What the run is compared with; None while that was not read yet.
    """

    def __init__(
        self,
        session: Session,
        services: RunServices,
        *,
        is_sampled: bool = True,
        reference: Reference | None = None,
    ) -> None:
        self.session = session
        self.is_sampled = is_sampled
        self.is_live = True
        """False once the run has ended or is suspended."""
        self.lock = ForkSafeLock()
        self.own_verdicts = session.can
        """What whoever started the run can carry out; participants may be able to do less."""
        self.stop: RunStopped | None = None
        """A stop that the run's next step raises."""
        self.unseen: dict[str, str] = {}
        """What whoever records the run cannot see, with the reasons."""
        self.postponed: PostponedSteps | None = None
        """The steps that are judged again when the saved state of the run is there; None for none."""
        self._services = services
        self._turns = Turns(self.lock, services)
        self._writer = SessionWriter(session, services, reference)
        self.last_decision = PROCEED
        """The decision about the latest event."""
        self.waiting = WaitingGuidance()

    @property
    def next_seq(self) -> int:
        """The place of the next event; counted from the first one here until the saved state is there."""
        postponed = self.postponed
        behind = len(postponed) if postponed is not None and not postponed.is_waiting else 0
        return self.session.next_seq + behind

    @property
    def reference(self) -> Reference | None:
        """What the run is compared with; None while that was not read yet."""
        return self._writer.reference

    @property
    def not_checked(self) -> dict[str, str]:
        """What could not be checked in this run, with the reasons."""
        reasons = {**self.session.not_checked, **self.unseen}
        if self.postponed is not None:
            reasons = {**reasons, "saved state": "it was not read from the database yet"}
        if self.reference is None and self._services.knowledge is not None:
            reasons = {**reasons, "baseline": "it was not read from the database yet"}
        return reasons

    def announce(self, *, pin: bool) -> None:
        """Record that the run starts or continues, and with `pin` what it is compared with."""
        self._writer.announce(pin=pin)

    def record(
        self,
        action_type: str,
        action_name: str,
        *,
        timestamp: float | None = None,
        event_id: str | None = None,
        token_count: int = 0,
        input_data: Any = None,
        output_data: Any = None,
        duration_ms: float = 0.0,
        metadata: dict[str, Any] | None = None,
        started_seq: int | None = None,
        call_id: str | None = None,
        error: object = None,
        cost_usd: float | None = None,
        can: Collection[Verdict] = VERDICTS,
    ) -> Decision:
        """Record one event and return the decision.

        `can` are the verdicts that the caller can carry out at this step, of those the run can.
        """
        if not self.is_sampled or is_judging():
            return PROCEED
        services, capture = self._services, self._services.capture
        payload = capture.encode(input_data, output_data, metadata, error)
        is_postponed = self.postponed is not None
        at = (services.clock() if is_postponed else None) if timestamp is None else to_number(timestamp)
        if cost_usd is None and services.price is not None and payload[4]:
            cost_usd = services.price(payload[4], services.clock() if at is None else at)
        is_count = type(token_count) is int and 0 <= token_count <= MAX_COUNT
        is_known = type(action_type) is str and action_type in ACTION_TYPES
        is_place = started_seq is None or (type(started_seq) is int and 0 <= started_seq <= MAX_COUNT)
        observe = partial(
            self._writer.observe,
            payload,
            action_type if is_known else capture.name(action_type),
            capture.name(action_name),
            at,
            None if event_id is None else capture.identify(event_id),
            token_count if is_count else to_count(token_count),
            duration_ms if type(duration_ms) is float else to_number(duration_ms),
            started_seq if is_place else to_count(started_seq),
            None if call_id is None else capture.identify(call_id),
            None if cost_usd is None else to_number(cost_usd),
            can,
        )
        return self._finish(self._work(observe) if is_postponed else self._turns.do(observe), can)

    def _finish(self, seen: Observation | None, can: Collection[Verdict] = VERDICTS) -> Decision:
        """Return the decision about an event, and tell those who listen. The lock is not held."""
        services = self._services
        decision = PROCEED if seen is None else seen.decision
        if services.queue.is_durable and not logger.is_held() and not self._acknowledge():
            decision = structs.replace(decision, not_stored=NOT_STORED)
        self.last_decision = decision
        if seen is not None and decision.guidance and (decision.wanted or decision.verdict != "proceed"):
            self.waiting.keep(PlacedDecision(decision, seen.seq, can is not VERDICTS))
        if decision.findings or decision.hooks or decision.guidance:
            services.listeners.notify(decision)
        if seen is not None and seen.incidents:
            services.listeners.notify_incidents(seen.incidents)
        if seen is not None and seen.questions:
            self._ask_judge(seen.questions)
        return decision

    def _ask_judge(self, questions: Sequence[Question]) -> None:
        if questions and self._services.judge is not None:
            self._services.judge.ask(self, questions)

    def record_judged(self, report: JudgedReport) -> bool:
        """Record what a judge answered; False when the run has ended. Runs on the judge's thread."""
        if not self.is_live:
            return False
        services = self._services
        payload = services.capture.encode(None, None, report.to_metadata(), None)
        # It happened with the step before: time does not pass by it.
        seen = self._work(
            partial(
                self._writer.observe,
                *(payload, STATE_TRANSITION, JUDGED, self.session.last_at or None, None, 0, 0.0),
                *(None, None, None, VERDICTS),
            )
        )
        if seen is not None and seen.decision.findings:
            services.listeners.notify_findings(seen.decision.findings)
        if seen is not None and seen.incidents:
            services.listeners.notify_incidents(seen.incidents)
        return True

    def get_judge_spending(self) -> JudgeAmounts:
        """Return what judges have used for this run."""
        return self.session.judge_spending

    def get_judge_weight(self) -> float:
        """Return how far verdicts are trusted in this run."""
        return self.session.judge_weight

    def take_guidance(self) -> Decision:
        """Return the latest decision with guidance for the model, once; PROCEED when there is none.

        Guidance that could not be delivered when it was decided counts as delivered from now on.
        """
        placed = self.waiting.take()
        if placed.decision.guidance and not placed.is_delivered:
            latest = self.last_decision
            self.report(GUIDANCE_DELIVERED, {"seq": placed.seq})
            self.last_decision = latest
        return placed.decision

    def _now_if_postponed(self) -> float | None:
        return None if self.postponed is None else self._services.clock()

    def _acknowledge(self) -> bool:
        """Wait until the step is written, in durable mode; False, which is counted, when it is not."""
        queue = self._services.queue
        if not queue.is_durable or (self.postponed is None and queue.acknowledge()):
            return True
        self._services.health.count(NOT_STORED)
        return False

    def _work(self, job: Callable[[], T], *, can_wait: bool = True) -> T | None:
        """Do something with the session, alone; None when it is done later. See `Turns`."""
        # Once a run does not wait for a saved state, it never does again.
        in_order = job if self.postponed is None else partial(self._work_in_order, job, can_wait=can_wait)
        return self._turns.do(in_order, can_wait=can_wait)

    def _work_in_order(self, job: Callable[[], T], *, can_wait: bool) -> T | None:
        """Do a job, behind those that are postponed."""
        if self.postponed is None or (self.postponed.is_waiting and not can_wait):
            return job()
        return self._postpone(job) if can_wait else None

    def put_incidents(self) -> None:
        """Queue the latest versions of incidents that merely went on."""
        if self._writer.has_held_incidents:
            self._work(self._writer.put_held_incidents)

    def foresee(
        self, name: str, args: Any = None, *, started_seq: int | None = None, rolls_back: bool = False
    ) -> Decision:
        """Return the decision for a call that has not been made yet. Does not change state."""
        if not self.is_sampled:
            return PROCEED
        capture = self._services.capture
        payload = capture.encode(args, None, None, None)
        seq = None if started_seq is None else to_count(started_seq)
        job = partial(self._writer.foresee, payload, capture.name(name), seq, rolls_back=rolls_back)
        decision = self._work(job, can_wait=False)
        return PROCEED if decision is None else decision

    def report(self, name: str, metadata: dict[str, Any], *, call_id: str | None = None) -> Decision:
        """Record something the host reports about the step before: a refused call, progress, a grant."""
        # It happened with the step before: a host with a clock of its own must not be late.
        return self.record(
            STATE_TRANSITION,
            name,
            timestamp=self.session.last_at or None,
            metadata=metadata,
            call_id=call_id,
        )

    def extend_budget(self, name: str, metadata: dict[str, Any]) -> BudgetDecision | None:
        """Report a request or a grant of budget, and return what was decided; None without a budget.

        What is granted of the agent's budget of the day is stored: it counts for all runs of that day.
        """
        if not self.is_sampled:
            return None
        payload = self._services.capture.encode(None, None, metadata, None)
        seen = self._work(partial(self._writer.extend_budget, name, payload, self._now_if_postponed()))
        if seen is None:
            return None
        self._finish(seen)
        decision = seen.extension
        if decision is not None:
            self.report(BUDGET_DECIDED, {"approved": decision.approved, "reason": decision.reason})
        return decision

    def continue_in_child(self, run_id: str) -> None:
        """Go on in a forked process as a run of its own, a child of the run it was."""
        self._turns.after_fork()
        self.postponed = None
        self._writer.start_child(run_id)
        if self.is_sampled:
            self.announce(pin=True)
        self._services.health.count("run continued in a forked process")

    def save(self) -> bytes | None:
        """Write the state of the session to the sinks, to resume the run later.

        Returns the state; None when the run still waits for its own saved state.
        """
        self.is_live = False
        self.waiting.drop_unheard(self._services.health)
        state = self._work(partial(self._writer.save, self._now_if_postponed()))
        self._acknowledge()
        return state if self.postponed is None else None

    def end(self, outcome: str = "") -> None:
        """End the session, and write what it found, its incidents and its summary to the sinks."""
        services = self._services
        self.is_live = False
        self.waiting.drop_unheard(self._services.health)
        ending = self._work(
            partial(
                self._writer.end, services.capture.name(outcome), self._now_if_postponed(), dict(self.unseen)
            )
        )
        self._acknowledge()
        if ending is not None:
            services.listeners.notify_findings(ending.findings)
            services.listeners.notify_incidents(ending.incidents)

    # --- waiting for a saved state ----------------------------------------------------------------

    def wait_for_state(self, holder: RecordHolder) -> None:
        """Judge steps as those of a new run until it is known whether it continues a suspended one.

        The holder keeps their records meanwhile.
        """
        self.postponed = PostponedSteps(holder, self.session.run.epoch)
        self._writer.hold = self.postponed.hold

    def resume(self, session: Session, reference: Reference | None, *, pin: bool) -> bool:
        """Continue as the suspended run of this session; False when the run did not wait any more.

        What happened since it was started is judged again.
        """
        with self.lock:
            postponed = self.postponed
            if postponed is None or not postponed.is_waiting:
                return False
            session.can = self.session.can
            self.session = session
            postponed.is_waiting = False
            self._writer.resume(session, reference, pin=pin, held=postponed.list_held())
        while self.postponed is not None:
            # One at a time: other threads get the lock in between.
            self._turns.do(partial(self._do_postponed, 1), can_wait=False)
        return True

    def reopen(self, can: Collection[Verdict]) -> bool:
        """Continue after `save`, while the saved state of the run before is awaited; False when it is not."""
        with self.lock:
            if self.postponed is None:
                return False
            self.is_live, self.own_verdicts = True, frozenset(can)
            self._work(partial(self.announce, pin=False))
        return True

    def start_anew(self) -> bool:
        """Continue as a new run: there is no saved state. False when the run did not wait any more."""
        with self.lock:
            postponed = self.postponed
            if postponed is None or not postponed.is_waiting:
                return False
            self.postponed = self._writer.hold = None
            postponed.queue_held(lambda records: self._writer.put_records(*records, were_held=True))
            postponed.done.set()
        self._ask_judge(postponed.questions)
        return True

    def _postpone(self, step: Callable[[], T]) -> T | None:
        """Do a step as one of a new run, and keep it; or add it behind those that are judged again."""
        assert self.postponed is not None
        is_waiting = self.postponed.is_waiting
        self.postponed.add(step)
        if not is_waiting:
            again: T | None = self._do_postponed(STEPS_AT_ONCE)
            if self.postponed is not None:
                self.postponed.count_behind()
            return again
        # What is asked about a run that may be another one waits too.
        done, questions = split_questions(step())
        self.postponed.questions += questions
        if self.postponed.is_full and self.start_anew():
            self._services.health.count("run continued without its saved state: too many steps were waiting")
        return done

    def _do_postponed(self, most: int) -> Any:
        """Do the first postponed steps; returns the result of the last of all, None while others are left."""
        postponed = self.postponed
        done = postponed.do_some(self._judge_again, most) if postponed is not None else None
        if postponed is not None and not postponed:
            self.postponed = None
            postponed.withdraw_held()
        return done

    def _judge_again(self, step: Callable[[], object]) -> object:
        """Do a postponed step: nobody else asks the questions that it raises."""
        done, questions = split_questions(self._turns.try_late(step))
        self._ask_judge(questions)
        return done
