"""Open recordings of any known format, recognised by their first lines."""

import os
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO, Final

from steadyhelm.recordings.claude_code import ClaudeCode
from steadyhelm.recordings.codex import Codex
from steadyhelm.recordings.content import as_object
from steadyhelm.recordings.gemini_cli import GeminiCLI
from steadyhelm.recordings.message_lists import Messages
from steadyhelm.recordings.run_entries import Notes
from steadyhelm.recordings.run_file import LINE_LIMIT, BrokenLine, ReadRun, RunFile, decode_line
from steadyhelm.recordings.spans.reader import Spans
from steadyhelm.recordings.transcript_reader import NumberedLine, NumberedLines, TranscriptReader, read_runs

READERS: Final[tuple[type[TranscriptReader], ...]] = (ClaudeCode, Codex, GeminiCLI, Spans, Messages)
_MAX_LINES_SEARCHED: Final = 32
UNKNOWN: Final = (
    "not a known format: looked for a run file (an object with `events` a line), "
    + ", ".join(reader.title for reader in READERS[:-1])
    + f" and {READERS[-1].title}"
)


def open_runs(source: str | os.PathLike[str] | BinaryIO) -> Iterator[ReadRun | BrokenLine]:
    """Yield the runs in a file of any known format, and a record for every line that cannot be read.

    Args:
        source: A path, "-" for standard input, or an open binary stream.
    """
    lines = NumberedLines(source).iter_lines()
    name = ""
    if isinstance(source, (str, os.PathLike)) and source != "-":
        name = Path(source).name.partition(".")[0]
    head = _read_first_lines(lines)
    if not head:
        return
    number, first = head[-1]
    if isinstance(first, bytes) and first.lstrip()[:1] in (b"[", b"{") and not _is_json(first):
        head += _read_document_lines(lines, first)
        document = b"".join(line for _, line in head if isinstance(line, bytes))
        value = decode_line(document.rstrip() + b"\n", number, Notes())
        if not isinstance(value, BrokenLine) and "events" not in as_object(value):
            yield from _read_document(value, document, number, name)
            return
    yield from _read_lines(chain(head, lines), name)


def find_reader(value: Any) -> type[TranscriptReader] | None:
    """Return the reader of a transcript with a line of this value; None for an unknown format."""
    return next((reader for reader in READERS if reader.can_read(value)), None)


def _read_first_lines(lines: Iterator[NumberedLine]) -> list[NumberedLine]:
    """Return the first lines, up to the first that is not blank."""
    head = []
    for item in lines:
        head.append(item)
        if item[1].strip():
            return head
    return []


def _is_json(line: bytes) -> bool:
    return not isinstance(decode_line(line, 0, Notes()), BrokenLine)


def _read_document_lines(lines: Iterator[NumberedLine], first: bytes) -> list[NumberedLine]:
    """Return the lines of a value spread over several, up to the size limit."""
    gathered, size = [], len(first)
    for item in lines:
        gathered.append(item)
        size += len(item[1])
        if size > LINE_LIMIT or isinstance(item[1], str):
            break
    return gathered


def _read_document(value: Any, document: bytes, number: int, name: str) -> Iterator[ReadRun | BrokenLine]:
    """Yield the runs of a file that is one JSON value."""
    reader = find_reader(value)
    if reader is None:
        yield BrokenLine(line=number, reason=UNKNOWN)
        return
    yield from read_runs(reader(name=name), [(number, document.rstrip() + b"\n")])


def _read_lines(lines: Iterator[NumberedLine], name: str) -> Iterator[ReadRun | BrokenLine]:
    """Yield the runs of a file of JSON Lines; the first line of a known format decides."""
    unknown: int | None = None
    head: list[NumberedLine] = []
    for number, line in islice(lines, _MAX_LINES_SEARCHED):
        head.append((number, line))
        value = decode_line(line, number, Notes()) if isinstance(line, bytes) and line.strip() else None
        if value is None or isinstance(value, BrokenLine):
            continue
        if "events" in as_object(value):
            unknown = None
            break
        if (reader := find_reader(value)) is not None:
            yield from read_runs(reader(name=name), chain(head, lines))
            return
        unknown = unknown or number
    if unknown is not None:
        yield BrokenLine(line=unknown, reason=UNKNOWN)
        return
    yield from _OpenedRunFile(chain(head, lines))


class _OpenedRunFile(RunFile):
    """The runs in lines that have been read already."""

    def __init__(self, lines: Iterator[NumberedLine]) -> None:
        super().__init__("-")
        self._opened_lines = lines

    def _lines(self) -> Iterator[NumberedLine]:
        return self._opened_lines
