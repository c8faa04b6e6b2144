"""What SQLite says went wrong, told once in our own words."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from steadyhelm.errors import BrokenStoreError, StoreError

_PRIMARY: Final = 0xFF
_BROKEN: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_WORDS: Final = {
    sqlite3.SQLITE_FULL: "could not be written: the disk is full. Make room, or move it (setting db_path)",
    sqlite3.SQLITE_BUSY: "is in use by another process that does not let go. Try again, or end that process",
    sqlite3.SQLITE_LOCKED: "is in use by another thread that does not let go. Try again",
    sqlite3.SQLITE_READONLY: "may only be read. Check the permissions of the file and of its folder",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened. Check that it exists, and the permissions of its folder",
    sqlite3.SQLITE_PERM: "cannot be opened. Check the permissions of the file",
    sqlite3.SQLITE_IOERR: "could not be read or written: the disk reports an error. Check the disk",
}


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turn SQLite's errors about this file into ours."""
    try:
        yield
    except sqlite3.Error as exc:
        raise translation(path, exc) from exc


def translation(path: Path, exc: sqlite3.Error) -> StoreError:
    """The error to raise for one of SQLite's."""
    code = getattr(exc, "sqlite_errorcode", 0) & _PRIMARY
    if code in _BROKEN:
        return broken(path, f"is damaged or is not a database ({exc})")
    words = _WORDS.get(code)
    if words is None:
        return StoreError(f"The database {path} could not be used: {exc}.")
    return StoreError(f"The database {path} {words} ({exc}).")


def broken(path: Path, what: str) -> BrokenStoreError:
    """The error for a file we will not touch."""
    return BrokenStoreError(
        f"The file {path} {what}. It was left as it is. Move it away to start anew, restore a backup, "
        f"or choose another file with the setting db_path."
    )
