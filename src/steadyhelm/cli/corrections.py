"""`steadyhelm corrections`: the turns that users corrected later, and whether they had findings."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from steadyhelm.cli.context import GlobalOptions, OnlyAgent, Since, find_start
from steadyhelm.cli.output import (
    EXIT_FAILED,
    EXIT_OK,
    EXIT_USAGE,
    AsJson,
    fail,
    print_json,
    print_table,
)
from steadyhelm.reports.formats import pluralize
from steadyhelm.reports.terminal import console, safe, say

if TYPE_CHECKING:
    from steadyhelm.corrections.deferred import CorrectionHistory, DeferredCorrection
    from steadyhelm.events import TraceEvent
    from steadyhelm.recordings.run_file import ReadRun
    from steadyhelm.reports.evidence import EvidenceFormatter
    from steadyhelm.store import RunStore

_TITLES: Final = ("run", "turn", "steps", "later", "p", "findings", "asked", "the user said")
_TEXT_WIDTH: Final = 80
_JSON_TEXT_WIDTH: Final = 500
_MESSAGE_READ: Final = 2000
_REDACTED: Final = "[redacted]"


def corrections(
    context: typer.Context,
    paths: Annotated[
        list[str] | None,
        typer.Argument(metavar="PATH", help="Run files, transcripts or folders; by default the database."),
    ] = None,
    agent: OnlyAgent = None,
    since: Since = None,
    labels: Annotated[
        Path | None,
        typer.Option(
            "--labels", help="Write the runs to a run file for the lab, with corrections as labels."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the turns that users corrected later. Shows which of them had findings.

    Exit status: 0, or 1 when something could not be read.
    """
    if paths and (agent is not None or since is not None):
        fail("--agent and --since apply to stored runs; leave them out when you name paths.", EXIT_USAGE)
    source = FileRuns(context.obj, paths) if paths else StoredRuns(context.obj, agent, since)
    runs = _read_runs(source)
    evidence = _make_formatter(context.obj)
    if labels is not None:
        _write_labels(labels, source.read)
    if as_json:
        print_json({"runs": [_run_to_data(run, evidence) for run in runs]})
    else:
        _print_corrections(runs, evidence)
    say(_summarize(runs))
    raise typer.Exit(EXIT_FAILED if source.unread else EXIT_OK)


def _read_runs(source: "FileRuns | StoredRuns") -> list["CheckedRun"]:
    """Return every run of the source; show progress on a terminal meanwhile."""
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    screen = console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    runs: list[CheckedRun] = []
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as progress:
        task = progress.add_task("reading", total=None)
        for run in source.runs():
            runs.append(run)
            progress.update(task, description=pluralize(len(runs), "run"))
    return runs


def _make_formatter(shared: GlobalOptions) -> "EvidenceFormatter":
    """Return what puts text on one line, with secrets removed."""
    from steadyhelm.components import make_redactor
    from steadyhelm.reports.evidence import EvidenceFormatter

    return EvidenceFormatter(make_redactor(shared.load().settings))


def _run_to_data(run: "CheckedRun", evidence: "EvidenceFormatter") -> dict[str, Any]:
    from steadyhelm.corrections.deferred import score_findings

    score = score_findings(run.history, {it.at for it in run.noticed})
    return {
        "run_id": run.run_id,
        "agent_id": run.agent_id,
        "turns": len(run.history.turns),
        "judged": score.judged,
        "noticed": score.noticed,
        "corrected": score.corrected,
        "unnoticed": score.unnoticed,
        "corrections": [
            _correction_to_data(run, correction, evidence) for correction in run.history.corrections
        ],
    }


def _correction_to_data(
    run: "CheckedRun", correction: "DeferredCorrection", evidence: "EvidenceFormatter"
) -> dict[str, Any]:
    import msgspec

    plain: dict[str, Any] = msgspec.to_builtins(correction)
    # As in a scan: indices in the run's own list, where a call and its result may be two entries.
    places = {name: int(run.events[plain[name]].event_id) for name in ("first", "last", "message")}
    message = run.events[correction.message].text
    hider = _SecretHider(message, evidence)
    return {
        **plain,
        **places,
        "cues": [{**cue, "words": hider.redact(cue["words"])} for cue in plain["cues"]],
        "by": [hider.redact(name) for name in plain["by"]],
        "said": evidence.redact(message, _JSON_TEXT_WIDTH),
        "noticed": _find_detectors_at(run, correction),
    }


class _SecretHider:
    """Shows words of a message, unless they are part of a secret in it.

    The words come in lower case and in pieces, in which a secret is no longer recognised.
    """

    def __init__(self, message: str, evidence: "EvidenceFormatter") -> None:
        self._evidence = evidence
        looked_at = message[:_MESSAGE_READ]
        self._message = _fold(looked_at)
        self._cleaned = _fold(evidence.redact(looked_at, 4 * _MESSAGE_READ))

    def redact(self, words: str) -> str:
        """Return the words, or a mark in their place."""
        folded = _fold(words)
        if folded in self._message and folded not in self._cleaned:
            return _REDACTED
        return self._evidence.redact(words, _JSON_TEXT_WIDTH)


def _fold(text: str) -> str:
    return " ".join(text.lower().replace("\u2019", "'").split())


def _find_detectors_at(run: "CheckedRun", correction: "DeferredCorrection") -> list[str]:
    return sorted({it.detector for it in run.noticed if correction.first <= it.at <= correction.last})


def _print_corrections(runs: Sequence["CheckedRun"], evidence: "EvidenceFormatter") -> None:
    rows = [_format_row(run, correction, evidence) for run in runs for correction in run.history.corrections]
    if rows:
        print_table(_TITLES, rows, empty="")


def _format_row(
    run: "CheckedRun", correction: "DeferredCorrection", evidence: "EvidenceFormatter"
) -> tuple[Any, ...]:
    asked = next((turn.asked for turn in run.history.turns if turn.number == correction.turn), None)
    return (
        run.run_id,
        correction.turn,
        f"{correction.first + 1}-{correction.last + 1}",
        correction.distance,
        f"{correction.probability:.2f}",
        ", ".join(_find_detectors_at(run, correction)) or "-",
        evidence.redact(run.events[asked].text, _TEXT_WIDTH) if asked is not None else "-",
        evidence.redact(run.events[correction.message].text, _TEXT_WIDTH),
    )


def _summarize(runs: Sequence["CheckedRun"]) -> str:
    from steadyhelm.corrections.deferred import score_findings

    scores = [score_findings(run.history, {it.at for it in run.noticed}) for run in runs]
    corrected = sum(len(score.corrected) for score in scores)
    in_runs = f"in {pluralize(len(runs), 'run')}"
    if not corrected:
        return f"No corrections found {in_runs}."
    turns, hits = sum(score.judged for score in scores), sum(score.hits for score in scores)
    noticed = sum(len(score.noticed) for score in scores)
    return (
        f"{corrected:,} of {pluralize(turns, 'turn')} {in_runs} corrected later: {hits:,} with findings, "
        f"{corrected - hits:,} without. {pluralize(noticed, 'turn')} with findings in all."
    )


def _write_labels(target: Path, runs: "Sequence[ReadRun]") -> None:
    from steadyhelm.lab.importers.layouts import write_runs
    from steadyhelm.lab.training.labelled_replies import label_runs

    written = write_runs(label_runs(runs), target)
    say(f"Wrote {pluralize(written, 'labelled run')} to {safe(target)}.")


_CORRECTION: Final = "correction"
_STDIN: Final = "-"
_MOST_FINDINGS: Final = 100_000


class LocatedFinding(NamedTuple):
    """A finding of MED or above: its detector, and its place among the run's events."""

    detector: str
    at: int


class CheckedRun(NamedTuple):
    """A run, its turns and corrections, and the findings in it."""

    run_id: str
    agent_id: str
    events: "Sequence[TraceEvent]"
    history: "CorrectionHistory"
    noticed: "Sequence[LocatedFinding]"


class FileRuns:
    """Reads runs from files, and replays each for its findings."""

    def __init__(self, shared: GlobalOptions, paths: list[str]) -> None:
        from steadyhelm.cli.scan import find_run_files

        _require_paths(paths)
        self.unread = 0
        self.read: list[ReadRun] = []
        self._shared = shared
        self._named = set(paths)
        self._paths = find_run_files(paths)

    def runs(self) -> Iterator[CheckedRun]:
        """Yield every run with its findings."""
        from steadyhelm.replay import Replayer

        replayer = Replayer(self._shared.load().settings)
        for path in self._paths:
            for run in self._read(path):
                self.read.append(run)
                places = {int(event.event_id): place for place, event in enumerate(run.events)}
                noticed = [
                    LocatedFinding(finding.detector, places[finding.at])
                    for finding in replayer.judge(run).report.findings
                    if _is_evidence(finding.kind, finding.severity.rank) and finding.at in places
                ]
                yield _check_run(run, noticed)

    def _read(self, path: str) -> "Iterator[ReadRun]":
        """Yield the runs of a file; what cannot be read is named, and the rest is still read."""
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
    """Reads runs from the database, with the findings made while they were watched."""

    def __init__(self, shared: GlobalOptions, agent: str | None, since: str | None) -> None:
        self.unread = 0
        self.read: list[ReadRun] = []
        self._shared = shared
        self._agent = agent
        self._after = find_start(since)

    def runs(self) -> Iterator[CheckedRun]:
        """Yield every run with its findings."""
        import tempfile

        from steadyhelm.cli.context import choose_agent
        from steadyhelm.recordings.run_file import ReadRun, RunFile
        from steadyhelm.stores.exports import export

        with closing(self._shared.open_store()) as store, tempfile.TemporaryFile() as lines:
            name = choose_agent(store, self._agent)
            export(store, lines, format="jsonl", agent_id=name, since=self._after)
            lines.seek(0)
            for run in RunFile(lines):
                if isinstance(run, ReadRun):
                    self.read.append(run)
                    yield _check_run(run, list(_read_findings(store, run.info.agent_id, run.info.run_id)))
                else:
                    self.unread += 1


def _require_paths(paths: list[str]) -> None:
    for path in paths:
        if path != _STDIN and not (path and Path(path).exists()):
            shown = safe(path) or "''"
            fail(f"there is no file or folder {shown}. Try: steadyhelm corrections runs.jsonl", EXIT_USAGE)


def _check_run(run: "ReadRun", noticed: "Sequence[LocatedFinding]") -> CheckedRun:
    from steadyhelm.corrections.deferred import find_corrections

    return CheckedRun(run.info.run_id, run.info.agent_id, run.events, find_corrections(run.events), noticed)


def _read_findings(store: "RunStore", agent_id: str, run_id: str) -> Iterator[LocatedFinding]:
    """Yield the findings made while the run was watched, at the places of its steps."""
    events = [recorded.event for recorded in store.iter_run_events(agent_id, run_id)]
    places = {event.event_id: place for place, event in enumerate(events)}
    for finding in store.get_drift_events(agent_id, run_id, limit=_MOST_FINDINGS):
        at = finding.event_id.removesuffix(f"/{finding.detector}")
        if at in places and _is_evidence(finding.kind, finding.severity.rank):
            yield LocatedFinding(finding.detector, places[at])


def _is_evidence(kind: str, rank: int) -> bool:
    """Return whether a finding counts; one read from the same messages proves nothing about them."""
    from steadyhelm.findings import Severity

    return kind != _CORRECTION and rank >= Severity.MED.rank
