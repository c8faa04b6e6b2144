"""What must be known of a kept checkpoint to find it, put it in order and let it go, without reading it."""

import re
from collections.abc import Iterable
from hashlib import blake2b
from typing import Final, NamedTuple, Self

from steadyhelm.checkpoint import Checkpoint
from steadyhelm.checkpoints.storable import clean_text

_MICROSECONDS: Final = 1_000_000
_SUFFIX: Final = ".checkpoint"
_NAME: Final = re.compile(r"(\d{20})-(\d{20})-([0-9a-f]{16})-([0-9a-f]{16})-(clean|incident)\.checkpoint")


def run_key(run_id: str) -> str:
    """What stands for a run's id in names of folders: an id may be any text, `../..` among them."""
    return _digest(run_id, size=16)


def agent_key(agent_id: str) -> str:
    """What stands for an agent's id in names of files."""
    return _digest(agent_id, size=8)


def _digest(text: str, *, size: int) -> str:
    return blake2b(clean_text(text).encode(), digest_size=size).hexdigest()


class Mark(NamedTuple):
    """A kept checkpoint, seen from outside; marks sort from oldest to newest.

    >>> mark = Mark.of(Checkpoint(checkpoint_id="c1", agent_id="a", run_id="r", seq=4, taken_at=1.5))
    >>> mark.file_name
    '00000000000000000005-00000000000001500000-40f89e395b66422f-43f000a36f6d744e-clean.checkpoint'
    >>> Mark.read(mark.file_name) == mark
    True
    """

    seq: int
    taken_us: int
    agent: str
    checkpoint: str
    in_incident: bool

    @classmethod
    def of(cls, record: Checkpoint) -> Self:
        """The mark of a record as it is kept."""
        return cls(
            record.seq,
            round(record.taken_at * _MICROSECONDS),
            agent_key(record.agent_id),
            _digest(record.checkpoint_id, size=8),
            record.in_incident,
        )

    @classmethod
    def read(cls, name: str) -> Self | None:
        """The mark a file's name gives; None when it is not one of ours."""
        found = _NAME.fullmatch(name)
        if found is None:
            return None
        seq, taken_us, agent, checkpoint, kind = found.groups()
        return cls(int(seq) - 1, int(taken_us), agent, checkpoint, kind == "incident")

    @property
    def taken_at(self) -> float:
        """When it was taken, in seconds."""
        return self.taken_us / _MICROSECONDS

    @property
    def file_name(self) -> str:
        """Its name on disk, so that a list of names is a list of marks in order."""
        kind = "incident" if self.in_incident else "clean"
        return f"{self.seq + 1:020d}-{self.taken_us:020d}-{self.agent}-{self.checkpoint}-{kind}{_SUFFIX}"

    def replaces(self, other: "Mark") -> bool:
        """Whether this is a later version of that one."""
        return self != other and (self.agent, self.checkpoint) == (other.agent, other.checkpoint)


def surplus(marks: Iterable[Mark], per_run: int) -> list[Mark]:
    """Those of one run and agent that are to go: all but the newest, and never the first to return to."""
    clean: list[Mark] = []
    in_incident: list[Mark] = []
    for mark in sorted(marks):
        (in_incident if mark.in_incident else clean).append(mark)
    return [*clean[1:-per_run], *in_incident[:-per_run]]
