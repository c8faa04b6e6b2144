"""Open what people have: run files and transcripts, told apart by what stands in their first lines."""

import os
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO, Final

from steadyhelm.recordings.claude_code import ClaudeCode
from steadyhelm.recordings.codex import Codex
from steadyhelm.recordings.content import as_object
from steadyhelm.recordings.message_lists import Messages
from steadyhelm.recordings.run_entries import Notes
from steadyhelm.recordings.run_file import LINE_LIMIT, BrokenLine, ReadRun, RunFile
from steadyhelm.recordings.run_file import _value as decoded
from steadyhelm.recordings.spans import Spans
from steadyhelm.recordings.transcript_reader import Lines, NumberedLine, TranscriptReader, read_runs

READERS: Final[tuple[type[TranscriptReader], ...]] = (ClaudeCode, Codex, Spans, Messages)
_HEAD: Final = 32
UNKNOWN: Final = (
    "none of the formats we know: looked for a run file (an object with `events` a line), "
    + ", ".join(reader.title for reader in READERS[:-1])
    + f" and {READERS[-1].title}"
)


def open_runs(source: str | os.PathLike[str] | BinaryIO) -> Iterator[ReadRun | BrokenLine]:
    """The runs in a file of any format we know, and a record for every line that cannot be read.

    Args:
        source: A path, "-" for standard input, or an open binary stream.
    """
    lines = Lines(source).numbered()
    name = ""
    if isinstance(source, (str, os.PathLike)) and source != "-":
        name = Path(source).name.partition(".")[0]
    head = _until_spoken(lines)
    if not head:
        return
    number, first = head[-1]
    if isinstance(first, bytes) and first.lstrip()[:1] in (b"[", b"{") and not _is_json(first):
        head += _gathered(lines, first)
        document = b"".join(line for _, line in head if isinstance(line, bytes))
        value = decoded(document.rstrip() + b"\n", number, Notes())
        if not isinstance(value, BrokenLine) and "events" not in as_object(value):
            yield from _whole(value, document, number, name)
            return
    yield from _line_by_line(chain(head, lines), name)


def reader_for(value: Any) -> type[TranscriptReader] | None:
    """Who reads a transcript in which a line has this value."""
    return next((reader for reader in READERS if reader.recognises(value)), None)


def _until_spoken(lines: Iterator[NumberedLine]) -> list[NumberedLine]:
    """The first lines, up to the first that is not blank."""
    head = []
    for item in lines:
        head.append(item)
        if item[1].strip():
            return head
    return []


def _is_json(line: bytes) -> bool:
    return not isinstance(decoded(line, 0, Notes()), BrokenLine)


def _gathered(lines: Iterator[NumberedLine], first: bytes) -> list[NumberedLine]:
    """The lines of a value that is spread over several, as long as all of it may be kept."""
    gathered, size = [], len(first)
    for item in lines:
        gathered.append(item)
        size += len(item[1])
        if size > LINE_LIMIT or isinstance(item[1], str):
            break
    return gathered


def _whole(value: Any, document: bytes, number: int, name: str) -> Iterator[ReadRun | BrokenLine]:
    """A file that is one JSON value."""
    reader = reader_for(value)
    if reader is None:
        yield BrokenLine(line=number, reason=UNKNOWN)
        return
    yield from read_runs(reader(name=name), [(number, document.rstrip() + b"\n")])


def _line_by_line(lines: Iterator[NumberedLine], name: str) -> Iterator[ReadRun | BrokenLine]:
    """A file of JSON Lines: the first line that we know decides."""
    unknown: int | None = None
    head: list[NumberedLine] = []
    for number, line in islice(lines, _HEAD):
        head.append((number, line))
        value = decoded(line, number, Notes()) if isinstance(line, bytes) and line.strip() else None
        if value is None or isinstance(value, BrokenLine):
            continue
        if "events" in as_object(value):
            unknown = None
            break
        if (reader := reader_for(value)) is not None:
            yield from read_runs(reader(name=name), chain(head, lines))
            return
        unknown = unknown or number
    if unknown is not None:
        yield BrokenLine(line=unknown, reason=UNKNOWN)
        return
    yield from _Runs(chain(head, lines))


class _Runs(RunFile):
    """The runs in lines that have been opened already."""

    def __init__(self, lines: Iterator[NumberedLine]) -> None:
        super().__init__("-")
        self._opened_lines = lines

    def _lines(self) -> Iterator[NumberedLine]:
        return self._opened_lines
