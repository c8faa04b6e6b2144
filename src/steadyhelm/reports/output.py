"""Write scan's report to a terminal, a pipe or a file, and show progress meanwhile."""

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
from steadyhelm.reports.evidence import STRIP_LEGEND, EvidenceFormatter
from steadyhelm.reports.terminal import console, safe, say
from steadyhelm.reports.text import ScanTotals, describe_not_checked, describe_run, summarize

if TYPE_CHECKING:
    from types import TracebackType


class RunLocation(NamedTuple):
    """The file and line at which a run begins."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Report(Protocol):
    """What every format of a scan report implements."""

    is_streaming: bool
    """Whether it prints while runs are still being read."""

    def add_run(self, judged: Judged, place: RunLocation, *, is_flagged: bool) -> None:
        """Add one run."""

    def add_unreadable(self, place: RunLocation, reason: str) -> None:
        """Add a line that could not be read; standard error names it in any case."""

    def finish(self, totals: ScanTotals, level: Severity, *, is_file: bool) -> None:
        """Write what is left to write, and the summary."""


class JsonReport:
    """Writes one JSON object a line and run; the summary goes to standard error."""

    is_streaming = True

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def add_run(self, judged: Judged, place: RunLocation, *, is_flagged: bool) -> None:  # noqa: ARG002
        """Write the run as one line, clean or not."""
        self._stream.write(msgspec.json.encode(judged.report).decode() + "\n")

    def add_unreadable(self, place: RunLocation, reason: str) -> None:
        """Ignore it: a line that is not a run has no object."""

    def finish(self, totals: ScanTotals, level: Severity, *, is_file: bool) -> None:  # noqa: ARG002
        """Write the summary as a message: data and messages do not mix."""
        if totals.runs:
            say(summarize(totals, level))


class TextReport:
    """Writes a block for each flagged run, then what was not checked, then the summary."""

    is_streaming = False

    def __init__(self, stream: TextIO, evidence: EvidenceFormatter, *, verbose: bool) -> None:
        self._stream = stream
        self._evidence = evidence
        self._verbose = verbose
        self._lines: list[Text] = []

    def add_run(self, judged: Judged, place: RunLocation, *, is_flagged: bool) -> None:
        """Add the block of a flagged run; a clean run is named only when that is asked for."""
        if is_flagged:
            self._lines += [*describe_run(judged, str(place), self._evidence), Text()]
        elif self._verbose:
            steps = len(judged.run.events)
            self._lines.append(Text(f"· clean {safe(judged.report.run_id)}  {steps} steps  {safe(place)}"))

    def add_unreadable(self, place: RunLocation, reason: str) -> None:
        """Ignore it: the summary counts it."""

    def finish(self, totals: ScanTotals, level: Severity, *, is_file: bool) -> None:
        """Print everything at once: the progress bar on the same terminal has gone by now."""
        if not totals.runs:
            return
        lines: list[Text] = [*self._lines, *([Text(STRIP_LEGEND, "dim")] if totals.flagged else [])]
        lines += [Text(line) for line in describe_not_checked(totals)]
        lines.append(Text(summarize(totals, level)))
        if is_file:
            self._stream.writelines(line.plain + "\n" for line in lines)
            say(summarize(totals, level))
            return
        out = console()
        for line in lines:
            out.print(line)


class ScanProgress:
    """Shows how far a scan is, on standard error when that is a terminal."""

    def __init__(self, files: Sequence[str], report: Report) -> None:
        self._files = files
        # A bar and lines of JSON on one terminal would draw over each other.
        self._shown = sys.stderr.isatty() and not (report.is_streaming and sys.stdout.isatty())
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
            self._task = self._progress.add_task("scanning", total=sum(map(_file_size, self._files)) or None)
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

    def show_totals(self, totals: ScanTotals) -> None:
        """Show how many runs have been read."""
        if self._progress is not None:
            description = f"{totals.runs:,} runs, {totals.flagged:,} flagged"
            self._progress.update(self._task, description=description)

    def finish_file(self, file: str) -> None:
        """Advance the bar by a file."""
        if self._progress is not None:
            self._progress.update(self._task, advance=_file_size(file))

    def say(self, text: str) -> None:
        """Write a message above the bar, or to standard error without one."""
        if self._progress is not None:
            self._progress.console.print(Text(text))
        else:
            say(text)


def _file_size(file: str) -> int:
    try:
        return Path(file).stat().st_size
    except OSError:
        return 0


@contextmanager
def open_destination(output: Path | None) -> Iterator[TextIO]:
    """Yield standard output, or a file that is put in place once it is complete."""
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
