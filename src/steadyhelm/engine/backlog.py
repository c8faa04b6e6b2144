"""What was recorded and is not stored yet: in memory as far as it fits, and in the journal.

A record is appended to the journal, and kept in memory while there is room. Beyond that it is in the file
alone, until the writer has caught up and reads it back. One lock decides where it goes, so that nothing is
lost or changes places.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any

from steadyhelm.engine.health import Health
from steadyhelm.forks import ForkSafeLock
from steadyhelm.journal.files import Journal, Segment, is_possible
from steadyhelm.journal.frames import Entry, encode_frame, encode_held, encode_withdrawal
from steadyhelm.sink import Loss, Record, RecordedEvent


class Backlog:
    """The records that wait for the writer. `put` may be called from any thread, the rest by the writer.

    Args:
        cap: Records kept in memory.
        may_drop: Whether events are dropped when neither memory nor journal has room; nothing else ever is.
        database: The file beside which the journal is kept; None for no journal.
        journal_cap: Bytes the journal may have.
    """

    def __init__(self, *, cap: int, may_drop: bool, database: Path | None, journal_cap: int) -> None:
        self._cap = cap
        self._may_drop = may_drop
        self._database = database
        self._journal_cap = journal_cap
        self.lock = ForkSafeLock()
        self.progress = threading.Condition(self.lock)
        """Notified whenever records are done."""
        self.journal: Journal | None = None
        self._hands_over: Journal | None = None
        self.put_count = 0
        self.done_count = 0
        self.is_drained = True
        """Whether the writer found nothing the last time: it has to be woken for what came since."""
        self._queue: deque[Entry] = deque()
        # Behind what is in memory: what is in the file alone, then what the file did not take.
        self._in_file = 0
        self._overflow: deque[Entry] = deque()
        self._not_in_file: deque[tuple[int, int]] = deque()
        self._not_in_file_count = 0
        self._dropped = 0
        self._dropped_unreported = 0
        self._dropped_and_kept = 0
        self.dropped_and_counted = 0
        """Events dropped so far that are counted in memory."""
        self._kept_totals: dict[str, int] = {}
        self._held = 0
        self._held_missing = 0
        self._is_closed = False
        self._is_working = False
        self._reentered: deque[Callable[[], None]] = deque()

    @property
    def remaining(self) -> int:
        """Records that are not done."""
        return self.put_count - self.done_count

    @property
    def is_reentered(self) -> bool:
        """Whether this thread is at work here already: it is in a signal handler, or in a finalizer."""
        return self._is_working and self.lock.is_held()

    def put(self, epoch: str, records: Sequence[Record]) -> int:
        """Add records that belong together; return how many events were dropped instead."""
        frame = b"" if self.journal is None else encode_frame(epoch, records)
        with self.lock:
            self._do(self._add, frame, epoch, records)
            dropped, self._dropped_unreported = self._dropped_unreported, 0
            return dropped

    def _do(self, job: Callable[..., None], *args: Any) -> None:
        """Do a job under the lock, then those of code that interrupted it."""
        with self.lock:
            if self._is_working:
                self._reentered.append(partial(job, *args))
                return
            while True:
                self._is_working = True
                try:
                    job(*args)
                except BaseException:  # a signal handler raised: what waits for this job is done first
                    self._is_working = False
                    if self._reentered:
                        self._do(self._do_reentered)
                    raise
                finally:
                    self._is_working = False
                # Looked at while no job is under way: code that interrupts us now does its job itself.
                if not self._reentered:
                    return
                job, args = self._do_reentered, ()

    def _do_reentered(self) -> None:
        # Code that interrupted us just now may have done it.
        if self._reentered:
            self._reentered.popleft()()

    def _add(self, frame: bytes, epoch: str, records: Sequence[Record]) -> None:
        count, journal = len(records), self.journal
        if self._is_closed:
            self._dropped_unreported += count
            return
        fits = not self._in_file and not self._overflow and len(self._queue) < self._cap
        # An event comes alone: what it led to comes behind it.
        may_drop = self._may_drop and count == 1 and type(records[0]) is RecordedEvent
        has_room = not may_drop or len(self._queue) + len(self._overflow) < self._cap
        entries = zip(repeat(epoch), records)
        last, is_in_file = self.put_count + count, False
        try:
            if journal is not None and not self._overflow:
                frame = frame or encode_frame(epoch, records)
                if not fits and not self._in_file:
                    journal.mark()
                is_in_file = journal.append(frame, last, may_refuse=may_drop)
        except BaseException:  # a signal handler raised: behind the append, or before it
            is_in_file = journal is not None and journal.segments[-1].last == last
            raise
        finally:
            # A handler may raise behind any call: up to the one that adds the records there is none.
            if not fits and not is_in_file and not has_room:
                self._dropped += count
                self._dropped_unreported += count
            else:
                self.put_count = last
                if fits:
                    self._queue.extend(entries)
                elif is_in_file:
                    self._in_file += count
                else:
                    self._overflow.extend(entries)
        if journal is not None and not is_in_file:
            if self.put_count == last:
                self._add_not_in_file(last, count)
            self._note_missing()

    def _add_not_in_file(self, last: int, count: int) -> None:
        self._not_in_file.append((last, count))
        self._not_in_file_count += count

    def _note_missing(self) -> None:
        """Write down how many records a kill would lose, and how many were dropped and not counted there."""
        if self.journal is not None:
            dropped = max(0, self._dropped - self._dropped_and_kept)
            self.journal.note_missing(self._not_in_file_count + self._held_missing + dropped)

    def take(self, limit: int) -> tuple[list[Entry], int]:
        """Return the next records, in order, and how many could not be read back from the journal."""
        with self.lock:
            queue = self._queue or (None if self._in_file else self._overflow)
            if queue is not None:
                self.is_drained = not queue
                return [queue.popleft() for _ in range(min(len(queue), limit))], 0
        return self._read_back(limit)

    def _read_back(self, limit: int) -> tuple[list[Entry], int]:
        entries: list[Entry] = []
        damaged = 0
        while not entries and not damaged:
            found, damaged = self.journal.read(limit) if self.journal is not None else ([], 0)
            if not found and not damaged:
                damaged = self._in_file
            # Losses were appended by `keep`: they are totals, which the next batch carries anyway.
            entries = [entry for entry in found if not isinstance(entry[1], Loss)]
        with self.lock:
            damaged = min(damaged, self._in_file - len(entries))
            self._in_file -= len(entries) + damaged
        return entries, damaged

    def complete(self, count: int) -> None:
        """Note that the next records are done: stored, or counted as lost."""
        with self.lock:
            self.done_count += count
            while self._not_in_file and self._not_in_file[0][0] <= self.done_count:
                self._not_in_file_count -= self._not_in_file.popleft()[1]
            self._note_missing()
            self.progress.notify_all()

    def wait_until_done(self, mark: int, timeout_s: float | None) -> bool:
        """Wait until as many records are done, or the time is up; return whether they are."""
        # Not `with self.progress`: a signal handler that raises in its `__exit__` keeps the lock.
        with self.lock:
            try:
                return self.progress.wait_for(lambda: self.done_count >= mark, timeout_s)
            finally:
                if not self.lock.is_held():  # a handler raised where the condition had released it
                    self.lock.acquire()

    # --- records of a run that waits for its saved state ------------------------------------------

    def hold(self, epoch: str, records: Sequence[Record]) -> None:
        """Append records to the journal alone: they are put, or withdrawn, when the saved state is there."""
        frame = encode_held(epoch, records)
        self._do(self._hold, frame, len(records))

    def _hold(self, frame: bytes, count: int) -> None:
        # Counted first, as not in the file: a signal handler may raise in the middle.
        self._held += count
        self._held_missing += count
        if self.journal is not None and self.journal.append(frame, self.put_count, may_refuse=True):
            self._held_missing -= count
        else:
            self._note_missing()

    def miss(self, count: int) -> None:
        """Count records that are not even held."""
        self._do(self._miss, count)

    def _miss(self, count: int) -> None:
        self._held += count
        self._held_missing += count
        self._note_missing()

    def release(self, count: int, *, withdrawn: str = "") -> None:
        """Hold that many records no longer; with an epoch, its records are recorded in another way."""
        self._do(self._release, count, withdrawn)

    def _release(self, count: int, withdrawn: str) -> None:
        self._held -= count
        if withdrawn and self.journal is not None:
            self.journal.append(encode_withdrawal(withdrawn), self.put_count, may_refuse=False)
        if not self._held:
            self._held_missing = 0
            self._note_missing()

    # --- the journal ------------------------------------------------------------------------------

    def tidy_journal(self) -> None:
        """Delete what is stored from the journal, begin a new file where needed, open it if there is none."""
        journal = self.journal
        if journal is None:
            self.open_journal()
            return
        is_deleted = journal.is_deleted
        self._do(self._delete_stored, journal, is_deleted)
        # What is held and what withdraws it are in one file.
        if is_deleted or (journal.is_long and not self._is_holding):
            fresh = journal.create_file()
            self._do(self._continue_in, fresh)

    def try_tidy_journal(self, health: Health) -> None:
        """Open the journal, or delete from it what is stored; without one, go on in memory alone."""
        try:
            self.tidy_journal()
        except OSError:
            if self.journal is None and not health.totals().get("journal cannot be opened"):
                health.count("journal cannot be opened")

    @property
    def journal_paths(self) -> set[Path]:
        """The files of the journal."""
        return set() if self.journal is None else self.journal.paths

    @property
    def _is_holding(self) -> bool:
        return self._held > self._held_missing

    def _delete_stored(self, journal: Journal, is_deleted: bool) -> None:
        if is_deleted or journal.is_long:
            self._held_missing = self._held
            self._note_missing()
        if not self._is_holding:
            if self.remaining:
                journal.discard(self.done_count)
            else:
                journal.clear()

    def _continue_in(self, fresh: Segment) -> None:
        if self.journal is not None:
            self.journal.continue_in(fresh)

    def open_journal(self) -> None:
        """Open the journal, and append what is in memory; raises OSError when it cannot be written."""
        if self._database is None or not is_possible():
            return
        self._do(self._use_journal, Journal(self._database, cap=self._journal_cap))

    def _use_journal(self, journal: Journal) -> None:
        waiting = (*self._queue, *self._overflow)
        in_hand = self.remaining - len(waiting)
        if in_hand:
            self._add_not_in_file(self.done_count + in_hand, in_hand)
        for epoch, record in waiting:
            if not journal.append(encode_frame(epoch, [record]), self.put_count, may_refuse=False):
                self._add_not_in_file(self.put_count, 1)
        self.journal = journal
        self._note_missing()

    def note_counted(self, dropped: int) -> None:
        """Note that so many events that `put` dropped are counted in memory."""
        with self.lock:
            self.dropped_and_counted += dropped

    def note_kept(self, dropped: int) -> None:
        """Note that the count of so many dropped events is where a kill does not undo it."""
        with self.lock:
            self._dropped_and_kept = max(self._dropped_and_kept, dropped)
            self._note_missing()

    def keep(self, records: Sequence[Record]) -> bool:
        """Append records to the journal alone, for the next writer that reads it; return whether it did."""
        kept: list[bool] = []
        self._do(self._keep, encode_frame("", records), kept)
        return any(kept)

    def _keep(self, frame: bytes, kept: list[bool]) -> None:
        if self.journal is not None:
            kept.append(self.journal.append(frame, self.put_count, may_refuse=False))

    def keep_losses(self, health: Health) -> bool:
        """Append what was counted to the journal, where it survives the process while the store is down.

        Returns whether it is there.
        """
        dropped, totals = self.dropped_and_counted, health.totals()
        if totals != self._kept_totals:
            if not self.keep(health.list_losses(time.time())):
                return False
            self._kept_totals = totals
            self.note_kept(dropped)
        return True

    def hand_over(self, entries: Sequence[Entry]) -> bool:
        """Write records to a file that another process stores; return whether that was possible."""
        journal = self.journal
        if journal is None:
            return False
        self._hands_over = journal
        frames = [encode_frame(epoch, [record]) for epoch, record in entries]
        return journal.hand_over(frames, len(entries))

    @property
    def handed_over(self) -> int:
        """Records that are done here, and that no other process has stored yet."""
        return 0 if self._hands_over is None else self._hands_over.count_handed_over()

    def stop(self) -> int:
        """Take no more records; return how many are nowhere but in memory."""
        with self.lock:
            self._is_closed = True
            return self.remaining if self.journal is None else self._not_in_file_count

    def close(self, *, is_counted: bool) -> None:
        """Release the journal; with `is_counted` it says elsewhere what is not in it."""
        with self.lock:
            journal, self.journal = self.journal, None
            if journal is not None:
                if is_counted:
                    journal.note_missing(0)
                journal.close(keep=self.remaining > 0)
