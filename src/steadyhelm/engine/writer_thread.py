"""The thread on which a dispatch writes: started when something is to be written, and again when it ended."""

import threading
from collections.abc import Callable
from typing import Final

from steadyhelm.engine.health import Health
from steadyhelm.forks import ForkSafeLock
from steadyhelm.interrupts import pass_on_signal

WRITER_NAME: Final = "steadyhelm-writer"


class WriterThread:
    """Does the work of a writer on a thread of its own.

    A host may end any thread, for instance by what it lets trace its threads: the next start begins another.

    Args:
        work: Called on the thread; returns when no more is to be written.
        lock: The lock of the queue.
        health: Counts a thread that cannot be started.
    """

    def __init__(self, work: Callable[[], None], lock: ForkSafeLock, health: Health) -> None:
        self._work = work
        self._lock = lock
        self._health = health
        self._mark: object = None
        self.thread: threading.Thread | None = None
        """The thread; None before it is started, and once it is known to have ended."""

    @property
    def is_current(self) -> bool:
        """Whether the code now executing runs on it."""
        return self.thread is threading.current_thread()

    def start(self) -> None:
        """Start the thread unless it runs. Never waits for it."""
        self._forget_if_ended()
        if self.thread is not None:
            return
        try:
            with self._lock:
                if self.thread is None:
                    self._start()
        except RuntimeError as exc:  # no more threads, or the interpreter is shutting down
            pass_on_signal(exc)
            self._health.count("writer thread could not be started")

    def _start(self) -> None:
        mark = object()
        thread = threading.Thread(target=self._run, args=(mark,), name=WRITER_NAME, daemon=True)
        try:
            # Before it starts: under gevent it runs at once, on this very thread, which has the lock.
            self._mark = mark
            thread.start()
            self.thread = thread
        except BaseException:  # a signal handler raised: the thread may have started, and must not go on
            self._mark = None
            raise

    def join(self, timeout_s: float) -> None:
        """Wait until the thread has ended, or the time is up."""
        if self.thread is not None:
            self.thread.join(timeout_s)
        self._forget_if_ended()

    def _forget_if_ended(self) -> None:
        """Forget a thread that has ended without a chance to say so."""
        # Not by `is_alive`: a signal handler that raises in it makes a live thread count as ended.
        thread = self.thread
        if thread is not None and thread not in threading.enumerate():
            with self._lock:
                self.thread = None if self.thread is thread else self.thread

    def _run(self, mark: object) -> None:
        with self._lock:  # a signal handler may have raised in its start
            is_started = self._mark is mark
        try:
            if is_started:
                self._work()
        except BaseException:  # noqa: BLE001 - raised where another one was counted
            self.thread = None
