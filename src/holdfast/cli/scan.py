"""`holdfast scan`: replay recorded runs, and report which of them drifted."""

import enum
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from holdfast.cli.context import Shared
from holdfast.cli.output import FAILED, FLAGGED, OK, USAGE, fail, safe, say

if TYPE_CHECKING:
    from holdfast.adapters.runfile import BrokenLine, ReadRun
    from holdfast.cli.scan_output import Bar, Report
    from holdfast.cli.scan_report import Judge
    from holdfast.findings import Severity
    from holdfast.settings import Settings
    from holdfast.store import Store

_STDIN: Final = "-"
_ENDINGS: Final = (".jsonl", ".jsonl.gz")


class Format(enum.StrEnum):
    """How scan reports."""

    TEXT = "text"
    JSON = "json"


class Level(enum.StrEnum):
    """A severity as it is typed."""

    LOW = "low"
    MED = "med"
    HIGH = "high"
    CRITICAL = "critical"


def scan(
    context: typer.Context,
    paths: Annotated[
        list[str],
        typer.Argument(metavar="PATH", help="Run files, folders of them, or - for standard input."),
    ],
    report_format: Annotated[
        Format,
        typer.Option("--format", help="text for people, json for programs: one object a line and run."),
    ] = Format.TEXT,
    output: Annotated[
        Path | None, typer.Option("--output", help="Write the report to this file instead.")
    ] = None,
    baseline: Annotated[
        Path | None,
        typer.Option("--baseline", help="A database by whose baselines runs are judged; it is only read."),
    ] = None,
    fail_on: Annotated[
        Level,
        typer.Option("--fail-on", case_sensitive=False, help="The severity from which the exit status is 3."),
    ] = Level.MED,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Name clean runs too, and what was odd but could be read.")
    ] = False,
) -> None:
    """Replay recorded runs and report which of them drifted; nothing is stored.

    Exit status: 0 clean, 3 a run was flagged, 2 usage, 1 something could not be read.
    """
    from holdfast.cli.scan_output import Bar, JsonReport, TextReport, destination
    from holdfast.cli.scan_report import Judge
    from holdfast.findings import Severity

    shared: Shared = context.obj
    files = _files(paths)
    _require_writable(output, files)
    settings = shared.load().settings
    level = Severity(fail_on.upper())
    with _baselines(baseline, settings) as store, destination(output) as stream:
        judge = Judge(settings, store=store)
        if report_format is Format.JSON:
            report: Report = JsonReport(stream)
        else:
            report = TextReport(stream, settings, level, verbose=verbose)
        with Bar(files, report) as bar:
            scanned = _Scan(judge, report, level, bar, verbose=verbose)
            for file in files:
                scanned.read(file)
        report.end(scanned.tally, level, is_file=output is not None)
    raise typer.Exit(scanned.status())


class _Scan:
    """Reads file after file, hands each run to the judge and the judge's word to the report."""

    def __init__(
        self, judge: "Judge", report: "Report", level: "Severity", bar: "Bar", *, verbose: bool
    ) -> None:
        from holdfast.cli.scan_text import Tally, least_rank

        self.tally = Tally()
        self._judge = judge
        self._report = report
        self._level = level
        self._least = least_rank(level)
        self._bar = bar
        self._verbose = verbose

    def read(self, file: str) -> None:
        """Judge every run in a file; what cannot be read is named, and the rest goes on."""
        from holdfast.adapters.runfile import ReadRun, RunFile
        from holdfast.errors import FormatError

        try:
            for item in RunFile(file):
                if isinstance(item, ReadRun):
                    self._take(item, file)
                else:
                    self._broken(item, file)
        except FormatError as exc:
            self.tally.unreadable += 1
            self._bar.say(f"holdfast: {safe(exc)}")
        self._bar.done(file)

    def status(self) -> int:
        """The exit status; what could not be read counts more than what was found."""
        tally = self.tally
        if tally.runs == 0:
            say("holdfast: no runs were found. A run file holds one run a line: see `holdfast export`.")
            return FAILED
        if tally.unreadable or tally.in_part:
            return FAILED
        return FLAGGED if tally.failing else OK

    def _take(self, run: "ReadRun", file: str) -> None:
        where = f"{file}:{run.line}"
        judged = self._judge.judge(run)
        self.tally.add(judged.report, least=self._least, fail_on=self._level.rank)
        self.tally.in_part += run.unread > 0
        self._report.run(judged, where, is_flagged=judged.report.worst >= self._least)
        if run.unread or self._verbose:
            for problem in run.problems:
                self._bar.say(f"holdfast: {safe(where)}: run {safe(run.info.run_id)}: {safe(problem)}")
        self._bar.counted(self.tally)

    def _broken(self, item: "BrokenLine", file: str) -> None:
        self.tally.unreadable += 1
        self._bar.say(f"holdfast: {safe(file)}:{item.line}: {safe(item.reason)}")


def _files(paths: list[str]) -> list[str]:
    """Every file to read, in order and each once; folders give their run files, sorted."""
    found: dict[str, str] = {}
    for path in paths:
        if path == _STDIN:
            found.setdefault(_STDIN, _STDIN)
            continue
        if not Path(path).exists():
            fail(f"there is no file or folder {safe(path)}. Try: holdfast scan runs.jsonl", USAGE)
        inside = _in_folder(Path(path)) if Path(path).is_dir() else [path]
        if not inside:
            say(f"holdfast: {safe(path)} holds no file that ends in {' or '.join(_ENDINGS)}.")
        for file in inside:
            found.setdefault(str(Path(file).resolve()), file)
    return list(found.values())


def _in_folder(folder: Path) -> list[str]:
    return sorted(
        str(file) for file in folder.rglob("*.jsonl*") if file.name.endswith(_ENDINGS) and file.is_file()
    )


def _require_writable(output: Path | None, files: list[str]) -> None:
    if output is None:
        return
    if output.is_dir() or not output.absolute().parent.is_dir():
        fail(f"--output {safe(output)} cannot be written: name a file in a folder that exists.", USAGE)
    if output.exists() and any(file != _STDIN and output.samefile(file) for file in files):
        fail(f"--output {safe(output)} is one of the files to be read. Name another file.", USAGE)


@contextmanager
def _baselines(path: Path | None, settings: "Settings") -> Iterator["Store | None"]:
    """The database that baselines are read from, or None to judge each run alone."""
    if path is None:
        yield None
        return
    from msgspec import structs

    from holdfast.assembly import open_store

    if not path.is_file():
        fail(f"--baseline {safe(path)}: there is no such database.", USAGE)
    store = open_store(structs.replace(settings, db_path=str(path)), read_only=True)
    try:
        yield store
    finally:
        store.close()
