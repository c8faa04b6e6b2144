"""How checkpoints are kept, wherever that is: packed, marked, put in order, and let go."""

import logging
from abc import abstractmethod
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

from steadyhelm.checkpoint import Checkpoint, CheckpointKeeper, Kept
from steadyhelm.checkpoints.marks import Mark, agent_key, run_key, surplus
from steadyhelm.checkpoints.packing import pack, unpack
from steadyhelm.checkpoints.storable import TooLargeError
from steadyhelm.errors import FormatError, SettingsError

MOST_BYTES: Final = 1 << 30
_LEFT_OUT_KNOWN: Final = 1000
_log: Final = logging.getLogger(__name__)


class MarkedKeeper(CheckpointKeeper):
    """A keeper of packed checkpoints: whoever derives from it says how one is put, listed, got and removed.

    Args:
        per_run: How many checkpoints of one run are kept.
        max_bytes: The largest checkpoint that is kept; a larger one is refused.
        on_loss: Told the reason whenever a checkpoint could not be kept or read.
    """

    def __init__(
        self, *, per_run: int = 20, max_bytes: int = 64 << 20, on_loss: Callable[[str], object] | None = None
    ) -> None:
        if type(per_run) is not int or per_run < 1:
            raise SettingsError(f"checkpoints.per_run must be 1 or more, got {per_run!r}.")
        if type(max_bytes) is not int or not 1 <= max_bytes <= MOST_BYTES:
            raise SettingsError(f"checkpoints.max_bytes must be from 1 to {MOST_BYTES}, got {max_bytes!r}.")
        self.per_run = per_run
        self.max_bytes = max_bytes
        self._on_loss = on_loss
        self._left_out: set[tuple[str, str]] = set()

    # --- what a place to keep them in must do ----------------------------------------------------

    @abstractmethod
    def _put(self, run: str, mark: Mark, content: bytes) -> None:
        """Keep these bytes under this mark; may raise OSError."""

    @abstractmethod
    def _marks(self, run: str) -> list[Mark]:
        """What is kept of a run, in any order."""

    @abstractmethod
    def _get(self, run: str, mark: Mark) -> bytes | None:
        """The bytes kept under this mark; None when they are gone."""

    @abstractmethod
    def _remove(self, run: str, marks: Iterable[Mark]) -> int:
        """Let these go; how many were there."""

    # --- the contract ----------------------------------------------------------------------------

    def keep(self, checkpoint: Checkpoint) -> Kept:
        """Keep a copy; one with the same id in the same run is replaced."""
        try:
            record, content = pack(checkpoint, max_bytes=self.max_bytes)
            run, mark = run_key(record.run_id), Mark.of(record)
            self._put(run, mark, content)
        except TooLargeError as exc:
            return self._not_kept("checkpoint too large to keep", exc)
        except OSError as exc:
            return self._not_kept("checkpoint could not be written", exc)
        if mark in self._tidied(run, mark):
            reason = f"checkpoint older than the {self.per_run} that are kept"
            return Kept(kept=False, reason=reason, reduced=record.reduced)
        return Kept(kept=True, reduced=record.reduced, size_bytes=len(content))

    def checkpoints(self, run_id: str, *, agent_id: str | None = None) -> list[Checkpoint]:
        """What is kept of a run, newest first."""
        run = run_key(run_id)
        found = [self._read(run, mark) for mark in self._newest_first(run, agent_id)]
        return [checkpoint for checkpoint in found if checkpoint is not None]

    def get_last_checkpoint(
        self, run_id: str, *, agent_id: str | None = None, before_seq: int | None = None
    ) -> Checkpoint | None:
        """The newest one to return to; one that cannot be read gives way to the one before it."""
        run = run_key(run_id)
        for mark in self._newest_first(run, agent_id):
            if mark.in_incident or (before_seq is not None and mark.seq >= before_seq):
                continue
            checkpoint = self._read(run, mark)
            if checkpoint is not None:
                return checkpoint
        return None

    def drop(self, run_id: str, *, agent_id: str | None = None, after_seq: int | None = None) -> int:
        """Forget a run's checkpoints, or those taken after events later than `after_seq`; how many went."""
        run = run_key(run_id)
        marks = self._newest_first(run, agent_id)
        return self._remove(run, [mark for mark in marks if after_seq is None or mark.seq > after_seq])

    # --- inside ----------------------------------------------------------------------------------

    def _newest_first(self, run: str, agent_id: str | None) -> list[Mark]:
        marks = sorted(self._marks(run), reverse=True)
        if agent_id is None:
            return marks
        agent = agent_key(agent_id)
        return [mark for mark in marks if mark.agent == agent]

    def _tidied(self, run: str, newest: Mark) -> list[Mark]:
        """What had to go after one more was kept."""
        marks = [mark for mark in self._marks(run) if mark.agent == newest.agent]
        replaced = [mark for mark in marks if newest.replaces(mark)]
        gone = [*replaced, *surplus((mark for mark in marks if mark not in replaced), self.per_run)]
        self._remove(run, gone)
        return gone

    def _read(self, run: str, mark: Mark) -> Checkpoint | None:
        content = self._get(run, mark)
        if content is None:
            return None
        try:
            record = unpack(content)
        except FormatError as exc:
            self._unreadable(run, mark.file_name, exc)
            return None
        if run_key(record.run_id) != run or Mark.of(record) != mark:
            self._unreadable(run, mark.file_name, "it belongs elsewhere")
            return None
        return record

    def _unreadable(self, run: str, name: str, why: object) -> None:
        """Leave one out, and count it: once, however often it is met."""
        if (run, name) in self._left_out:
            return
        if len(self._left_out) >= _LEFT_OUT_KNOWN:
            self._left_out.clear()
        self._left_out.add((run, name))
        _log.info("The checkpoint %s/%s is left out: %s", run, name, why)
        self._lost("checkpoint could not be read")

    def _lost(self, reason: str) -> None:
        if self._on_loss is None:
            return
        # Whoever counts must not stop the keeping, nor the agent.
        with suppress(Exception):
            self._on_loss(reason)

    def _not_kept(self, reason: str, why: Exception) -> Kept:
        _log.info("A checkpoint was not kept: %s", why)
        self._lost(reason)
        return Kept(kept=False, reason=f"{reason}: {why}")
