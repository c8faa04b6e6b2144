"""Where `steadyhelm corrections` gets its runs from, and what was noticed in each."""

import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from steadyhelm.cli.context import Shared
from steadyhelm.cli.output import USAGE, fail, span
from steadyhelm.reports.terminal import safe, say

if TYPE_CHECKING:
    from steadyhelm.corrections.deferred import Course
    from steadyhelm.events import TraceEvent
    from steadyhelm.recordings.run_file import ReadRun
    from steadyhelm.store import Store

_CORRECTION: Final = "correction"
_STDIN: Final = "-"
_MOST: Final = 100_000


class Noticed(NamedTuple):
    """A finding of MED or above: its detector, and its place among the run's events."""

    detector: str
    at: int


class Told(NamedTuple):
    """A run, its turns and corrections, and what was noticed in it."""

    run_id: str
    agent_id: str
    events: "Sequence[TraceEvent]"
    course: "Course"
    noticed: "Sequence[Noticed]"


class FileRuns:
    """Runs out of files, each replayed to see what would have been noticed."""

    def __init__(self, shared: Shared, paths: list[str]) -> None:
        from steadyhelm.cli.scan import _files

        _require_paths(paths)
        self.unread = 0
        self.read: list[ReadRun] = []
        self._shared = shared
        self._named = set(paths)
        self._paths = _files(paths)

    def runs(self) -> Iterator[Told]:
        """Every run with what was noticed in it."""
        from steadyhelm.replay import Judge

        judge = Judge(self._shared.load().settings)
        for path in self._paths:
            for run in self._read(path):
                self.read.append(run)
                places = {int(event.event_id): place for place, event in enumerate(run.events)}
                noticed = [
                    Noticed(finding.detector, places[finding.at])
                    for finding in judge.judge(run).report.findings
                    if _counts(finding.kind, finding.severity.rank) and finding.at in places
                ]
                yield _told(run, noticed)

    def _read(self, path: str) -> "Iterator[ReadRun]":
        """The runs of a file; what cannot be read is named, and the rest goes on."""
        from steadyhelm.errors import FormatError
        from steadyhelm.recordings.recognition import UNKNOWN, open_runs
        from steadyhelm.recordings.run_file import BrokenLine

        try:
            for item in open_runs(path):
                if not isinstance(item, BrokenLine):
                    yield item
                elif item.reason != UNKNOWN or not path.endswith(".json") or path in self._named:
                    self.unread += 1
                    say(f"steadyhelm: {safe(path)}:{item.line}: {safe(item.reason)}")
        except FormatError as exc:
            self.unread += 1
            say(f"steadyhelm: {safe(exc)}")


class StoredRuns:
    """Runs out of our own database, with what was noticed while they were watched."""

    def __init__(self, shared: Shared, agent: str | None, since: str | None) -> None:
        self.unread = 0
        self.read: list[ReadRun] = []
        self._shared = shared
        self._agent = agent
        self._after = None if since is None else time.time() - span(since)

    def runs(self) -> Iterator[Told]:
        """Every run with what was noticed in it."""
        import tempfile

        from steadyhelm.cli.lookup import agent_named
        from steadyhelm.recordings.run_file import ReadRun, RunFile
        from steadyhelm.stores.exports import export

        with closing(self._shared.store()) as store, tempfile.TemporaryFile() as lines:
            name = agent_named(store, self._agent) if self._agent is not None else None
            export(store, lines, format="jsonl", agent_id=name, since=self._after)
            lines.seek(0)
            for run in RunFile(lines):
                if not isinstance(run, ReadRun):
                    self.unread += 1
                    continue
                self.read.append(run)
                yield _told(run, list(_noticed_live(store, run.info.agent_id, run.info.run_id)))


def _require_paths(paths: list[str]) -> None:
    for path in paths:
        if path != _STDIN and not Path(path).exists():
            fail(f"there is no file or folder {safe(path)}. Try: steadyhelm corrections runs.jsonl", USAGE)


def _told(run: "ReadRun", noticed: "Sequence[Noticed]") -> Told:
    from steadyhelm.corrections.deferred import course_of

    return Told(run.info.run_id, run.info.agent_id, run.events, course_of(run.events), noticed)


def _noticed_live(store: "Store", agent_id: str, run_id: str) -> Iterator[Noticed]:
    """What was found while the run was watched, at the places of its steps."""
    events = [recorded.event for recorded in store.run_events(agent_id, run_id)]
    places = {event.event_id: place for place, event in enumerate(events)}
    for finding in store.get_drift_events(agent_id, run_id, limit=_MOST):
        at = finding.event_id.removesuffix(f"/{finding.detector}")
        if at in places and _counts(finding.kind, finding.severity.rank):
            yield Noticed(finding.detector, places[at])


def _counts(kind: str, rank: int) -> bool:
    """What is read off the same messages proves nothing about them."""
    from steadyhelm.findings import Severity

    return kind != _CORRECTION and rank >= Severity.MED.rank
