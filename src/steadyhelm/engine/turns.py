"""One job at a time with the session of a run, also where host code interrupts one."""

from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

from steadyhelm.engine.responses import Observation
from steadyhelm.engine.run_services import RunServices
from steadyhelm.forks import ForkSafeLock
from steadyhelm.interrupts import pass_on_signal
from steadyhelm.logs import logger

T = TypeVar("T")

_MAX_WAITING: Final = 1000


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
            self._services.health.swallow("record_event", exc)
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
