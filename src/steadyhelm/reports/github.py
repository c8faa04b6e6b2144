"""Scan's report as workflow commands: each flagged run becomes an annotation on its file."""

import os
from pathlib import Path
from typing import Final, TextIO

from steadyhelm.findings import Severity
from steadyhelm.replay import Judged
from steadyhelm.reports.evidence import Evidence
from steadyhelm.reports.formats import printable
from steadyhelm.reports.output import Place
from steadyhelm.reports.terminal import say
from steadyhelm.reports.text import Tally, summary

_DATA: Final = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_PROPERTY: Final = {**_DATA, ":": "%3A", ",": "%2C"}


class GithubReport:
    """One annotation a flagged run: an error when it fails the scan, else a warning."""

    streams = True

    def __init__(self, stream: TextIO, evidence: Evidence, level: Severity) -> None:
        self._stream = stream
        self._evidence = evidence
        self._level = level

    def run(self, judged: Judged, place: Place, *, is_flagged: bool) -> None:
        """Clean runs are only counted."""
        if not is_flagged:
            return
        kinds = dict.fromkeys(finding.kind for finding in self._evidence.told(judged))
        title = f"{', '.join(kinds)} in run {printable(judged.report.run_id)}"
        command = "error" if judged.report.worst >= self._level.rank else "warning"
        self._write(command, place, title, self._evidence.text(judged))

    def broken(self, place: Place, reason: str) -> None:
        """What cannot be read fails the scan."""
        self._write("error", place, "cannot be read", printable(reason))

    def end(self, tally: Tally, level: Severity, *, is_file: bool) -> None:  # noqa: ARG002
        """The summary is a message."""
        if tally.runs:
            say(summary(tally, level))

    def _write(self, command: str, place: Place, title: str, said: str) -> None:
        properties = {"title": title}
        if place.file != "-":
            properties = {"file": _in_repository(place.file), "line": str(place.line), **properties}
        told = ",".join(f"{name}={_escaped(value, _PROPERTY)}" for name, value in properties.items())
        self._stream.write(f"::{command} {told}::{_escaped(said, _DATA)}\n")


def _in_repository(file: str) -> str:
    """The path as annotations want it: from where the workflow runs, when the file is below."""
    path = Path(file).absolute()
    if path.is_relative_to(Path.cwd()):
        return path.relative_to(Path.cwd()).as_posix()
    return os.path.normpath(file)


def _escaped(text: str, signs: dict[str, str]) -> str:
    r"""The text with the signs that mean something to the runner written as it wants them.

    >>> _escaped("100%\n::stop", _PROPERTY)
    '100%25%0A%3A%3Astop'
    """
    return "".join(signs.get(sign, sign) for sign in text)
