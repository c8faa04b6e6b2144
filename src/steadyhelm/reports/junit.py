"""Scan's report as JUnit XML: one suite a file, one test case a run."""

from typing import TextIO

from msgspec import Struct, field

from steadyhelm.findings import Severity
from steadyhelm.replay import Judged
from steadyhelm.reports.evidence import Evidence
from steadyhelm.reports.formats import escape_markup
from steadyhelm.reports.output import Place
from steadyhelm.reports.terminal import say
from steadyhelm.reports.text import Tally, summary


class _Suite(Struct):
    cases: list[str] = field(default_factory=list)
    failures: int = 0
    errors: int = 0

    @property
    def counts(self) -> str:
        return f'tests="{len(self.cases)}" failures="{self.failures}" errors="{self.errors}"'


class JunitReport:
    """A run that fails the scan is a failure, with its evidence; a line that cannot be read is an error."""

    streams = False

    def __init__(self, stream: TextIO, evidence: Evidence, level: Severity) -> None:
        self._stream = stream
        self._evidence = evidence
        self._level = level
        self._suites: dict[str, _Suite] = {}

    def run(self, judged: Judged, place: Place, *, is_flagged: bool) -> None:
        """Flagged runs that do not fail the scan keep their evidence as output."""
        suite = self._suites.setdefault(place.file, _Suite())
        suite.failures += is_flagged and self._fails(judged)
        run = judged.run
        took_s = max(0.0, run.events[-1].timestamp - (run.info.started_at or run.events[0].timestamp))
        said = self._said(judged, place) if is_flagged else ""
        suite.cases.append(_case(run.info.agent_id, run.info.run_id, place, said, took_s=took_s))

    def broken(self, place: Place, reason: str) -> None:
        """A test case of its own: what was not read was not checked."""
        suite = self._suites.setdefault(place.file, _Suite())
        suite.errors += 1
        said = f'<error type="unreadable" message="{escape_markup(reason)}"/>'
        suite.cases.append(_case("unreadable", f"line {place.line}", place, said))

    def end(self, tally: Tally, level: Severity, *, is_file: bool) -> None:  # noqa: ARG002
        """Write it all; counts stand in front."""
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
        if tally.runs:
            say(summary(tally, level))

    def _fails(self, judged: Judged) -> bool:
        return judged.report.worst >= self._level.rank

    def _said(self, judged: Judged, place: Place) -> str:
        text = "\n".join(escape_markup(one) for one in self._evidence.text(judged, str(place)).splitlines())
        if not self._fails(judged):
            return f"<system-out>{text}</system-out>"
        worst = max(reversed(self._evidence.told(judged)), key=lambda finding: finding.score)
        kind, message = escape_markup(worst.kind), escape_markup(worst.message)
        return f'<failure type="{kind}" message="{message}">{text}</failure>'


def _case(owner: str, name: str, place: Place, said: str, *, took_s: float = 0.0) -> str:
    attributes = (
        f'classname="{escape_markup(owner)}" name="{escape_markup(name)}" file="{escape_markup(place.file)}"'
    )
    return f'<testcase {attributes} line="{place.line}" time="{took_s:.3f}">{said}</testcase>\n'
