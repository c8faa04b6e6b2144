"""Write scan's report as one self-contained page: timelines, what repeats, the evidence, and what it cost."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TextIO

from steadyhelm.findings import Severity
from steadyhelm.replay import Judged
from steadyhelm.reports.drawing import draw_timeline
from steadyhelm.reports.evidence import (
    Episode,
    EvidenceFormatter,
    EvidenceRow,
    agent_name,
    describe_response,
    describe_steps,
    describe_trust,
    name_kind,
)
from steadyhelm.reports.formats import pluralize
from steadyhelm.reports.output import RunLocation, ScanTotals, describe_not_checked, summarize
from steadyhelm.reports.pages import render
from steadyhelm.reports.terminal import SEVERITY_MARKS, say

if TYPE_CHECKING:
    from markupsafe import Markup

_RUNS_IN_FULL: Final = 100
_ROWS_SHOWN: Final = 8
_STEP_RANGES: Final = 8
_CELL_WIDTH: Final = 200
_TOKEN_BAR_WIDTH: Final = 420
_GOAL_WIDTH: Final = 300


class _FlaggedRun(NamedTuple):
    """A flagged run: its row in the list on top, and its section, empty when there are too many."""

    number: int
    severity: Severity
    mark: str
    run_id: str
    agent: str
    kinds: str
    steps: str
    tokens_saved: str
    place: RunLocation
    section: "Markup | str"


class _EvidenceCells(NamedTuple):
    """One row of the evidence table."""

    times: int
    steps: str
    call: str
    result: str


class _TokenBar(NamedTuple):
    """What was spent before a new plan was due, and after."""

    width: int
    saved_width: int
    title: str


class HtmlReport:
    """Keeps what it needs of each run as it comes, and writes the page at the end."""

    is_streaming = False

    def __init__(self, stream: TextIO, evidence: EvidenceFormatter) -> None:
        self._stream = stream
        self._evidence = evidence
        self._flagged: list[_FlaggedRun] = []
        self._clean: list[tuple[object, ...]] = []
        self._unread: list[tuple[RunLocation, str]] = []
        self._saved = 0

    def add_run(self, judged: Judged, place: RunLocation, *, is_flagged: bool) -> None:
        """Add a section for a flagged run, up to a hundred of them, or a row for a clean one."""
        if not is_flagged:
            self._clean.append(_clean_row(judged, place))
            return
        self._saved += judged.report.tokens_saved or 0
        self._flagged.append(self._make_flagged_run(judged, place, len(self._flagged) + 1))

    def add_unreadable(self, place: RunLocation, reason: str) -> None:
        """Add a line that could not be read to the list of them."""
        self._unread.append((place, reason))

    def finish(self, totals: ScanTotals, level: Severity, *, is_file: bool) -> None:  # noqa: ARG002
        """Write the page, and the summary as a message."""
        page = render(
            "scan.html",
            summary=summarize(totals, level),
            cards=_cards(totals, self._saved),
            not_checked=list(describe_not_checked(totals)),
            unread=self._unread,
            flagged=self._flagged,
            clean=self._clean,
            clean_title=pluralize(len(self._clean), "clean run"),
        )
        self._stream.write(f"{page}\n")
        if totals.runs:
            say(summarize(totals, level))

    def _make_flagged_run(self, judged: Judged, place: RunLocation, number: int) -> _FlaggedRun:
        findings = self._evidence.list_findings(judged)
        saved = judged.report.tokens_saved
        worst = self._worst(judged)
        return _FlaggedRun(
            number=number,
            severity=worst,
            mark=SEVERITY_MARKS[worst],
            run_id=judged.report.run_id,
            agent=agent_name(judged.run),
            kinds=", ".join(dict.fromkeys(name_kind(finding) for finding in findings)),
            steps=f"{len(judged.run.events):,}",
            tokens_saved="-" if saved is None else f"{saved:,}",
            place=place,
            section=self._section(judged, place, number) if number <= _RUNS_IN_FULL else "",
        )

    def _section(self, judged: Judged, place: RunLocation, number: int) -> "Markup":
        run = judged.run
        episodes = self._evidence.episodes(judged)
        worst = self._worst(judged)
        view = {
            "number": number,
            "severity": worst,
            "mark": SEVERITY_MARKS[worst],
            "run_id": run.info.run_id,
            "about": "  ·  ".join(part for part in (agent_name(run), str(place)) if part),
            "goal": self._evidence.redact(run.info.goal, _GOAL_WIDTH) if run.info.goal else "",
            "incidents": [
                {
                    "kind": name_kind(it.incident),
                    "message": it.incident.message,
                    "when": describe_steps(run, it),
                }
                for it in episodes
            ],
            "other_findings": [
                {"kind": name_kind(it), "message": it.message, "severity": it.severity, "times": times}
                for it, times in self._evidence.findings_without_incident(judged)
            ],
            "drawing": draw_timeline(judged, self._evidence),
            "evidence": list(self._evidence_cells(judged, episodes)),
            "response": describe_response(judged) if judged.answers else "",
            "tokens": _token_bar(judged),
            "trust": describe_trust(judged) if judged.doubts else "",
        }
        return render("scan_run.html", view=view)

    def _evidence_cells(
        self, judged: Judged, episodes: Sequence[Episode]
    ) -> "Iterator[_EvidenceCells | str]":
        """Yield a row for each group of equal steps, or a line that counts what is left out."""
        for episode in episodes:
            rows = self._evidence.group_steps(judged.run, episode.named, most=_ROWS_SHOWN, width=_CELL_WIDTH)
            for row in rows if episode.is_span else ():
                if isinstance(row, EvidenceRow):
                    yield _EvidenceCells(
                        len(row.places), _step_ranges(row.places), row.call or "reply", row.result
                    )
                else:
                    yield row

    def _worst(self, judged: Judged) -> Severity:
        return max(self._evidence.list_findings(judged), key=lambda finding: finding.severity.rank).severity


def _cards(totals: ScanTotals, saved: int) -> dict[str, int]:
    cards = {"runs": totals.runs, "flagged": totals.flagged}
    cards |= {f"with {kind}": n for kind, n in totals.kinds.most_common()}
    cards |= (
        {"tokens spent after the run would have been stopped or re-planned, at most": saved} if saved else {}
    )
    cards |= {"read in part": totals.in_part} if totals.in_part else {}
    cards |= {"unreadable": totals.unreadable} if totals.unreadable else {}
    return cards


def _clean_row(judged: Judged, place: RunLocation) -> tuple[object, ...]:
    run = judged.run
    tokens = sum(event.token_count for event in run.events)
    return (
        run.info.run_id,
        agent_name(run),
        f"{len(run.events):,}",
        f"{tokens:,}" if tokens else "-",
        f"{len(judged.report.findings)} LOW" if judged.report.findings else "-",
        place,
    )


def _token_bar(judged: Judged) -> _TokenBar | None:
    """Return the bar of tokens; None when tokens are not known or none were spent after a stop or re-plan."""
    total = sum(event.token_count for event in judged.run.events)
    saved = judged.report.tokens_saved
    if not total or not saved:
        return None
    return _TokenBar(
        width=_TOKEN_BAR_WIDTH,
        saved_width=max(2, round(_TOKEN_BAR_WIDTH * saved / total)),
        title=f"at most {saved:,} of {total:,} tokens spent after it would have been stopped or re-planned",
    )


def _step_ranges(places: Sequence[int]) -> str:
    """Return steps as people write them.

    >>> _step_ranges([0, 1, 2, 5])
    '1-3, 6'
    """
    runs: list[list[int]] = []
    for place in places:
        if runs and place == runs[-1][1] + 1:
            runs[-1][1] = place
        else:
            runs.append([place, place])
    ranges = [f"{a + 1}" if a == b else f"{a + 1}-{b + 1}" for a, b in runs[:_STEP_RANGES]]
    return ", ".join(ranges) + ("…" if len(runs) > _STEP_RANGES else "")
