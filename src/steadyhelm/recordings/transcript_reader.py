"""Read transcripts line by line, whether the file is complete or still growing."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Final

from steadyhelm.events import RunInfo, TraceEvent
from steadyhelm.recordings.run_builder import RunBuilder
from steadyhelm.recordings.run_entries import FIELD_LIMIT, Notes, describe_value, read_seconds
from steadyhelm.recordings.run_file import BrokenLine, ReadRun, RunFile, decode_line

_MAX_UNKNOWN_KINDS: Final = 64

NumberedLine = tuple[int, bytes | str]


class TranscriptReader(ABC):
    """Turns the lines of one transcript into events, each as soon as it is complete.

    A reader keeps all its state, so a file may be read up to its last complete line now and on from
    there later: the events are the same.
    One transcript may contain several runs, a session and its sub-agents; `run_info` finds each by the
    `run_id` of its events.
    Lines that cannot be read are put into `broken`, runs to which nothing can be added any more into
    `finished`; the caller may remove them.

    Args:
        name: The id of a run without an id of its own.
    """

    title: ClassVar[str]
    """The format, as messages name it."""

    def __init__(self, *, name: str = "") -> None:
        self.line = 0
        self.broken: list[BrokenLine] = []
        self.finished: list[RunBuilder] = []
        self._name = name
        self._runs: dict[str, RunBuilder] = {}
        self._touched: dict[str, RunBuilder] = {}
        self._unknown_counts: Counter[str] = Counter()
        self._is_large = False
        self._unnamed: str | None = None

    @staticmethod
    @abstractmethod
    def can_read(value: Any) -> bool:
        """Return whether a line with this value is in this format."""

    @abstractmethod
    def add_line(self, value: Any) -> None:
        """Add the content of a line to the runs it is about."""

    def feed(self, line: bytes) -> list[TraceEvent]:
        """Return the events that this complete line completes."""
        self.line += 1
        if not line.strip():
            return []
        notes = Notes()
        value = decode_line(line, self.line, notes)
        if isinstance(value, BrokenLine):
            self.broken.append(value)
            return []
        self._is_large = len(line) > FIELD_LIMIT
        self._touched = {}
        self.add_line(value)
        for run in self._touched.values():
            for words in notes.list_all():
                run.notes.add(f"line {self.line}: {words}")
        return [event for run in self._touched.values() for event in self._release_run(run)]

    def end(self) -> list[TraceEvent]:
        """Return the remaining events of a transcript that is complete."""
        return [event for run in self._runs.values() for event in run.end()]

    def run_info(self, run_id: str) -> RunInfo:
        """Return the run of events with this `run_id`, as far as it is known."""
        done = (run for run in self.finished if run.run_id == run_id)
        return (self._runs.get(run_id) or next(done)).info

    @property
    def runs(self) -> list[RunBuilder]:
        """Every run so far, in order of their beginning."""
        return list(self._runs.values())

    def skip_line(self) -> None:
        """Count a line that cannot be read."""
        self.line += 1

    def take_problems(self) -> Notes:
        """Return the unknown parts that were skipped since the last time, once per kind."""
        notes = Notes()
        for kind, times in self._unknown_counts.items():
            notes.remark(f"{kind} is not known and was passed over" + (f" {times} times" * (times > 1)))
        self._unknown_counts.clear()
        return notes

    def _release_run(self, run: RunBuilder) -> list[TraceEvent]:
        """Return the events of a run that may be released now."""
        return run.end() if run in self.finished else run.release_events()

    def _finish_run(self, run: RunBuilder) -> None:
        """Mark a run as finished: nothing can be added to it any more."""
        self.finished.append(self._runs.pop(run.run_id))

    def _get_run(self, run_id: str | None, *, agent_id: str, parent_run_id: str | None = None) -> RunBuilder:
        """Return the run of this id, and begin it when it is new; lines without an id share one run."""
        self._unnamed = self._unnamed or self._name or f"line-{self.line}"
        key = run_id or self._unnamed
        run = self._runs.get(key)
        if run is None:
            run = RunBuilder(
                key, agent_id=agent_id, line=self.line, source=self.title, parent_run_id=parent_run_id
            )
            self._runs[key] = run
        run.large = self._is_large
        self._touched[key] = run
        return run

    def _count_unknown(self, what: str, kind: Any) -> None:
        """Count an unknown part."""
        words = f"{what} {describe_value(kind)}"
        if words in self._unknown_counts or len(self._unknown_counts) < _MAX_UNKNOWN_KINDS:
            self._unknown_counts[words] += 1


def parse_time(value: Any) -> float | None:
    """Return a time of a transcript; None when it cannot be parsed, which is not a problem."""
    return read_seconds(value, "timestamp", Notes())


class NumberedLines(RunFile):
    """The numbered lines of a file, plain or gzip; an unreadable line is replaced by the reason."""

    def iter_lines(self) -> Iterator[NumberedLine]:
        """Yield each line with its number, from 1."""
        return self._lines()


def read_runs(reader: TranscriptReader, lines: Iterable[NumberedLine]) -> Iterator[ReadRun | BrokenLine]:
    """Yield every run of a transcript, and a record for every broken line.

    A last line that is only half written is left out silently: it is still being written.
    """
    events: dict[str, list[TraceEvent]] = {}

    def collect(released: list[TraceEvent]) -> None:
        for event in released:
            events.setdefault(event.run_id, []).append(event)

    for number, line in lines:
        if isinstance(line, str):
            reader.skip_line()
            yield BrokenLine(line=number, reason=line)
            continue
        collect(reader.feed(line))
        if line.endswith(b"\n"):
            yield from reader.broken
        reader.broken.clear()
        for run in reader.finished:
            yield from _build_run(run, events.pop(run.run_id, []), reader)
        reader.finished.clear()
    collect(reader.end())
    for run in reader.runs:
        yield from _build_run(run, events.pop(run.run_id, []), reader)


def _build_run(run: RunBuilder, events: list[TraceEvent], reader: TranscriptReader) -> Iterator[ReadRun]:
    """Yield the run as a record; yield nothing for a run without events."""
    if not events:
        return
    yield ReadRun(
        info=run.info,
        events=events,
        entries=run.entries,
        line=run.line,
        labels=[],
        outcome="",
        meta={},
        extra={},
        problems=[*run.notes.list_all(), *reader.take_problems().list_all()],
        unread=run.notes.lost,
    )
