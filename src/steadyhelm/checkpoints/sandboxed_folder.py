"""Read and write files under one folder without ever leaving it: no link is followed.

An agent writes in that folder too, and may have created a link anywhere in it. So each folder of a path is
opened in turn, one inside the other, and a link among them is refused.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import IO, Final, NamedTuple

from steadyhelm.checkpoints.packing import PERMISSION_BITS
from steadyhelm.checkpoints.plain_data import is_utf8

Parts = tuple[str, ...]

_BINARY: Final = getattr(os, "O_BINARY", 0)
_NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0)
_READ_FLAGS: Final = os.O_RDONLY | _NO_LINK | getattr(os, "O_NONBLOCK", 0) | _BINARY
_CREATE_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY
_FOLDER_FLAGS: Final = os.O_RDONLY | _NO_LINK | getattr(os, "O_DIRECTORY", 0)
_BY_DESCRIPTOR: Final = {os.open, os.mkdir, os.unlink, os.stat} <= os.supports_dir_fd
_DEFAULT_MODE: Final = 0o666  # reduced by the umask of the process
_MESSAGES: Final = {
    errno.ELOOP: "it is a link",
    errno.ENOTDIR: "a folder in its path is a link or not a folder",
    errno.EISDIR: "it is a folder",
    errno.EACCES: "its permissions do not allow it",
    errno.EPERM: "its permissions do not allow it",
    errno.ENAMETOOLONG: "its name is too long",
    errno.ENOSPC: "the disk is full",
}


class FileRefusedError(Exception):
    """A file is not read or written; the message is the reason, for a report."""


class FileState(NamedTuple):
    """The content and permissions of a file."""

    content: bytes
    mode: int


class _Entry(NamedTuple):
    """A name in an open folder; without a descriptor the name is the whole path."""

    name: str
    folder: int | None


class SandboxedFolder:
    """A folder whose files are read and written without following links.

    Args:
        root: The folder; it may itself be a link.
        by_descriptor: Open each folder of a path by descriptor, so that no link can be created between
            the check and the write. Where a system lacks this, the path is checked before.
    """

    def __init__(self, root: str | os.PathLike[str], *, by_descriptor: bool = _BY_DESCRIPTOR) -> None:
        try:
            self._unresolved = Path(root).absolute()
            self.root = self._unresolved.resolve()
            is_folder = self.root.is_dir()
        except (OSError, TypeError, ValueError, RuntimeError) as exc:
            raise FileRefusedError(f"the folder cannot be used: {exc}") from exc
        if not is_folder:
            raise FileRefusedError("the folder does not exist")
        self._by_descriptor = by_descriptor

    def split_path(self, path: str | os.PathLike[str]) -> Parts:
        """Return the names from the root to a path. Raises RefusedError when it leads outside."""
        try:
            pure = PurePath(path)
        except TypeError as exc:
            raise FileRefusedError(f"{type(path).__name__} is not a path") from exc
        for root in (self._unresolved, self.root):
            if pure.is_absolute() and pure.is_relative_to(root):
                pure = pure.relative_to(root)
        if pure.anchor or ".." in pure.parts:
            raise FileRefusedError("it leads out of the folder")
        return pure.parts

    def read(self, parts: Parts, *, max_bytes: int) -> FileState | None:
        """Return a file, or None when there is none. Raises RefusedError when it must not be read."""
        with _translate_errors():
            try:
                with self._locate(parts) as entry, os.fdopen(_open(entry, _READ_FLAGS), "rb") as stream:
                    return _read_state(stream, max_bytes)
            except FileNotFoundError:
                return None

    def write(self, parts: Parts, content: bytes, mode: int | None) -> None:
        """Write a file completely or not at all, and create its folders."""
        with _translate_errors(), self._locate(parts, create=True) as entry:
            fresh = self._build_temporary(entry)
            try:
                with os.fdopen(_open(fresh, _CREATE_FLAGS), "wb") as stream:
                    stream.write(content)
                    if mode is not None and hasattr(os, "fchmod"):
                        os.fchmod(stream.fileno(), mode & PERMISSION_BITS)
                os.replace(fresh.name, entry.name, src_dir_fd=entry.folder, dst_dir_fd=entry.folder)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(fresh.name, dir_fd=fresh.folder)
                raise

    def remove(self, parts: Parts) -> None:
        """Remove a file."""
        with _translate_errors(), self._locate(parts) as entry, contextlib.suppress(FileNotFoundError):
            os.unlink(entry.name, dir_fd=entry.folder)

    def iter_files(self, parts: Parts) -> Iterator[Parts]:
        """Yield every file in a folder and its subfolders, and links and folders that cannot be opened."""
        closed: list[OSError] = []
        for folder, folders, files in os.walk(self.root.joinpath(*parts), onerror=closed.append):
            folders.sort()
            links = [name for name in folders if (Path(folder) / name).is_symlink()]
            inside = Path(folder).relative_to(self.root).parts
            yield from ((*inside, name) for name in sorted([*files, *links]))
        yield from (Path(str(fault.filename)).relative_to(self.root).parts for fault in closed)

    def is_folder(self, parts: Parts) -> bool:
        """Return whether this is a folder, reached without a link."""
        if not parts:
            return True
        with contextlib.suppress(OSError, FileRefusedError), self._locate(parts) as entry:
            return stat.S_ISDIR(os.stat(entry.name, dir_fd=entry.folder, follow_symlinks=False).st_mode)
        return False

    @contextlib.contextmanager
    def _locate(self, parts: Parts, *, create: bool = False) -> Iterator[_Entry]:
        if not parts:
            raise FileRefusedError("it is the folder itself")
        if not all(is_utf8(name) and "\0" not in name for name in parts):
            raise FileRefusedError("its name is not text")
        if not self._by_descriptor:
            yield self._locate_by_path(parts, create=create)
            return
        folder = os.open(self.root, _FOLDER_FLAGS)
        try:
            for name in parts[:-1]:
                inner = _open_folder(_Entry(name, folder), create=create)
                os.close(folder)
                folder = inner
            yield _Entry(parts[-1], folder)
        finally:
            os.close(folder)

    def _locate_by_path(self, parts: Parts, *, create: bool) -> _Entry:
        path = self.root
        for name in parts[:-1]:
            path /= name
            if path.resolve() != path or (path.exists() and not path.is_dir()):
                raise NotADirectoryError(errno.ENOTDIR, "a link or not a folder")
            if create:
                path.mkdir(exist_ok=True)
        path /= parts[-1]
        if path.is_symlink():
            raise OSError(errno.ELOOP, "a link")
        return _Entry(str(path), None)

    @staticmethod
    def _build_temporary(entry: _Entry) -> _Entry:
        """Return a new name in the same folder."""
        name = f".{os.urandom(8).hex()}.new"
        return _Entry(
            name if entry.folder is not None else str(Path(entry.name).with_name(name)), entry.folder
        )


def _open(entry: _Entry, flags: int) -> int:
    return os.open(entry.name, flags, _DEFAULT_MODE, dir_fd=entry.folder)


def _open_folder(entry: _Entry, *, create: bool) -> int:
    if create:
        with contextlib.suppress(FileExistsError):
            os.mkdir(entry.name, dir_fd=entry.folder)
    return _open(entry, _FOLDER_FLAGS)


def _read_state(stream: IO[bytes], max_bytes: int) -> FileState:
    found = os.fstat(stream.fileno())
    if not stat.S_ISREG(found.st_mode):
        raise FileRefusedError("it is not a plain file")
    if found.st_size > max_bytes:
        raise FileRefusedError(f"it has {found.st_size} bytes, {max_bytes} are allowed")
    return FileState(stream.read(found.st_size), stat.S_IMODE(found.st_mode) & PERMISSION_BITS)


@contextlib.contextmanager
def _translate_errors() -> Iterator[None]:
    """Raise a RefusedError for every OSError."""
    try:
        yield
    except OSError as exc:
        raise FileRefusedError(_MESSAGES.get(exc.errno or 0, str(exc.strerror or exc))) from exc
