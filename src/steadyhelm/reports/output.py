"""Describe scanned runs for people, write the report to a terminal, a pipe or a file, and show progress."""

import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, Self, TextIO

from msgspec import Struct, field
from rich.text import Text

from steadyhelm.findings import Severity
from steadyhelm.hostile_text import encode_safe_json
from steadyhelm.replay import JudgedReplay, RunReport
from steadyhelm.reports.evidence import STRIP_LEGEND, EvidenceFormatter, get_agent_name, name_kind
from steadyhelm.reports.terminal import console, format_severity, print_wrapped, safe, say

if TYPE_CHECKING:
    from types import TracebackType


_PLURALS: Final = {"loop": "loops", "correction": "corrections"}
_REASONS_SHOWN: Final = 4
_REASON_WIDTH: Final = 100
_TITLE_WIDTH, _TITLE_GAP = 10, 2
"""The least width of titles, and the space between the longest title and its text."""


def find_lowest_flagged_rank(fail_on: Severity) -> int:
    """Return the severity rank from which a run is flagged: MED, or LOW when that is asked to fail."""
    return min(fail_on.rank, Severity.MED.rank)


class ScanTotals(Struct):
    """What was counted over all runs of a scan."""

    runs: int = 0
    flagged: int = 0
    failing: int = 0
    unreadable: int = 0
    in_part: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    not_checked: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, report: RunReport, *, least: int, fail_on: int) -> None:
        """Count one run; `least` is the rank from which it is flagged."""
        self.runs += 1
        self.not_checked.update((missed.detector, missed.reason) for missed in report.not_checked)
        if report.worst < least:
            return
        self.flagged += 1
        self.failing += report.worst >= fail_on
        self.kinds.update(
            {name_kind(finding) for finding in report.findings if finding.severity.rank >= least}
        )


def summarize(totals: ScanTotals, fail_on: Severity) -> str:
    """Return one line about all runs.

    >>> totals = ScanTotals(runs=98, flagged=3, failing=3, kinds=Counter(loop=2, resource=1), unreadable=1)
    >>> summarize(totals, Severity.MED)
    '98 runs, 3 flagged (2 loops, 1 resource), 1 unreadable'
    """
    parts = [f"{totals.runs:,} run{'s' * (totals.runs != 1)}", f"{totals.flagged:,} flagged"]
    if totals.kinds:
        parts[1] += f" ({', '.join(_pluralize_kind(kind, n) for kind, n in totals.kinds.most_common())})"
    if totals.failing != totals.flagged:
        parts.append(f"{totals.failing:,} of them {fail_on} or above")
    if totals.in_part:
        parts.append(f"{totals.in_part:,} read in part")
    if totals.unreadable:
        parts.append(f"{totals.unreadable:,} unreadable")
    return ", ".join(parts)


def describe_not_checked(totals: ScanTotals, *, most: int | None = _REASONS_SHOWN) -> Iterator[str]:
    """Yield what was not checked, the most frequent first: silence must not pass for health."""
    for (detector, reason), runs in totals.not_checked.most_common(most):
        why = safe(reason, most=_REASON_WIDTH)
        yield f"not checked: {detector} in {runs:,} of {totals.runs:,} runs ({why})"
    rest = len(totals.not_checked) - len(totals.not_checked if most is None else range(most))
    if rest > 0:
        reasons = "reason" if rest == 1 else "reasons"
        yield f"not checked: {rest} further {reasons}; --json has them all"


def describe_run(judged: JudgedReplay, where: str, evidence: EvidenceFormatter) -> Iterator[Text]:
    """Yield a flagged run: its name and place, what was found, the evidence, and the response."""
    worst = max(evidence.list_findings(judged), key=lambda finding: finding.severity.rank)
    agent = f"  {get_agent_name(judged.run)}" * bool(get_agent_name(judged.run))
    name = (safe(judged.report.run_id), "bold")
    yield Text.assemble(format_severity(worst.severity), " ", name, f"{agent}  {safe(where)}")
    lines = list(evidence.describe(judged))
    width = max(_TITLE_WIDTH, *(len(title) + _TITLE_GAP for title, _ in lines)) if lines else _TITLE_WIDTH
    for title, text in lines:
        yield Text.assemble(("  " + title.ljust(width), "dim"), text)


def _pluralize_kind(kind: str, n: int) -> str:
    return f"{n:,} {kind if n == 1 else _PLURALS.get(kind, kind)}"


# Write scan's report to a terminal, a pipe or a file, and show progress meanwhile.


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

    def add_run(self, judged: JudgedReplay, place: RunLocation, *, is_flagged: bool) -> None:
        """Add one run."""

    def add_unreadable(self, place: RunLocation, reason: str) -> None:
        """Add a line that could not be read; standard error names it in any case."""

    def finish(self, totals: ScanTotals, level: Severity, *, is_file: bool) -> None:
        """Write what is left to write, and the summary."""


class JsonReport:
    """Writes one JSON document, run by run; the summary goes to standard error too."""

    is_streaming = True

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._unreadable: list[dict[str, str]] = []
        self._between = '{"runs":['

    def add_run(self, judged: JudgedReplay, place: RunLocation, *, is_flagged: bool) -> None:  # noqa: ARG002
        """Write the run, clean or not."""
        self._stream.write(f"{self._between}\n{encode_safe_json(judged.report).decode()}")
        self._between = ","

    def add_unreadable(self, place: RunLocation, reason: str) -> None:
        """Keep what could not be read for the end of the document."""
        self._unreadable.append({"where": str(place), "reason": reason})

    def finish(self, totals: ScanTotals, level: Severity, *, is_file: bool) -> None:  # noqa: ARG002
        """Write what could not be read and the totals, and the summary as a message."""
        rest = {"unreadable": self._unreadable, "totals": _totals_to_data(totals)}
        opened = self._between if totals.runs == 0 else ""
        self._stream.write(f"{opened}\n],{encode_safe_json(rest).decode()[1:]}\n")
        if totals.runs:
            say(summarize(totals, level))


def _totals_to_data(totals: ScanTotals) -> dict[str, Any]:
    """Return the totals as plain data; what was not checked is a list, as JSON has no pairs as keys."""
    counted = {
        name: getattr(totals, name) for name in ("runs", "flagged", "failing", "unreadable", "in_part")
    }
    missed = [
        {"detector": detector, "reason": reason, "runs": runs}
        for (detector, reason), runs in totals.not_checked.most_common()
    ]
    return {**counted, "kinds": dict(totals.kinds.most_common()), "not_checked": missed}


class JsonLinesReport:
    """Writes one JSON object a line and run; the summary goes to standard error."""

    is_streaming = True

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def add_run(self, judged: JudgedReplay, place: RunLocation, *, is_flagged: bool) -> None:  # noqa: ARG002
        """Write the run as one line, clean or not."""
        self._stream.write(encode_safe_json(judged.report).decode() + "\n")

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

    def add_run(self, judged: JudgedReplay, place: RunLocation, *, is_flagged: bool) -> None:
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
            print_wrapped(out, line, indent=_TITLE_WIDTH + _TITLE_GAP)


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
            self._task = self._progress.add_task(
                "scanning", total=sum(map(_get_file_size, self._files)) or None
            )
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
            self._progress.update(self._task, advance=_get_file_size(file))

    def say(self, text: str) -> None:
        """Write a message above the bar, or to standard error without one."""
        if self._progress is not None:
            self._progress.console.print(Text(text))
        else:
            say(text)


def _get_file_size(file: str) -> int:
    try:
        return Path(file).stat().st_size
    except OSError:
        return 0


_CREATE_FLAGS: Final = os.O_CREAT | os.O_EXCL | os.O_WRONLY


@contextmanager
def open_destination(output: Path | None) -> Iterator[TextIO]:
    """Yield standard output, or a file only its owner may read, put in place once it is complete."""
    if output is None:
        yield sys.stdout
        return
    path = output.resolve()
    if path.exists() and not path.is_file():
        # A pipe or a device has no half-written state, and must not be replaced by a file.
        with path.open("w", encoding="utf-8") as stream:
            yield stream
        return
    with _replace_when_complete(path) as stream:
        yield stream


@contextmanager
def _replace_when_complete(path: Path) -> Iterator[TextIO]:
    fresh = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        # A report quotes what agents did: only its owner may read it.
        with os.fdopen(os.open(fresh, _CREATE_FLAGS, 0o600), "w", encoding="utf-8") as stream:
            yield stream
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
