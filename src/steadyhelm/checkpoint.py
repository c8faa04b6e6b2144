"""The contract of checkpoints: where a run stood when all was well, and who keeps it.

A checkpoint holds the conversation and the files as they were, secrets and all: it is there to be
restored, and a redacted file would be a broken one. So nothing is kept unless it is asked for, and
whoever keeps it sees to it that nobody else can read it.
"""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Final

from msgspec import Struct, field

FileContent = bytes | str | dict[str, Any] | None
"""What is known of a file.

Bytes are its contents, and so is a text, to be written as UTF-8.
None says that there was no such file: restoring takes away one that has appeared since.
A dict is a reference of the caller's own, such as `{"git": "4f2a91c"}`: it is kept and handed back, and
only the caller can follow it.
"""

BEFORE_ANY_EVENT: Final = -1


class Checkpoint(Struct, frozen=True, kw_only=True):
    """A run as it stood after one event, with all that is needed to go back there.

    `seq` is the event it was taken after, `turn` the agent's own count, `taken_at` the event's time.
    `conversation_history`, `goal_tree`, `state_files` (a `FileContent` by path) and `meta` are the caller's.
    `file_modes` are the permissions of files in `state_files`, where they are known.
    `session_state` is our own memory of the run, which goes back together with the rest.
    `in_incident` says that it was taken while something was wrong: never the one to return to.
    `reduced` names what could not be kept as it came, each with its place; empty when all of it was.
    """

    checkpoint_id: str
    agent_id: str
    run_id: str
    turn: int = 0
    seq: int = BEFORE_ANY_EVENT
    taken_at: float = 0.0
    conversation_history: list[Any] = field(default_factory=list)
    goal_tree: dict[Any, Any] | None = None
    state_files: dict[str, Any] = field(default_factory=dict)
    file_modes: dict[str, int] = field(default_factory=dict)
    session_state: bytes = b""
    label: str = ""
    in_incident: bool = False
    meta: dict[Any, Any] = field(default_factory=dict)
    reduced: tuple[str, ...] = ()


class Kept(Struct, frozen=True, kw_only=True):
    """What came of keeping a checkpoint: `reason` says why it was not kept, `reduced` what was changed."""

    kept: bool
    reason: str = ""
    reduced: tuple[str, ...] = ()
    size_bytes: int = 0


class CheckpointKeeper(ABC):
    """Keeps the checkpoints of runs, and gives them back.

    What it hands out shares nothing with what it was handed: either side may change its own.
    Nothing here raises into the caller; what could not be kept is told by `keep`, and what could not be
    read is left out, and counted.
    A run is known by its id and its agent's; where no `agent_id` is given, that of any agent is meant.

    Of one run it keeps the newest `per_run` to which one may return, always the first of them, and the
    newest `per_run` taken inside incidents: those never push out one to return to.
    """

    name: ClassVar[str]
    per_run: int

    @abstractmethod
    def keep(self, checkpoint: Checkpoint) -> Kept:
        """Keep a copy; one with the same id in the same run is replaced."""

    @abstractmethod
    def checkpoints(self, run_id: str, *, agent_id: str | None = None) -> list[Checkpoint]:
        """What is kept of a run, newest first: the highest `seq`, then the latest `taken_at`."""

    def get_last_checkpoint(
        self, run_id: str, *, agent_id: str | None = None, before_seq: int | None = None
    ) -> Checkpoint | None:
        """The newest one to return to: not taken in an incident, and after an event before `before_seq`."""
        for checkpoint in self.checkpoints(run_id, agent_id=agent_id):
            if not checkpoint.in_incident and (before_seq is None or checkpoint.seq < before_seq):
                return checkpoint
        return None

    @abstractmethod
    def drop(self, run_id: str, *, agent_id: str | None = None, after_seq: int | None = None) -> int:
        """Forget a run's checkpoints, or those taken after events later than `after_seq`; how many went.

        After going back to a checkpoint, those after it belong to a course the run has left.
        """

    @abstractmethod
    def prune(self, before: float) -> int:
        """Forget all that were taken before that time, of every run; how many went."""

    def after_fork(self) -> None:  # noqa: B027 - a keeper without locks has nothing to do
        """In a child process: no lock that another thread held in the parent."""

    def close(self) -> None:  # noqa: B027 - a keeper that holds nothing has nothing to let go
        """Let go of what it holds; may be called again."""
