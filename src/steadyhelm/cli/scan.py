"""`steadyhelm scan`: replay recorded runs, and report which of them drifted."""

import enum
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from steadyhelm.cli.context import SEVERITY_CHOICES, GlobalOptions, parse_severity
from steadyhelm.cli.output import (
    EXIT_FAILED,
    EXIT_FLAGGED,
    EXIT_OK,
    EXIT_USAGE,
    AsJson,
    Engine,
    Jobs,
    Master,
    OnEngine,
    choose_workers,
    fail,
)
from steadyhelm.findings import Severity
from steadyhelm.reports.formats import pluralize
from steadyhelm.reports.terminal import safe, say

if TYPE_CHECKING:
    from typing import TextIO

    from steadyhelm.recordings.run_file import ReadRun
    from steadyhelm.replay import JudgedReplay, Replayer
    from steadyhelm.reports.output import Report, RunLocation, ScanProgress
    from steadyhelm.settings import Settings
    from steadyhelm.stores.sql_store import SQLStore

_STDIN: Final = "-"
_ENDINGS: Final = (".jsonl", ".jsonl.gz", ".json")


class ReportFormat(enum.StrEnum):
    """The formats of a scan report."""

    TEXT = "text"
    JSON = "json"
    HTML = "html"
    JUNIT = "junit"
    GITHUB = "github"


Paths = Annotated[
    list[str],
    typer.Argument(metavar="PATH", help="Run files, transcripts, folders of them, or -."),
]
Format = Annotated[
    ReportFormat,
    typer.Option(
        "--format",
        help="text and html for people, json for programs (one object a line), junit and github for CI.",
    ),
]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="Write the report to this file.")]
Baseline = Annotated[
    str | None,
    typer.Option(
        "--baseline",
        metavar="FILE|URL",
        help="A database whose baselines the runs are compared with; it is only read.",
    ),
]
FailOn = Annotated[
    Severity,
    typer.Option(
        "--fail-on",
        parser=parse_severity,
        metavar=SEVERITY_CHOICES,
        show_default="med",
        help="The lowest severity that makes the exit status 3.",
    ),
]
Follow = Annotated[
    bool,
    typer.Option("--follow", help="Follow one file that is being written until Ctrl-C, then report."),
]
FollowFor = Annotated[
    float | None,
    typer.Option("--follow-for", min=0, metavar="SECONDS", help="Follow for at most this long."),
]
Verbose = Annotated[
    bool,
    typer.Option("--verbose", "-v", help="List clean runs too, and problems that did not stop reading."),
]


def scan(
    context: typer.Context,
    paths: Paths,
    report_format: Format = ReportFormat.TEXT,
    output: Output = None,
    baseline: Baseline = None,
    fail_on: FailOn = Severity.MED,
    follow: Follow = False,
    follow_for: FollowFor = None,
    verbose: Verbose = False,
    jobs: Jobs = 1,
    engine: OnEngine = Engine.LOCAL,
    master: Master = "",
    as_json: AsJson = False,
) -> None:
    """Replay recorded runs and report which of them drifted. Nothing is stored.

    Exit status: 0 clean, 3 a run was flagged, 2 usage, 1 something could not be read.
    """
    from steadyhelm.replay_pool import open_replayer
    from steadyhelm.reports.output import ScanProgress, open_destination

    shared: GlobalOptions = context.obj
    _require_one_format(report_format, as_json=as_json)
    files = find_run_files(paths)
    _require_writable(output, files)
    is_live = follow or follow_for is not None
    if is_live:
        _require_followable(files, paths)
    settings = shared.load().settings
    workers = choose_workers(jobs, engine, master)
    with (
        _open_baselines(baseline, settings) as store,
        open_destination(output) as stream,
        open_replayer(settings, store=store, workers=workers) as replayer,
    ):
        report = _make_report(report_format, stream, settings, fail_on, is_document=as_json, verbose=verbose)
        if is_live:
            on_stdout = report_format is ReportFormat.TEXT and not as_json and output is None
            _follow_file(files[0], replayer, fail_on, follow_for, on_stdout=on_stdout)
        with ScanProgress(files, report) as bar:
            scanned = _Scan(replayer, report, fail_on, bar, verbose=verbose)
            scanned.read(files, named=paths)
        report.finish(scanned.totals, fail_on, is_file=output is not None)
    raise typer.Exit(scanned.exit_status())


def _require_one_format(given: ReportFormat, *, as_json: bool) -> None:
    """End the command when `--json`, which prints one document, and another format were asked for."""
    if as_json and given is not ReportFormat.TEXT:
        fail(f"--json and --format {given.value} contradict each other: give one of them.", EXIT_USAGE)


def _make_report(
    kind: ReportFormat,
    stream: "TextIO",
    settings: "Settings",
    level: Severity,
    *,
    is_document: bool,
    verbose: bool,
) -> "Report":
    from steadyhelm.reports.output import JsonLinesReport, JsonReport, TextReport, find_lowest_flagged_rank

    if is_document:
        return JsonReport(stream)
    if kind is ReportFormat.JSON:
        return JsonLinesReport(stream)
    from steadyhelm.components import make_redactor
    from steadyhelm.reports.evidence import EvidenceFormatter

    evidence = EvidenceFormatter(make_redactor(settings), least=find_lowest_flagged_rank(level))
    # A format is loaded only when it is asked for: templates cost more than a text report.
    if kind is ReportFormat.HTML:
        from steadyhelm.reports.html import HtmlReport

        return HtmlReport(stream, evidence)
    if kind is ReportFormat.JUNIT:
        from steadyhelm.reports.ci import JunitReport

        return JunitReport(stream, evidence, level)
    if kind is ReportFormat.GITHUB:
        from steadyhelm.reports.ci import GithubReport

        return GithubReport(stream, evidence, level)
    return TextReport(stream, evidence, verbose=verbose)


def _follow_file(
    file: str, replayer: "Replayer", level: Severity, seconds: float | None, *, on_stdout: bool
) -> None:
    """Print findings as they come: to standard output when the report is text, else as messages."""
    from steadyhelm.cli.following import Follower, follow, until_interrupted
    from steadyhelm.reports.output import find_lowest_flagged_rank
    from steadyhelm.reports.terminal import console

    out = console(stderr=not on_stdout)
    with until_interrupted(seconds) as is_over:
        say(f"steadyhelm: following {safe(file)}; Ctrl-C ends it and reports.")
        follow(
            file,
            lambda: Follower(replayer, least=find_lowest_flagged_rank(level)),
            out.print,
            is_over=is_over,
        )


class _Scan:
    """Reads file after file, replays each run, and adds the result to the report."""

    def __init__(
        self, replayer: "Replayer", report: "Report", level: Severity, bar: "ScanProgress", *, verbose: bool
    ) -> None:
        from steadyhelm.reports.output import ScanTotals, find_lowest_flagged_rank

        self.totals = ScanTotals()
        self._replayer = replayer
        self._report = report
        self._level = level
        self._least = find_lowest_flagged_rank(level)
        self._bar = bar
        self._verbose = verbose
        self._skipped: list[str] = []
        # Places of runs that are being judged, and between them what else was met: runs may come back later
        # than they are read, and are reported in the order of the files.
        self._waiting: deque[Any] = deque()

    def read(self, files: Sequence[str], *, named: Collection[str]) -> None:
        """Replay every run in the files; what cannot be read is named, and the rest is still read.

        A JSON file of another kind is skipped when only its folder was named.
        """
        for judged in self._replayer.judge_all(self._read_runs(files, named)):
            self._add_waiting()
            self._add_run(judged, self._waiting.popleft())
        self._add_waiting()

    def _read_runs(self, files: Sequence[str], named: Collection[str]) -> Iterator["ReadRun"]:
        """Yield the runs of all files; the place of each, and what else was met, wait for their turn."""
        from steadyhelm.errors import FormatError
        from steadyhelm.recordings.recognition import UNKNOWN, open_runs
        from steadyhelm.recordings.run_file import ReadRun
        from steadyhelm.reports.output import RunLocation

        for file in files:
            try:
                for item in open_runs(file):
                    place = RunLocation(file, item.line)
                    if isinstance(item, ReadRun):
                        self._waiting.append(place)
                        yield item
                    elif item.reason == UNKNOWN and file.endswith(".json") and file not in named:
                        self._skipped.append(file)
                    else:
                        said = f"{safe(place)}: {safe(item.reason)}"
                        self._waiting.append(partial(self._add_unreadable, place, item.reason, said))
            except FormatError as exc:
                unread = partial(self._add_unreadable, RunLocation(file, 1), str(exc), safe(exc))
                self._waiting.append(unread)
            self._waiting.append(partial(self._bar.finish_file, file))

    def _add_waiting(self) -> None:
        """Report what was met before the next run."""
        while self._waiting and callable(self._waiting[0]):
            self._waiting.popleft()()

    def exit_status(self) -> int:
        """Return the exit status; what could not be read counts more than what was found."""
        totals = self.totals
        if self._skipped:
            names = f": {', '.join(map(safe, self._skipped))}" if self._verbose else ""
            files = pluralize(len(self._skipped), ".json file")
            say(f"steadyhelm: skipped {files} without a run{names}.")
        if totals.runs == 0:
            say("steadyhelm: no runs were found. A run file holds one run a line: see `steadyhelm export`.")
            return EXIT_FAILED
        if totals.unreadable or totals.in_part:
            return EXIT_FAILED
        return EXIT_FLAGGED if totals.failing else EXIT_OK

    def _add_run(self, judged: "JudgedReplay", place: "RunLocation") -> None:
        run = judged.run
        self.totals.add(judged.report, least=self._least, fail_on=self._level.rank)
        self.totals.in_part += run.unread > 0
        self._report.add_run(judged, place, is_flagged=judged.report.worst >= self._least)
        if run.unread or self._verbose:
            for problem in run.problems:
                self._bar.say(f"steadyhelm: {safe(place)}: run {safe(run.info.run_id)}: {safe(problem)}")
        self._bar.show_totals(self.totals)

    def _add_unreadable(self, place: "RunLocation", reason: str, said: str) -> None:
        self.totals.unreadable += 1
        self._report.add_unreadable(place, reason)
        self._bar.say(f"steadyhelm: {said}")


def find_run_files(paths: list[str]) -> list[str]:
    """Return every file to read, in order and each once; a folder means its run files, sorted."""
    found: dict[str, str] = {}
    for path in paths:
        if path == _STDIN:
            found.setdefault(_STDIN, _STDIN)
            continue
        # An empty name, of a variable that was not set, is not the working directory.
        if not path or not Path(path).exists():
            shown = safe(path) or "''"
            fail(f"there is no file or folder {shown}. Try: steadyhelm scan runs.jsonl", EXIT_USAGE)
        inside = _files_in_folder(Path(path)) if Path(path).is_dir() else [path]
        if not inside:
            say(f"steadyhelm: {safe(path)} has no file that ends in {' or '.join(_ENDINGS)}.")
        for file in inside:
            found.setdefault(str(Path(file).resolve()), file)
    return list(found.values())


def _files_in_folder(folder: Path) -> list[str]:
    return sorted(
        str(file) for file in folder.rglob("*.json*") if file.name.endswith(_ENDINGS) and file.is_file()
    )


def _require_followable(files: list[str], paths: list[str]) -> None:
    is_one = len(paths) == 1 and files == paths and files[0] != _STDIN
    if not is_one or files[0].endswith(".gz") or not Path(files[0]).is_file():
        fail("--follow takes one file that is being written, not a folder, a pipe, - or a .gz.", EXIT_USAGE)


def _require_writable(output: Path | None, files: list[str]) -> None:
    if output is None:
        return
    if output.is_dir() or not output.absolute().parent.is_dir():
        fail(f"--output {safe(output)} cannot be written: name a file in a folder that exists.", EXIT_USAGE)
    if output.exists() and any(file != _STDIN and output.samefile(file) for file in files):
        fail(f"--output {safe(output)} is one of the files to be read. Name another file.", EXIT_USAGE)


@contextmanager
def _open_baselines(where: str | None, settings: "Settings") -> Iterator["SQLStore | None"]:
    """Yield the database that baselines are read from, or None to check each run alone."""
    if where is None:
        yield None
        return
    from msgspec import structs

    from steadyhelm.components import open_store

    settings = structs.replace(settings, db=where)
    if not settings.database.is_server and not settings.database.path.is_file():
        fail(f"--baseline {safe(where)}: there is no such database.", EXIT_USAGE)
    store = open_store(settings, read_only=True)
    try:
        yield store
    finally:
        store.close()
