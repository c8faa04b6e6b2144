"""Checkpoints in a folder: one file each, readable by their owner only, kept across restarts."""

import contextlib
import os
import re
import stat
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from steadyhelm.checkpoints.memory import MemoryKeeper
from steadyhelm.checkpoints.packed_keeper import MAX_CHECKPOINT_BYTES, CheckpointKey, PackedKeeper
from steadyhelm.errors import SettingsError

RECENT_BYTES: Final = 256 << 20
"""How much of the checkpoints of live runs is held in memory."""
PRIVATE_FILE: Final = 0o600
PRIVATE_FOLDER: Final = 0o700
_RUN_FOLDER: Final = re.compile(r"[0-9a-f]{32}")
_MAX_ATTEMPTS: Final = 5
# Neither follow a link nor wait for a pipe in place of the file.
_READ_FLAGS: Final = (
    os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
)
_CREATE_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)


class DiskKeeper(PackedKeeper):
    """Keeps checkpoints in a folder, which several processes may share.

    Conversations and files are written unchanged, with all secrets in them, to be restored as they were:
    choose a folder that only you can read. It holds one folder per run and one file per checkpoint; their
    names are hashes, never ids. A file is written completely or not at all, and is on the disk when `keep`
    returns. One that is damaged, foreign or of another version is left unchanged, skipped and counted.

    Args:
        folder: The folder; it is created when it is missing.
        per_run: The number of checkpoints kept of one run.
        max_bytes: The size limit of one checkpoint; a larger one is refused.
        on_loss: Called with the reason when a checkpoint could not be kept or read.
    """

    name = "disk"

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        per_run: int = 20,
        max_bytes: int = 64 << 20,
        on_loss: Callable[[str], object] | None = None,
    ) -> None:
        super().__init__(per_run=per_run, max_bytes=max_bytes, on_loss=on_loss)
        self.folder = _prepare_folder(folder)

    def make_recent(self) -> MemoryKeeper:
        """Return a keeper in memory with the same limits."""
        return MemoryKeeper(
            per_run=self.per_run,
            max_bytes=self.max_bytes,
            max_total_bytes=max(self.max_bytes, RECENT_BYTES),
            on_loss=self._on_loss,
        )

    def prune(self, before: float) -> int:
        """Remove all that were taken before a time, of every run. Returns how many."""
        removed = 0
        for run in _list_names(self.folder):
            if _RUN_FOLDER.fullmatch(run):
                self._remove_unfinished(run, before)
                removed += self._remove(run, [key for key in self._list_keys(run) if key.taken_at < before])
        return removed

    def _put(self, run: str, key: CheckpointKey, content: bytes) -> None:
        folder = self.folder / run
        fresh = folder / f".{os.urandom(8).hex()}.new"
        try:
            with os.fdopen(self._create(fresh), "wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            fresh.replace(folder / key.file_name)
        except BaseException:
            with contextlib.suppress(OSError):
                fresh.unlink()
            raise
        _sync(folder)

    def _create(self, fresh: Path) -> int:
        """Create and open a file in a folder that another process may remove because it is empty."""
        for _ in range(_MAX_ATTEMPTS):
            if not fresh.parent.exists():
                _create_private(fresh.parent)
                _sync(self.folder)
            with contextlib.suppress(FileNotFoundError):
                return os.open(fresh, _CREATE_FLAGS, PRIVATE_FILE)
        raise FileNotFoundError(f"{fresh.parent} is removed again and again")

    def _list_keys(self, run: str) -> list[CheckpointKey]:
        keys = []
        for name in _list_names(self.folder / run):
            key = CheckpointKey.parse(name)
            if key is not None:
                keys.append(key)
            elif not name.startswith("."):
                self._record_unreadable(run, name, "its name is not one of ours")
        return keys

    def _get(self, run: str, key: CheckpointKey) -> bytes | None:
        try:
            return _read_content(self.folder / run / key.file_name)
        except FileNotFoundError:
            return None  # another process removed it
        except OSError as exc:
            self._record_unreadable(run, key.file_name, exc)
            return None

    def _remove(self, run: str, keys: Iterable[CheckpointKey]) -> int:
        folder = self.folder / run
        removed = 0
        for key in keys:
            try:
                (folder / key.file_name).unlink()
                removed += 1
            except FileNotFoundError:
                pass  # another process was faster
            except OSError:
                self._count_loss("checkpoint could not be removed")
        if removed:
            with contextlib.suppress(OSError):
                folder.rmdir()  # only when it is empty
        return removed

    def _remove_unfinished(self, run: str, before: float) -> None:
        """Remove the files of a process that was killed while it wrote them."""
        folder = self.folder / run
        for name in _list_names(folder):
            path = folder / name
            with contextlib.suppress(OSError):
                if name.startswith(".") and name.endswith(".new") and path.lstat().st_mtime < before:
                    path.unlink()
        with contextlib.suppress(OSError):
            folder.rmdir()


def _prepare_folder(given: str | os.PathLike[str]) -> Path:
    """Return the folder. Creates it and its missing parents so that only the owner can enter."""
    try:
        folder = Path(given).expanduser().absolute()
        _create_private(folder)
        mode = folder.stat().st_mode
    except (OSError, TypeError, ValueError, RuntimeError) as exc:
        raise SettingsError(
            f"checkpoints.folder must be a folder we can write to, got {given!r}: {exc}."
        ) from exc
    _require_private(folder, mode)
    return folder


def _require_private(folder: Path, mode: int) -> None:
    if not stat.S_ISDIR(mode):
        raise SettingsError(f"checkpoints.folder must be a folder, got the file {str(folder)!r}.")
    if os.name == "posix" and mode & stat.S_IWOTH:
        raise SettingsError(
            f"checkpoints.folder must not be writable by everyone, got {str(folder)!r}. "
            f"Name a new folder inside it, or remove the permission with: chmod o-w"
        )


def _create_private(folder: Path) -> None:
    # `parents=True` would make the upper ones readable by everyone.
    for missing in reversed([it for it in (folder, *folder.parents) if not it.exists()]):
        missing.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)


def _list_names(folder: Path) -> list[str]:
    try:
        return sorted(path.name for path in folder.iterdir())
    except OSError:
        return []


def _read_content(path: Path) -> bytes:
    with os.fdopen(os.open(path, _READ_FLAGS), "rb") as stream:
        found = os.fstat(stream.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise OSError("it is not a plain file")
        if found.st_size > MAX_CHECKPOINT_BYTES:
            raise OSError(f"it has {found.st_size} bytes, which no checkpoint has")
        return stream.read(found.st_size)


def _sync(folder: Path) -> None:
    """Write a folder's new entry to the disk, where the system supports it."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
