"""What was recorded and is not stored yet: in memory as far as it fits, and in the journal.

A record is appended to the journal, and kept in memory while there is room. Beyond that it is in the file
alone, until the writer has caught up and reads it back. One lock decides where it goes, so that nothing is
lost or changes places.
"""

import threading
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from steadyhelm.forks import ForkSafeLock
from steadyhelm.journal.files import Journal, is_possible
from steadyhelm.journal.frames import Entry, encode_frame
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
        self._is_closed = False
        self._is_putting = False
        self._reentered: deque[tuple[str, Sequence[Record]]] = deque()

    @property
    def remaining(self) -> int:
        """Records that are not done."""
        return self.put_count - self.done_count

    @property
    def is_reentered(self) -> bool:
        """Whether this thread is inside `put` already: in a signal handler, or in a finalizer."""
        return self._is_putting and self.lock.is_held()

    def put(self, epoch: str, records: Sequence[Record]) -> int:
        """Add records that belong together; return how many events were dropped instead."""
        frame = b"" if self.journal is None else encode_frame(epoch, records)
        with self.lock:
            if self._is_putting:
                self._reentered.append((epoch, records))
                return 0
            self._is_putting = True
            try:
                dropped = self._add(frame, epoch, records)
                while self._reentered:
                    epoch, records = self._reentered.popleft()
                    frame = b"" if self.journal is None else encode_frame(epoch, records)
                    dropped += self._add(frame, epoch, records)
            finally:
                self._is_putting = False
            return dropped

    def _add(self, frame: bytes, epoch: str, records: Sequence[Record]) -> int:
        count, journal = len(records), self.journal
        if self._is_closed:
            return count
        fits = not self._in_file and not self._overflow and len(self._queue) < self._cap
        # An event comes alone: what it led to comes behind it.
        may_drop = self._may_drop and count == 1 and type(records[0]) is RecordedEvent
        is_in_file = False
        if journal is not None and frame and not self._overflow:
            if not fits and not self._in_file:
                journal.mark()
            is_in_file = journal.append(frame, self.put_count + count, may_refuse=may_drop)
        if fits:
            self._queue.extend([(epoch, record) for record in records])
        elif is_in_file:
            self._in_file += count
        elif may_drop and len(self._queue) + len(self._overflow) >= self._cap:
            return count
        else:
            self._overflow.extend([(epoch, record) for record in records])
        self.put_count += count
        if journal is not None and not is_in_file:
            self._not_in_file.append((self.put_count, count))
        return 0

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
        with self.progress:
            self.done_count += count
            while self._not_in_file and self._not_in_file[0][0] <= self.done_count:
                self._not_in_file.popleft()
            self.progress.notify_all()

    def wait_until_done(self, mark: int, timeout_s: float | None) -> bool:
        """Wait until as many records are done, or the time is up; return whether they are."""
        with self.progress:
            return self.progress.wait_for(lambda: self.done_count >= mark, timeout_s)

    def tidy_journal(self) -> None:
        """Delete what is stored from the journal, begin a new file where needed, open it if there is none."""
        if self.journal is None:
            self.open_journal()
            return
        with self.lock:
            if not self.remaining:
                self.journal.clear()
            else:
                self.journal.discard(self.done_count)
        if self.journal.needs_new_file:
            fresh = self.journal.create_file()
            with self.lock:
                self.journal.continue_in(fresh)

    def open_journal(self) -> None:
        """Open the journal, and append what is in memory; raises OSError when it cannot be written."""
        if self._database is None or not is_possible():
            return
        journal = Journal(self._database, cap=self._journal_cap)
        with self.lock:
            waiting = (*self._queue, *self._overflow)
            in_hand = self.remaining - len(waiting)
            if in_hand:
                self._not_in_file.append((self.done_count + in_hand, in_hand))
            for epoch, record in waiting:
                if not journal.append(encode_frame(epoch, [record]), self.put_count, may_refuse=False):
                    self._not_in_file.append((self.put_count, 1))
            self.journal = journal

    def keep(self, records: Sequence[Record]) -> None:
        """Append records to the journal alone, for the next writer that reads it."""
        with self.lock:
            if self.journal is not None:
                self.journal.append(encode_frame("", records), self.put_count, may_refuse=False)

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

    def close(self) -> int:
        """Take no more records, and release the journal; return how many records are nowhere else."""
        with self.lock:
            self._is_closed = True
            journal, self.journal = self.journal, None
            if journal is None:
                return self.remaining
            journal.close(keep=self.remaining > 0)
            return sum(count for _, count in self._not_in_file)
