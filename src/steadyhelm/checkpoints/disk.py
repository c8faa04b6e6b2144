"""Checkpoints in a folder: one file each, for their owner's eyes only, there again after a restart."""

import contextlib
import os
import re
import stat
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from steadyhelm.checkpoints.keeping import MOST_BYTES, MarkedKeeper
from steadyhelm.checkpoints.marks import Mark
from steadyhelm.errors import SettingsError

PRIVATE_FILE: Final = 0o600
PRIVATE_FOLDER: Final = 0o700
_RUN_FOLDER: Final = re.compile(r"[0-9a-f]{32}")
_TRIES: Final = 5
# Neither follow a link nor wait for a pipe that somebody put there.
_READ: Final = (
    os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
)
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)


class DiskKeeper(MarkedKeeper):
    """Keeps checkpoints in a folder, which several processes may share.

    Conversations and files are written as they are, secrets and all, to be restored as they were: choose
    a folder that is yours alone. It holds one folder per run and one file per checkpoint; their names
    are made of hashes, never of ids. A file appears whole or not at all, and is on the disk when `keep`
    returns. One that is damaged, foreign or of another version is left as it is, left out and counted.

    Args:
        folder: Where they are kept; it is made where there is none.
        per_run: How many checkpoints of one run are kept.
        max_bytes: The largest checkpoint that is kept; a larger one is refused.
        on_loss: Told the reason whenever a checkpoint could not be kept or read.
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
        self.folder = _private_folder(folder)

    def prune(self, before: float) -> int:
        """Forget all that were taken before that time, of every run; how many went."""
        gone = 0
        for run in _names(self.folder):
            if _RUN_FOLDER.fullmatch(run):
                self._sweep(run, before)
                gone += self._remove(run, [mark for mark in self._marks(run) if mark.taken_at < before])
        return gone

    def _put(self, run: str, mark: Mark, content: bytes) -> None:
        folder = self.folder / run
        fresh = folder / f".{os.urandom(8).hex()}.new"
        try:
            with os.fdopen(self._opened(fresh), "wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            fresh.replace(folder / mark.file_name)
        except BaseException:
            with contextlib.suppress(OSError):
                fresh.unlink()
            raise
        _sync(folder)

    def _opened(self, fresh: Path) -> int:
        """The new file, in a folder that another process may just be taking away because it was empty."""
        for _ in range(_TRIES):
            if not fresh.parent.exists():
                _make_private(fresh.parent)
                _sync(self.folder)
            with contextlib.suppress(FileNotFoundError):
                return os.open(fresh, _CREATE, PRIVATE_FILE)
        raise FileNotFoundError(f"{fresh.parent} is taken away again and again")

    def _marks(self, run: str) -> list[Mark]:
        marks = []
        for name in _names(self.folder / run):
            mark = Mark.read(name)
            if mark is not None:
                marks.append(mark)
            elif not name.startswith("."):
                self._unreadable(run, name, "its name is not one of ours")
        return marks

    def _get(self, run: str, mark: Mark) -> bytes | None:
        try:
            return _content(self.folder / run / mark.file_name)
        except FileNotFoundError:
            return None  # another process let it go
        except OSError as exc:
            self._unreadable(run, mark.file_name, exc)
            return None

    def _remove(self, run: str, marks: Iterable[Mark]) -> int:
        folder = self.folder / run
        gone = 0
        for mark in marks:
            try:
                (folder / mark.file_name).unlink()
                gone += 1
            except FileNotFoundError:
                pass  # another process was faster
            except OSError:
                self._lost("checkpoint could not be removed")
        if gone:
            with contextlib.suppress(OSError):
                folder.rmdir()  # only when it is empty
        return gone

    def _sweep(self, run: str, before: float) -> None:
        """Take away what a process that was killed in the middle of writing left behind."""
        folder = self.folder / run
        for name in _names(folder):
            path = folder / name
            with contextlib.suppress(OSError):
                if name.startswith(".") and name.endswith(".new") and path.lstat().st_mtime < before:
                    path.unlink()
        with contextlib.suppress(OSError):
            folder.rmdir()


def _private_folder(given: str | os.PathLike[str]) -> Path:
    """The folder, made with all that is missing above it, so that only its owner can enter."""
    try:
        folder = Path(given).expanduser().absolute()
        _make_private(folder)
        mode = folder.stat().st_mode
    except (OSError, TypeError, ValueError, RuntimeError) as exc:
        raise SettingsError(
            f"checkpoints.folder must be a folder we can write to, got {given!r}: {exc}."
        ) from exc
    if not stat.S_ISDIR(mode):
        raise SettingsError(f"checkpoints.folder must be a folder, got the file {str(folder)!r}.")
    if os.name == "posix" and mode & stat.S_IWOTH:
        raise SettingsError(
            f"checkpoints.folder must not be open for everybody to write to, got {str(folder)!r}. "
            f"Name a new folder inside it, or take the right away with: chmod o-w"
        )
    return folder


def _make_private(folder: Path) -> None:
    # `parents=True` would leave the upper ones open to everybody.
    for missing in reversed([it for it in (folder, *folder.parents) if not it.exists()]):
        missing.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)


def _names(folder: Path) -> list[str]:
    try:
        return sorted(path.name for path in folder.iterdir())
    except OSError:
        return []


def _content(path: Path) -> bytes:
    with os.fdopen(os.open(path, _READ), "rb") as stream:
        found = os.fstat(stream.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise OSError("it is not a plain file")
        if found.st_size > MOST_BYTES:
            raise OSError(f"it has {found.st_size} bytes, which no checkpoint has")
        return stream.read(found.st_size)


def _sync(folder: Path) -> None:
    """Have the disk remember a folder's new entry; not every system can be asked for that."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
