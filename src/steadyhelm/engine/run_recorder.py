"""Record the events of one run in order: from a host's objects to its session and to the sinks.

Everything that may run the host's own code (`__str__`, callbacks, log handlers) happens before the lock is
taken or after it is released.
"""

import time
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from msgspec import structs

from steadyhelm.decisions import PROCEED, BudgetDecision, Decision
from steadyhelm.engine.capture import Capture, Payload
from steadyhelm.engine.coercion import to_count, to_number
from steadyhelm.engine.health import Health
from steadyhelm.engine.listeners import Listeners
from steadyhelm.engine.session import Ending, Observation, Session
from steadyhelm.errors import RunStopped
from steadyhelm.events import BUDGET_DECIDED, STATE_TRANSITION, TOOL_CALL, new_id
from steadyhelm.forks import ForkSafeLock
from steadyhelm.logs import logger
from steadyhelm.sink import Record, RecordedEvent, SavedState

T = TypeVar("T")

_MAX_WAITING: Final = 1000

Price = Callable[[Mapping[str, Any], float], float | None]


class RecordQueue(Protocol):
    """Where the records of runs go: the queue of a monitor, or a plain list."""

    is_durable: bool

    def put(self, epoch: str, *records: Record) -> bool:
        """Take records of the run with this epoch; return whether they were accepted."""
        ...

    def acknowledge(self) -> None:
        """Wait until the records are written, if the queue is durable."""
        ...


class RunServices:
    """What the runs of one agent share.

    Args:
        agent_id: The agent.
        capture: Turns the host's objects into events.
        health: Counts losses and errors.
        queue: Receives the records.
        clock: Returns the time.
        price: Returns the cost of a model call from its metadata and time; None to look up none.
    """

    def __init__(
        self,
        agent_id: str,
        *,
        capture: Capture,
        health: Health,
        queue: RecordQueue,
        clock: Callable[[], float] = time.time,
        price: Price | None = None,
    ) -> None:
        self.agent_id = agent_id
        self.capture = capture
        self.health = health
        self.queue = queue
        self.clock = clock
        self.price = price
        self.listeners = Listeners(health)


class RunRecorder:
    """One live run: its session, and the one lock under which its events are put in order.

    Methods may be called from any thread; they raise nothing but errors of our own.

    Args:
        session: The session of the run.
        services: What it shares with the agent's other runs.
        is_sampled: Whether events of this run are recorded at all.
    """

    def __init__(self, session: Session, services: RunServices, *, is_sampled: bool = True) -> None:
        self.session = session
        self.is_sampled = is_sampled
        self.is_live = True
        """False once the run has ended or is suspended."""
        self.lock = ForkSafeLock()
        self.own_verdicts = session.can
        """What whoever started the run can carry out; participants may be able to do less."""
        self.stop: RunStopped | None = None
        """A stop that the run's next step raises."""
        self._services = services
        self._waiting: deque[Callable[[], object]] = deque()
        self._is_working = False
        self._is_late = False

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
    ) -> Decision:
        """Record one event and return the decision."""
        if not self.is_sampled:
            return PROCEED
        services, capture = self._services, self._services.capture
        payload = capture.encode(input_data, output_data, metadata, error)
        at = None if timestamp is None else to_number(timestamp)
        if cost_usd is None and services.price is not None and payload[4]:
            cost_usd = services.price(payload[4], services.clock() if at is None else at)
        observe = partial(
            self._observe,
            payload,
            capture.name(action_type),
            capture.name(action_name),
            at,
            None if event_id is None else capture.identify(event_id),
            token_count if type(token_count) is int and token_count >= 0 else to_count(token_count),
            duration_ms if type(duration_ms) is float else to_number(duration_ms),
            None if started_seq is None else to_count(started_seq),
            None if call_id is None else capture.identify(call_id),
            None if cost_usd is None else to_number(cost_usd),
        )
        seen = self._work(observe)
        if seen is None:
            return PROCEED
        if services.queue.is_durable:
            services.queue.acknowledge()
        if seen.decision.findings or seen.decision.hooks:
            services.listeners.notify(seen.decision)
        return seen.decision

    def _observe(
        self,
        payload: Payload,
        action_type: str,
        action_name: str,
        at: float | None,
        event_id: str | None,
        token_count: int,
        duration_ms: float,
        started_seq: int | None,
        call_id: str | None,
        cost_usd: float | None,
    ) -> Observation:
        """Put a captured event in its place, judge it and queue it. The lock is held."""
        services, session = self._services, self.session
        run, seq = session.run, session.next_seq
        recorded = services.capture.build(
            payload,
            agent_id=services.agent_id,
            run_id=run.run_id,
            action_type=action_type,
            action_name=action_name,
            timestamp=services.clock() if at is None else at,
            event_id=event_id or f"{run.run_id}.{seq}",
            seq=seq,
            token_count=token_count,
            duration_ms=duration_ms,
            started_seq=started_seq,
            call_id=call_id,
            parent_run_id=run.parent_run_id,
            cost_usd=cost_usd,
        )
        seen = session.observe(recorded.event)
        self._put(recorded, seen)
        return seen

    def _work(self, job: Callable[[], T], *, can_wait: bool = True) -> T | None:
        """Do something with the session, alone and without a line in the log; None when it has to wait.

        A finalizer, a signal handler or a log handler of the host may call us in the middle of our own work:
        its job is done when that work is over. What it calls us for during that job is counted instead.
        """
        late: list[object] = []
        held = logger.hold()
        try:
            with self.lock:
                if self._is_working:
                    self._wait(job if can_wait else None)
                    return None
                done = self._work_alone(job)
                while self._waiting:
                    late.append(self._work_late(self._waiting.popleft()))
        finally:
            logger.release(held)
        for seen in late:
            if type(seen) is Observation:
                self._services.listeners.notify(seen.decision)
        return done

    def _wait(self, job: Callable[[], object] | None) -> None:
        """Let a job wait for the one that is being done, if it can."""
        if job is not None and not self._is_late and len(self._waiting) < _MAX_WAITING:
            self._waiting.append(job)
        else:
            self._services.health.count("event recorded while another event was being recorded")

    def _work_alone(self, job: Callable[[], T]) -> T:
        self._is_working = True
        try:
            return job()
        finally:
            self._is_working = False

    def _work_late(self, job: Callable[[], object]) -> object:
        self._is_late = True
        try:
            return self._work_alone(job)
        except Exception as exc:  # noqa: BLE001 - the job before is done, and must not fail by this one
            self._services.health.swallow("record_event", exc)
            return None
        finally:
            self._is_late = False

    def _put(self, recorded: RecordedEvent, seen: Observation) -> None:
        """Queue an event and what it led to."""
        capture, queue, epoch = self._services.capture, self._services.queue, self.session.run.epoch
        # The event goes in by itself: when the queue is full it may be dropped, its findings may not.
        queue.put(epoch, recorded if capture.keeps_text else capture.strip(recorded))
        if seen.decision.findings or seen.incidents:
            queue.put(epoch, *seen.decision.findings, *seen.incidents)

    def foresee(self, name: str, args: Any = None, *, started_seq: int | None = None) -> Decision:
        """Return the decision for a call that has not been made yet. Does not change state."""
        if not self.is_sampled:
            return PROCEED
        capture = self._services.capture
        payload = capture.encode(args, None, None, None)
        seq = None if started_seq is None else to_count(started_seq)
        decision = self._work(partial(self._foresee, payload, capture.name(name), seq), can_wait=False)
        return PROCEED if decision is None else decision

    def _foresee(self, payload: Payload, name: str, started_seq: int | None) -> Decision:
        services, session = self._services, self.session
        call = services.capture.build(
            payload,
            agent_id=services.agent_id,
            run_id=session.run.run_id,
            action_type=TOOL_CALL,
            action_name=name,
            timestamp=services.clock(),
            event_id=f"{session.run.run_id}.{session.next_seq}",
            seq=session.next_seq,
            started_seq=started_seq,
        )
        return session.foresee(call.event)

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
        """Report a request or a grant of budget, and return what was decided; None without a budget."""
        drift = self.session.drift
        if drift.budget is None:
            return None
        drift.last_extension = None
        self.report(name, metadata)
        decision: BudgetDecision | None = drift.last_extension
        if decision is not None:
            self.report(BUDGET_DECIDED, {"approved": decision.approved, "reason": decision.reason})
        return decision

    def continue_in_child(self, run_id: str) -> None:
        """Go on in a forked process as a run of its own, a child of the run it was."""
        run, self._is_working = self.session.run, False
        self.session.run = structs.replace(run, run_id=run_id, parent_run_id=run.run_id, epoch=new_id())
        # Its checkpoints are kept under its parent's id.
        self.session.forget_checkpoints()
        if self.is_sampled:
            self._services.queue.put(self.session.run.epoch, self.session.run)
        self._services.health.count("run continued in a forked process")

    def save(self) -> None:
        """Write the state of the session to the sinks, to resume the run later."""
        self._work(self._save)
        self._services.queue.acknowledge()

    def _save(self) -> None:
        services, run = self._services, self.session.run
        self.is_live = False
        saved = SavedState(services.agent_id, run.run_id, self.session.state(), services.clock())
        services.queue.put(run.epoch, saved)

    def end(self, outcome: str = "") -> None:
        """End the session, and write what it found, its incidents and its summary to the sinks."""
        services = self._services
        ending = self._work(partial(self._end, services.capture.name(outcome)))
        if ending is not None:
            services.queue.acknowledge()
            services.listeners.notify_findings(ending.findings)

    def _end(self, outcome: str) -> Ending:
        services = self._services
        self.is_live = False
        ending = self.session.end(at=services.clock(), outcome=outcome)
        services.queue.put(self.session.run.epoch, *ending.findings, *ending.incidents, ending.summary)
        return ending
