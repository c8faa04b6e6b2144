"""Follow the list of runs, or a file that is still being written, until Ctrl-C.

The report at the end of a file reads the whole file once more.
"""

import io
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self

import msgspec
from msgspec import Struct
from rich.text import Text

from steadyhelm.events import STATE_TRANSITION, RunInfo, TraceEvent
from steadyhelm.recordings.recognition import find_reader
from steadyhelm.recordings.run_file import LINE_LIMIT, ReadRun, RunFile
from steadyhelm.recordings.transcript_reader import TranscriptReader
from steadyhelm.replay import FindingReport, Replay, Replayer
from steadyhelm.reports.terminal import format_severity, safe
from steadyhelm.store_rows import StoredRun

_RUNS_PAUSE_S: Final = 0.5
Change = Literal["started", "incident", "ended"]
_FILE_PAUSE_S: Final = 0.2
_BYTES_AT_ONCE: Final = 1 << 20


class RunChange(Struct, frozen=True):
    """A run that started, got a new or a worse incident, or ended."""

    change: Change
    run: StoredRun


@contextmanager
def until_interrupted(seconds: float | None) -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether Ctrl-C was pressed or the time is up.

    A second Ctrl-C ends the program.
    """
    deadline = None if seconds is None else time.monotonic() + seconds
    interrupted: list[int] = []
    before = signal.getsignal(signal.SIGINT)

    def note(number: int, _: object) -> None:
        interrupted.append(number)
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, note)
    try:
        yield lambda: bool(interrupted) or (deadline is not None and time.monotonic() >= deadline)
    finally:
        signal.signal(signal.SIGINT, before)


def follow_runs(
    known: Sequence[StoredRun],
    read: Callable[[], Sequence[StoredRun]],
    report: Callable[[RunChange], None],
    *,
    is_over: Callable[[], bool],
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Report what changes in a list of runs, newest first, until `is_over` returns true."""
    before = {(row.agent_id, row.run_id): row for row in known}
    while True:
        for row in reversed(read()):
            for change in find_changes(before.get((row.agent_id, row.run_id)), row):
                report(RunChange(change, row))
            before[row.agent_id, row.run_id] = row
        if is_over():
            return
        pause(_RUNS_PAUSE_S)


def find_changes(before: StoredRun | None, now: StoredRun) -> Iterator[Change]:
    """Yield what happened to a run between two readings of the list; `before` is None for a new one.

    >>> live = StoredRun(agent_id="a", run_id="r")
    >>> list(find_changes(None, live)), list(find_changes(live, live))
    (['started'], [])
    >>> over = StoredRun(agent_id="a", run_id="r", state="ended", incidents=1, peak=0.9)
    >>> list(find_changes(live, over))
    ['incident', 'ended']
    """
    if before is None:
        yield "started"
    known = (before.incidents, before.peak) if before is not None else (0, 0.0)
    if now.incidents and (now.incidents, now.peak) > known:
        yield "incident"
    if now.state != "running" and (before is None or before.state == "running"):
        yield "ended"


class GrowingFile:
    """Reads the complete lines of a file as they are written.

    A file that is replaced or truncated is read from its beginning again; `has_restarted` is then true.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._file = self._path.open("rb")
        self.has_restarted = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def read_lines(self) -> list[bytes]:
        """Return the lines completed since the last call, up to about a megabyte of them."""
        self.has_restarted = self._was_replaced()
        if self.has_restarted:
            self._file.close()
            self._file = self._path.open("rb")
        lines, size = [], 0
        while size < _BYTES_AT_ONCE:
            at = self._file.tell()
            line = self._file.readline(LINE_LIMIT)
            if not line.endswith(b"\n") and len(line) < LINE_LIMIT:
                self._file.seek(at)
                break
            lines.append(line)
            size += len(line)
        return lines

    def _was_replaced(self) -> bool:
        try:
            now = self._path.stat()
        except OSError:
            # Gone for the moment, as files are that are being replaced.
            return False
        return now.st_size < self._file.tell() or now.st_ino != os.fstat(self._file.fileno()).st_ino


class Follower:
    """Replays the runs in a file line by line.

    Args:
        replayer: Replays the runs.
        least: The lowest severity rank that is reported.
    """

    def __init__(self, replayer: Replayer, *, least: int) -> None:
        self._replayer = replayer
        self._least = least
        self._reader: TranscriptReader | None = None
        self._replays: dict[str, Replay] = {}
        self._held: dict[str, list[TraceEvent]] = {}

    def read(self, line: bytes) -> Iterator[Text]:
        """Yield the findings made at this line."""
        if self._reader is None:
            value = _decode(line)
            if isinstance(value, dict) and "events" in value:
                yield from self._read_run(line)
                return
            kind = find_reader(value) if value is not None else None
            self._reader = kind() if kind is not None else None
        if self._reader is None:
            return
        for event in self._reader.feed(line):
            yield from self._observe(event, self._reader.run_info(event.run_id))
        for run in self._reader.finished:
            self._replays.pop(run.run_id, None)
        self._reader.finished.clear()
        self._reader.broken.clear()

    def _read_run(self, line: bytes) -> Iterator[Text]:
        for run in RunFile(io.BytesIO(line)):
            if isinstance(run, ReadRun):
                places = {int(event.event_id): place for place, event in enumerate(run.events)}
                for finding in self._replayer.judge(run).report.findings:
                    yield from self._report_finding(run.info, places[finding.at], finding)

    def _observe(self, event: TraceEvent, info: RunInfo) -> Iterator[Text]:
        held = self._held.setdefault(event.run_id, [])
        held.append(event)
        replay = self._replays.get(event.run_id)
        if replay is None:
            # A harness writes before the user does: the goal is not known yet.
            if event.action_type == STATE_TRANSITION and not info.goal:
                return
            replay = self._replays[event.run_id] = self._replayer.begin(info)
        del self._held[event.run_id]
        for one in held:
            for finding in replay.observe(one):
                yield from self._report_finding(info, one.seq, finding)

    def _report_finding(self, info: RunInfo, place: int, finding: FindingReport) -> Iterator[Text]:
        if finding.severity.rank >= self._least:
            text = f" {safe(info.run_id)}  step {place + 1}  {finding.kind}: {safe(finding.message)}"
            yield format_severity(finding.severity).append(text)


def follow(
    file: str,
    follower: Callable[[], Follower],
    report: Callable[[Text], None],
    *,
    is_over: Callable[[], bool],
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Report what is found in a growing file until `is_over` returns true."""
    with GrowingFile(file) as growing:
        reader = follower()
        while True:
            lines = growing.read_lines()
            if growing.has_restarted:
                reader = follower()
            for line in lines:
                for finding in reader.read(line):
                    report(finding)
            if is_over():
                return
            if not lines:
                pause(_FILE_PAUSE_S)


def _decode(line: bytes) -> Any:
    try:
        return msgspec.json.decode(line)
    except (ValueError, RecursionError):
        return None
