"""What the runs of one agent share."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from steadyhelm.engine.agent_knowledge import AgentKnowledge
from steadyhelm.engine.capture import Capture
from steadyhelm.engine.daily_ledger import DailyLedger
from steadyhelm.engine.health import Health
from steadyhelm.engine.listeners import Listeners
from steadyhelm.forks import ForkSafeLock
from steadyhelm.judge import Question
from steadyhelm.sink import Record

if TYPE_CHECKING:
    from steadyhelm.engine.judge_worker import JudgedRecorder

Price = Callable[[Mapping[str, Any], float], float | None]


class RecordQueue(Protocol):
    """Where the records of runs go: the queue of a monitor, or a plain list."""

    is_durable: bool

    def put(self, epoch: str, *records: Record) -> bool:
        """Take records of the run with this epoch; return whether they were accepted."""
        ...

    def acknowledge(self) -> bool:
        """Wait until the records are written, if the queue is durable; False when that took too long."""
        ...


class QuestionAsker(Protocol):
    """Whatever has the questions of runs answered: a thread beside a live agent, or a hook's helper."""

    def ask(self, recorder: "JudgedRecorder", questions: Sequence[Question]) -> None:
        """Have questions about a run answered later. Returns at once and never raises."""
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
        knowledge: Has what runs are compared with, in memory; None where every run starts with it.
        daily: Has what the agent has spent today, in memory; None where no limit is set for a day.
        judge: Answers the questions of runs; None where there is no judge.
    """

    def __init__(
        self,
        agent_id: str,
        *,
        capture: Capture,
        health: Health,
        queue: RecordQueue,
        knowledge: AgentKnowledge | None = None,
        daily: DailyLedger | None = None,
        clock: Callable[[], float] = time.time,
        price: Price | None = None,
        judge: QuestionAsker | None = None,
    ) -> None:
        self.agent_id = agent_id
        self.capture = capture
        self.health = health
        self.queue = queue
        self.clock = clock
        self.price = price
        self.knowledge = knowledge
        self.daily = daily
        self.judge = judge
        self.listeners = Listeners(health)
        self.inner_locks: Sequence[ForkSafeLock] = ()
        """Locks that a thread may hold when a finalizer of the host calls us: it waits for no run then."""
