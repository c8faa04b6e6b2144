"""Write scan's report as workflow commands: each flagged run becomes an annotation on its file."""

import os
from pathlib import Path
from typing import Final, TextIO

from steadyhelm.findings import Severity
from steadyhelm.replay import Judged
from steadyhelm.reports.evidence import EvidenceFormatter
from steadyhelm.reports.formats import printable
from steadyhelm.reports.output import RunLocation
from steadyhelm.reports.terminal import say
from steadyhelm.reports.text import ScanTotals, summarize

_DATA_ESCAPES: Final = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_PROPERTY_ESCAPES: Final = {**_DATA_ESCAPES, ":": "%3A", ",": "%2C"}


class GithubReport:
    """Writes one annotation for each flagged run: an error when it fails the scan, else a warning."""

    is_streaming = True

    def __init__(self, stream: TextIO, evidence: EvidenceFormatter, level: Severity) -> None:
        self._stream = stream
        self._evidence = evidence
        self._level = level

    def add_run(self, judged: Judged, place: RunLocation, *, is_flagged: bool) -> None:
        """Write an annotation for a flagged run; the summary counts the others."""
        if not is_flagged:
            return
        kinds = dict.fromkeys(finding.kind for finding in self._evidence.list_findings(judged))
        title = f"{', '.join(kinds)} in run {printable(judged.report.run_id)}"
        command = "error" if judged.report.worst >= self._level.rank else "warning"
        self._write(command, place, title, self._evidence.describe_as_text(judged))

    def add_unreadable(self, place: RunLocation, reason: str) -> None:
        """Write an error for a line that could not be read."""
        self._write("error", place, "cannot be read", printable(reason))

    def finish(self, totals: ScanTotals, level: Severity, *, is_file: bool) -> None:  # noqa: ARG002
        """Write the summary as a message."""
        if totals.runs:
            say(summarize(totals, level))

    def _write(self, command: str, place: RunLocation, title: str, text: str) -> None:
        properties = {"title": title}
        if place.file != "-":
            properties = {"file": _repository_path(place.file), "line": str(place.line), **properties}
        pairs = (f"{name}={_escape_command(value, _PROPERTY_ESCAPES)}" for name, value in properties.items())
        self._stream.write(f"::{command} {','.join(pairs)}::{_escape_command(text, _DATA_ESCAPES)}\n")


def _repository_path(file: str) -> str:
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
