"""Write scan's report as one self-contained page: timelines, what repeats, the evidence, and what it cost."""

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final, NamedTuple, TextIO

from msgspec import Struct

from steadyhelm.findings import Severity
from steadyhelm.replay import JudgedReplay
from steadyhelm.reports.drawing import draw_timeline
from steadyhelm.reports.evidence import (
    EvidenceFormatter,
    EvidenceRow,
    RunEpisode,
    describe_response,
    describe_steps,
    describe_trust,
    get_agent_name,
    name_kind,
)
from steadyhelm.reports.formats import make_printable, pluralize
from steadyhelm.reports.output import RunLocation, ScanTotals, describe_not_checked, summarize
from steadyhelm.reports.pages import read_script, render
from steadyhelm.reports.terminal import SEVERITY_MARKS, say

if TYPE_CHECKING:
    from markupsafe import Markup

_RUNS_IN_FULL: Final = 100
_SECTIONS_OPEN: Final = 10
"""How many of the worst runs are unfolded when the page is opened."""
_PLACE_PARTS: Final = 2
_COLUMN_SORTS: Final = {
    "severity": "number",
    "run": "text",
    "agent": "text",
    "found": "text",
    "steps": "number",
    "tokens": "number",
    "spent after, at most*": "number",
    "where": "text",
}
"""By title: how the list of flagged runs is sorted by that column."""
_ROWS_SHOWN: Final = 8
_STEP_RANGES: Final = 8
_CELL_WIDTH: Final = 200
_TOKEN_BAR_WIDTH: Final = 420
_GOAL_WIDTH: Final = 300


class _FlaggedRun(Struct, kw_only=True):
    """A flagged run: its row in the list on top, and its section, empty when there are worse ones enough."""

    number: int
    severity: Severity
    mark: str
    run_id: str
    agent: str
    kinds: list[str]
    words: str
    steps: int
    tokens: int
    tokens_after: int | None
    findings: int
    place: RunLocation
    section: "Markup | str" = ""

    @property
    def weight(self) -> tuple[int, int, int, int]:
        """What puts worse runs first: severity, what was spent after, how much was found, then the input."""
        return (self.severity.rank, self.tokens_after or 0, self.findings, -self.number)

    @property
    def short_place(self) -> str:
        """The end of the path, which tells files apart; the whole path is the cell's title."""
        return "/".join(str(self.place).split("/")[-_PLACE_PARTS:])


class _Card(NamedTuple):
    """A figure on top of the page."""

    number: str
    name: str


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
        self._in_full: list[tuple[tuple[int, int, int, int], int]] = []
        self._clean: list[tuple[object, ...]] = []
        self._unread: list[tuple[RunLocation, str]] = []
        self._tokens = 0

    def add_run(self, judged: JudgedReplay, place: RunLocation, *, is_flagged: bool) -> None:
        """Add a section for a flagged run, if it is among the worst hundred, or a row for a clean one."""
        self._tokens += _count_tokens(judged)
        if not is_flagged:
            self._clean.append(_clean_row(judged, place))
            return
        run = self._make_flagged_run(judged, place, len(self._flagged) + 1)
        self._flagged.append(run)
        # A section is large: only those that will be shown are kept, the least bad on top of the heap.
        if len(self._in_full) == _RUNS_IN_FULL:
            if run.weight < self._in_full[0][0]:
                return
            _, dropped = heappop(self._in_full)
            self._flagged[dropped].section = ""
        heappush(self._in_full, (run.weight, len(self._flagged) - 1))
        run.section = self._make_section(judged, place, run.number)

    def add_unreadable(self, place: RunLocation, reason: str) -> None:
        """Add a line that could not be read to the list of them."""
        self._unread.append((place, reason))

    def finish(self, totals: ScanTotals, level: Severity, *, is_file: bool) -> None:  # noqa: ARG002
        """Write the page, and the summary as a message."""
        worst_first = sorted(self._flagged, key=lambda run: run.weight, reverse=True)
        has_agents = any(run.agent for run in self._flagged)
        detectors = dict.fromkeys(detector for detector, _ in totals.not_checked)
        page = render(
            "scan.html",
            summary=summarize(totals, level),
            cards=list(self._make_cards(totals)),
            not_checked=list(describe_not_checked(totals, most=None)),
            not_checked_title=", ".join(detectors),
            unread=self._unread,
            flagged=worst_first,
            severities=list(dict.fromkeys(run.severity for run in worst_first)),
            kinds=[kind for kind, _ in totals.kinds.most_common()],
            has_agents=has_agents,
            columns=[
                (title, sort) for title, sort in _COLUMN_SORTS.items() if has_agents or title != "agent"
            ],
            sections_open=_SECTIONS_OPEN,
            clean=self._clean,
            clean_title=pluralize(len(self._clean), "clean run"),
            script=read_script("scan.js"),
        )
        self._stream.write(f"{page}\n")
        if totals.runs:
            say(summarize(totals, level))

    def _make_cards(self, totals: ScanTotals) -> "Iterator[_Card]":
        yield _Card(f"{totals.runs:,}", "run" if totals.runs == 1 else "runs")
        yield _Card(f"{totals.flagged:,}", "flagged")
        for kind, n in totals.kinds.most_common():
            yield _Card(f"{n:,}", f"with {kind}")
        after = sum(run.tokens_after or 0 for run in self._flagged)
        if after:
            of = f"of {self._tokens:,} tokens"
            yield _Card(
                f"{after:,}", f"{of} spent after a run would have been stopped or re-planned, at most"
            )
        if totals.in_part:
            yield _Card(f"{totals.in_part:,}", "read in part")
        if totals.unreadable:
            yield _Card(f"{totals.unreadable:,}", "unreadable")

    def _make_flagged_run(self, judged: JudgedReplay, place: RunLocation, number: int) -> _FlaggedRun:
        findings = self._evidence.list_findings(judged)
        worst = self._find_worst(judged)
        tokens = _count_tokens(judged)
        messages = dict.fromkeys(make_printable(incident.message) for incident in judged.incidents)
        return _FlaggedRun(
            number=number,
            severity=worst,
            mark=SEVERITY_MARKS[worst],
            run_id=judged.report.run_id,
            agent=get_agent_name(judged.run),
            kinds=list(dict.fromkeys(name_kind(finding) for finding in findings)),
            words=" ".join(messages),
            steps=len(judged.run.events),
            tokens=tokens,
            tokens_after=judged.report.tokens_saved if tokens else None,
            findings=len(findings),
            place=place,
        )

    def _make_section(self, judged: JudgedReplay, place: RunLocation, number: int) -> "Markup":
        run = judged.run
        episodes = self._evidence.list_episodes(judged)
        view = {
            "number": number,
            "about": "  ·  ".join(part for part in (get_agent_name(run), str(place)) if part),
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
                for it, times in self._evidence.iter_findings_without_incident(judged)
            ],
            "drawing": draw_timeline(judged, self._evidence),
            "evidence": list(self._iter_evidence_cells(judged, episodes)),
            "response": describe_response(judged) if judged.answers else "",
            "tokens": _make_token_bar(judged),
            "trust": describe_trust(judged) if judged.doubts else "",
        }
        return render("scan_run.html", view=view)

    def _iter_evidence_cells(
        self, judged: JudgedReplay, episodes: Sequence[RunEpisode]
    ) -> "Iterator[_EvidenceCells | str]":
        """Yield a row for each group of equal steps, or a line that counts what is left out."""
        for episode in episodes:
            rows = self._evidence.group_episode(judged.run, episode, most=_ROWS_SHOWN, width=_CELL_WIDTH)
            for row in rows if episode.is_span else ():
                if isinstance(row, EvidenceRow):
                    yield _EvidenceCells(
                        len(row.places), _step_ranges(row.places), row.call or "reply", row.result
                    )
                else:
                    yield row

    def _find_worst(self, judged: JudgedReplay) -> Severity:
        return max(self._evidence.list_findings(judged), key=lambda finding: finding.severity.rank).severity


def _count_tokens(judged: JudgedReplay) -> int:
    return sum(event.token_count for event in judged.run.events)


def _clean_row(judged: JudgedReplay, place: RunLocation) -> tuple[object, ...]:
    run = judged.run
    tokens = _count_tokens(judged)
    return (
        run.info.run_id,
        get_agent_name(run),
        f"{len(run.events):,}",
        f"{tokens:,}" if tokens else "-",
        f"{len(judged.report.findings)} LOW" if judged.report.findings else "-",
        place,
    )


def _make_token_bar(judged: JudgedReplay) -> _TokenBar | None:
    """Return the bar of tokens; None when tokens are not known or none were spent after a stop or re-plan."""
    total = _count_tokens(judged)
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
