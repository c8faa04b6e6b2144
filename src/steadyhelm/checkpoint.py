"""The contract of checkpoints: the saved state of a run, and the keeper that stores it.

A checkpoint holds the conversation and the files unchanged, with all secrets in them: it is there to be
restored, and a redacted file would be a broken one. So nothing is stored unless it is asked for, and a
keeper makes sure that no other user can read it.
"""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Final

from msgspec import Struct, field

FileContent = bytes | str | dict[str, Any] | None
"""The content of a file in a checkpoint.

Bytes are its content, and so is a text, to be written as UTF-8.
None means that there was no such file: restoring removes one that was created since.
A path that ends with a slash is a folder whose files are all known: its content is None, or names those
that were there and could not be taken.
A dict is a reference of the caller's own, such as `{"git": "4f2a91c"}`: it is stored and returned, and
only the caller can follow it.
"""

BEFORE_ANY_EVENT: Final = -1


class Checkpoint(Struct, frozen=True, kw_only=True):
    """The state of a run after one event, with everything needed to return to it.

    `seq` is the event it was taken after, `turn` the agent's own count, `taken_at` the event's time.
    `conversation_history`, `goal_tree`, `state_files` (a `FileContent` by path) and `meta` are the caller's.
    `file_modes` are the permissions of files in `state_files`, where they are known.
    `session_state` is Steadyhelm's own state of the run, which is restored with the rest.
    `in_incident` means that it was taken during an incident: a rollback never uses it.
    `reduced` lists what could not be stored unchanged, with its location; empty when everything was.
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


class KeepResult(Struct, frozen=True, kw_only=True):
    """The result of `keep`: `reason` is why it was not kept, `reduced` lists what was changed."""

    kept: bool
    reason: str = ""
    reduced: tuple[str, ...] = ()
    size_bytes: int = 0


class CheckpointKeeper(ABC):
    """Stores the checkpoints of runs, and returns them.

    What it returns shares nothing with what it received: either side may change its own.
    Nothing here raises into the caller: `keep` returns why a checkpoint could not be kept, and what could
    not be read is skipped and counted.
    A run is identified by its id and its agent's; without an `agent_id`, runs of any agent are meant.

    Of one run it keeps the newest `per_run` that a rollback may use, always the first of them, and the
    newest `per_run` taken during incidents: those never push out one of the others.
    """

    name: ClassVar[str]
    per_run: int

    ends_with_process: ClassVar[bool] = False
    """Whether it keeps checkpoints in memory alone: those of a run that has ended are then dropped."""

    @abstractmethod
    def keep(self, checkpoint: Checkpoint) -> KeepResult:
        """Store a copy. It replaces one with the same id in the same run."""

    @abstractmethod
    def list_checkpoints(self, run_id: str, *, agent_id: str | None = None) -> list[Checkpoint]:
        """Return the checkpoints of a run, newest first: the highest `seq`, then the latest `taken_at`."""

    def get_last_checkpoint(
        self, run_id: str, *, agent_id: str | None = None, before_seq: int | None = None
    ) -> Checkpoint | None:
        """Return the newest one not taken in an incident, with a `seq` below `before_seq`, or None."""
        for checkpoint in self.list_checkpoints(run_id, agent_id=agent_id):
            if not checkpoint.in_incident and (before_seq is None or checkpoint.seq < before_seq):
                return checkpoint
        return None

    @abstractmethod
    def drop(self, run_id: str, *, agent_id: str | None = None, after_seq: int | None = None) -> int:
        """Remove a run's checkpoints, or those taken after events later than `after_seq`. Returns how many.

        After a rollback, the later ones belong to a path the run has left.
        """

    @abstractmethod
    def prune(self, before: float) -> int:
        """Remove all that were taken before a time, of every run. Returns how many."""

    def make_recent(self) -> "CheckpointKeeper | None":
        """Return a keeper in memory for the checkpoints of live runs, where this one waits for a disk.

        Then the agent's thread uses that one alone, and this one is used on the writer's thread.
        None means that this one never waits.
        """
        return None

    def after_fork(self) -> None:  # noqa: B027 - a keeper without locks has nothing to do
        """Release locks that another thread held in the parent. Called in a child process."""

    def close(self) -> None:  # noqa: B027 - a keeper without resources has nothing to do
        """Release all resources. Idempotent."""
