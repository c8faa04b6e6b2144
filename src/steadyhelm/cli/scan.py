"""`steadyhelm scan`: replay recorded runs, and report which of them drifted."""

import enum
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from steadyhelm.cli.context import Shared
from steadyhelm.cli.output import FAILED, FLAGGED, OK, USAGE, fail
from steadyhelm.reports.formats import counted
from steadyhelm.reports.terminal import safe, say

if TYPE_CHECKING:
    from typing import TextIO

    from steadyhelm.findings import Severity
    from steadyhelm.recordings.run_file import ReadRun
    from steadyhelm.replay import Judge
    from steadyhelm.reports.output import Bar, Place, Report
    from steadyhelm.settings import Settings
    from steadyhelm.store import Store

_STDIN: Final = "-"
_ENDINGS: Final = (".jsonl", ".jsonl.gz", ".json")


class Format(enum.StrEnum):
    """How scan reports."""

    TEXT = "text"
    JSON = "json"
    HTML = "html"
    JUNIT = "junit"
    GITHUB = "github"


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
        typer.Argument(metavar="PATH", help="Run files, transcripts, folders of them, or -."),
    ],
    report_format: Annotated[
        Format,
        typer.Option(
            "--format", help="text and html for people, json for programs, junit and github for CI."
        ),
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
    follow: Annotated[
        bool,
        typer.Option("--follow", help="Follow one file that is being written, until Ctrl-C; then report."),
    ] = False,
    follow_for: Annotated[
        float | None,
        typer.Option("--follow-for", min=0, metavar="SECONDS", help="Follow for this long at most."),
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Name clean runs too, and what was odd but could be read.")
    ] = False,
) -> None:
    """Replay recorded runs and report which of them drifted; nothing is stored.

    Exit status: 0 clean, 3 a run was flagged, 2 usage, 1 something could not be read.
    """
    from steadyhelm.findings import Severity
    from steadyhelm.replay import Judge
    from steadyhelm.reports.output import Bar, destination

    shared: Shared = context.obj
    files = _files(paths)
    _require_writable(output, files)
    is_live = follow or follow_for is not None
    if is_live:
        _require_followable(files, paths)
    settings = shared.load().settings
    level = Severity(fail_on.upper())
    with _baselines(baseline, settings) as store, destination(output) as stream:
        judge = Judge(settings, store=store)
        report = _report(report_format, stream, settings, level, verbose=verbose)
        if is_live:
            on_stdout = report_format is Format.TEXT and output is None
            _follow(files[0], judge, level, follow_for, on_stdout=on_stdout)
        with Bar(files, report) as bar:
            scanned = _Scan(judge, report, level, bar, verbose=verbose)
            for file in files:
                scanned.read(file, is_named=file in paths)
        report.end(scanned.tally, level, is_file=output is not None)
    raise typer.Exit(scanned.status())


def _report(
    kind: Format, stream: "TextIO", settings: "Settings", level: "Severity", *, verbose: bool
) -> "Report":
    from steadyhelm.redaction import Redactor
    from steadyhelm.reports.evidence import Evidence
    from steadyhelm.reports.output import JsonReport, TextReport
    from steadyhelm.reports.text import least_rank

    redactor = Redactor(key_words=settings.redaction_keys, patterns=settings.redaction_patterns)
    evidence = Evidence(redactor, least=least_rank(level))
    # A format is loaded only when it is asked for: templates cost more than a text report.
    if kind is Format.HTML:
        from steadyhelm.reports.html import HtmlReport

        return HtmlReport(stream, evidence)
    if kind is Format.JUNIT:
        from steadyhelm.reports.junit import JunitReport

        return JunitReport(stream, evidence, level)
    if kind is Format.GITHUB:
        from steadyhelm.reports.github import GithubReport

        return GithubReport(stream, evidence, level)
    return JsonReport(stream) if kind is Format.JSON else TextReport(stream, evidence, verbose=verbose)


def _follow(file: str, judge: "Judge", level: "Severity", seconds: float | None, *, on_stdout: bool) -> None:
    """Tell what is found as it comes: where the report is text, on standard output, else as messages."""
    from steadyhelm.cli.scan_follow import Follower, follow, until_interrupted
    from steadyhelm.reports.terminal import console
    from steadyhelm.reports.text import least_rank

    out = console(stderr=not on_stdout)
    with until_interrupted(seconds) as is_over:
        say(f"steadyhelm: following {safe(file)}; Ctrl-C ends it and reports.")
        follow(file, lambda: Follower(judge, least=least_rank(level)), out.print, is_over=is_over)


class _Scan:
    """Reads file after file, hands each run to the judge and the judge's word to the report."""

    def __init__(
        self, judge: "Judge", report: "Report", level: "Severity", bar: "Bar", *, verbose: bool
    ) -> None:
        from steadyhelm.reports.text import Tally, least_rank

        self.tally = Tally()
        self._judge = judge
        self._report = report
        self._level = level
        self._least = least_rank(level)
        self._bar = bar
        self._verbose = verbose
        self._passed_over: list[str] = []

    def read(self, file: str, *, is_named: bool) -> None:
        """Judge every run in a file; what cannot be read is named, and the rest goes on.

        A JSON file of another kind is passed over where only its folder was named.
        """
        from steadyhelm.errors import FormatError
        from steadyhelm.recordings.recognition import UNKNOWN, open_runs
        from steadyhelm.recordings.run_file import ReadRun
        from steadyhelm.reports.output import Place

        try:
            for item in open_runs(file):
                if isinstance(item, ReadRun):
                    self._take(item, Place(file, item.line))
                elif item.reason == UNKNOWN and file.endswith(".json") and not is_named:
                    self._passed_over.append(file)
                else:
                    self._broken(Place(file, item.line), item.reason)
        except FormatError as exc:
            self.tally.unreadable += 1
            self._report.broken(Place(file, 1), str(exc))
            self._bar.say(f"steadyhelm: {safe(exc)}")
        self._bar.done(file)

    def status(self) -> int:
        """The exit status; what could not be read counts more than what was found."""
        tally = self.tally
        if self._passed_over:
            names = f": {', '.join(map(safe, self._passed_over))}" if self._verbose else ""
            files = counted(len(self._passed_over), ".json file")
            say(f"steadyhelm: passed over {files} without a run{names}.")
        if tally.runs == 0:
            say("steadyhelm: no runs were found. A run file holds one run a line: see `steadyhelm export`.")
            return FAILED
        if tally.unreadable or tally.in_part:
            return FAILED
        return FLAGGED if tally.failing else OK

    def _take(self, run: "ReadRun", place: "Place") -> None:
        judged = self._judge.judge(run)
        self.tally.add(judged.report, least=self._least, fail_on=self._level.rank)
        self.tally.in_part += run.unread > 0
        self._report.run(judged, place, is_flagged=judged.report.worst >= self._least)
        if run.unread or self._verbose:
            for problem in run.problems:
                self._bar.say(f"steadyhelm: {safe(place)}: run {safe(run.info.run_id)}: {safe(problem)}")
        self._bar.counted(self.tally)

    def _broken(self, place: "Place", reason: str) -> None:
        self.tally.unreadable += 1
        self._report.broken(place, reason)
        self._bar.say(f"steadyhelm: {safe(place)}: {safe(reason)}")


def _files(paths: list[str]) -> list[str]:
    """Every file to read, in order and each once; folders give their run files, sorted."""
    found: dict[str, str] = {}
    for path in paths:
        if path == _STDIN:
            found.setdefault(_STDIN, _STDIN)
            continue
        if not Path(path).exists():
            fail(f"there is no file or folder {safe(path)}. Try: steadyhelm scan runs.jsonl", USAGE)
        inside = _in_folder(Path(path)) if Path(path).is_dir() else [path]
        if not inside:
            say(f"steadyhelm: {safe(path)} holds no file that ends in {' or '.join(_ENDINGS)}.")
        for file in inside:
            found.setdefault(str(Path(file).resolve()), file)
    return list(found.values())


def _in_folder(folder: Path) -> list[str]:
    return sorted(
        str(file) for file in folder.rglob("*.json*") if file.name.endswith(_ENDINGS) and file.is_file()
    )


def _require_followable(files: list[str], paths: list[str]) -> None:
    is_one = len(paths) == 1 and files == paths and files[0] != _STDIN
    if not is_one or files[0].endswith(".gz"):
        fail("--follow takes one file that is being written, not a folder, - or a .gz.", USAGE)


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

    from steadyhelm.parts import open_store

    if not path.is_file():
        fail(f"--baseline {safe(path)}: there is no such database.", USAGE)
    store = open_store(structs.replace(settings, db_path=str(path)), read_only=True)
    try:
        yield store
    finally:
        store.close()
