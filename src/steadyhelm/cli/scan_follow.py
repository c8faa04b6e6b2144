"""Follow a file that is still being written, and tell what is found in it as it comes.

What is told here is in a hurry; the report at the end reads the file once more, as a whole.
"""

import io
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import msgspec
from rich.text import Text

from steadyhelm.events import STATE_TRANSITION, RunInfo, TraceEvent
from steadyhelm.recordings.recognition import find_reader
from steadyhelm.recordings.run_file import LINE_LIMIT, ReadRun, RunFile
from steadyhelm.recordings.transcript_reader import TranscriptReader
from steadyhelm.replay import FindingReport, Judge, Replay
from steadyhelm.reports.terminal import safe, severity

_PAUSE_S: Final = 0.2
_AT_ONCE: Final = 1 << 20


class GrowingFile:
    """The complete lines of a file, as they are written.

    A file that is replaced or cut is read from its beginning again; `began_anew` says so.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._file = self._path.open("rb")
        self.began_anew = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def take(self) -> list[bytes]:
        """The lines that were completed since the last time, up to about a megabyte of them."""
        self.began_anew = self._is_another()
        if self.began_anew:
            self._file.close()
            self._file = self._path.open("rb")
        lines, size = [], 0
        while size < _AT_ONCE:
            at = self._file.tell()
            line = self._file.readline(LINE_LIMIT)
            if not line.endswith(b"\n") and len(line) < LINE_LIMIT:
                self._file.seek(at)
                break
            lines.append(line)
            size += len(line)
        return lines

    def _is_another(self) -> bool:
        try:
            now = self._path.stat()
        except OSError:
            # Gone for the moment, as files are that are being replaced.
            return False
        return now.st_size < self._file.tell() or now.st_ino != os.fstat(self._file.fileno()).st_ino


class Follower:
    """Judges the runs in a file line by line.

    Args:
        judge: Judges them.
        least: The rank from which a finding is told.
    """

    def __init__(self, judge: Judge, *, least: int) -> None:
        self._judge = judge
        self._least = least
        self._reader: TranscriptReader | None = None
        self._replays: dict[str, Replay] = {}
        self._held: dict[str, list[TraceEvent]] = {}

    def hear(self, line: bytes) -> Iterator[Text]:
        """What is found by this line."""
        if self._reader is None:
            value = _decoded(line)
            if isinstance(value, dict) and "events" in value:
                yield from self._whole_run(line)
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

    def _whole_run(self, line: bytes) -> Iterator[Text]:
        for run in RunFile(io.BytesIO(line)):
            if isinstance(run, ReadRun):
                places = {int(event.event_id): place for place, event in enumerate(run.events)}
                for finding in self._judge.judge(run).report.findings:
                    yield from self._told(run.info, places[finding.at], finding)

    def _observe(self, event: TraceEvent, info: RunInfo) -> Iterator[Text]:
        held = self._held.setdefault(event.run_id, [])
        held.append(event)
        replay = self._replays.get(event.run_id)
        if replay is None:
            # A harness speaks before the user does: the goal is not known yet.
            if event.action_type == STATE_TRANSITION and not info.goal:
                return
            replay = self._replays[event.run_id] = self._judge.begin(info)
        del self._held[event.run_id]
        for one in held:
            for finding in replay.observe(one):
                yield from self._told(info, one.seq, finding)

    def _told(self, info: RunInfo, place: int, finding: FindingReport) -> Iterator[Text]:
        if finding.severity.rank >= self._least:
            said = f" {safe(info.run_id)}  step {place + 1}  {finding.kind}: {safe(finding.message)}"
            yield severity(finding.severity).append(said)


def follow(
    file: str,
    follower: Callable[[], Follower],
    tell: Callable[[Text], None],
    *,
    is_over: Callable[[], bool],
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Tell what is found in a growing file until it is over."""
    with GrowingFile(file) as growing:
        hearer = follower()
        while True:
            lines = growing.take()
            if growing.began_anew:
                hearer = follower()
            for line in lines:
                for said in hearer.hear(line):
                    tell(said)
            if is_over():
                return
            if not lines:
                pause(_PAUSE_S)


@contextmanager
def until_interrupted(seconds: float | None) -> Iterator[Callable[[], bool]]:
    """Says whether it is over: Ctrl-C was pressed, or the time is up; a second Ctrl-C ends the program."""
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


def _decoded(line: bytes) -> Any:
    try:
        return msgspec.json.decode(line)
    except (ValueError, RecursionError):
        return None
