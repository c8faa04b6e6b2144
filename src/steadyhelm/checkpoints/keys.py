"""Keys of stored checkpoints: what is needed to find, sort and remove one without reading it."""

import re
from collections.abc import Iterable
from hashlib import blake2b
from typing import Final, NamedTuple, Self

from steadyhelm.checkpoint import Checkpoint
from steadyhelm.checkpoints.plain_data import to_utf8_text

_MICROSECONDS_PER_S: Final = 1_000_000
_SUFFIX: Final = ".checkpoint"
_FILE_NAME: Final = re.compile(
    r"(\d{20})-(\d{20})-([0-9a-f]{16})-([0-9a-f]{16})-(clean|incident)\.checkpoint"
)


def hash_run_id(run_id: str) -> str:
    """Return the folder name for a run's id: an id may be any text, such as `../..`."""
    return _digest(run_id, size=16)


def hash_agent_id(agent_id: str) -> str:
    """Return the part of a file name for an agent's id."""
    return _digest(agent_id, size=8)


def _digest(text: str, *, size: int) -> str:
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
            _digest(record.checkpoint_id, size=8),
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

    def replaces(self, other: "CheckpointKey") -> bool:
        """Return whether this is a later version of the other."""
        return self != other and (self.agent, self.checkpoint) == (other.agent, other.checkpoint)


def select_surplus(keys: Iterable[CheckpointKey], per_run: int) -> list[CheckpointKey]:
    """Return the keys of one run and agent to remove: all but the newest, never the first to return to."""
    clean: list[CheckpointKey] = []
    in_incident: list[CheckpointKey] = []
    for key in sorted(keys):
        (in_incident if key.in_incident else clean).append(key)
    return [*clean[1:-per_run], *in_incident[:-per_run]]
