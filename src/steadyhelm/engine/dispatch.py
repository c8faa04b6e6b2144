"""The only queue and the only writer thread.

Records go in on the agent's thread, which appends them to the journal and to memory; one thread takes what
waits, up to `batch` at a time, and hands it to every sink.
What cannot be stored waits, in memory and in the journal, until it can. Events are dropped, and counted, only
when the journal is full, or memory where there is no journal.
"""

import contextlib
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from steadyhelm.engine.backlog import Backlog
from steadyhelm.engine.delivery import NOT_WRITTEN, BatchDelivery
from steadyhelm.engine.health import FlushResult, Health
from steadyhelm.engine.writer_thread import WriterThread
from steadyhelm.forks import ForkSafeLock
from steadyhelm.journal.abandoned import DAMAGED, leave, list_pending
from steadyhelm.journal.frames import Entry
from steadyhelm.logs import logger
from steadyhelm.sink import Record, Sink

# A commit costs as much as ten events: waiting a moment for company saves the process most of it.
LINGER_S: Final = 0.25
HAND_OVER_S: Final = 1.0
"""How long it waits where each batch becomes a file that another process stores."""
REPEAT_S: Final = 0.5
"""How often the repeated job runs, about."""
ADOPT_S: Final = 5.0
"""How often the writer looks for what dead writers left, about."""
JOURNAL_BYTES: Final = 256 << 20
DURABLE_TIMEOUT_S: Final = 5.0

_PAUSE_S: Final = 0.05
_LOOK_S: Final = 0.02


class Dispatch:
    """Takes records from any thread, writes them from one.

    Args:
        sinks: Where every batch goes, in this order; one that fails does not keep it from the others.
        cap: Records kept in memory; further ones are in the journal alone.
        batch: Records handed over at once.
        durable: `acknowledge` waits until the records are stored, and no event is ever dropped.
        linger_s: How long the writer waits for company before it writes; durable never waits.
        journal_bytes: The size from which the journal takes no more events.
        durable_timeout_s: How long `acknowledge` waits.
    """

    def __init__(
        self,
        sinks: Sequence[Sink],
        *,
        health: Health,
        cap: int = 2000,
        batch: int = 500,
        durable: bool = False,
        linger_s: float = LINGER_S,
        journal_bytes: int = JOURNAL_BYTES,
        durable_timeout_s: float = DURABLE_TIMEOUT_S,
    ) -> None:
        self._sinks = list(sinks)
        self._health = health
        self._cap = cap
        self._batch = batch
        self.is_durable = durable
        self._linger_s = 0.0 if durable else linger_s
        self._journal_bytes = journal_bytes
        self.durable_timeout_s = durable_timeout_s
        self._closed = False
        self.repeated_job: Callable[[], None] | None = None
        """Runs on the writer's thread about twice a second, between batches."""
        self.on_written: Callable[[Sequence[Record]], None] | None = None
        """Runs on the writer's thread with the records of each batch that is stored."""
        self._begin()
        self._backlog.try_tidy_journal(self._health)
        if self._database is not None and set(list_pending(self._database)) - self._backlog.journal_paths:
            self._writer.start()

    def _begin(self) -> None:
        self._delivery = BatchDelivery(
            self._sinks,
            health=self._health,
            pause=self._pause,
            hand_over=lambda entries: self._backlog.hand_over(entries),  # noqa: PLW0108 - it comes below
        )
        store = self._delivery.store
        self._database = None if store is None or store.path is None else Path(store.path)
        self._backlog = Backlog(
            cap=self._cap,
            may_drop=not self.is_durable,
            database=self._database,
            journal_cap=self._journal_bytes,
        )
        self._jobs: deque[Callable[[], None]] = deque()
        # Unlike an Event or a Condition, a signal handler may use it whatever it interrupted.
        self._wake: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._is_hurried = False
        self._in_hand: list[Entry] = []
        self._repeat_at = self._adopt_at = 0.0
        self._is_late = False
        self._caller = threading.local()
        self._writer = WriterThread(self._write_until_closed, self._backlog.lock, self._health)
        self._is_finished = False
        self._refused: set[str] = set()

    # --- any thread -------------------------------------------------------------------------------

    def put(self, epoch: str, *records: Record) -> bool:
        """Queue records of the run with this epoch; False when they were dropped. Never waits.

        Only events are ever dropped: findings, incidents and run ends always go in.
        """
        if self._closed or epoch in self._refused:
            self._health.lose("recorded after close", len(records))
            return False
        backlog = self._backlog
        if self.is_durable:
            self._caller.lost = self._health.lost
        dropped = backlog.put(epoch, records)
        if dropped:
            self._count_dropped(dropped)
        # Behind others it needs no call of its own: the writer goes on until nothing is left.
        if backlog.is_drained or self._writer.thread is None:
            backlog.is_drained = False
            self._wake_writer(hurry=False)
        # Again and again, for a writer that was ended from outside.
        elif backlog.remaining >= self._batch and not (self._is_hurried and backlog.remaining % self._batch):
            self._wake_writer(hurry=True)
        return not dropped

    def _count_dropped(self, count: int) -> None:
        full = "queue full" if self._backlog.journal is None else "journal full"
        self._health.lose("recorded after close" if self._closed else full, count)
        self._backlog.note_counted(count)

    def hold(self, epoch: str, records: Sequence[Record]) -> None:
        """Keep records of a run that waits for its saved state, so that they survive the process."""
        self._backlog.hold(epoch, records)

    def miss(self, count: int) -> None:
        """Write down that so many records of such a run would not survive the process."""
        self._backlog.miss(count)

    def release(self, count: int, *, withdrawn: str = "") -> None:
        """Keep that many records no longer, of which those of the epoch given were recorded otherwise."""
        self._backlog.release(count, withdrawn=withdrawn)

    def run_on_writer(self, job: Callable[[], None]) -> bool:
        """Run a job on the writer's thread soon, before the next batch; False after the close. Never waits.

        What it raises is counted.
        """
        if self._closed:
            return False
        self._jobs.append(job)
        self._wake_writer(hurry=True)
        return True

    def get_mark(self) -> int:
        """Return a mark behind everything put so far."""
        return self._backlog.put_count

    def is_written(self, mark: int) -> bool:
        """Return whether everything put before this mark is written."""
        return self._backlog.done_count >= mark

    def acknowledge(self) -> bool:
        """Wait until everything put so far is stored, in durable mode; return whether it is.

        While the store cannot be written, only the first caller waits until the deadline.
        """
        if not self.is_durable:
            return True
        waits = not self._is_late and not self._backlog.is_reentered
        if not self._wait_until_stored(self.durable_timeout_s if waits else 0.0):
            self._is_late = True
            return False
        return self._health.lost == getattr(self._caller, "lost", 0)

    @property
    def lock(self) -> ForkSafeLock:
        """The lock of the queue."""
        return self._backlog.lock

    def flush(self, timeout_s: float | None = 5.0) -> FlushResult:
        """Wait until everything queued so far is written, or the time is up; says which."""
        is_done = self._wait_until_stored(timeout_s)
        for sink in self._sinks if is_done else ():
            try:
                sink.flush()
            except Exception as exc:  # noqa: BLE001 - a sink may fail in any way
                is_done = False
                self._health.swallow(f"sink {sink.name}", exc)
        return self._describe(is_done=is_done)

    def refuse(self, epoch: str) -> None:
        """Count what a run records as lost: it began while the monitor was being closed."""
        if not self._closed:
            self._refused.add(epoch)

    def close(self, timeout_s: float = 5.0) -> FlushResult:
        """Write what is queued, within the time given, and let go of the sinks.

        What is not written by then stays in the journal, for the next one that opens the database. A second
        close leaves there what was counted since the first.
        """
        deadline = time.monotonic() + timeout_s
        is_done = self.flush(timeout_s).complete
        with self._backlog.lock:
            was_closed, self._closed = self._closed, True
        if was_closed:
            self._leave_losses()
            return self._describe(is_done=is_done)
        self._wake.put(True)
        if not self._writer.is_current:
            # A writer that waits for a locked database ends by itself when that wait is over.
            self._writer.join(max(0.5, deadline - time.monotonic()))
        if self._writer.thread is None:
            self._finish()
        return self._describe(is_done=is_done)

    def _leave_losses(self) -> None:
        losses = self._health.list_losses(time.time())
        if not losses or self._database is None:
            return
        try:
            leave(self._database, losses)
        except OSError as exc:
            logger.debug("losses could not be kept", exc_info=exc)
        else:
            self._health.mark_stored(losses)

    def after_fork(self) -> None:
        """Start afresh in a child process: the parent writes what was queued."""
        self._begin()
        if not self._closed:
            self._backlog.try_tidy_journal(self._health)

    @property
    def waiting(self) -> int:
        """Records queued and not yet written."""
        return self._backlog.remaining + self._backlog.handed_over

    def _describe(self, *, is_done: bool) -> FlushResult:
        losses = self._health.totals()  # which counts some of what was lost
        complete = is_done and not self._health.lost
        return FlushResult(complete=complete, remaining=self.waiting, losses=losses)

    def _wait_until_stored(self, timeout_s: float | None) -> bool:
        """Wait until everything put so far is stored, by another process where this one cannot."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        is_stored = self._wait_for(self.get_mark(), timeout_s)
        while is_stored and self._backlog.handed_over:
            is_stored = deadline is None or time.monotonic() < deadline
            time.sleep(_LOOK_S if is_stored else 0.0)
        return is_stored

    def _wait_for(self, mark: int, timeout_s: float | None) -> bool:
        if self._writer.is_current:
            return False
        if not self.is_written(mark):
            self._wake_writer(hurry=True)
        return self._backlog.wait_until_done(mark, timeout_s)

    def _wake_writer(self, *, hurry: bool) -> None:
        self._is_hurried = self._is_hurried or hurry
        self._wake.put(hurry)
        if not self._closed:
            self._writer.start()

    # --- the writer's thread ----------------------------------------------------------------------

    def _write_until_closed(self) -> None:
        while True:
            try:
                if not self._work():
                    break
            except BaseException as exc:  # noqa: BLE001 - whatever happens, the writer goes on
                self._health.count(f"error in the writer: {type(exc).__name__}")
                time.sleep(_PAUSE_S)
        self._finish()

    def _work(self) -> bool:
        """Write everything that waits, then wait for more; return False when there is no more to come."""
        self._adopt()
        self._run_jobs()
        while self._take():
            dropped = self._backlog.dropped_and_counted
            if not self._delivery.deliver(self._in_hand):
                return False
            self._backlog.note_kept(dropped)
            self._complete_batch()
            self._run_jobs()
            if self._may_linger():
                break
        if not self._delivery.is_down:
            self._delivery.deliver_losses()
        self._backlog.try_tidy_journal(self._health)
        if self._closed:
            return bool(self._backlog.remaining)
        self._wait_for_work()
        return True

    def _take(self) -> bool:
        if not self._in_hand:
            self._in_hand, damaged = self._backlog.take(self._batch)
            if damaged:
                self._health.lose(DAMAGED, damaged)
                self._backlog.complete(damaged)
        return bool(self._in_hand)

    def _complete_batch(self) -> None:
        written, self._in_hand = self._in_hand, []
        if self.on_written is not None:
            self.on_written([record for _, record in written])
        self._is_late = False
        self._backlog.complete(len(written))
        self._backlog.try_tidy_journal(self._health)

    def _adopt(self) -> None:
        now = time.monotonic()
        if now >= self._adopt_at and not self._closed:
            self._adopt_at = now + ADOPT_S
            self._delivery.adopt(but=self._backlog.journal_paths, batch=self._batch)

    def _may_linger(self) -> bool:
        """Return whether what came during a batch can wait for company: too little for another one."""
        can_wait = self._linger_s > 0 and not self._is_hurried and not self._closed
        return can_wait and 0 < self._backlog.remaining < self._batch

    def _wait_for_work(self) -> None:
        tick_s = REPEAT_S if self.repeated_job is not None else ADOPT_S
        try:
            is_hurried = False if self._may_linger() else self._wake.get(timeout=tick_s)
            linger_s = HAND_OVER_S if self._delivery.hands_over else self._linger_s
            deadline = time.monotonic() + linger_s
            while not is_hurried and not self._closed and (left := deadline - time.monotonic()) > 0:
                is_hurried = self._wake.get(timeout=left)
        except queue.Empty:
            pass
        self._is_hurried = False
        while not self._wake.empty():  # nobody else takes from it
            self._wake.get()

    def _pause(self, seconds: float) -> bool:
        """Wait before the next try, unless one is asked for; return False when there is to be none."""
        with contextlib.suppress(queue.Empty):
            deadline = time.monotonic() + seconds
            while not self._closed and (left := deadline - time.monotonic()) > 0:
                if self._wake.get(timeout=left):
                    break
        self._backlog.keep_losses(self._health)
        self._run_jobs()
        return not self._closed

    def _run_jobs(self) -> None:
        now = time.monotonic()
        if self.repeated_job is not None and now >= self._repeat_at:
            self._repeat_at = now + REPEAT_S
            self._run_job(self.repeated_job)
        while self._jobs:
            self._run_job(self._jobs.popleft())

    def _run_job(self, job: Callable[[], None]) -> None:
        try:
            job()
        except Exception as exc:  # noqa: BLE001 - the writer goes on
            self._health.swallow("job of the writer", exc)

    def _finish(self) -> None:
        """Keep what is left, and let go of the sinks. Idempotent."""
        with self._backlog.lock:
            if self._is_finished:
                return
            self._is_finished = True
        lost = self._backlog.stop()
        if lost:
            self._health.lose(NOT_WRITTEN, lost)
        self._backlog.close(is_counted=not self._backlog.remaining or self._backlog.keep_losses(self._health))
        if lost:
            self._delivery.deliver_losses()
        for sink in self._sinks:
            try:
                sink.close()
            except Exception as exc:  # noqa: BLE001 - see flush
                self._health.swallow(f"sink {sink.name}", exc)
