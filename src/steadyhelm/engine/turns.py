"""One job at a time with the session of a run, and steps that wait for its saved state.

A job that interrupts another one waits for it. Steps of a run whose saved state was not read yet are judged
at once as those of a new run, and again from the saved state when it is there.
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Protocol, TypeVar

from steadyhelm.engine.responses import Observation
from steadyhelm.engine.run_services import RunServices
from steadyhelm.forks import ForkSafeLock, ReentrantEvent
from steadyhelm.interrupts import pass_on_signal
from steadyhelm.judge import Question
from steadyhelm.logs import logger
from steadyhelm.sink import Record

T = TypeVar("T")
_MAX_WAITING: Final = 1000
MOST_POSTPONED: Final = 1000
STEPS_AT_ONCE: Final = 16
"""How many steps the thread that takes one judges again: it must not wait until all others are judged."""
Step = Callable[[], object]


class Turns:
    """Does jobs one after the other, each under the lock and without a line in the log.

    A finalizer, a signal handler or a log handler of the host may call us in the middle of our own work:
    its job is done when that work is over. What it calls us for during that job is counted instead.

    Args:
        lock: The lock of the run.
        services: What the run shares with the agent's other runs.
    """

    def __init__(self, lock: ForkSafeLock, services: RunServices) -> None:
        self._lock = lock
        self._services = services
        # Lists, though both are queues: they are nearly always empty, and an empty deque has 700 bytes.
        self._waiting: list[Callable[[], object]] = []
        self._is_working = False
        self._is_late = False
        self._late: list[Observation] = []

    def do(self, job: Callable[[], T | None], *, can_wait: bool = True) -> T | None:
        """Do a job and return its result; None when it has to wait, or cannot."""
        thread = logger.thread
        held = thread.held
        try:
            if held is None:
                thread.held = []
            # Whoever holds a lock of ours here was called by code that interrupted our own.
            is_inside = held is not None or any(map(ForkSafeLock.is_held, self._services.inner_locks))
            if not is_inside or self._lock.is_held():
                with self._lock:
                    done = self._do_in_turn(job, can_wait=can_wait)
            else:
                in_turn = partial(self._do_in_turn, job, can_wait=can_wait)
                done = self._do_if_free(in_turn, job if can_wait else None)
            if self._waiting and not self._lock.is_held():
                self._do_if_free(self._do_waiting, None)
        finally:
            # No call comes first: a signal handler may raise behind any.
            lines, thread.held = thread.held, held
            if held is None and lines:
                logger.log_held(lines)
        while self._late and held is None and (seen := _take(self._late)) is not None:
            self._services.listeners.notify(seen.decision)
            self._services.listeners.notify_incidents(seen.incidents)
        return done

    def try_late(self, job: Callable[[], object]) -> object:
        """Do a job whose caller is gone: what it raises is counted. The lock is held."""
        was_late, self._is_late = self._is_late, True
        was_working, self._is_working = self._is_working, True
        try:
            return job()
        except Exception as exc:  # noqa: BLE001 - the job before is done, and must not fail by this one
            self._services.health.swallow("record_event", exc, is_record_lost=True)
            return None
        finally:
            self._is_late, self._is_working = was_late, was_working

    def after_fork(self) -> None:
        """Start afresh in a child process: no job is under way there."""
        self._is_working = False

    def _do_in_turn(self, job: Callable[[], T | None], *, can_wait: bool) -> T | None:
        if self._is_working:
            self._wait(job if can_wait else None)
            return None
        self._is_working = True
        try:
            done = job()
        finally:
            self._is_working = False
        if self._waiting:
            self._do_waiting()
        return done

    def _do_if_free(self, work: Callable[[], T | None], job: Callable[[], object] | None) -> T | None:
        """Do something if no other thread is at work; else let that thread do the job when it is done.

        This thread was interrupted while it held another lock of ours, for which that thread may wait.
        """
        try:
            # A signal handler may raise behind any call: what is to be undone begins within the block.
            if self._lock.acquire(blocking=False):
                return work()
            if job is not None:
                self._wait(job)
            # It may have looked for waiting jobs before this one came.
            if self._waiting and self._lock.acquire(blocking=False):
                self._do_waiting()
        finally:
            try:
                self._lock.release()  # the first call here: a handler that raises cannot prevent it
            except RuntimeError as exc:  # it was not acquired, or was released by `work`
                pass_on_signal(exc)
        return None

    def _do_waiting(self) -> None:
        """Do the jobs that wait. The lock is held."""
        while not self._is_working and (job := _take(self._waiting)) is not None:
            seen = self.try_late(job)
            if type(seen) is Observation:
                self._late.append(seen)

    def _wait(self, job: Callable[[], object] | None) -> None:
        """Let a job wait for the one that is being done, if it can."""
        if job is None:
            self._services.health.count("call looked at while an event was being recorded")
        elif self._is_late or len(self._waiting) >= _MAX_WAITING:
            self._services.health.lose("event recorded while another event was being recorded")
        else:
            self._waiting.append(job)


def _take(queue: list[T]) -> T | None:
    """Return the first of a queue, None when it is empty: code that interrupts us may empty it."""
    try:
        return queue.pop(0) if queue else None
    except IndexError:
        return None


class RecordHolder(Protocol):
    """Keeps records that are not queued yet where they survive the process."""

    def hold(self, epoch: str, records: Sequence[Record]) -> None:
        """Keep records of the run with this epoch."""
        ...

    def miss(self, count: int) -> None:
        """Write down that so many more have no record yet: they do not survive the process."""
        ...

    def release(self, count: int, *, withdrawn: str = "") -> None:
        """Keep that many no longer, of which those of the epoch given were recorded otherwise."""
        ...


class PostponedSteps:
    """Steps in the order they were taken, and their records. Methods are called under the lock of the run.

    Args:
        holder: Keeps the records of the new run that it may be after all.
        epoch: The epoch of that run.
    """

    def __init__(self, holder: RecordHolder, epoch: str) -> None:
        self._holder = holder
        self._epoch = epoch
        self._steps: deque[Step] = deque()
        self._held: list[Sequence[Record]] = []
        self._behind = 0
        self.questions: list[Question] = []
        """What a judge is to be asked if the run is a new one."""
        self.is_waiting = True
        """Whether it is not known yet how the run continues."""
        self.done = ReentrantEvent()
        """Set when the steps need not wait any more."""

    def __len__(self) -> int:
        return len(self._steps)

    @property
    def is_full(self) -> bool:
        """Whether no further step should wait."""
        return len(self._steps) >= MOST_POSTPONED

    def hold(self, records: Sequence[Record]) -> None:
        """Keep records until it is known how the run continues."""
        self._held.append(records)
        self._holder.hold(self._epoch, records)

    def list_held(self) -> list[Record]:
        """Return the records that are held."""
        return [record for records in self._held for record in records]

    def count_behind(self) -> None:
        """Count a step that has no record yet: its caller did not wait until those before it were judged."""
        self._behind += 1
        self._holder.miss(1)

    def withdraw_held(self) -> None:
        """Drop what is held: its steps were judged again."""
        held, self._held = self._held, []
        self._holder.release(sum(map(len, held)) + self._behind, withdrawn=self._epoch)

    def queue_held(self, queue: Callable[[Sequence[Record]], None]) -> None:
        """Queue what is held: the run is a new one."""
        held, self._held = self._held, []
        for records in held:
            queue(records)
        self._holder.release(sum(map(len, held)))

    def add(self, step: Step) -> None:
        """Add a step behind the others."""
        self._steps.append(step)

    def do_some(self, do: Callable[[Step], object], most: int) -> object:
        """Do the first steps; returns the result of the last of all, None while others are left."""
        result: object = None
        for _ in range(min(most, len(self._steps))):
            result = do(self._steps.popleft())
        if self._steps:
            return None
        self.done.set()
        return result


def split_questions(done: T) -> tuple[T, Sequence[Question]]:
    """Return the result of a step without its questions for a judge, and these."""
    if isinstance(done, Observation) and done.questions:
        return done._replace(questions=()), done.questions
    return done, ()
