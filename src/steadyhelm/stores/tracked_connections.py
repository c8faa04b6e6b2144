"""Open connections, and know which files this process has open: a forked child must not open those again.

SQLite keeps one table of locks per process, by file. A child that is forked while a connection is open gets a
copy of that table, but none of the locks. For as long as it lives it takes its parent's locks for its own: it
can never write to the file, and reads it without protection. Nor may it close what its parent has open:
SQLite would release locks and rewrite shared memory that are not the child's, and may wait for a mutex that
a thread of the parent held at the fork. Python drops what other threads had as soon as a child is forked.
"""

import contextlib
import itertools
import os
import sqlite3
from pathlib import Path
from typing import Any, Final

from steadyhelm.errors import ForkedStoreError
from steadyhelm.stores.sqlite_dialect import DIALECT

FileIdentity = tuple[int, int]

_open: Final[dict[int, FileIdentity | None]] = {}
_open_at_fork: Final[set[FileIdentity | None]] = set()
_current_pid: Final = [os.getpid()]
_numbers: Final = itertools.count(1)

inherited: Final[list[sqlite3.Connection]] = []
"""Connections of the parent: they stay here, since one that is collected would be closed."""


def _keep_for_ever(connection: sqlite3.Connection) -> None:
    """Keep a connection of the parent also when the interpreter ends, which collects what modules hold."""
    inherited.append(connection)
    with contextlib.suppress(ImportError, AttributeError):  # another interpreter than CPython may lack it
        import ctypes  # noqa: PLC0415 - few processes fork while the file is in use

        ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


class TrackedConnection(sqlite3.Connection):
    """A connection that counts as open from before the file is opened until after it is closed.

    Attributes:
        number: What tells it from every other connection of this process, closed ones too.
    """

    dialect = DIALECT

    def __init__(self, *args: Any, file: FileIdentity | None, **options: Any) -> None:
        self.number = next(_numbers)
        self._process = os.getpid()
        _open[id(self)] = file
        try:
            super().__init__(*args, **options)
        except BaseException:
            _open.pop(id(self), None)
            raise

    def close(self) -> None:
        """Close the connection, unless it is that of the process which forked this one."""
        if self._process == os.getpid():
            super().close()
            _open.pop(id(self), None)
        else:
            _keep_for_ever(self)

    def __del__(self) -> None:
        if self._process == os.getpid():
            _open.pop(id(self), None)
        else:
            _keep_for_ever(self)


def identify(path: Path) -> FileIdentity | None:
    """Return what tells a file from another one of the same name; None when there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def connect(path: Path, mode: str, timeout_s: float) -> TrackedConnection:
    """Return a connection to an existing file; raises ForkedStoreError where that is not safe."""
    after_fork()  # a thread that another part starts in a child may be earlier than the hook below
    file = identify(path)
    if file is not None and file in _open_at_fork:
        raise ForkedStoreError(
            f"The database {path} was in use when this process was forked, and cannot be used in it. "
            f"What it records waits in a file beside the database, and another process stores it."
        )
    return TrackedConnection(
        f"{path.as_uri()}?{mode}",
        file=file,
        uri=True,
        timeout=timeout_s,
        isolation_level=None,
        check_same_thread=False,
    )


def after_fork() -> None:
    """Remember in a child process which files were open when it was forked. Idempotent."""
    if _current_pid[0] != os.getpid():
        _current_pid[0] = os.getpid()
        _open_at_fork.update(_open.values())
        _open.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=after_fork)
