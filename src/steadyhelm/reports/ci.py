"""Write scan's report for CI: as workflow commands of GitHub Actions, or as JUnit XML."""

import os
from pathlib import Path
from typing import Final, TextIO

from msgspec import Struct, field

from steadyhelm.findings import Severity
from steadyhelm.replay import JudgedReplay
from steadyhelm.reports.evidence import EvidenceFormatter, name_kind
from steadyhelm.reports.formats import escape_markup, make_printable
from steadyhelm.reports.output import RunLocation, ScanTotals, summarize
from steadyhelm.reports.terminal import say

_DATA_ESCAPES: Final = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_PROPERTY_ESCAPES: Final = {**_DATA_ESCAPES, ":": "%3A", ",": "%2C"}


class GithubReport:
    """Writes one annotation for each flagged run: an error when it fails the scan, else a warning."""

    is_streaming = True

    def __init__(self, stream: TextIO, evidence: EvidenceFormatter, level: Severity) -> None:
        self._stream = stream
        self._evidence = evidence
        self._level = level

    def add_run(self, judged: JudgedReplay, place: RunLocation, *, is_flagged: bool) -> None:
        """Write an annotation for a flagged run; the summary counts the others."""
        if not is_flagged:
            return
        kinds = dict.fromkeys(name_kind(finding) for finding in self._evidence.list_findings(judged))
        title = f"{', '.join(kinds)} in run {make_printable(judged.report.run_id)}"
        command = "error" if judged.report.worst >= self._level.rank else "warning"
        self._write(command, place, title, self._evidence.describe_as_text(judged))

    def add_unreadable(self, place: RunLocation, reason: str) -> None:
        """Write an error for a line that could not be read."""
        self._write("error", place, "cannot be read", make_printable(reason))

    def finish(self, totals: ScanTotals, level: Severity, *, is_file: bool) -> None:  # noqa: ARG002
        """Write the summary as a message."""
        if totals.runs:
            say(summarize(totals, level))

    def _write(self, command: str, place: RunLocation, title: str, text: str) -> None:
        properties = {"title": title}
        if place.file != "-":
            properties = {
                "file": make_printable(_make_repository_path(place.file)),
                "line": str(place.line),
                **properties,
            }
        pairs = (f"{name}={_escape_command(value, _PROPERTY_ESCAPES)}" for name, value in properties.items())
        self._stream.write(f"::{command} {','.join(pairs)}::{_escape_command(text, _DATA_ESCAPES)}\n")


def _make_repository_path(file: str) -> str:
    """Return the path for an annotation: relative to the working directory when the file is below it."""
    path = Path(file).absolute()
    if path.is_relative_to(Path.cwd()):
        return path.relative_to(Path.cwd()).as_posix()
    return os.path.normpath(file)


def _escape_command(text: str, escapes: dict[str, str]) -> str:
    r"""Return the text with the characters escaped that have a meaning in a workflow command.

    >>> _escape_command("100%\n::stop", _PROPERTY_ESCAPES)
    '100%25%0A%3A%3Astop'
    """
    return "".join(escapes.get(character, character) for character in text)


# Write scan's report as JUnit XML: one suite a file, one test case a run.


class _Suite(Struct):
    """The test cases of one file, and how many of them are not clean."""

    cases: list[str] = field(default_factory=list)
    failures: int = 0
    errors: int = 0

    @property
    def counts(self) -> str:
        """The counts as XML attributes."""
        return f'tests="{len(self.cases)}" failures="{self.failures}" errors="{self.errors}"'


class JunitReport:
    """Writes a run that fails the scan as a failure with its evidence, an unreadable line as an error."""

    is_streaming = False

    def __init__(self, stream: TextIO, evidence: EvidenceFormatter, level: Severity) -> None:
        self._stream = stream
        self._evidence = evidence
        self._level = level
        self._suites: dict[str, _Suite] = {}

    def add_run(self, judged: JudgedReplay, place: RunLocation, *, is_flagged: bool) -> None:
        """Add a test case; a flagged run that does not fail the scan keeps its evidence as output."""
        suite = self._suites.setdefault(place.file, _Suite())
        suite.failures += is_flagged and self._has_failed(judged)
        run = judged.run
        took_s = max(0.0, run.events[-1].timestamp - (run.info.started_at or run.events[0].timestamp))
        outcome = self._format_outcome_element(judged, place) if is_flagged else ""
        suite.cases.append(_test_case(run.info.agent_id, run.info.run_id, place, outcome, took_s=took_s))

    def add_unreadable(self, place: RunLocation, reason: str) -> None:
        """Add a test case of its own: what was not read was not checked."""
        suite = self._suites.setdefault(place.file, _Suite())
        suite.errors += 1
        outcome = f'<error type="unreadable" message="{escape_markup(reason)}"/>'
        suite.cases.append(_test_case("unreadable", f"line {place.line}", place, outcome))

    def finish(self, totals: ScanTotals, level: Severity, *, is_file: bool) -> None:  # noqa: ARG002
        """Write all suites, each after its counts."""
        suites = self._suites.values()
        total = _Suite(
            cases=[case for suite in suites for case in suite.cases],
            failures=sum(suite.failures for suite in suites),
            errors=sum(suite.errors for suite in suites),
        )
        self._stream.write('<?xml version="1.0" encoding="utf-8"?>\n')
        self._stream.write(f'<testsuites name="steadyhelm scan" {total.counts}>\n')
        for file, suite in self._suites.items():
            self._stream.write(f'<testsuite name="{escape_markup(file)}" {suite.counts} skipped="0">\n')
            self._stream.writelines(suite.cases)
            self._stream.write("</testsuite>\n")
        self._stream.write("</testsuites>\n")
        if totals.runs:
            say(summarize(totals, level))

    def _has_failed(self, judged: JudgedReplay) -> bool:
        return judged.report.worst >= self._level.rank

    def _format_outcome_element(self, judged: JudgedReplay, place: RunLocation) -> str:
        text = "\n".join(
            escape_markup(one) for one in self._evidence.describe_as_text(judged, str(place)).splitlines()
        )
        if not self._has_failed(judged):
            return f"<system-out>{text}</system-out>"
        worst = max(reversed(self._evidence.list_findings(judged)), key=lambda finding: finding.score)
        kind, message = escape_markup(worst.kind), escape_markup(worst.message)
        return f'<failure type="{kind}" message="{message}">{text}</failure>'


def _test_case(owner: str, name: str, place: RunLocation, outcome: str, *, took_s: float = 0.0) -> str:
    attributes = (
        f'classname="{escape_markup(owner)}" name="{escape_markup(name)}" file="{escape_markup(place.file)}"'
    )
    return f'<testcase {attributes} line="{place.line}" time="{took_s:.3f}">{outcome}</testcase>\n'
