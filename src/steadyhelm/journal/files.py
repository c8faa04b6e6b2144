"""The journal of one writer: files that it alone appends to, under a lock that ends with its process."""

import contextlib
import os
import struct
import time
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from steadyhelm.events import new_id
from steadyhelm.journal.frames import Damage, Entry, Found, scan_frames

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows has neither these locks nor `os.pwrite`
    fcntl = None  # type: ignore[assignment]

SUFFIX: Final = ".pending"
MAGIC: Final = b"STDYpend"
VERSION: Final = 2
HEADER: Final = struct.Struct("<8sHxxII")
"""Mark, version, the records that are in memory alone, and the checksum of their number."""
SEGMENT_BYTES: Final = 8 << 20
"""The size from which a writer goes on in a new file: what is stored can then be deleted."""

_FIRST_VERSION: Final = 1
_FIRST_HEADER: Final = struct.Struct("<8sHxx")
_MISSING: Final = struct.Struct("<II")
_PRIVATE_FILE: Final = 0o600
_TRIES: Final = 5
_MOST_MISSING: Final = (1 << 32) - 1
_LEAST_DESCRIPTOR: Final = 400


def is_possible() -> bool:
    """Return whether this system can keep a journal."""
    return fcntl is not None and hasattr(os, "pwrite")


class _Opened(NamedTuple):
    """Which process opened a descriptor, and which file it is."""

    process: int
    file: tuple[int, int] | None


_opened: Final[dict[int, _Opened]] = {}
"""The open files by descriptor: a forked child would keep the locks of its parent's files."""


def open_file(path: Path, flags: int) -> int:
    """Open a file of a journal, which is closed again in forked children; returns its descriptor.

    A host that becomes a daemon closes whatever is open, and what it opens next gets the lowest numbers:
    the descriptor has a high one, so that nothing is written to a file of the host.
    """
    descriptor = os.open(path, flags, _PRIVATE_FILE)
    with contextlib.suppress(OSError):  # a process may be limited to fewer
        high = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _LEAST_DESCRIPTOR)
        os.close(descriptor)
        descriptor = high
    _opened[descriptor] = _Opened(os.getpid(), _identify(descriptor))
    return descriptor


def close_file(descriptor: int) -> None:
    """Close a file of a journal, and with that release its lock, unless the host closed it."""
    is_ours = is_open(descriptor)
    _opened.pop(descriptor, None)
    if is_ours:
        os.close(descriptor)


def is_open(descriptor: int) -> bool:
    """Return whether a descriptor is still that of the file it was opened for."""
    opened = _opened.get(descriptor)
    return opened is not None and opened.file is not None and opened.file == _identify(descriptor)


def _identify(descriptor: int) -> tuple[int, int] | None:
    try:
        found = os.fstat(descriptor)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _close_inherited_files() -> None:
    for descriptor, opened in list(_opened.items()):
        if opened.process != os.getpid():
            with contextlib.suppress(OSError):
                close_file(descriptor)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_inherited_files)


def try_lock(descriptor: int) -> bool:
    """Lock an open file for as long as it is open; return whether no other process has it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


class FileStart(NamedTuple):
    """Where the frames of a journal begin, and how many records of its writer never got into it."""

    size: int
    missing: int


def read_start(descriptor: int) -> FileStart | None:
    """Return how a journal starts; None when this version cannot read it."""
    header = os.pread(descriptor, HEADER.size, 0)
    # A writer that died at once left less than a header, and no record.
    if len(header) < _FIRST_HEADER.size:
        return FileStart(HEADER.size, 0)
    magic, version = _FIRST_HEADER.unpack_from(header)
    if magic == MAGIC and version == _FIRST_VERSION:
        return FileStart(_FIRST_HEADER.size, 0)
    if magic != MAGIC or version != VERSION:
        return None
    if len(header) < HEADER.size:
        return FileStart(HEADER.size, 0)
    missing, checksum = _MISSING.unpack_from(header, _FIRST_HEADER.size)
    return FileStart(HEADER.size, missing if checksum == _sum_missing(missing) else 0)


def _sum_missing(missing: int) -> int:
    return zlib.crc32(missing.to_bytes(4, "little"))


class Segment:
    """One file: where it ends, and the last record in it."""

    __slots__ = ("descriptor", "end", "last", "path")

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self.descriptor = descriptor
        self.end = HEADER.size
        self.last = 0

    def append(self, content: bytes, last: int = 0) -> bool:
        """Append to the file what ends with this record; return whether it is all there."""
        try:
            if os.pwrite(self.descriptor, content, self.end) != len(content):
                return False
        except OSError:
            return False
        # Both or none: where a call is between them, a signal handler may raise.
        end = self.end + len(content)
        self.end, self.last = end, last
        return True

    def write_start(self, missing: int) -> None:
        """Write the start of the file, with how many records are in memory alone."""
        missing = min(missing, _MOST_MISSING)
        os.pwrite(self.descriptor, HEADER.pack(MAGIC, VERSION, missing, _sum_missing(missing)), 0)

    def remove(self) -> None:
        """Delete the file."""
        with contextlib.suppress(OSError):
            self.path.unlink()
        close_file(self.descriptor)


class Journal:
    """The files of one writer. Its dispatch calls it under its own lock, except where it says otherwise.

    Records are counted as the dispatch counts them: the first one it was ever handed is 1.

    Args:
        database: The file beside which the journal is.
        cap: Bytes from which `append` refuses what may be refused.
    """

    def __init__(self, database: Path, *, cap: int) -> None:
        self._database = database
        self._cap = cap
        # Sorted by name, the files of several writers are in the order they were begun.
        self._token = f"{int(time.time() * 1000):011x}{new_id()}"
        self._number = 0
        self.segments: list[Segment] = [self.create_file()]
        """Its files, of which the last is appended to."""
        self._cursor: tuple[Segment, int] | None = None
        self._bytes = 0
        self._missing = 0
        self._handed_over: list[tuple[Path, int, int]] = []

    @property
    def paths(self) -> set[Path]:
        """Its files."""
        return {segment.path for segment in self.segments}

    def append(self, frame: bytes, last: int, *, may_refuse: bool) -> bool:
        """Append a frame whose last record is this one; return whether it is in the file now."""
        segment = self.segments[-1]
        if may_refuse and self._bytes + segment.end + len(frame) > self._cap:
            return False
        return segment.append(frame, last)

    def mark(self) -> None:
        """Let `read` begin behind what was appended so far."""
        segment = self.segments[-1]
        self._cursor = (segment, segment.end)

    def read(self, limit: int) -> tuple[list[Entry], int]:
        """Return about that many records behind the mark, and how many cannot be read; move the mark.

        May be called without the lock: what was appended before the call is complete.
        """
        entries: list[Entry] = []
        damaged = 0
        for at, found in self._scan():
            self._cursor = at
            if isinstance(found, Damage):
                damaged += found.records
            else:
                # What is held is queued when it is known how its run continues.
                entries += found if isinstance(found, list) else []
            if len(entries) >= limit:
                break
        return entries, damaged

    def _scan(self) -> Iterator[tuple[tuple[Segment, int], Found]]:
        if self._cursor is None:
            return
        segments = list(self.segments)
        segment, start = self._cursor
        for following in segments[segments.index(segment) :]:
            for behind, found in scan_frames(following.descriptor, start, following.end):
                yield (following, behind), found
            start = HEADER.size

    def clear(self) -> None:
        """Empty the journal: everything in it is stored."""
        self._cursor = None
        segment = self.segments.pop()
        for stored in self.segments:
            stored.remove()
        self.segments, self._bytes = [segment], 0
        if segment.end > HEADER.size:
            if is_open(segment.descriptor):
                os.ftruncate(segment.descriptor, HEADER.size)
            segment.end = HEADER.size

    def discard(self, last: int) -> None:
        """Delete the files whose records are stored, up to this one."""
        while len(self.segments) > 1 and self.segments[0].last <= last:
            stored = self.segments.pop(0)
            self._bytes -= stored.end
            if self._cursor is not None and self._cursor[0] is stored:
                self._cursor = (self.segments[0], HEADER.size)
            stored.remove()

    def note_missing(self, count: int) -> None:
        """Write down that this many records are in memory alone: they are lost if the process is killed."""
        if count != self._missing:
            self._missing = count
            with contextlib.suppress(OSError):  # what is there can be written over on a full disk
                self.segments[-1].write_start(count)

    @property
    def is_long(self) -> bool:
        """Whether its file has become long."""
        return self.segments[-1].end > SEGMENT_BYTES

    @property
    def is_deleted(self) -> bool:
        """Whether its file was deleted, or closed by the host."""
        descriptor = self.segments[-1].descriptor
        return not is_open(descriptor) or os.fstat(descriptor).st_nlink == 0

    def continue_in(self, fresh: "Segment") -> None:
        """Append to a new file from here on."""
        before = self.segments[-1]
        self._bytes += before.end
        self.segments.append(fresh)
        if self._missing:
            with contextlib.suppress(OSError):
                fresh.write_start(self._missing)
                before.write_start(0)

    def close(self, *, keep: bool) -> None:
        """Release the files: for the next writer when `keep` is true, else delete them."""
        for segment in self.segments:
            if keep and segment.end > HEADER.size:
                close_file(segment.descriptor)
            else:
                segment.remove()
        self.segments = []

    def hand_over(self, frames: Sequence[bytes], records: int) -> bool:
        """Write frames to a file for another process to store; return whether that was possible.

        May be called without the lock. Raises OSError when no file can be created.
        """
        self.count_handed_over()
        content = b"".join(frames)
        if sum(size for _, _, size in self._handed_over) + len(content) > self._cap:
            return False
        segment = self.create_file()
        if not segment.append(content):
            segment.remove()
            return False
        self._handed_over.append((segment.path, records, len(content)))
        close_file(segment.descriptor)  # it belongs to whoever locks it now
        return True

    def count_handed_over(self) -> int:
        """Return how many records that were handed over no process has stored yet: their files are left."""
        self._handed_over = [it for it in self._handed_over if it[0].exists()]
        return sum(records for _, records, _ in self._handed_over)

    def create_file(self) -> Segment:
        """Create another file; may be called without the lock."""
        for _ in range(_TRIES):
            self._number += 1
            name = f"{self._database.name}.{self._token}-{self._number:06}{SUFFIX}"
            path = self._database.with_name(name)
            descriptor = open_file(path, os.O_CREAT | os.O_EXCL | os.O_RDWR)
            # Another writer may have found the file before it was locked: then it belongs to that one.
            if try_lock(descriptor) and os.fstat(descriptor).st_nlink:
                segment = Segment(path, descriptor)
                segment.write_start(0)
                return segment
            close_file(descriptor)
        raise OSError(f"no file beside {self._database} can be locked")
