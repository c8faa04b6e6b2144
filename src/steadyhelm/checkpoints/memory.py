"""Checkpoints in memory: they end with the process and are never on a disk."""

from collections import OrderedDict
from collections.abc import Callable, Iterable

from steadyhelm.checkpoints.packed_keeper import CheckpointKey, PackedKeeper
from steadyhelm.errors import SettingsError
from steadyhelm.forks import ForkSafeLock


class MemoryKeeper(PackedKeeper):
    """Keeps checkpoints of runs until they end, within a size limit.

    When the limit is reached, the runs that had no new checkpoint for the longest time lose theirs.

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
        per_run: The number of checkpoints stored of one run.
        max_bytes: The size limit of one checkpoint; a larger one is refused.
        max_total_bytes: The size limit of all of them together.
        on_loss: Called with the reason when a checkpoint could not be stored or was removed to make room.
    """

    name = "memory"
    ends_with_process = True

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
        self._runs: OrderedDict[str, dict[CheckpointKey, bytes]] = OrderedDict()
        self._total_bytes = 0
        self._lock = ForkSafeLock()

    def prune(self, before: float) -> int:
        """Remove all that were taken before a time, of every run. Returns how many."""
        with self._lock:
            runs = list(self._runs)
        return sum(
            self._remove(run, [key for key in self._list_keys(run) if key.taken_at < before]) for run in runs
        )

    def close(self) -> None:
        """Remove everything."""
        with self._lock:
            self._runs.clear()
            self._total_bytes = 0

    def _put(self, run: str, key: CheckpointKey, content: bytes) -> None:
        with self._lock:
            stored = self._runs.setdefault(run, {})
            self._runs.move_to_end(run)
            self._total_bytes += len(content) - len(stored.get(key, b""))
            stored[key] = content
            dropped = self._drop_until_fits(run, key)
        for _ in range(dropped):
            self._count_loss("checkpoint dropped to make room in memory")

    def _drop_until_fits(self, newest_run: str, newest: CheckpointKey) -> int:
        """Drop the oldest of the longest idle run until the rest fits. Returns how many."""
        dropped = 0
        while self._total_bytes > self.max_total_bytes:
            run, stored = next(iter(self._runs.items()))
            oldest = min(key for key in stored if run != newest_run or key != newest)
            dropped += self._remove(run, [oldest])
        return dropped

    def _list_keys(self, run: str) -> list[CheckpointKey]:
        with self._lock:
            return list(self._runs.get(run, ()))

    def _get(self, run: str, key: CheckpointKey) -> bytes | None:
        with self._lock:
            return self._runs.get(run, {}).get(key)

    def _remove(self, run: str, keys: Iterable[CheckpointKey]) -> int:
        with self._lock:
            stored = self._runs.get(run, {})
            removed = [content for content in (stored.pop(key, None) for key in keys) if content is not None]
            self._total_bytes -= sum(map(len, removed))
            if not stored:
                self._runs.pop(run, None)
            return len(removed)
