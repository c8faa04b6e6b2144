"""Find and read the journals that dead writers left beside a database."""

import contextlib
import os
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Final, Self

from msgspec import Struct

from steadyhelm.errors import SteadyhelmError
from steadyhelm.journal.files import (
    SUFFIX,
    FileStart,
    Journal,
    close_file,
    is_possible,
    open_file,
    read_start,
    try_lock,
)
from steadyhelm.journal.frames import Damage, Entry, Held, Withdrawal, encode_frame, scan_frames
from steadyhelm.sink import Loss, Record

DAMAGED: Final = "record in the journal damaged"
"""Why records are lost whose frame cannot be read."""
_NO_CAP: Final = 1 << 62
_FOR_READING: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)
"""A pipe in place of a journal must not be waited for."""


class NewerJournalError(SteadyhelmError):
    """The file was written by a newer Steadyhelm, or is none of ours; it is left as it is."""


class PendingFile(Struct, frozen=True, kw_only=True):
    """A journal beside a database: its size, its records, and whether its writer is alive."""

    path: str
    bytes: int
    records: int = 0
    is_live: bool
    is_readable: bool = True


class AbandonedJournal:
    """A journal whose writer is dead, locked by this process until it is closed.

    Use it in a `with` block, and delete it when everything in it is stored.
    """

    def __init__(self, path: Path, descriptor: int, start: FileStart) -> None:
        self.path = path
        self.missing = start.missing
        """Records that were in the memory of the writer alone when it died."""
        self._start = start.size
        self._descriptor = descriptor
        self._end = os.fstat(descriptor).st_size

    @property
    def token(self) -> str:
        """The name under which losses in this file are counted, however often it is read."""
        return self.path.name.removesuffix(SUFFIX).rpartition(".")[2]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        close_file(self._descriptor)

    def __iter__(self) -> Iterator[list[Entry] | Damage]:
        return _read(self._descriptor, self._start, self._end)

    def delete(self) -> None:
        """Delete the file."""
        self.path.unlink(missing_ok=True)


def list_pending(database: Path) -> list[Path]:
    """Return the journals beside a database, the oldest first."""
    prefix = database.name + "."
    try:
        paths = sorted(database.parent.iterdir())
    except OSError:
        return []
    return [path for path in paths if path.name.startswith(prefix) and path.name.endswith(SUFFIX)]


def claim(path: Path) -> AbandonedJournal | None:
    """Lock a journal whose writer is dead; None when the writer is alive, the file is gone or the disk fails.

    Raises NewerJournalError when this version cannot read the file.
    """
    try:
        descriptor = open_file(path, os.O_RDWR)
    except OSError:
        return None
    try:
        if try_lock(descriptor) and os.fstat(descriptor).st_nlink:
            return AbandonedJournal(path, descriptor, _require_readable(descriptor, path))
    except OSError:
        pass
    except BaseException:
        close_file(descriptor)
        raise
    close_file(descriptor)
    return None


def claim_all(
    database: Path, *, but: Collection[Path] = ()
) -> Iterator[AbandonedJournal | NewerJournalError]:
    """Yield each journal that a dead writer left, locked, and an error for each that cannot be read."""
    for path in list_pending(database) if is_possible() else ():
        if path in but:
            continue
        try:
            journal = claim(path)
        except NewerJournalError as exc:
            yield exc
            continue
        if journal is not None:
            with journal:
                yield journal


def has_abandoned(database: Path) -> bool:
    """Return whether a dead writer left a journal beside a database."""
    for path in list_pending(database) if is_possible() else ():
        with contextlib.suppress(OSError):
            descriptor = open_file(path, _FOR_READING)
            try:
                if try_lock(descriptor):
                    return True
            finally:
                close_file(descriptor)
    return False


def describe_pending(database: Path) -> list[PendingFile]:
    """Return what waits beside a database to be stored."""
    paths = list_pending(database) if is_possible() else []
    return [found for path in paths if (found := _describe(path)) is not None]


def forget(database: Path, is_unwanted: Callable[[Record], bool]) -> None:
    """Remove records from the journals that dead writers left."""
    for journal in claim_all(database):
        if isinstance(journal, NewerJournalError):
            continue
        found = list(journal)
        groups = [it for it in found if not isinstance(it, Damage)]
        kept = [[entry for entry in group if not is_unwanted(entry[1])] for group in groups]
        if kept != groups:
            damaged = sum(it.records for it in found if isinstance(it, Damage))
            # Its frames are not copied: what they held is counted as when the journal itself is stored.
            if damaged:
                kept.append([("", Loss(DAMAGED, damaged, time.time(), journal.token))])
            _write_copy(database, [group for group in kept if group], journal.missing)
            journal.delete()


def leave(database: Path, records: Sequence[Record]) -> None:
    """Leave records for the next process that opens the database. Raises OSError where it cannot."""
    if not is_possible():
        raise OSError("this system can keep no journal")
    _write_copy(database, [[("", record) for record in records]], missing=0)


def delete_older(database: Path, before: float) -> None:
    """Delete the journals that dead writers left and last wrote to before this time."""
    for journal in claim_all(database):
        if isinstance(journal, AbandonedJournal) and journal.path.stat().st_mtime < before:
            journal.delete()


def _read(descriptor: int, start: int, end: int) -> Iterator[list[Entry] | Damage]:
    """Yield the records of each frame, without those that were withdrawn."""
    withdrawn = {it.epoch for _, it in scan_frames(descriptor, start, end) if isinstance(it, Withdrawal)}
    for _, found in scan_frames(descriptor, start, end):
        if isinstance(found, Held):
            yield [entry for entry in found.entries if entry[0] not in withdrawn]
        elif not isinstance(found, Withdrawal):
            yield found


def _write_copy(database: Path, groups: list[list[Entry]], missing: int) -> None:
    copy = Journal(database, cap=_NO_CAP)
    copy.note_missing(missing)
    for group in groups:
        frame = encode_frame(group[0][0], [record for _, record in group])
        if not copy.append(frame, 0, may_refuse=False):
            copy.close(keep=False)
            raise OSError(f"the journal beside {database} cannot be written")
    copy.close(keep=True)


def _describe(path: Path) -> PendingFile | None:
    try:
        descriptor = open_file(path, _FOR_READING)
    except OSError:
        return None
    try:
        size = os.fstat(descriptor).st_size
        is_live = not try_lock(descriptor)
        start = _require_readable(descriptor, path)
        found = list(_read(descriptor, start.size, size))
        records = sum(it.records if isinstance(it, Damage) else len(it) for it in found)
        return PendingFile(path=str(path), bytes=size, records=records, is_live=is_live)
    except (NewerJournalError, OSError):
        return PendingFile(path=str(path), bytes=size, is_live=is_live, is_readable=False)
    finally:
        close_file(descriptor)


def _require_readable(descriptor: int, path: Path) -> FileStart:
    start = read_start(descriptor)
    if start is None:
        raise NewerJournalError(
            f"The journal {path} was written by a newer Steadyhelm, or by another program. "
            f"It was left as it is."
        )
    return start
