"""Hand batches to the sinks: the store until it has them, any other sink a few times.

A store that is locked, full or gone keeps its batch until it is back. A record that it cannot take is found
by halving the batch, and lost alone.
"""

import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Final

from steadyhelm.engine.health import Health
from steadyhelm.engine.run_identity import RunIdentities
from steadyhelm.errors import ForkedStoreError, StoreError
from steadyhelm.journal.abandoned import DAMAGED, AbandonedJournal, NewerJournalError, claim_all
from steadyhelm.journal.frames import Damage, Entry
from steadyhelm.logs import logger
from steadyhelm.sink import Loss, Record, Sink, StoringSink

_MAX_TRIES: Final = 3
_MAX_PARTS: Final = 64
_PAUSE_S: Final = 0.05
_MAX_PAUSE_S: Final = 2.0
_STORE_IS_DOWN: Final = (StoreError, OSError, MemoryError)
NOT_WRITTEN: Final = "not written before exit"


class BatchDelivery:
    """Writes batches to the sinks of one dispatch. Only the writer's thread calls it.

    Args:
        sinks: The sinks, in order; the first one that stores is tried until it has the batch.
        health: Counts what was lost.
        pause: Waits that many seconds before the next try; returns False when there is to be none.
        hand_over: Writes records to a file that another process stores; returns whether it could. None where
            no process is forked.
    """

    def __init__(
        self,
        sinks: Sequence[Sink],
        *,
        health: Health,
        pause: Callable[[float], bool],
        hand_over: Callable[[Sequence[Entry]], bool] | None = None,
    ) -> None:
        self.store: StoringSink | None = next((it for it in sinks if isinstance(it, StoringSink)), None)
        self._others = [sink for sink in sinks if sink is not self.store]
        self._health = health
        self._pause = pause
        self._hand_over = hand_over
        self._identities = None if self.store is None else RunIdentities(self.store, health)
        self._replacements = 0
        self._left: set[str] = set()
        self.hands_over = False
        """Whether another process stores what this one records."""
        self.is_down = False
        """Whether the last try to store something failed because of the store."""

    def deliver(self, entries: Sequence[Entry]) -> bool:
        """Hand a batch to every sink; False when it was given up before it was stored."""
        losses = self._health.list_losses(time.time())
        records = self._store(entries, losses)
        if records is None:
            return False
        for sink in self._others:
            self._write([*records, *losses], sink)
        self._health.mark_stored(losses)
        return True

    def deliver_losses(self) -> None:
        """Store what was counted since the last batch, if that can be done now."""
        losses = self._health.list_losses(time.time())
        if not losses or self.store is None or self.is_down:
            return
        try:
            self.store.write(losses)
        except BaseException as exc:  # noqa: BLE001 - they are totals: the next batch carries them
            logger.debug("losses could not be stored", exc_info=exc)
        else:
            self._health.mark_stored(losses)

    def _store(self, entries: Sequence[Entry], losses: Sequence[Loss] = ()) -> list[Record] | None:
        """Store a batch and return its records as they are stored; None when it was given up."""
        pause_s = _PAUSE_S
        while True:
            try:
                records = self._store_once(entries, losses)
            except _STORE_IS_DOWN as exc:
                if isinstance(exc, ForkedStoreError) and self._try_hand_over(entries, losses):
                    return [record for _, record in entries]
                self._note_failure(exc)
                if not self._pause(pause_s):
                    return None
                pause_s = min(2 * pause_s, _MAX_PAUSE_S)
            except BaseException as exc:  # noqa: BLE001 - one of the records is at fault
                return self._store_halves(entries, losses, exc)
            else:
                self.is_down = False
                return records

    def _try_hand_over(self, entries: Sequence[Entry], losses: Sequence[Loss]) -> bool:
        """Let another process store a batch: in this one, which was forked, the store can never be used."""
        if not self.hands_over:
            self.hands_over = True
            self._health.count(
                "forked while the database was in use: another process stores what is recorded"
            )
        try:
            handed = self._hand_over is not None and self._hand_over([*entries, *(("", it) for it in losses)])
        except OSError as exc:
            logger.debug("records could not be handed over", exc_info=exc)
            return False
        return handed

    def _store_once(self, entries: Sequence[Entry], losses: Sequence[Loss]) -> list[Record]:
        if self.store is None or self._identities is None:
            return [record for _, record in entries]
        records = self._identities.resolve(entries)
        self.store.write([*records, *losses] if losses else records)
        if self.store.replacements != self._replacements:
            self._health.count(
                "database was deleted or replaced", self.store.replacements - self._replacements
            )
            self._replacements = self.store.replacements
        return records

    def _store_halves(
        self, entries: Sequence[Entry], losses: Sequence[Loss], error: BaseException
    ) -> list[Record] | None:
        if len(entries) <= 1:
            self._health.lose(f"sink store failed: {type(error).__name__}", len(entries))
            return []
        middle = len(entries) // 2
        first = self._store(entries[:middle], losses)
        rest = None if first is None else self._store(entries[middle:])
        return None if first is None or rest is None else [*first, *rest]

    def _note_failure(self, error: BaseException) -> None:
        if not self.is_down:
            self.is_down = True
            self._health.count("store could not be written for a while")
        logger.debug("the store cannot be written now", exc_info=error)

    def _write(self, records: Sequence[Record], sink: Sink) -> None:
        """Hand a batch to a sink that does not store: a few times whole, then in halves."""
        for attempt in range(_MAX_TRIES):
            try:
                sink.write(records)
            except BaseException as exc:  # noqa: BLE001 - a sink may fail in any way; the others get their batch
                logger.debug("sink %s failed, try %d", sink.name, attempt + 1, exc_info=exc)
                time.sleep(_PAUSE_S * 2**attempt)
            else:
                return
        self._write_parts(records, sink)

    def _write_parts(self, records: Sequence[Record], sink: Sink) -> None:
        parts = [records]
        for _ in range(_MAX_PARTS):
            if not parts:
                return
            part = parts.pop()
            try:
                sink.write(part)
            except BaseException as exc:  # noqa: BLE001 - see _write
                if len(part) > 1:
                    parts += [part[len(part) // 2 :], part[: len(part) // 2]]
                else:
                    self._health.lose(f"sink {sink.name} failed: {type(exc).__name__}")
        if parts:
            self._health.lose(f"sink {sink.name} failed: too often", sum(map(len, parts)))

    # --- what dead writers left -------------------------------------------------------------------

    def adopt(self, *, but: Collection[Path], batch: int) -> None:
        """Store what dead writers left beside the database; what cannot be stored now stays there."""
        if self.store is None or self.store.path is None:
            return
        for journal in claim_all(Path(self.store.path), but=but):
            if isinstance(journal, NewerJournalError):
                if str(journal) not in self._left:
                    self._left.add(str(journal))
                    self._health.count("journal that cannot be read was left as it is")
                    logger.warning("%s", journal)
            elif not self._try_to_adopt(journal, batch):
                return

    def _try_to_adopt(self, journal: AbandonedJournal, batch: int) -> bool:
        """Store a journal, or leave it where the disk cannot read it now. Returns False to stop."""
        try:
            return self._adopt(journal, batch)
        except OSError as exc:
            if str(journal.path) not in self._left:
                self._left.add(str(journal.path))
                self._health.count("journal of another process could not be read for a while")
            logger.debug("the journal %s cannot be read now", journal.path, exc_info=exc)
            return True

    def _adopt(self, journal: AbandonedJournal, batch: int) -> bool:
        entries: list[Entry] = []
        damaged = 0
        for found in journal:
            if isinstance(found, Damage):
                damaged += found.records
            else:
                entries += found
            if len(entries) >= batch:
                if self._store(entries) is None:
                    return False
                entries = []
        counts = {DAMAGED: damaged, NOT_WRITTEN: journal.missing}
        losses = [Loss(reason, n, time.time(), journal.token) for reason, n in counts.items() if n]
        if (entries or losses) and self._store(entries, losses) is None:
            return False
        journal.delete()
        return True
