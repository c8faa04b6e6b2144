"""What all keepers share: packing, keys, order, and removal of surplus checkpoints."""

import re
from abc import abstractmethod
from collections.abc import Callable, Iterable
from contextlib import suppress
from hashlib import blake2b
from typing import Final, NamedTuple, Self

from steadyhelm.checkpoint import Checkpoint, CheckpointKeeper, KeepResult
from steadyhelm.checkpoints.packing import pack, unpack
from steadyhelm.checkpoints.plain_data import TooLargeError, to_utf8_text
from steadyhelm.errors import FormatError, SettingsError
from steadyhelm.logs import logger

_MICROSECONDS_PER_S: Final = 1_000_000
_SUFFIX: Final = ".checkpoint"
_FILE_NAME: Final = re.compile(
    r"(\d{20})-(\d{20})-([0-9a-f]{16})-([0-9a-f]{16})-(clean|incident)\.checkpoint"
)


def hash_run_id(run_id: str) -> str:
    """Return the folder name for a run's id: an id may be any text, such as `../..`."""
    return _compute_digest(run_id, size=16)


def hash_agent_id(agent_id: str) -> str:
    """Return the part of a file name for an agent's id."""
    return _compute_digest(agent_id, size=8)


def _compute_digest(text: str, *, size: int) -> str:
    return blake2b(to_utf8_text(text).encode(), digest_size=size).hexdigest()


class CheckpointKey(NamedTuple):
    """The key of a stored checkpoint; keys sort from oldest to newest.

    >>> key = CheckpointKey.of(Checkpoint(checkpoint_id="c1", agent_id="a", run_id="r", seq=4, taken_at=1.5))
    >>> key.file_name
    '00000000000000000005-00000000000001500000-40f89e395b66422f-43f000a36f6d744e-clean.checkpoint'
    >>> CheckpointKey.parse(key.file_name) == key
    True
    """

    seq: int
    taken_us: int
    agent: str
    checkpoint: str
    in_incident: bool

    @classmethod
    def of(cls, record: Checkpoint) -> Self:
        """Return the key of a checkpoint."""
        return cls(
            record.seq,
            round(record.taken_at * _MICROSECONDS_PER_S),
            hash_agent_id(record.agent_id),
            _compute_digest(record.checkpoint_id, size=8),
            record.in_incident,
        )

    @classmethod
    def parse(cls, name: str) -> Self | None:
        """Return the key in a file's name, or None when the name is not one of ours."""
        found = _FILE_NAME.fullmatch(name)
        if found is None:
            return None
        seq, taken_us, agent, checkpoint, kind = found.groups()
        return cls(int(seq) - 1, int(taken_us), agent, checkpoint, kind == "incident")

    @property
    def taken_at(self) -> float:
        """The time it was taken, in epoch seconds."""
        return self.taken_us / _MICROSECONDS_PER_S

    @property
    def file_name(self) -> str:
        """The name of its file; names sort like keys."""
        kind = "incident" if self.in_incident else "clean"
        return f"{self.seq + 1:020d}-{self.taken_us:020d}-{self.agent}-{self.checkpoint}-{kind}{_SUFFIX}"

    def is_version_of(self, other: "CheckpointKey") -> bool:
        """Return whether this is another version of the same checkpoint."""
        return self != other and (self.agent, self.checkpoint) == (other.agent, other.checkpoint)


def select_surplus(keys: Iterable[CheckpointKey], per_run: int) -> list[CheckpointKey]:
    """Return the keys of one run and agent to remove: all but the newest, never the first to return to."""
    clean: list[CheckpointKey] = []
    in_incident: list[CheckpointKey] = []
    for key in sorted(keys):
        (in_incident if key.in_incident else clean).append(key)
    return [*clean[1:-per_run], *in_incident[:-per_run]]


MAX_CHECKPOINT_BYTES: Final = 1 << 30
_MAX_REMEMBERED_UNREADABLE: Final = 1000


class PackedKeeper(CheckpointKeeper):
    """A keeper of packed checkpoints. A subclass defines how one is put, listed, read and removed.

    Args:
        per_run: The number of checkpoints kept of one run.
        max_bytes: The size limit of one checkpoint; a larger one is refused.
        on_loss: Called with the reason when a checkpoint could not be kept or read.
    """

    def __init__(
        self, *, per_run: int = 20, max_bytes: int = 64 << 20, on_loss: Callable[[str], object] | None = None
    ) -> None:
        if type(per_run) is not int or per_run < 1:
            raise SettingsError(f"checkpoints.per_run must be 1 or more, got {per_run!r}.")
        if type(max_bytes) is not int or not 1 <= max_bytes <= MAX_CHECKPOINT_BYTES:
            raise SettingsError(
                f"checkpoints.max_bytes must be from 1 to {MAX_CHECKPOINT_BYTES}, got {max_bytes!r}."
            )
        self.per_run = per_run
        self.max_bytes = max_bytes
        self._on_loss = on_loss
        self._known_unreadable: set[tuple[str, str]] = set()

    # --- what a subclass defines -----------------------------------------------------------------

    @abstractmethod
    def _put(self, run: str, key: CheckpointKey, content: bytes) -> None:
        """Store these bytes under this key. May raise OSError."""

    @abstractmethod
    def _list_keys(self, run: str) -> list[CheckpointKey]:
        """Return the keys of a run, in any order."""

    @abstractmethod
    def _get(self, run: str, key: CheckpointKey) -> bytes | None:
        """Return the bytes stored under this key, or None when they are removed."""

    @abstractmethod
    def _remove(self, run: str, keys: Iterable[CheckpointKey]) -> int:
        """Remove these. Returns how many there were."""

    # --- the contract ----------------------------------------------------------------------------

    def keep(self, checkpoint: Checkpoint) -> KeepResult:
        """Store a copy. It replaces one with the same id in the same run."""
        try:
            record, content = pack(checkpoint, max_bytes=self.max_bytes)
            run, key = hash_run_id(record.run_id), CheckpointKey.of(record)
            self._put(run, key, content)
        except TooLargeError as exc:
            return self._refuse("checkpoint too large to keep", exc)
        except OSError as exc:
            return self._refuse("checkpoint could not be written", exc)
        if key in self._remove_surplus(run, key):
            reason = f"checkpoint older than the {self.per_run} that are kept"
            return KeepResult(kept=False, reason=reason, reduced=record.reduced)
        return KeepResult(kept=True, reduced=record.reduced, size_bytes=len(content))

    def list_checkpoints(self, run_id: str, *, agent_id: str | None = None) -> list[Checkpoint]:
        """Return the checkpoints of a run, newest first."""
        run = hash_run_id(run_id)
        found = [self._read(run, key) for key in self._list_newest_first(run, agent_id)]
        return [checkpoint for checkpoint in found if checkpoint is not None]

    def get_last_checkpoint(
        self, run_id: str, *, agent_id: str | None = None, before_seq: int | None = None
    ) -> Checkpoint | None:
        """Return the newest one to return to, or None. Skips those that cannot be read."""
        run = hash_run_id(run_id)
        for key in self._list_newest_first(run, agent_id):
            if key.in_incident or (before_seq is not None and key.seq >= before_seq):
                continue
            checkpoint = self._read(run, key)
            if checkpoint is not None:
                return checkpoint
        return None

    def drop(self, run_id: str, *, agent_id: str | None = None, after_seq: int | None = None) -> int:
        """Remove a run's checkpoints, or only those with a `seq` above `after_seq`. Returns how many."""
        run = hash_run_id(run_id)
        keys = self._list_newest_first(run, agent_id)
        return self._remove(run, [key for key in keys if after_seq is None or key.seq > after_seq])

    # --- inside ----------------------------------------------------------------------------------

    def _list_newest_first(self, run: str, agent_id: str | None) -> list[CheckpointKey]:
        keys = sorted(self._list_keys(run), reverse=True)
        if agent_id is None:
            return keys
        agent = hash_agent_id(agent_id)
        return [key for key in keys if key.agent == agent]

    def _remove_surplus(self, run: str, newest: CheckpointKey) -> list[CheckpointKey]:
        """Remove the checkpoints that a new one replaces or pushes out. Returns their keys."""
        keys = [key for key in self._list_keys(run) if key.agent == newest.agent]
        replaced = [key for key in keys if newest.is_version_of(key)]
        removed = [*replaced, *select_surplus((key for key in keys if key not in replaced), self.per_run)]
        self._remove(run, removed)
        return removed

    def _read(self, run: str, key: CheckpointKey) -> Checkpoint | None:
        content = self._get(run, key)
        if content is None:
            return None
        try:
            record = unpack(content)
        except FormatError as exc:
            self._record_unreadable(run, key.file_name, exc)
            return None
        if hash_run_id(record.run_id) != run or CheckpointKey.of(record) != key:
            self._record_unreadable(run, key.file_name, "it belongs elsewhere")
            return None
        return record

    def _record_unreadable(self, run: str, name: str, why: object) -> None:
        """Log and count a checkpoint that cannot be read, once."""
        if (run, name) in self._known_unreadable:
            return
        if len(self._known_unreadable) >= _MAX_REMEMBERED_UNREADABLE:
            self._known_unreadable.clear()
        self._known_unreadable.add((run, name))
        logger.info("The checkpoint %s/%s cannot be read and is skipped: %s", run, name, why)
        self._count_loss("checkpoint could not be read")

    def _count_loss(self, reason: str) -> None:
        if self._on_loss is None:
            return
        # An error in counting must not stop the keeper or the agent.
        with suppress(Exception):
            self._on_loss(reason)

    def _refuse(self, reason: str, why: Exception) -> KeepResult:
        logger.info("A checkpoint was not kept: %s", why)
        self._count_loss(reason)
        return KeepResult(kept=False, reason=f"{reason}: {why}")
