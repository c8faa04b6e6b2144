"""The only queue and the only writer thread.

Records go in on the agent's thread and cost it an append; one thread takes what is queued, up to
`batch` at a time, and hands it to every sink.
The queue's cap is the loss budget: a killed process loses at most that many records and the batch being
written, and when sinks cannot keep up, further events are dropped and counted, never waited for.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from steadyhelm.engine.health import Health
from steadyhelm.logs import logger
from steadyhelm.sink import Record, RecordedEvent, Sink

# A commit costs as much as ten events: waiting a moment for company saves the process most of it.
LINGER_S: Final = 0.1
REPEAT_S: Final = 0.5
"""How often the repeated job runs, about."""

_TRIES: Final = 3
_PAUSE_S: Final = 0.05


class FlushResult(Struct, frozen=True, kw_only=True):
    """How a flush went: what is still queued, and everything dropped or failed so far, by reason."""

    complete: bool
    remaining: int
    losses: dict[str, int]


class Dispatch:
    """Takes records from any thread, writes them from one.

    Args:
        sinks: Where every batch goes, in this order; one that fails does not keep it from the others.
        cap: Records that may wait; further events are dropped.
        batch: Records handed over at once.
        durable: `acknowledge` waits until the records are written, and no event is ever dropped.
        durable_timeout_s: How long `acknowledge` waits.
        linger_s: How long the writer waits for company before it writes; durable never waits.
    """

    def __init__(
        self,
        sinks: Sequence[Sink],
        *,
        health: Health,
        cap: int = 2000,
        batch: int = 500,
        durable: bool = False,
        durable_timeout_s: float = 5.0,
        linger_s: float = LINGER_S,
    ) -> None:
        self._sinks = list(sinks)
        self._health = health
        self._cap = cap
        self._batch = batch
        self.is_durable = durable
        self.durable_timeout_s = durable_timeout_s
        self._linger_s = 0.0 if durable else linger_s
        self._closed = False
        self.repeated_job: Callable[[], None] | None = None
        """Runs on the writer's thread about twice a second, between batches."""
        self._repeat_at = 0.0
        self._begin()

    def _begin(self) -> None:
        self._queue: deque[Record] = deque()
        self._jobs: deque[Callable[[], None]] = deque()
        self._lock = threading.Lock()
        self._written = threading.Condition(self._lock)
        self._work = threading.Event()
        self._hurry = threading.Event()
        self._put_count = 0
        self._written_count = 0
        self._thread: threading.Thread | None = None

    def put(self, epoch: str, *records: Record) -> bool:  # noqa: ARG002 - see `RunInfo.epoch`
        """Queue records of the run with this epoch; False when they were dropped. Never waits.

        Only events are ever dropped: findings, incidents and run ends always go in.
        """
        with self._lock:
            was_empty = not self._queue
            if self._closed:
                reason = "recorded after close"
            elif len(self._queue) >= self._cap and not self.is_durable and _is_routine(records):
                reason = "queue full"
            else:
                reason = ""
                self._queue.extend(records)
                self._put_count += len(records)
        if reason:
            self._health.count(reason, len(records))
            return False
        if self._thread is None:
            self._start()
        # Behind others it needs no call of its own: the writer goes on until nothing is left.
        if was_empty:
            self._work.set()
        if len(self._queue) >= self._batch and not self._hurry.is_set():
            self._hurry.set()
        return True

    def run_on_writer(self, job: Callable[[], None]) -> bool:
        """Run a job on the writer's thread soon, before the next batch; False after the close. Never waits.

        What it raises is counted.
        """
        with self._lock:
            if self._closed:
                return False
            self._jobs.append(job)
        if self._thread is None:
            self._start()
        self._work.set()
        self._hurry.set()
        return True

    def get_mark(self) -> int:
        """Return a mark behind everything put so far."""
        with self._lock:
            return self._put_count

    def is_written(self, mark: int) -> bool:
        """Return whether everything put before this mark is written."""
        return self._written_count >= mark

    def acknowledge(self) -> bool:
        """Wait until everything put so far is written, in durable mode; False when that took too long."""
        return not self.is_durable or self._wait_for(self.get_mark(), self.durable_timeout_s)

    def flush(self, timeout_s: float | None = 5.0) -> FlushResult:
        """Wait until everything queued so far is written, or the time is up; says which."""
        with self._lock:
            ticket = self._put_count
        complete = self._wait_for(ticket, timeout_s)
        for sink in self._sinks if complete else ():
            try:
                sink.flush()
            except Exception as exc:  # noqa: BLE001 - a sink may fail in any way
                complete = False
                self._health.swallow(f"sink {sink.name}", exc)
        with self._lock:
            remaining = self._put_count - self._written_count
        return FlushResult(complete=complete, remaining=remaining, losses=self._health.totals())

    def close(self, timeout_s: float = 5.0) -> FlushResult:
        """Write what is queued, within the time given, and let go of the sinks."""
        result = self.flush(timeout_s)
        with self._lock:
            if self._closed:
                return result
            self._closed = True
        self._work.set()
        self._hurry.set()
        if self._thread is not None:
            self._thread.join(timeout_s)
        if result.remaining:
            self._health.count("not written before exit", result.remaining)
        for sink in self._sinks:
            try:
                sink.close()
            except Exception as exc:  # noqa: BLE001 - see flush
                self._health.swallow(f"sink {sink.name}", exc)
        return result

    def after_fork(self) -> None:
        """Start afresh in a child process: the parent writes what was queued."""
        self._begin()

    @property
    def waiting(self) -> int:
        """Records queued and not yet written."""
        return len(self._queue)

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._loop, name="steadyhelm-writer", daemon=True)
                self._thread.start()

    def _wait_for(self, ticket: int, timeout_s: float | None) -> bool:
        if threading.current_thread() is self._thread:
            return False
        self._work.set()
        self._hurry.set()
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        with self._written:
            while self._written_count < ticket:
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    return False
                self._written.wait(left)
        return True

    def _loop(self) -> None:
        while True:
            is_woken = self._work.wait(REPEAT_S if self.repeated_job is not None else None)
            if is_woken and self._linger_s and not self._hurry.is_set():
                self._hurry.wait(self._linger_s)
            self._work.clear()
            self._hurry.clear()
            self._run_jobs()
            while records := self._take():
                self._hand_over(records)
                self._run_jobs()
                with self._written:
                    self._written_count += len(records)
                    self._written.notify_all()
            if self._closed:
                return

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

    def _take(self) -> list[Record]:
        with self._lock:
            queue = self._queue
            return [queue.popleft() for _ in range(min(len(queue), self._batch))]

    def _hand_over(self, records: list[Record]) -> None:
        losses = self._health.list_losses(time.time())
        for sink in self._sinks:
            self._write(sink, [*records, *losses] if losses else records)
        self._health.mark_stored(losses)

    def _write(self, sink: Sink, records: list[Record]) -> None:
        for attempt in range(_TRIES):
            try:
                sink.write(records)
            except Exception as exc:  # noqa: BLE001 - a sink may fail in any way; the others get their batch
                logger.debug("sink %s failed, try %d", sink.name, attempt + 1, exc_info=exc)
                time.sleep(_PAUSE_S * 2**attempt)
            else:
                return
        self._write_one_by_one(sink, records)

    def _write_one_by_one(self, sink: Sink, records: list[Record]) -> None:
        """Write the records of a failed batch one by one; after two failures the sink counts as down."""
        failed = 0
        for place, record in enumerate(records):
            try:
                sink.write([record])
            except Exception as exc:  # noqa: BLE001 - see _write
                failed += 1
                self._health.count(f"sink {sink.name} failed: {type(exc).__name__}")
                if failed == 2:  # noqa: PLR2004 - see the docstring
                    rest = len(records) - place - 1
                    if rest:
                        self._health.count(f"sink {sink.name} failed: {type(exc).__name__}", rest)
                    return


def _is_routine(records: Sequence[Record]) -> bool:
    return all(isinstance(record, RecordedEvent) for record in records)
