"""Checkpoints in memory: gone with the process, and never on a disk."""

from collections import OrderedDict
from collections.abc import Callable, Iterable

from steadyhelm.checkpoints.keeping import MarkedKeeper
from steadyhelm.checkpoints.marks import Mark
from steadyhelm.errors import SettingsError
from steadyhelm.forks import ForkSafeLock


class MemoryKeeper(MarkedKeeper):
    """Keeps checkpoints as long as the process lives, within a fixed room.

    When the room is full, the runs that had no checkpoint for the longest time lose theirs.

    >>> from steadyhelm.checkpoint import Checkpoint
    >>> keeper = MemoryKeeper()
    >>> history = [{"role": "user", "content": "mend it"}]
    >>> _ = keeper.keep(
    ...     Checkpoint(checkpoint_id="c1", agent_id="a", run_id="r", turn=3, conversation_history=history)
    ... )
    >>> history.append("drift")
    >>> keeper.get_last_checkpoint("r").conversation_history
    [{'role': 'user', 'content': 'mend it'}]

    Args:
        per_run: How many checkpoints of one run are kept.
        max_bytes: The largest checkpoint that is kept; a larger one is refused.
        max_total_bytes: The room for all of them together.
        on_loss: Told the reason whenever a checkpoint could not be kept, or had to go to make room.
    """

    name = "memory"

    def __init__(
        self,
        *,
        per_run: int = 20,
        max_bytes: int = 64 << 20,
        max_total_bytes: int = 256 << 20,
        on_loss: Callable[[str], object] | None = None,
    ) -> None:
        super().__init__(per_run=per_run, max_bytes=max_bytes, on_loss=on_loss)
        if type(max_total_bytes) is not int or max_total_bytes < max_bytes:
            raise SettingsError(
                f"checkpoints.max_total_bytes must be at least max_bytes ({max_bytes}), "
                f"got {max_total_bytes!r}."
            )
        self.max_total_bytes = max_total_bytes
        self._runs: OrderedDict[str, dict[Mark, bytes]] = OrderedDict()
        self._size = 0
        self._lock = ForkSafeLock()

    def prune(self, before: float) -> int:
        """Forget all that were taken before that time, of every run; how many went."""
        with self._lock:
            runs = list(self._runs)
        return sum(
            self._remove(run, [mark for mark in self._marks(run) if mark.taken_at < before]) for run in runs
        )

    def close(self) -> None:
        """Forget everything."""
        with self._lock:
            self._runs.clear()
            self._size = 0

    def _put(self, run: str, mark: Mark, content: bytes) -> None:
        with self._lock:
            kept = self._runs.setdefault(run, {})
            self._runs.move_to_end(run)
            self._size += len(content) - len(kept.get(mark, b""))
            kept[mark] = content
            dropped = self._make_room(run, mark)
        for _ in range(dropped):
            self._lost("checkpoint dropped to make room in memory")

    def _make_room(self, newest_run: str, newest: Mark) -> int:
        """Let the oldest of the longest idle run go until the rest fits; how many went."""
        dropped = 0
        while self._size > self.max_total_bytes:
            run, kept = next(iter(self._runs.items()))
            oldest = min(mark for mark in kept if run != newest_run or mark != newest)
            dropped += self._remove(run, [oldest])
        return dropped

    def _marks(self, run: str) -> list[Mark]:
        with self._lock:
            return list(self._runs.get(run, ()))

    def _get(self, run: str, mark: Mark) -> bytes | None:
        with self._lock:
            return self._runs.get(run, {}).get(mark)

    def _remove(self, run: str, marks: Iterable[Mark]) -> int:
        with self._lock:
            kept = self._runs.get(run, {})
            gone = [content for content in (kept.pop(mark, None) for mark in marks) if content is not None]
            self._size -= sum(map(len, gone))
            if not kept:
                self._runs.pop(run, None)
            return len(gone)
