"""The files an agent works on, as part of its checkpoints."""

# ruff: noqa: INP001 - an example is a script, not a package
from pathlib import Path

from steadyhelm import Checkpoint
from steadyhelm.checkpoint import FileContent
from steadyhelm.checkpoints.files import FileSnapshot, RestoreResult, restore_files, snapshot_files


class WorkingFiles:
    """All files of one folder; without a folder there are none.

    Args:
        folder: The folder, which belongs to the agent alone: what it adds is taken away when it goes back.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    def now(self) -> dict[str, FileContent]:
        """Every file as it is."""
        return snapshot_files(".", self.folder).state_files if self.folder else {}

    def put_back(self, checkpoint: Checkpoint) -> RestoreResult:
        """Every file as it was, those gone that were not there then; the answer says what changed."""
        if self.folder is None:
            return RestoreResult()
        then = dict.fromkeys(self.now()) | checkpoint.state_files
        return restore_files(FileSnapshot(state_files=then), self.folder)
