"""`steadyhelm corrections`: which turns the user had to correct, and whether anything was noticed there."""

import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from steadyhelm.cli.context import Shared
from steadyhelm.cli.output import FAILED, OK, USAGE, fail, print_fitting, print_json, span
from steadyhelm.reports.formats import counted
from steadyhelm.reports.terminal import console, safe, say

if TYPE_CHECKING:
    from steadyhelm.corrections.deferred import CorrectionHistory, DeferredCorrection
    from steadyhelm.events import TraceEvent
    from steadyhelm.recordings.run_file import ReadRun
    from steadyhelm.reports.evidence import Evidence
    from steadyhelm.store import RunStore

_TITLES: Final = ("run", "turn", "steps", "later", "p", "noticed", "asked", "the user said")
_SPARE: Final = ("p", "later", "asked", "steps", "noticed")
_SHOWN: Final = 80
_KEPT: Final = 500
_LOOKED_AT: Final = 2000
_TAKEN_OUT: Final = "[redacted]"


def corrections(
    context: typer.Context,
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PATH]...", help="Run files, transcripts or folders; without any, the store."
        ),
    ] = None,
    agent: Annotated[str | None, typer.Option("--agent", help="Only stored runs of this agent.")] = None,
    since: Annotated[
        str | None, typer.Option("--since", help="Only stored runs active in this time: 24h, 7d.")
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(
            "--labels", help="Write the runs as a run file, their corrections as labels, for the lab."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document a line and run.")] = False,
) -> None:
    """List the turns that the user corrected later, and whether anything was noticed there.

    Exit status: 0, or 1 when something could not be read.
    """
    if paths and (agent is not None or since is not None):
        fail("--agent and --since choose among stored runs; leave them out when paths are named.", USAGE)
    source = FileRuns(context.obj, paths) if paths else StoredRuns(context.obj, agent, since)
    told = _all(source)
    evidence = _evidence(context.obj)
    if labels is not None:
        _write_labels(labels, source.read)
    if as_json:
        for one in told:
            print_json(_document(one, evidence))
    else:
        _print(told, evidence)
    say(_summary(told))
    raise typer.Exit(FAILED if source.unread else OK)


def _all(source: "FileRuns | StoredRuns") -> list["Told"]:
    """Every run of the source, with a bar on a terminal while they are read."""
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    screen = console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    told: list[Told] = []
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as progress:
        task = progress.add_task("reading", total=None)
        for one in source.runs():
            told.append(one)
            progress.update(task, description=counted(len(told), "run"))
    return told


def _evidence(shared: Shared) -> "Evidence":
    """What puts texts on one line, with secrets taken out."""
    from steadyhelm.redaction import Redactor
    from steadyhelm.reports.evidence import Evidence

    settings = shared.load().settings
    return Evidence(Redactor(key_words=settings.redaction_keys, patterns=settings.redaction_patterns))


def _document(told: "Told", evidence: "Evidence") -> dict[str, Any]:
    from steadyhelm.corrections.deferred import score_findings

    score = score_findings(told.course, {it.at for it in told.noticed})
    return {
        "run_id": told.run_id,
        "agent_id": told.agent_id,
        "turns": len(told.course.turns),
        "judged": score.judged,
        "noticed": score.noticed,
        "corrected": score.corrected,
        "unnoticed": score.unnoticed,
        "corrections": [_plain(told, correction, evidence) for correction in told.course.corrections],
    }


def _plain(told: "Told", correction: "DeferredCorrection", evidence: "Evidence") -> dict[str, Any]:
    import msgspec

    plain: dict[str, Any] = msgspec.to_builtins(correction)
    # As in a scan: indices in the run's own list, where a call and its result may be two entries.
    places = {name: int(told.events[plain[name]].event_id) for name in ("first", "last", "message")}
    message = told.events[correction.message].text
    hidden = _Hidden(message, evidence)
    return {
        **plain,
        **places,
        "cues": [{**cue, "words": hidden.shown(cue["words"])} for cue in plain["cues"]],
        "by": [hidden.shown(name) for name in plain["by"]],
        "said": evidence.shown(message, _KEPT),
        "noticed": _names(told, correction),
    }


class _Hidden:
    """Shows words out of a message, unless they are part of what is taken out of it.

    Words of a message come in lower case and in pieces, in which a secret is no longer known as one.
    """

    def __init__(self, message: str, evidence: "Evidence") -> None:
        self._evidence = evidence
        looked_at = message[:_LOOKED_AT]
        self._message = _folded(looked_at)
        self._cleaned = _folded(evidence.shown(looked_at, 4 * _LOOKED_AT))

    def shown(self, words: str) -> str:
        """The words, or a mark in their place."""
        folded = _folded(words)
        if folded in self._message and folded not in self._cleaned:
            return _TAKEN_OUT
        return self._evidence.shown(words, _KEPT)


def _folded(text: str) -> str:
    return " ".join(text.lower().replace("\u2019", "'").split())


def _names(told: "Told", correction: "DeferredCorrection") -> list[str]:
    return sorted({it.detector for it in told.noticed if correction.first <= it.at <= correction.last})


def _print(told: Sequence["Told"], evidence: "Evidence") -> None:
    rows = [_line(one, correction, evidence) for one in told for correction in one.course.corrections]
    print_fitting(
        _TITLES,
        rows,
        spare=_SPARE,
        empty="No corrections. They are read off messages that users send after the agent's work.",
    )


def _line(told: "Told", correction: "DeferredCorrection", evidence: "Evidence") -> tuple[Any, ...]:
    asked = next((turn.asked for turn in told.course.turns if turn.number == correction.turn), None)
    return (
        told.run_id,
        correction.turn,
        f"{correction.first + 1}-{correction.last + 1}",
        correction.distance,
        f"{correction.probability:.2f}",
        ", ".join(_names(told, correction)) or "-",
        evidence.shown(told.events[asked].text, _SHOWN) if asked is not None else "-",
        evidence.shown(told.events[correction.message].text, _SHOWN),
    )


def _summary(told: Sequence["Told"]) -> str:
    from steadyhelm.corrections.deferred import score_findings

    scores = [score_findings(one.course, {it.at for it in one.noticed}) for one in told]
    judged, corrected = sum(it.judged for it in scores), sum(len(it.corrected) for it in scores)
    noticed, hits = sum(len(it.noticed) for it in scores), sum(it.hits for it in scores)
    return (
        f"{counted(len(told), 'run')}: {corrected:,} of {counted(judged, 'turn')} corrected later; something "
        f"was noticed at {noticed:,}, {hits:,} of them corrected; {corrected - hits:,} corrected unnoticed."
    )


def _write_labels(target: Path, runs: "Sequence[ReadRun]") -> None:
    from steadyhelm.lab.importers.layouts import write_runs
    from steadyhelm.lab.training.correction_labels import label_runs

    written = write_runs(label_runs(runs), target)
    say(f"Wrote {counted(written, 'labelled run')} to {safe(target)}.")


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
    course: "CorrectionHistory"
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

        from steadyhelm.cli.context import agent_named
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
    from steadyhelm.corrections.deferred import find_corrections

    return Told(run.info.run_id, run.info.agent_id, run.events, find_corrections(run.events), noticed)


def _noticed_live(store: "RunStore", agent_id: str, run_id: str) -> Iterator[Noticed]:
    """What was found while the run was watched, at the places of its steps."""
    events = [recorded.event for recorded in store.iter_run_events(agent_id, run_id)]
    places = {event.event_id: place for place, event in enumerate(events)}
    for finding in store.get_drift_events(agent_id, run_id, limit=_MOST):
        at = finding.event_id.removesuffix(f"/{finding.detector}")
        if at in places and _counts(finding.kind, finding.severity.rank):
            yield Noticed(finding.detector, places[at])


def _counts(kind: str, rank: int) -> bool:
    """What is read off the same messages proves nothing about them."""
    from steadyhelm.findings import Severity

    return kind != _CORRECTION and rank >= Severity.MED.rank
