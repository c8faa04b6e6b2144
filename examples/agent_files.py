"""The files an agent works on, as part of its checkpoints."""

# ruff: noqa: INP001 - an example is a script, not a package
from pathlib import Path

from steadyhelm import Checkpoint
from steadyhelm.checkpoint import FileContent
from steadyhelm.checkpoints.files import FileSnapshot, RestoreResult, restore_files, snapshot_files


class WorkingFiles:
    """All files of one folder; without a folder there are none.

    Args:
        folder: The folder, which belongs to the agent alone: files it adds are removed by a rollback.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    def snapshot(self) -> dict[str, FileContent]:
        """Return the content of every file."""
        return snapshot_files(".", self.folder).state_files if self.folder else {}

    def restore(self, checkpoint: Checkpoint) -> RestoreResult:
        """Restore every file, remove those added since, and return what changed."""
        if self.folder is None:
            return RestoreResult()
        then = dict.fromkeys(self.snapshot()) | checkpoint.state_files
        return restore_files(FileSnapshot(state_files=then), self.folder)
