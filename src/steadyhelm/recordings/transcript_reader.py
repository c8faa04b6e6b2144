"""Read transcripts line by line: what every format shares, whether its file is complete or still growing."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Final

from steadyhelm.events import RunInfo, TraceEvent
from steadyhelm.recordings.run_entries import FIELD_LIMIT, Notes, seconds, shown
from steadyhelm.recordings.run_file import BrokenLine, ReadRun, RunFile
from steadyhelm.recordings.run_file import _value as decoded
from steadyhelm.recordings.transcript import Transcript

_KINDS_COUNTED: Final = 64

NumberedLine = tuple[int, bytes | str]


class TranscriptReader(ABC):
    """Turns the lines of one transcript into events, each as soon as it is complete.

    A reader keeps all its state, so a file may be read up to its last complete line now and on from
    there later: the events are the same.
    One transcript may tell of several runs, a session and its sub-agents; `run_info` knows each by the
    `run_id` of its events.
    Lines that cannot be read are put into `broken`, runs to which nothing can be added any more into
    `finished`; whoever reads may take them out.

    Args:
        name: What a run is called that has no id of its own.
    """

    title: ClassVar[str]
    """The format, in the words of a message."""

    def __init__(self, *, name: str = "") -> None:
        self.line = 0
        self.broken: list[BrokenLine] = []
        self.finished: list[Transcript] = []
        self._name = name
        self._runs: dict[str, Transcript] = {}
        self._touched: dict[str, Transcript] = {}
        self._passed_over: Counter[str] = Counter()
        self._is_large = False
        self._unnamed: str | None = None

    @staticmethod
    @abstractmethod
    def recognises(value: Any) -> bool:
        """Whether a line with this value is one of this format's."""

    @abstractmethod
    def take(self, value: Any) -> None:
        """Hand what a line says to the runs it is about."""

    def feed(self, line: bytes) -> list[TraceEvent]:
        """The events that this line completes; a line is given whole."""
        self.line += 1
        if not line.strip():
            return []
        notes = Notes()
        value = decoded(line, self.line, notes)
        if isinstance(value, BrokenLine):
            self.broken.append(value)
            return []
        self._is_large = len(line) > FIELD_LIMIT
        self._touched = {}
        self.take(value)
        for run in self._touched.values():
            for words in notes.listed():
                run.notes.add(f"line {self.line}: {words}")
        return [event for run in self._touched.values() for event in self._released(run)]

    def end(self) -> list[TraceEvent]:
        """The transcript is complete: what was still open ends here."""
        return [event for run in self._runs.values() for event in run.end()]

    def run_info(self, run_id: str) -> RunInfo:
        """The run that an event with this `run_id` belongs to, as far as it is known."""
        done = (run for run in self.finished if run.run_id == run_id)
        return (self._runs.get(run_id) or next(done)).info

    @property
    def runs(self) -> list[Transcript]:
        """Every run so far, in the order in which they began."""
        return list(self._runs.values())

    def skip(self) -> None:
        """Count a line that cannot be given."""
        self.line += 1

    def take_problems(self) -> Notes:
        """What was passed over since the last time, once per kind."""
        notes = Notes()
        for kind, times in self._passed_over.items():
            notes.remark(f"{kind} is not known and was passed over" + (f" {times} times" * (times > 1)))
        self._passed_over.clear()
        return notes

    def _released(self, run: Transcript) -> list[TraceEvent]:
        """The events of a run that may go out now."""
        return run.end() if run in self.finished else run.release()

    def _finish(self, run: Transcript) -> None:
        """Nothing can be added to this run any more."""
        self.finished.append(self._runs.pop(run.run_id))

    def _run(self, run_id: str | None, *, agent_id: str, parent_run_id: str | None = None) -> Transcript:
        """The run of this id, begun here when it is new; all that has no id is one run."""
        self._unnamed = self._unnamed or self._name or f"line-{self.line}"
        key = run_id or self._unnamed
        run = self._runs.get(key)
        if run is None:
            run = Transcript(
                key, agent_id=agent_id, line=self.line, source=self.title, parent_run_id=parent_run_id
            )
            self._runs[key] = run
        run.large = self._is_large
        self._touched[key] = run
        return run

    def _pass_over(self, what: str, kind: Any) -> None:
        """Count something we do not know."""
        words = f"{what} {shown(kind)}"
        if words in self._passed_over or len(self._passed_over) < _KINDS_COUNTED:
            self._passed_over[words] += 1


def moment(value: Any) -> float | None:
    """A time that a transcript gives; none when it cannot be understood, which is nothing to complain of."""
    return seconds(value, "timestamp", Notes())


class Lines(RunFile):
    """The numbered lines of a file, plain or gzip; in place of one that cannot be read stands the reason."""

    def numbered(self) -> Iterator[NumberedLine]:
        """Each line with its number, from 1."""
        return self._lines()


def read_runs(reader: TranscriptReader, lines: Iterable[NumberedLine]) -> Iterator[ReadRun | BrokenLine]:
    """Every run of a transcript, and a record for every line that is broken.

    A last line that is only half written is left out without a word: its writer is still at it.
    """
    events: dict[str, list[TraceEvent]] = {}

    def sort(released: list[TraceEvent]) -> None:
        for event in released:
            events.setdefault(event.run_id, []).append(event)

    for number, line in lines:
        if isinstance(line, str):
            reader.skip()
            yield BrokenLine(line=number, reason=line)
            continue
        sort(reader.feed(line))
        if line.endswith(b"\n"):
            yield from reader.broken
        reader.broken.clear()
        for run in reader.finished:
            yield from _read_run(run, events.pop(run.run_id, []), reader)
        reader.finished.clear()
    sort(reader.end())
    for run in reader.runs:
        yield from _read_run(run, events.pop(run.run_id, []), reader)


def _read_run(run: Transcript, events: list[TraceEvent], reader: TranscriptReader) -> Iterator[ReadRun]:
    """The run as a record; one without a single event is none."""
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
        problems=[*run.notes.listed(), *reader.take_problems().listed()],
        unread=run.notes.lost,
    )
