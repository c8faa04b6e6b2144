"""Take the files an agent works on into a checkpoint, and restore them from one.

Contents are taken unchanged, with all secrets in them. Nothing outside the folder is read or written,
whatever links are in it, and nothing is overwritten that could not be restored: the result contains the
former contents, and restoring them undoes the change.
"""

import contextlib
import os
from collections.abc import Container, Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from msgspec import Struct, field

from steadyhelm.checkpoint import Checkpoint, FileContent
from steadyhelm.checkpoints.plain_data import to_utf8_text
from steadyhelm.checkpoints.sandboxed_folder import FileRefusedError, FileState, Parts, SandboxedFolder

MAX_FILE_BYTES: Final = 8 << 20
MAX_TOTAL_BYTES: Final = 32 << 20
_MAX_FILES: Final = 10_000
_MAX_PATH_SHOWN: Final = 200
_NOT_TAKEN: Final = "not_taken"

AnyPath = str | os.PathLike[str]


class FileSnapshot(Struct, frozen=True, kw_only=True):
    """Files at one moment: `state_files` and `file_modes` are passed to a checkpoint unchanged.

    `refused` lists those that were not taken, with the reason.
    """

    state_files: dict[str, FileContent] = field(default_factory=dict)
    file_modes: dict[str, int] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)


class RestoreResult(Struct, frozen=True, kw_only=True):
    """What restoring files has changed, by path.

    `refused` lists those that were left unchanged, with the reason, `left` new files in folders of the
    checkpoint that nobody is known to have created in the run.
    With `is_preview` nothing was changed: it is what would be done.
    `before` holds the former contents of the changed ones: `restore_files(restored.before, root)` undoes it.
    """

    written: tuple[str, ...] = ()
    created: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    is_preview: bool = False
    refused: dict[str, str] = field(default_factory=dict)
    before: FileSnapshot = field(default_factory=FileSnapshot)


def snapshot_files(
    paths: Iterable[AnyPath] | AnyPath,
    root: AnyPath,
    *,
    max_file_bytes: int = MAX_FILE_BYTES,
    max_total_bytes: int = MAX_TOTAL_BYTES,
) -> FileSnapshot:
    """Return the files under `root` as they are now; a folder means every file in it.

    A path without a file is recorded too: restoring removes a file that was created there since.
    A folder is recorded as well, by its path with a slash at the end.
    """
    snapshot = FileSnapshot()
    all_paths = [paths] if isinstance(paths, (str, os.PathLike)) else paths
    try:
        reader = _Reader(root, max_file_bytes, max_total_bytes)
        for path in all_paths:
            _add_path(path, reader, snapshot)
    except (FileRefusedError, TypeError) as exc:
        snapshot.refused["."] = str(exc)
    return snapshot


def restore_files(
    checkpoint: Checkpoint | FileSnapshot,
    root: AnyPath,
    *,
    created: Iterable[AnyPath] = (),
    dry_run: bool = False,
    max_file_bytes: int = MAX_FILE_BYTES,
    max_total_bytes: int = MAX_TOTAL_BYTES,
) -> RestoreResult:
    """Restore the files of a checkpoint under `root`: changed, deleted and created ones.

    `created` are files that the run has created since, such as `monitor.list_written_files(checkpoint)`
    returns: those in a folder of the checkpoint are removed. Another new file in it is left alone, and named.
    With `dry_run` nothing is changed: the result says what would be.
    The limits apply to the current files: a file too large to be restored again is not overwritten.
    """
    try:
        reader = _Reader(root, max_file_bytes, max_total_bytes)
    except FileRefusedError as exc:
        return RestoreResult(refused={".": str(exc)})
    refused: dict[str, str] = {}
    changes: list[_Change] = []
    # Read everything before changing anything.
    folders = {name: it for name, it in checkpoint.state_files.items() if name.endswith("/")}
    for name, content in checkpoint.state_files.items():
        if name.endswith("/"):
            continue
        try:
            changes.append(reader.plan_change(name, content, checkpoint.file_modes.get(name)))
        except FileRefusedError as exc:
            refused[name] = str(exc)
    new = _list_new_files(folders, checkpoint.state_files, reader.folder, refused)
    known = _find_names(created, reader.folder)
    for name in sorted(new & known):
        try:
            changes.append(reader.plan_change(name, None, None))
        except FileRefusedError as exc:
            refused[name] = str(exc)
    done = [change for change in changes if dry_run or _apply(change, reader.folder, refused)]
    return RestoreResult(
        written=tuple(it.name for it in done if it.kind == "written"),
        created=tuple(it.name for it in done if it.kind == "created"),
        removed=tuple(it.name for it in done if it.kind == "removed"),
        unchanged=tuple(it.name for it in done if it.kind == "unchanged"),
        left=tuple(sorted(new - known)),
        is_preview=dry_run,
        refused=refused,
        before=_build_snapshot([it for it in done if it.kind != "unchanged"]),
    )


def _list_new_files(
    folders: Mapping[str, Any], then: Container[str], folder: SandboxedFolder, refused: dict[str, str]
) -> set[str]:
    """Return the files in these folders that were not there when the snapshot was taken."""
    new: set[str] = set()
    for name, content in folders.items():
        listed = content.get(_NOT_TAKEN) if isinstance(content, dict) else ()
        not_taken = {it for it in listed if isinstance(it, str)} if isinstance(listed, list) else set()
        try:
            parts = folder.split_path(name)
        except FileRefusedError as exc:
            refused[name] = str(exc)
            continue
        files = folder.iter_files(parts) if folder.is_folder(parts) else iter(())
        names = (to_utf8_text("/".join(file)) for file in islice(files, _MAX_FILES))
        new.update(it for it in names if it not in then and it not in not_taken)
    return new


def _find_names(paths: Iterable[AnyPath], folder: SandboxedFolder) -> set[str]:
    """Return the names in the folder that these paths may mean: from the folder, or from where we work."""
    names: set[str] = set()
    for path in paths:
        for candidate in (path, Path.cwd() / path if isinstance(path, str | os.PathLike) else path):
            with contextlib.suppress(FileRefusedError, ValueError):
                names.add("/".join(folder.split_path(candidate)))
    return names


class _Change(NamedTuple):
    """The wanted and the current state of a file; None where there is none."""

    name: str
    parts: Parts
    wanted: bytes | None
    mode: int | None
    now: FileState | None

    @property
    def kind(self) -> Literal["written", "created", "removed", "unchanged"]:
        """What has to be done to get from one to the other."""
        if self.now is None:
            return "unchanged" if self.wanted is None else "created"
        if self.wanted is None:
            return "removed"
        same = self.wanted == self.now.content and self.mode in (None, self.now.mode)
        return "unchanged" if same else "written"


class _Reader:
    """Reads files under a folder up to a total size."""

    def __init__(self, root: AnyPath, max_file_bytes: int, max_total_bytes: int) -> None:
        self.folder = SandboxedFolder(root)
        self._max_file_bytes = max_file_bytes
        self._max_total_bytes = max_total_bytes
        self._bytes_read = 0

    def read(self, parts: Parts) -> FileState | None:
        """Return a file, or None when there is none. Raises RefusedError."""
        state = self.folder.read(parts, max_bytes=self._max_file_bytes)
        if state is None:
            return None
        if self._bytes_read + len(state.content) > self._max_total_bytes:
            raise FileRefusedError(f"with it there would be more than {self._max_total_bytes} bytes in all")
        self._bytes_read += len(state.content)
        return state

    def plan_change(self, name: str, content: FileContent, mode: int | None) -> _Change:
        """Return the change to restore a file. Raises RefusedError when it must not be changed."""
        parts = self.folder.split_path(name)
        return _Change(name, parts, _to_bytes(content), mode, self.read(parts))


def _add_path(path: AnyPath, reader: _Reader, snapshot: FileSnapshot) -> None:
    try:
        parts = reader.folder.split_path(path)
    except FileRefusedError as exc:
        snapshot.refused[to_utf8_text(path)[:_MAX_PATH_SHOWN]] = str(exc)
        return
    is_folder = reader.folder.is_folder(parts)
    files = reader.folder.iter_files(parts) if is_folder else iter((parts,))
    refused = [
        to_utf8_text("/".join(it)) for it in islice(files, _MAX_FILES) if not _add_file(it, reader, snapshot)
    ]
    if next(files, None) is None:
        if is_folder:
            snapshot.state_files[f"{'/'.join(parts) or '.'}/"] = {_NOT_TAKEN: refused} if refused else None
    else:
        snapshot.refused[to_utf8_text(path)] = f"only the first {_MAX_FILES} files in it were taken"


def _add_file(parts: Parts, reader: _Reader, snapshot: FileSnapshot) -> bool:
    """Add a file to the snapshot; return whether it was taken."""
    name = "/".join(parts)
    if name in snapshot.state_files:
        return True
    try:
        state = reader.read(parts)
    except FileRefusedError as exc:
        snapshot.refused[to_utf8_text(name)] = str(exc)
        return False
    _add_state(name, state, snapshot)
    return True


def _add_state(name: str, state: FileState | None, snapshot: FileSnapshot) -> None:
    snapshot.state_files[name] = None if state is None else state.content
    if state is not None:
        snapshot.file_modes[name] = state.mode


def _to_bytes(content: Any) -> bytes | None:
    if content is None or isinstance(content, bytes):
        return content
    if isinstance(content, dict):
        raise FileRefusedError(
            "the checkpoint holds a reference, which only the code that made it can follow"
        )
    try:
        return str.encode(content, "utf-8", "surrogateescape")
    except (TypeError, ValueError) as exc:
        raise FileRefusedError(f"{type(content).__name__} is not the contents of a file") from exc


def _apply(change: _Change, folder: SandboxedFolder, refused: dict[str, str]) -> bool:
    try:
        if change.kind == "removed":
            folder.remove(change.parts)
        elif change.kind != "unchanged" and change.wanted is not None:
            mode = change.mode if change.mode is not None or change.now is None else change.now.mode
            folder.write(change.parts, change.wanted, mode)
    except FileRefusedError as exc:
        refused[change.name] = str(exc)
        return False
    return True


def _build_snapshot(changes: Iterable[_Change]) -> FileSnapshot:
    snapshot = FileSnapshot()
    for change in changes:
        _add_state(change.name, change.now, snapshot)
    return snapshot
