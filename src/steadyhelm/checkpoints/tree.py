"""The files under one folder, read and written without ever leaving it: no link is followed.

An agent writes in that folder too, and may have put a link anywhere in it. So each folder on the way is
opened as what it is, one inside the other, and a link among them is refused.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import IO, Final, NamedTuple

from steadyhelm.checkpoints.copies import PERMISSIONS
from steadyhelm.checkpoints.storable import is_utf8

Parts = tuple[str, ...]

_BINARY: Final = getattr(os, "O_BINARY", 0)
_NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0)
_READ: Final = os.O_RDONLY | _NO_LINK | getattr(os, "O_NONBLOCK", 0) | _BINARY
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY
_FOLDER: Final = os.O_RDONLY | _NO_LINK | getattr(os, "O_DIRECTORY", 0)
_BY_DESCRIPTOR: Final = {os.open, os.mkdir, os.unlink, os.stat} <= os.supports_dir_fd
_ANY_MODE: Final = 0o666  # what the process's own mask leaves of it
_WORDS: Final = {
    errno.ELOOP: "it is a link",
    errno.ENOTDIR: "a folder on the way to it is a link or no folder",
    errno.EISDIR: "it is a folder",
    errno.EACCES: "its permissions do not allow it",
    errno.EPERM: "its permissions do not allow it",
    errno.ENAMETOOLONG: "its name is too long",
    errno.ENOSPC: "the disk is full",
}


class RefusedError(Exception):
    """Why a file is left alone, in words for a report."""


class FileState(NamedTuple):
    """A file as it is."""

    content: bytes
    mode: int


class _Spot(NamedTuple):
    """A name in a folder that was reached without a link; without a descriptor it is the whole path."""

    name: str
    folder: int | None


class Tree:
    """A folder and what is in it.

    Args:
        root: The folder; that it is a link itself is the caller's own choice.
        by_descriptor: Go from folder to folder by open descriptors, so that nobody can put a link in
            the way between looking and writing; where a system has none, the way is looked at before.
    """

    def __init__(self, root: str | os.PathLike[str], *, by_descriptor: bool = _BY_DESCRIPTOR) -> None:
        try:
            self._given = Path(root).absolute()
            self.root = self._given.resolve()
            is_folder = self.root.is_dir()
        except (OSError, TypeError, ValueError, RuntimeError) as exc:
            raise RefusedError(f"the folder cannot be used: {exc}") from exc
        if not is_folder:
            raise RefusedError("the folder does not exist")
        self._by_descriptor = by_descriptor

    def parts(self, path: str | os.PathLike[str]) -> Parts:
        """The names on the way from the root to a path; raises RefusedError when it leads elsewhere."""
        try:
            pure = PurePath(path)
        except TypeError as exc:
            raise RefusedError(f"{type(path).__name__} is not a path") from exc
        for root in (self._given, self.root):
            if pure.is_absolute() and pure.is_relative_to(root):
                pure = pure.relative_to(root)
        if pure.anchor or ".." in pure.parts:
            raise RefusedError("it leads out of the folder")
        return pure.parts

    def read(self, parts: Parts, *, max_bytes: int) -> FileState | None:
        """A file, or None when there is none; raises RefusedError when it cannot or must not be read."""
        with _refusals():
            try:
                with self._spot(parts) as spot, os.fdopen(_opened(spot, _READ), "rb") as stream:
                    return _state(stream, max_bytes)
            except FileNotFoundError:
                return None

    def write(self, parts: Parts, content: bytes, mode: int | None) -> None:
        """Put a file in place, whole or not at all, with the folders it stands in."""
        with _refusals(), self._spot(parts, make=True) as spot:
            fresh = self._beside(spot)
            try:
                with os.fdopen(_opened(fresh, _CREATE), "wb") as stream:
                    stream.write(content)
                    if mode is not None and hasattr(os, "fchmod"):
                        os.fchmod(stream.fileno(), mode & PERMISSIONS)
                os.replace(fresh.name, spot.name, src_dir_fd=spot.folder, dst_dir_fd=spot.folder)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(fresh.name, dir_fd=fresh.folder)
                raise

    def remove(self, parts: Parts) -> None:
        """Take a file away."""
        with _refusals(), self._spot(parts) as spot, contextlib.suppress(FileNotFoundError):
            os.unlink(spot.name, dir_fd=spot.folder)

    def files_in(self, parts: Parts) -> Iterator[Parts]:
        """Every file in a folder and the folders inside it; a link or a closed folder stands for itself."""
        closed: list[OSError] = []
        for folder, folders, files in os.walk(self.root.joinpath(*parts), onerror=closed.append):
            folders.sort()
            links = [name for name in folders if (Path(folder) / name).is_symlink()]
            inside = Path(folder).relative_to(self.root).parts
            yield from ((*inside, name) for name in sorted([*files, *links]))
        yield from (Path(str(fault.filename)).relative_to(self.root).parts for fault in closed)

    def is_folder(self, parts: Parts) -> bool:
        """Whether a folder is there, reached without a link."""
        if not parts:
            return True
        with contextlib.suppress(OSError, RefusedError), self._spot(parts) as spot:
            return stat.S_ISDIR(os.stat(spot.name, dir_fd=spot.folder, follow_symlinks=False).st_mode)
        return False

    @contextlib.contextmanager
    def _spot(self, parts: Parts, *, make: bool = False) -> Iterator[_Spot]:
        if not parts:
            raise RefusedError("it is the folder itself")
        if not all(is_utf8(name) and "\0" not in name for name in parts):
            raise RefusedError("its name is not text")
        if not self._by_descriptor:
            yield self._looked_at(parts, make=make)
            return
        folder = os.open(self.root, _FOLDER)
        try:
            for name in parts[:-1]:
                inner = _entered(_Spot(name, folder), make=make)
                os.close(folder)
                folder = inner
            yield _Spot(parts[-1], folder)
        finally:
            os.close(folder)

    def _looked_at(self, parts: Parts, *, make: bool) -> _Spot:
        path = self.root
        for name in parts[:-1]:
            path /= name
            if path.resolve() != path or (path.exists() and not path.is_dir()):
                raise NotADirectoryError(errno.ENOTDIR, "a link or no folder")
            if make:
                path.mkdir(exist_ok=True)
        path /= parts[-1]
        if path.is_symlink():
            raise OSError(errno.ELOOP, "a link")
        return _Spot(str(path), None)

    @staticmethod
    def _beside(spot: _Spot) -> _Spot:
        """A new name in the same folder."""
        name = f".{os.urandom(8).hex()}.new"
        return _Spot(name if spot.folder is not None else str(Path(spot.name).with_name(name)), spot.folder)


def _opened(spot: _Spot, flags: int) -> int:
    return os.open(spot.name, flags, _ANY_MODE, dir_fd=spot.folder)


def _entered(spot: _Spot, *, make: bool) -> int:
    if make:
        with contextlib.suppress(FileExistsError):
            os.mkdir(spot.name, dir_fd=spot.folder)
    return _opened(spot, _FOLDER)


def _state(stream: IO[bytes], max_bytes: int) -> FileState:
    found = os.fstat(stream.fileno())
    if not stat.S_ISREG(found.st_mode):
        raise RefusedError("it is not a plain file")
    if found.st_size > max_bytes:
        raise RefusedError(f"it has {found.st_size} bytes, {max_bytes} are allowed")
    return FileState(stream.read(found.st_size), stat.S_IMODE(found.st_mode) & PERMISSIONS)


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    """What the system says, in our words."""
    try:
        yield
    except OSError as exc:
        raise RefusedError(_WORDS.get(exc.errno or 0, str(exc.strerror or exc))) from exc
