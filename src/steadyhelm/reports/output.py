"""Where scan's report goes: a terminal, a pipe or a file; and the bar that shows how far it is."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, TextIO

import msgspec
from rich.text import Text

from steadyhelm.findings import Severity
from steadyhelm.replay import Judged
from steadyhelm.reports.evidence import LEGEND, Evidence
from steadyhelm.reports.terminal import console, safe, say
from steadyhelm.reports.text import Tally, block, summary, unchecked

if TYPE_CHECKING:
    from types import TracebackType


class Place(NamedTuple):
    """The line of a file in which a run stands or begins."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Report(Protocol):
    """Takes every run as it is judged, every line that cannot be read, and in the end what was counted."""

    streams: bool
    """Whether it prints while runs are still being judged."""

    def run(self, judged: Judged, place: Place, *, is_flagged: bool) -> None:
        """One run was judged."""

    def broken(self, place: Place, reason: str) -> None:
        """Something could not be read; standard error says so in any case."""

    def end(self, tally: Tally, level: Severity, *, is_file: bool) -> None:
        """All were."""


class JsonReport:
    """One object a line and run; the summary goes to standard error."""

    streams = True

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def run(self, judged: Judged, place: Place, *, is_flagged: bool) -> None:  # noqa: ARG002
        """Every run is a line, clean or not."""
        self._stream.write(msgspec.json.encode(judged.report).decode() + "\n")

    def broken(self, place: Place, reason: str) -> None:
        """A line that is no run has no object."""

    def end(self, tally: Tally, level: Severity, *, is_file: bool) -> None:  # noqa: ARG002
        """Data and messages do not mix."""
        if tally.runs:
            say(summary(tally, level))


class TextReport:
    """A block for each flagged run, then what could not be checked, then the summary."""

    streams = False

    def __init__(self, stream: TextIO, evidence: Evidence, *, verbose: bool) -> None:
        self._stream = stream
        self._evidence = evidence
        self._verbose = verbose
        self._lines: list[Text] = []

    def run(self, judged: Judged, place: Place, *, is_flagged: bool) -> None:
        """A clean run is only counted, or named when that is asked for."""
        if is_flagged:
            self._lines += [*block(judged, str(place), self._evidence), Text()]
        elif self._verbose:
            steps = len(judged.run.events)
            self._lines.append(Text(f"· clean {safe(judged.report.run_id)}  {steps} steps  {safe(place)}"))

    def broken(self, place: Place, reason: str) -> None:
        """The summary counts it."""

    def end(self, tally: Tally, level: Severity, *, is_file: bool) -> None:
        """Print it all at once: a bar on the same terminal has gone by now."""
        if not tally.runs:
            return
        lines: list[Text] = [*self._lines, *([Text(LEGEND, "dim")] if tally.flagged else [])]
        lines += [Text(line) for line in unchecked(tally)]
        lines.append(Text(summary(tally, level)))
        if is_file:
            self._stream.writelines(line.plain + "\n" for line in lines)
            say(summary(tally, level))
            return
        out = console()
        for line in lines:
            out.print(line)


class Bar:
    """How far a scan is, drawn on standard error when that is a terminal."""

    def __init__(self, files: Sequence[str], report: Report) -> None:
        self._files = files
        # A bar and lines of JSON on one terminal would draw over each other.
        self._shown = sys.stderr.isatty() and not (report.streams and sys.stdout.isatty())
        self._progress: Any = None
        self._task: Any = None

    def __enter__(self) -> Self:
        if self._shown:
            from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

            self._progress = Progress(
                SpinnerColumn(),
                TextColumn("{task.description}"),
                BarColumn(),
                console=console(stderr=True),
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._task = self._progress.add_task("scanning", total=sum(map(_size, self._files)) or None)
            self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: "TracebackType | None",
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def counted(self, tally: Tally) -> None:
        """Show how many runs have been judged."""
        if self._progress is not None:
            words = f"{tally.runs:,} runs, {tally.flagged:,} flagged"
            self._progress.update(self._task, description=words)

    def done(self, file: str) -> None:
        """A file is finished."""
        if self._progress is not None:
            self._progress.update(self._task, advance=_size(file))

    def say(self, text: str) -> None:
        """A message above the bar, or where messages go."""
        if self._progress is not None:
            self._progress.console.print(Text(text))
        else:
            say(text)


def _size(file: str) -> int:
    try:
        return Path(file).stat().st_size
    except OSError:
        return 0


@contextmanager
def destination(output: Path | None) -> Iterator[TextIO]:
    """Standard output, or a file that appears when everything is in it and not before."""
    if output is None:
        yield sys.stdout
        return
    path = output.resolve()
    if path.exists() and not path.is_file():
        # A pipe or a device has no half-written state, and must not be replaced by a file.
        with path.open("w", encoding="utf-8") as stream:
            yield stream
        return
    fresh = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        with fresh.open("x", encoding="utf-8") as stream:
            yield stream
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
