"""Scan's report as one self-contained page: timelines, what repeats, the evidence, and what it cost."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, TextIO

from steadyhelm.findings import Severity
from steadyhelm.replay import Judged
from steadyhelm.reports.drawing import SIGNS, STYLE, Timeline
from steadyhelm.reports.evidence import Evidence, Row, trust, when, whose, would_have
from steadyhelm.reports.formats import counted
from steadyhelm.reports.output import Place
from steadyhelm.reports.pages import drawing, frame, table, words
from steadyhelm.reports.terminal import MARKS, say
from steadyhelm.reports.text import Tally, summary, unchecked

_FLAGGED: Final = ("severity", "run", "agent", "found", "steps", "tokens saved", "where")
_CLEAN: Final = ("run", "agent", "steps", "tokens", "noticed", "where")
_IN_FULL: Final = 100
_ROWS: Final = 8
_RUNS_OF_STEPS: Final = 8
_WIDTH: Final = 200
_BAR: Final = 420
_GOAL: Final = 300

_STYLE: Final = """
:root{--bad:#b3261e;--warn:#8a5a00}
@media(prefers-color-scheme:dark){:root{--bad:#ff8a80;--warn:#ffc457}}
body{max-width:72rem}
.cards{display:flex;flex-wrap:wrap;gap:.75rem;margin:1rem 0}
.card{background:var(--panel);border:1px solid var(--line);border-radius:6px;padding:.5rem .9rem;
min-width:7rem}
.card b{display:block;font-size:1.4rem;font-variant-numeric:tabular-nums}
.severity{font-weight:600;white-space:nowrap}
.severity.MED{color:var(--warn)}.severity.HIGH,.severity.CRITICAL{color:var(--bad)}
h2{overflow-wrap:anywhere}
h2 .quiet{font-size:.85rem;font-weight:400}
.found{margin:.75rem 0 .25rem}
.code{font-family:ui-monospace,monospace;font-size:12px}
.spent{fill:var(--ours)}
.saved{fill:none;stroke:var(--bad);stroke-width:1.5;stroke-dasharray:4 3}
"""


class _Flagged(NamedTuple):
    """A flagged run as a row of the list on top, and in full."""

    row: str
    section: str


class HtmlReport:
    """Keeps what it needs of each run as it comes, and writes the page in the end."""

    streams = False

    def __init__(self, stream: TextIO, evidence: Evidence) -> None:
        self._stream = stream
        self._evidence = evidence
        self._flagged: list[_Flagged] = []
        self._clean: list[str] = []
        self._broken: list[str] = []
        self._saved = 0

    def run(self, judged: Judged, place: Place, *, is_flagged: bool) -> None:
        """A flagged run gets a section, up to a hundred of them; a clean one a row."""
        if not is_flagged:
            self._clean.append(_clean_row(judged, place))
            return
        self._saved += judged.report.tokens_saved or 0
        number = len(self._flagged) + 1
        section = "".join(self._section(judged, place, number)) if number <= _IN_FULL else ""
        self._flagged.append(_Flagged(self._row(judged, place, number), section))

    def broken(self, place: Place, reason: str) -> None:
        """What could not be read is listed."""
        self._broken.append(f'<td>{words(place)}</td><td class="words">{words(reason)}</td>')

    def end(self, tally: Tally, level: Severity, *, is_file: bool) -> None:  # noqa: ARG002
        """Write the page; the summary is a message too."""
        self._stream.write(frame("Steadyhelm scan", self._body(tally, level), style=_STYLE + STYLE))
        if tally.runs:
            say(summary(tally, level))

    def _body(self, tally: Tally, level: Severity) -> Iterator[str]:
        yield f"<h1>Steadyhelm scan</h1><p>{words(summary(tally, level))}</p>"
        yield _cards(tally, self._saved)
        for missed in unchecked(tally):
            yield f'<p class="quiet">{words(missed)}</p>'
        if self._broken:
            yield f"<h2>Could not be read</h2>{table(('where', 'why'), self._broken)}"
        if self._flagged:
            rows = (flagged.row for flagged in self._flagged)
            yield f"<h2>Flagged runs</h2>{table(_FLAGGED, rows)}{SIGNS}"
        yield from (flagged.section for flagged in self._flagged)
        if self._clean:
            head = f"<summary>{counted(len(self._clean), 'clean run')}</summary>"
            yield f"<h2>Clean runs</h2><details>{head}{table(_CLEAN, self._clean)}</details>"

    def _row(self, judged: Judged, place: Place, number: int) -> str:
        told = self._evidence.told(judged)
        kinds = ", ".join(dict.fromkeys(finding.kind for finding in told))
        name = words(judged.report.run_id)
        saved = judged.report.tokens_saved
        cells = (
            self._severity(judged),
            f'<a href="#run-{number}">{name}</a>' if number <= _IN_FULL else name,
            words(whose(judged.run)),
            words(kinds),
            f"{len(judged.run.events):,}",
            "-" if saved is None else f"{saved:,}",
            words(place),
        )
        return "".join(f"<td>{cell}</td>" for cell in cells)

    def _section(self, judged: Judged, place: Place, number: int) -> Iterator[str]:
        run = judged.run
        about = "  ·  ".join(part for part in (whose(run), str(place)) if part)
        yield f'<section id="run-{number}"><h2>{self._severity(judged)} {words(run.info.run_id)} '
        yield f'<span class="quiet">{words(about)}</span></h2>'
        if run.info.goal:
            yield f'<p class="quiet">Goal: {words(self._evidence.shown(run.info.goal, _GOAL))}</p>'
        episodes = self._evidence.episodes(judged)
        for episode in episodes:
            found = episode.incident
            yield f'<p class="found"><b>{words(found.kind)}</b> {words(found.message)}</p>'
            yield f'<p class="quiet">{words(when(run, episode))}</p>'
        for finding, times in self._evidence.noticed(judged):
            yield f'<p class="found"><b>{words(finding.kind)}</b> {words(finding.message)} '
            yield f"({finding.severity}, {times} times)</p>"
        timeline = Timeline(judged, self._evidence)
        yield f'<div class="scroll">{timeline.svg()}</div>{timeline.legend()}'
        rows = [row for episode in episodes if episode.is_span for row in self._rows(judged, episode.proof)]
        if rows:
            yield f"<h3>Evidence</h3>{table(('times', 'steps', 'call', 'result'), rows)}"
        if judged.answers:
            yield f"<h3>What Steadyhelm would have done</h3><p>It {words(would_have(judged))}.</p>"
            yield _token_bar(judged)
        if judged.doubts:
            yield f'<p class="quiet">Trust left after this run: {words(trust(judged))}</p>'
        yield "</section>"

    def _rows(self, judged: Judged, proof: Sequence[int]) -> Iterator[str]:
        for row in self._evidence.rows(judged.run, proof, most=_ROWS, width=_WIDTH):
            if isinstance(row, Row):
                cells = (row.call or "reply", row.result)
                said = "".join(f'<td class="words code">{words(cell)}</td>' for cell in cells)
                yield f"<td>{len(row.places)}x</td><td>{_steps(row.places)}</td>{said}"
            else:
                yield f'<td></td><td></td><td class="words quiet">{words(row)}</td><td></td>'

    def _severity(self, judged: Judged) -> str:
        worst = max(self._evidence.told(judged), key=lambda finding: finding.severity.rank).severity
        return f'<span class="severity {worst}">{MARKS[worst]} {worst}</span>'


def _cards(tally: Tally, saved: int) -> str:
    figures = {"runs": tally.runs, "flagged": tally.flagged}
    figures |= {f"with {kind}": n for kind, n in tally.kinds.most_common()}
    figures |= {"tokens that would have been saved": saved} if saved else {}
    figures |= {"read in part": tally.in_part} if tally.in_part else {}
    figures |= {"unreadable": tally.unreadable} if tally.unreadable else {}
    cards = (f'<div class="card"><b>{n:,}</b>{words(name)}</div>' for name, n in figures.items())
    return f'<div class="cards">{"".join(cards)}</div>'


def _clean_row(judged: Judged, place: Place) -> str:
    run = judged.run
    tokens = sum(event.token_count for event in run.events)
    cells = (
        run.info.run_id,
        whose(run),
        f"{len(run.events):,}",
        f"{tokens:,}" if tokens else "-",
        f"{len(judged.report.findings)} LOW" if judged.report.findings else "-",
        place,
    )
    return "".join(f"<td>{words(cell)}</td>" for cell in cells)


def _token_bar(judged: Judged) -> str:
    """What was spent before a new plan was due, and after; nothing when tokens are not known."""
    total = sum(event.token_count for event in judged.run.events)
    saved = judged.report.tokens_saved
    if not total or not saved:
        return ""
    wide = max(2, round(_BAR * saved / total))
    title = f"{saved:,} of {total:,} tokens would have been saved"
    parts = [
        f'<rect class="spent" x="1" y="2" width="{_BAR - wide}" height="14"/>',
        f'<rect class="saved" x="{_BAR - wide + 1}" y="2" width="{wide}" height="14"/>',
        f'<text x="{_BAR + 10}" y="14">{words(title)}</text>',
    ]
    return f'<div class="scroll">{drawing(_BAR + 330, 18, title, parts)}</div>'


def _steps(places: Sequence[int]) -> str:
    """Steps as people write them.

    >>> _steps([0, 1, 2, 5])
    '1-3, 6'
    """
    runs: list[list[int]] = []
    for place in places:
        if runs and place == runs[-1][1] + 1:
            runs[-1][1] = place
        else:
            runs.append([place, place])
    told = [f"{a + 1}" if a == b else f"{a + 1}-{b + 1}" for a, b in runs[:_RUNS_OF_STEPS]]
    return ", ".join(told) + ("…" if len(runs) > _RUNS_OF_STEPS else "")
