"""Translate SQLite's errors into ours."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from steadyhelm.errors import BrokenStoreError, StoreError

_PRIMARY_CODE_MASK: Final = 0xFF
_DAMAGED_CODES: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_MESSAGES: Final = {
    sqlite3.SQLITE_FULL: "could not be written: the disk is full. Make room, or move it (setting db_path)",
    sqlite3.SQLITE_BUSY: "is in use by another process that does not let go. Try again, or end that process",
    sqlite3.SQLITE_LOCKED: "is in use by another thread that does not let go. Try again",
    sqlite3.SQLITE_READONLY: "may only be read. Check the permissions of the file and of its folder",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened. Check that it exists, and the permissions of its folder",
    sqlite3.SQLITE_PERM: "cannot be opened. Check the permissions of the file",
    sqlite3.SQLITE_IOERR: "could not be read or written: the disk reports an error. Check the disk",
}


@contextmanager
def translate_errors(path: Path) -> Iterator[None]:
    """Raise a StoreError for every SQLite error about this file."""
    try:
        yield
    except sqlite3.Error as exc:
        raise to_store_error(path, exc) from exc


def to_store_error(path: Path, exc: sqlite3.Error) -> StoreError:
    """Return the error to raise for one of SQLite's."""
    code = getattr(exc, "sqlite_errorcode", 0) & _PRIMARY_CODE_MASK
    if code in _DAMAGED_CODES:
        return build_broken_store_error(path, f"is damaged or is not a database ({exc})")
    message = _MESSAGES.get(code)
    if message is None:
        return StoreError(f"The database {path} could not be used: {exc}.")
    return StoreError(f"The database {path} {message} ({exc}).")


def build_broken_store_error(path: Path, what: str) -> BrokenStoreError:
    """Return the error for a file that must not be written to."""
    return BrokenStoreError(
        f"The file {path} {what}. It was left as it is. Move it away to start anew, restore a backup, "
        f"or choose another file with the setting db_path."
    )
