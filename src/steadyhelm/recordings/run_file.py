"""Read run files: recorded runs as JSON Lines, one run per line, plain or gzip."""

import gzip
import io
import os
import re
import stat
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

import msgspec
from msgspec import Struct

from steadyhelm.errors import FormatError
from steadyhelm.events import RunInfo, TraceEvent
from steadyhelm.recordings.lenient_json import repair_json
from steadyhelm.recordings.run_entries import (
    EPOCH_FROM,
    FIELD_LIMIT,
    Notes,
    RunEntry,
    describe_value,
    limit_size,
    read_entries,
    read_name,
    read_seconds,
    read_text,
)
from steadyhelm.recordings.run_events import join_entries

LINE_LIMIT: Final = 64 << 20
_SKIP_CHUNK_BYTES: Final = 1 << 20
_GZIP_MAGIC: Final = b"\x1f\x8b"
_BOM: Final = b"\xef\xbb\xbf"
_OPENING_LINES: Final = (b"{", b"[", b"[{")
_ENDLESS_KINDS: Final = {
    stat.S_IFIFO: "named pipe",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
}
_OPEN_DESCRIPTORS: Final = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")
_STREAM_ERRORS: Final = (OSError, EOFError, zlib.error)
_BYTE_POSITION: Final = re.compile(r" \(byte (\d+)\)$")
_ONE_RUN_PER_LINE: Final = "a run file holds one run a line"
_SQLITE_BEGINNING: Final = b"SQLite format 3\0"
_KNOWN_KEYS: Final = frozenset(
    {
        *("run_id", "id", "agent_id", "goal", "source", "events", "labels", "outcome", "meta"),
        *("started_at", "version", "task_type", "parent_run_id"),
    }
)

_decode: Final = msgspec.json.Decoder().decode


class ReadRun(Struct, frozen=True, kw_only=True):
    """One recorded run.

    `events` are in order of completion; an event's `event_id` is the index, in the run's own
    `events` list, of the entry that began it (for a tool call, the call's entry).
    `entries` is how many entries that list has, `extra` the values of unknown keys, and
    `problems` names what was odd and how it was read; `unread` counts those among them through which
    something of the run was left out, cut or replaced.
    Labels, outcome and extra keys are kept apart from `info`, so that no detector sees them.
    """

    info: RunInfo
    events: list[TraceEvent]
    entries: int
    line: int
    labels: list[Any]
    outcome: str
    meta: dict[str, Any]
    extra: dict[str, Any]
    problems: list[str]
    unread: int


class BrokenLine(Struct, frozen=True, kw_only=True):
    """A line without a readable run, and why; `column` counts bytes from 1 where it is known."""

    line: int
    reason: str
    column: int | None = None


class RunFile:
    """The runs in a file, in order, one at a time, with a record for every broken line.

    Args:
        source: A path, "-" for standard input, or an open binary stream.
        line_limit: Longest line that is read, in bytes; a longer one is reported and skipped.

    >>> line = b'{"run_id": "r1", "events": [{"type": "tool_call", "name": "ls", "result": "a.py"}]}'
    >>> [run] = RunFile(io.BytesIO(line))
    >>> run.events[0].action_name, run.events[0].output_data
    ('ls', {'text': 'a.py'})
    """

    def __init__(self, source: str | os.PathLike[str] | BinaryIO, *, line_limit: int = LINE_LIMIT) -> None:
        self._source = source
        self._line_limit = line_limit

    def __iter__(self) -> Iterator[ReadRun | BrokenLine]:
        first_lines: dict[str, int] = {}
        is_reported = False
        for line, read in self._lines():
            if isinstance(read, str):
                yield BrokenLine(line=line, reason=read)
                continue
            item = _read_line(read, line, first_lines)
            # One word is enough about a pretty-printed value or a binary file, however many lines it has.
            if item is None or (is_reported and isinstance(item, BrokenLine)):
                continue
            is_reported = isinstance(item, BrokenLine) and _is_foreign(read, line)
            yield item

    def _lines(self) -> Iterator[tuple[int, bytes | str]]:
        """Yield each line with its number; instead of an unreadable one the reason, as a text."""
        with self._open_stream() as stream:
            for line in count(1):
                try:
                    read = self._next_line(stream)
                except _STREAM_ERRORS as exc:
                    yield line, f"the file breaks off here, the rest is lost: {exc}"
                    return
                if not read:
                    return
                yield line, read.removeprefix(_BOM) if line == 1 and isinstance(read, bytes) else read

    def _next_line(self, stream: io.BufferedIOBase) -> bytes | str:
        read = stream.readline(self._line_limit + 1)
        if len(read) <= self._line_limit or read.endswith(b"\n"):
            return read
        del read
        while (rest := stream.readline(_SKIP_CHUNK_BYTES)) and not rest.endswith(b"\n"):
            pass
        return f"the line is longer than {self._line_limit} bytes and was skipped; split the run"

    @contextmanager
    def _open_stream(self) -> Iterator[io.BufferedIOBase]:
        """Yield the source as plain bytes; close what was opened here, not what was passed in."""
        source = sys.stdin.buffer if self._source == "-" else self._source
        if isinstance(source, io.BufferedReader):
            yield _unpack(source, str(self._source))
        elif isinstance(source, (str, os.PathLike)):
            with _open_file(source) as file:
                yield _unpack(file, str(source))
        else:
            reader: io.BufferedReader = io.BufferedReader(cast("Any", source))
            try:
                yield _unpack(reader, str(self._source))
            finally:
                # A reader that is thrown away would close the stream under it.
                reader.detach()


def _open_file(path: str | os.PathLike[str]) -> io.BufferedReader:
    try:
        kind = find_endless_kind(path)
        if not kind:
            return Path(path).open("rb")
    except (OSError, ValueError) as exc:
        reason = getattr(exc, "strerror", None) or exc
        raise FormatError(f"The run file {str(path)!r} cannot be opened: {reason}.") from exc
    raise FormatError(
        f"{str(path)!r} is a {kind}, which may never end. Give a file, or - to read standard input."
    )


def find_endless_kind(path: str | os.PathLike[str]) -> str:
    """Return what a path is that may never end when it is opened or read: a pipe, a socket or a device.

    Empty for a file, and for what the program was started with: `/dev/stdin`, the `/dev/fd/63` of a shell.
    """
    if os.fspath(path).startswith(_OPEN_DESCRIPTORS):
        return ""
    return _ENDLESS_KINDS.get(stat.S_IFMT(Path(path).stat().st_mode), "")


def _unpack(file: io.BufferedReader, what: str) -> io.BufferedIOBase:
    """Return the file itself, or its gzip content, judged by its first bytes."""
    try:
        if not file.peek(len(_GZIP_MAGIC)).startswith(_GZIP_MAGIC):
            return file
        packed = gzip.GzipFile(fileobj=file)
        packed.peek(1)
    except _STREAM_ERRORS as exc:
        raise FormatError(f"The run file {what!r} cannot be read: {exc}.") from exc
    return packed


def _is_foreign(read: bytes, line: int) -> bool:
    return read.strip() in _OPENING_LINES or _is_binary(read, line)


def _is_binary(read: bytes, line: int) -> bool:
    return line == 1 and b"\0" in read


def _read_line(read: bytes, line: int, first_lines: dict[str, int]) -> ReadRun | BrokenLine | None:
    if not read.strip():
        return None
    notes = Notes()
    value = decode_line(read, line, notes)
    if isinstance(value, BrokenLine):
        return value
    reason = _explain_no_run(value)
    if reason:
        return BrokenLine(line=line, reason=reason)
    large = len(read) > FIELD_LIMIT
    entries = read_entries(value["events"], notes, large=large)
    if not entries:
        reason = f"none of its {len(value['events'])} events can be read: {notes.list_all()[0]}"
        return BrokenLine(line=line, reason=reason)
    return _build_run(value, entries, line, first_lines, notes)


def decode_line(read: bytes, line: int, notes: Notes) -> Any:
    """Return the value of a line, or a record of why it cannot be read."""
    if read.strip() in _OPENING_LINES:
        reason = f"a value spread over several lines begins here; {_ONE_RUN_PER_LINE}: `jq -c` rewrites it so"
        return BrokenLine(line=line, reason=reason)
    if _is_binary(read, line):
        reason = f"binary data or UTF-16; {_ONE_RUN_PER_LINE}, as JSON in UTF-8, plain or gzip"
        if read.startswith(_SQLITE_BEGINNING):
            reason = (
                f"an SQLite database; {_ONE_RUN_PER_LINE}: `steadyhelm --db FILE export` writes its runs so"
            )
        return BrokenLine(line=line, reason=reason)
    try:
        return _decode(read)
    except RecursionError:
        return BrokenLine(line=line, reason="the JSON is nested too deeply")
    except ValueError as exc:
        strict = exc
    try:
        repaired, problems = repair_json(read)
        for problem in problems:
            notes.add(problem)
        return _decode(repaired)
    except (ValueError, RecursionError):
        place = _BYTE_POSITION.search(str(strict))
        words = _BYTE_POSITION.sub("", str(strict)).removeprefix("JSON is malformed: ")
        column = int(place[1]) + 1 if place else None
        reason = f"not JSON: {words}" + (f" at column {column}" if column else "")
        return BrokenLine(line=line, reason=reason, column=column)


def _explain_no_run(value: Any) -> str:
    """Return why a JSON value is not a readable run; empty when it is one."""
    if isinstance(value, list):
        return f"a list of {len(value)} values; {_ONE_RUN_PER_LINE}: write each of them on a line of its own"
    if not isinstance(value, dict):
        return f"{describe_value(value)} is not an object; {_ONE_RUN_PER_LINE}"
    events = value.get("events")
    if events is None and "type" in value:
        return (
            f"a single event, or a line of another format; {_ONE_RUN_PER_LINE}, "
            "its events in a list under `events`"
        )
    if events is None:
        return "the run has no `events`"
    if not isinstance(events, list):
        return f"`events` is {describe_value(events)}, not a list"
    return "" if events else "the run's `events` are empty"


def _build_run(
    value: dict[str, Any], entries: list[RunEntry], line: int, first_lines: dict[str, int], notes: Notes
) -> ReadRun:
    info = _build_info(value, entries, line, notes)
    first = first_lines.setdefault(info.run_id, line)
    if first != line:
        notes.remark(
            f"line {line} has the run id {describe_value(info.run_id)} of line {first} again; both are kept"
        )
    labels = value.get("labels")
    meta = limit_size(value.get("meta"), "meta", notes)
    for key, found, kind in (("labels", labels, list), ("meta", meta, dict)):
        if found is not None and not isinstance(found, kind):
            notes.add(f"{key} is {describe_value(found)}; left out")
    outcome = value.get("outcome")
    return ReadRun(
        info=info,
        events=join_entries(entries, info, notes),
        entries=len(value["events"]),
        line=line,
        labels=labels if isinstance(labels, list) else [],
        outcome=str(outcome).lower()
        if isinstance(outcome, bool)
        else read_text(outcome, "outcome", notes) or "",
        meta=meta if isinstance(meta, dict) else {},
        extra={
            key: limit_size(kept, describe_value(key), notes)
            for key, kept in value.items()
            if key not in _KNOWN_KEYS
        },
        problems=notes.list_all(),
        unread=notes.lost,
    )


def _build_info(value: dict[str, Any], entries: list[RunEntry], line: int, notes: Notes) -> RunInfo:
    run_id = read_name(value.get("run_id"), "run_id", notes) or read_name(value.get("id"), "id", notes)
    started_at = read_seconds(value.get("started_at"), "started_at", notes)
    if started_at is None:
        times = (entry.t for entry in entries if entry.t is not None)
        started_at = next((t for t in times if t >= EPOCH_FROM), 0.0)
    source = read_name(value.get("source"), "source", notes)
    return RunInfo(
        agent_id=read_name(value.get("agent_id"), "agent_id", notes) or "scan",
        run_id=run_id or f"line-{line}",
        goal=read_text(limit_size(value.get("goal"), "goal", notes), "goal", notes) or "",
        started_at=started_at,
        version=read_name(value.get("version"), "version", notes) or "",
        task_type=read_name(value.get("task_type"), "task_type", notes) or "",
        parent_run_id=read_name(value.get("parent_run_id"), "parent_run_id", notes),
        metadata={"source": source} if source else None,
    )
