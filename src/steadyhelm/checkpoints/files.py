"""The files an agent works on, taken into a checkpoint and put back from one.

Contents are taken as they are, secrets and all. Nothing outside the folder is read or written, whatever
links stand in it, and nothing is overwritten that could not be put back: what was there before comes
with the answer, and restoring that undoes it.
"""

import os
from collections.abc import Iterable
from itertools import islice
from typing import Any, Final, Literal, NamedTuple

from msgspec import Struct, field

from steadyhelm.checkpoint import Checkpoint, FileContent
from steadyhelm.checkpoints.storable import clean_text
from steadyhelm.checkpoints.tree import FileState, Parts, RefusedError, Tree

MAX_FILE_BYTES: Final = 8 << 20
MAX_TOTAL_BYTES: Final = 32 << 20
_MOST_FILES: Final = 10_000
_NAMED_WITH: Final = 200

AnyPath = str | os.PathLike[str]


class FileSnapshot(Struct, frozen=True, kw_only=True):
    """Files as they stood: `state_files` and `file_modes` go into a checkpoint as they are.

    `refused` names those that were not taken, each with the reason.
    """

    state_files: dict[str, FileContent] = field(default_factory=dict)
    file_modes: dict[str, int] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)


class FilesRestored(Struct, frozen=True, kw_only=True):
    """What putting files back has changed, by path.

    `refused` names those that were left as they are, each with the reason.
    `before` holds the changed ones as they were: `restore_files(restored.before, root)` undoes it.
    """

    written: tuple[str, ...] = ()
    created: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    refused: dict[str, str] = field(default_factory=dict)
    before: FileSnapshot = field(default_factory=FileSnapshot)


def snapshot_files(
    paths: Iterable[AnyPath] | AnyPath,
    root: AnyPath,
    *,
    max_file_bytes: int = MAX_FILE_BYTES,
    max_total_bytes: int = MAX_TOTAL_BYTES,
) -> FileSnapshot:
    """Files under `root` as they are now; a folder stands for every file in it.

    A path where no file is counts too: restoring takes away what has appeared there since.
    """
    snapshot = FileSnapshot()
    given = [paths] if isinstance(paths, (str, os.PathLike)) else paths
    try:
        reader = _Reader(root, max_file_bytes, max_total_bytes)
        for path in given:
            _take(path, reader, snapshot)
    except (RefusedError, TypeError) as exc:
        snapshot.refused["."] = str(exc)
    return snapshot


def restore_files(
    checkpoint: Checkpoint | FileSnapshot,
    root: AnyPath,
    *,
    max_file_bytes: int = MAX_FILE_BYTES,
    max_total_bytes: int = MAX_TOTAL_BYTES,
) -> FilesRestored:
    """Put the files of a checkpoint back under `root`: changed ones, deleted ones, and those not yet there.

    The limits hold for what stands there now: a file too large to be put back again is not overwritten.
    """
    try:
        reader = _Reader(root, max_file_bytes, max_total_bytes)
    except RefusedError as exc:
        return FilesRestored(refused={".": str(exc)})
    refused: dict[str, str] = {}
    changes: list[_Change] = []
    # First look at everything, then change anything.
    for name, content in checkpoint.state_files.items():
        try:
            changes.append(reader.change(name, content, checkpoint.file_modes.get(name)))
        except RefusedError as exc:
            refused[name] = str(exc)
    done = [change for change in changes if _carried_out(change, reader.tree, refused)]
    return FilesRestored(
        written=tuple(it.name for it in done if it.kind == "written"),
        created=tuple(it.name for it in done if it.kind == "created"),
        removed=tuple(it.name for it in done if it.kind == "removed"),
        unchanged=tuple(it.name for it in done if it.kind == "unchanged"),
        refused=refused,
        before=_before([it for it in done if it.kind != "unchanged"]),
    )


class _Change(NamedTuple):
    """A file as it shall be and as it is; None where there is none."""

    name: str
    parts: Parts
    wanted: bytes | None
    mode: int | None
    now: FileState | None

    @property
    def kind(self) -> Literal["written", "created", "removed", "unchanged"]:
        """What it takes to get from one to the other."""
        if self.now is None:
            return "unchanged" if self.wanted is None else "created"
        if self.wanted is None:
            return "removed"
        same = self.wanted == self.now.content and self.mode in (None, self.now.mode)
        return "unchanged" if same else "written"


class _Reader:
    """Reads files under a folder until the room for them is used up."""

    def __init__(self, root: AnyPath, max_file_bytes: int, max_total_bytes: int) -> None:
        self.tree = Tree(root)
        self._max_file_bytes = max_file_bytes
        self._max_total_bytes = max_total_bytes
        self._taken = 0

    def read(self, parts: Parts) -> FileState | None:
        """A file, or None when there is none; raises RefusedError."""
        state = self.tree.read(parts, max_bytes=self._max_file_bytes)
        if state is None:
            return None
        if self._taken + len(state.content) > self._max_total_bytes:
            raise RefusedError(f"with it there would be more than {self._max_total_bytes} bytes in all")
        self._taken += len(state.content)
        return state

    def change(self, name: str, content: FileContent, mode: int | None) -> _Change:
        """What has to be done about a file; raises RefusedError when nothing may be."""
        parts = self.tree.parts(name)
        return _Change(name, parts, _wanted(content), mode, self.read(parts))


def _take(path: AnyPath, reader: _Reader, snapshot: FileSnapshot) -> None:
    try:
        parts = reader.tree.parts(path)
    except RefusedError as exc:
        snapshot.refused[clean_text(path)[:_NAMED_WITH]] = str(exc)
        return
    files = reader.tree.files_in(parts) if reader.tree.is_folder(parts) else iter((parts,))
    for file in islice(files, _MOST_FILES):
        _take_file(file, reader, snapshot)
    if next(files, None) is not None:
        snapshot.refused[clean_text(path)] = f"only the first {_MOST_FILES} files in it were taken"


def _take_file(parts: Parts, reader: _Reader, snapshot: FileSnapshot) -> None:
    name = "/".join(parts)
    if name in snapshot.state_files:
        return
    try:
        state = reader.read(parts)
    except RefusedError as exc:
        snapshot.refused[clean_text(name)] = str(exc)
        return
    _note(name, state, snapshot)


def _note(name: str, state: FileState | None, snapshot: FileSnapshot) -> None:
    snapshot.state_files[name] = None if state is None else state.content
    if state is not None:
        snapshot.file_modes[name] = state.mode


def _wanted(content: Any) -> bytes | None:
    if content is None or isinstance(content, bytes):
        return content
    if isinstance(content, dict):
        raise RefusedError("the checkpoint holds a reference, which only its maker can follow")
    try:
        return str.encode(content, "utf-8", "surrogateescape")
    except (TypeError, ValueError) as exc:
        raise RefusedError(f"{type(content).__name__} is not the contents of a file") from exc


def _carried_out(change: _Change, tree: Tree, refused: dict[str, str]) -> bool:
    try:
        if change.kind == "removed":
            tree.remove(change.parts)
        elif change.kind != "unchanged" and change.wanted is not None:
            mode = change.mode if change.mode is not None or change.now is None else change.now.mode
            tree.write(change.parts, change.wanted, mode)
    except RefusedError as exc:
        refused[change.name] = str(exc)
        return False
    return True


def _before(changes: Iterable[_Change]) -> FileSnapshot:
    snapshot = FileSnapshot()
    for change in changes:
        _note(change.name, change.now, snapshot)
    return snapshot
