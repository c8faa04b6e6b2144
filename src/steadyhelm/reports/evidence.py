"""What a replay found, in words: which steps prove it, what was called, what would have been done.

Everything here is plain text on one line, with secrets taken out and control characters escaped: fit for a
terminal, a test's failure message, a page or a pipeline's report.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from steadyhelm.decisions import DriftAction
from steadyhelm.events import LLM_REQUEST, STATE_TRANSITION, TOOL_CALL, USER_MESSAGE, TraceEvent
from steadyhelm.findings import Severity
from steadyhelm.fingerprints import encode_canonical
from steadyhelm.incidents import Incident
from steadyhelm.recordings.run_file import ReadRun
from steadyhelm.redaction import Redactor
from steadyhelm.replay import Answer, FindingReport, Judged, spared
from steadyhelm.reports.formats import printable

LEGEND: Final = "A run step by step: . call  x failed call  r reply  u user  s state  [ ] where it drifted"
NOBODY: Final = "scan"
"""The agent of a run whose file names none."""

_MARKS: Final = {TOOL_CALL: ".", LLM_REQUEST: "r", USER_MESSAGE: "u", STATE_TRANSITION: "s"}
_DONE: Final = {
    DriftAction.INJECT_REMINDER: "reminded the agent",
    DriftAction.SUMMARIZE_REPLAN: "asked for a new plan",
    DriftAction.CHECKPOINT_RESET: "gone back to the last good state",
    DriftAction.ASK_USER: "asked the user",
}
_ROWS: Final = 4
_ARGUMENTS: Final = 60
_RESULT: Final = 60
_GOAL: Final = 100
_LOOKED_AT: Final = 2000
_NEAR: Final = 12
_EDGE: Final = 6
_STRIP: Final = 80


class Row(NamedTuple):
    """Equal steps among the evidence: where they are, what was asked, and what came back the last time."""

    places: list[int]
    call: str
    result: str

    @property
    def said(self) -> str:
        """The step on one line."""
        return f"{self.call} → {self.result}" if self.call else f'reply "{self.result}"'

    def __str__(self) -> str:
        return f"{len(self.places):>3}x {self.said}"


class Episode(NamedTuple):
    """An incident with its place among the run's steps, which are counted from 0.

    `noticed` is the step at which it was first noticed, None when only the whole run showed it;
    `proof` are the steps that prove it.
    """

    incident: Incident
    first: int
    last: int
    noticed: int | None
    proof: list[int]

    @property
    def is_span(self) -> bool:
        """Whether it is about a stretch of steps; what a run costs is not."""
        return self.incident.kind != "resource"


class Evidence:
    """Puts what was found in a run into words.

    Args:
        redactor: Takes secrets out of what is shown of calls and results.
        least: The rank from which a finding is told.
    """

    def __init__(self, redactor: Redactor, *, least: int = Severity.MED.rank) -> None:
        self._redactor = redactor
        self._least = least

    def lines(self, judged: Judged) -> Iterator[tuple[str, str]]:
        """What was found, when and how often, the proof, and what would have been done: titles and words."""
        run = judged.run
        if run.info.goal:
            yield "goal", self.shown(run.info.goal, _GOAL)
        episodes = self.episodes(judged)
        for episode in episodes:
            yield episode.incident.kind, printable(episode.incident.message)
            yield "when", when(run, episode)
            for row in self.rows(run, episode.proof) if episode.is_span else ():
                yield "", str(row)
        for finding, times in self.noticed(judged):
            yield finding.kind, f"{printable(finding.message)} ({finding.severity}, {times} times)"
        spans = [(episode.first, episode.last) for episode in episodes if episode.is_span]
        if spans:
            yield "run", strip(run.events, spans)
        if judged.answers:
            yield "response", would_have(judged)
        if judged.doubts:
            yield "trust", trust(judged)

    def text(self, judged: Judged, where: str = "") -> str:
        """The same as plain text, under a line that names the run."""
        worst = max(self.told(judged), key=lambda finding: finding.severity.rank)
        name = f"{worst.severity} {printable(judged.run.info.run_id)}"
        head = "  ".join(part for part in (name, whose(judged.run), where) if part)
        return "\n".join([head, *(f"  {title:<9} {said}" for title, said in self.lines(judged))])

    def told(self, judged: Judged) -> list[FindingReport]:
        """The findings that are bad enough to be told."""
        return [finding for finding in judged.report.findings if finding.severity.rank >= self._least]

    def episodes(self, judged: Judged) -> list[Episode]:
        """The run's incidents, each with its place among the steps."""
        return [_episode(judged, incident) for incident in judged.incidents]

    def noticed(self, judged: Judged) -> Iterator[tuple[FindingReport, int]]:
        """What was found without becoming an incident, one of each detector, and how often."""
        kinds = {incident.kind for incident in judged.incidents}
        rest = [finding for finding in self.told(judged) if finding.kind not in kinds]
        times = Counter(finding.detector for finding in rest)
        for finding in {finding.detector: finding for finding in rest}.values():
            yield finding, times[finding.detector]

    def rows(
        self, run: ReadRun, places: Sequence[int], *, most: int = _ROWS, width: int = _RESULT
    ) -> Iterator[Row | str]:
        """Equal steps on one row, the first ones in front; what is left out is counted."""
        alike: dict[tuple[str, bytes], list[int]] = {}
        for place in places:
            event = run.events[place]
            asked = event.text if event.action_type == LLM_REQUEST else event.input_data
            alike.setdefault((event.action_name, encode_canonical(asked)), []).append(place)
        for same in list(alike.values())[:most]:
            yield self.row(same, run.events[same[-1]], width=width)
        if len(alike) > most:
            yield f"and {len(alike) - most} other steps"

    def row(self, places: list[int], event: TraceEvent, *, width: int = _RESULT) -> Row:
        """What one step asked and got."""
        came_back = self.shown(event.error or event.text or self._result(event.output_data), width)
        if event.action_type == LLM_REQUEST:
            return Row(places, "", came_back)
        if event.action_type == USER_MESSAGE:
            return Row(places, "user", came_back)
        arguments = _cut(printable(self._plain(event.input_data)), width)
        mark = "failed: " if event.error else ""
        call = f"{_cut(printable(event.action_name), _ARGUMENTS)} {arguments}".rstrip()
        return Row(places, call, f"{mark}{came_back or '(nothing)'}")

    def shown(self, text: str, most: int) -> str:
        """A text on one line, without secrets, at most so long."""
        return _cut(printable(self._redactor.redact_text(" ".join(text[:_LOOKED_AT].split()))), most)

    def _result(self, value: Any) -> str:
        is_empty = isinstance(value, dict) and not any(value.values())
        return "" if is_empty else self._plain(value)

    def _plain(self, value: Any) -> str:
        _, encoded = self._redactor.redact(value, encode_canonical(value))
        return encoded[:_LOOKED_AT].decode("utf-8", "replace")


def whose(run: ReadRun) -> str:
    """The agent whose run it is; empty when that is not known."""
    return "" if run.info.agent_id == NOBODY else printable(run.info.agent_id)


def when(run: ReadRun, episode: Episode) -> str:
    """Which steps an episode takes, counted from 1, and when it was noticed."""
    first, last = episode.first + 1, episode.last + 1
    steps = f"step {first}" if first == last else f"steps {first}-{last}"
    at = "noticed at the run's end"
    if episode.noticed is not None:
        at = f"noticed at step {episode.noticed + 1} (events[{run.events[episode.noticed].event_id}])"
    times = episode.incident.findings
    return f"{steps} of {len(run.events)}, {at}" + (f", {times} times in all" if times > 1 else "")


def would_have(judged: Judged) -> str:
    """What Steadyhelm would have done and when, and what was spent after a new plan was due."""
    events, answers = judged.run.events, judged.answers
    done = [f"{_DONE[answer.action]} at step {answer.place + 1}" for answer in answers]
    told = f"would have {', then '.join(done)}"
    saved = judged.report.tokens_saved
    if saved is None:
        return told
    steps = len(spared(events, planned_at(answers)))
    total = sum(event.token_count for event in events)
    cost = f" and {saved:,} of {total:,} tokens" if total else ""
    return f"{told}; {steps} step{'s' * (steps != 1)}{cost} came after the new plan was due"


def trust(judged: Judged) -> str:
    """The tools and files that are in doubt after this run, and how much trust is left in each."""
    told = [
        f"{kind} {_cut(printable(name), _ARGUMENTS)} {left:.2f}" for kind, name, left in judged.doubts[:_ROWS]
    ]
    return ", ".join(told) + f" and {len(judged.doubts) - _ROWS} more" * (len(judged.doubts) > _ROWS)


def planned_at(answers: Sequence[Answer]) -> int:
    """The step at which a new plan was due."""
    return next(it.place for it in answers if it.action.level >= DriftAction.SUMMARIZE_REPLAN.level)


def strip(events: Sequence[TraceEvent], spans: Sequence[tuple[int, int]]) -> str:
    """The run as one character a step, with each span in brackets; long stretches are left out."""
    merged = _merged(spans)
    opens, closes = {first for first, _ in merged}, {last for _, last in merged}
    parts, after = [], 0
    for stretch in stretches(len(events), merged):
        if stretch.start > after:
            parts.append(f"…{stretch.start - after}…")
        after = stretch.stop
        parts += [f"{'[' * (at in opens)}{_mark(events[at])}{']' * (at in closes)}" for at in stretch]
    return "".join(parts)


def stretches(
    count: int, spans: Sequence[tuple[int, int]], *, room: int = _STRIP, near: int = _NEAR
) -> list[range]:
    """The steps of a run that are drawn: all when there is room, else its ends and what is near a span's.

    >>> stretches(500, [(200, 202)])
    [range(0, 6), range(188, 215), range(494, 500)]
    """
    if count <= room:
        return [range(count)]
    edges = {edge for span in spans for edge in span}
    wanted = [(0, _EDGE - 1), (count - _EDGE, count - 1)]
    wanted += [(max(0, edge - near), min(count - 1, edge + near)) for edge in edges]
    return [range(first, last + 1) for first, last in _merged(wanted, apart=1)]


def _merged(spans: Sequence[tuple[int, int]], *, apart: int = 0) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        if merged and first <= merged[-1][1] + apart:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return merged


def _mark(event: TraceEvent) -> str:
    return "x" if event.error else _MARKS.get(event.action_type, "?")


def _episode(judged: Judged, incident: Incident) -> Episode:
    events = judged.run.events
    places = {int(event.event_id): place for place, event in enumerate(events)}
    proof: set[int] = set()
    for finding in judged.report.findings:
        is_told = finding.kind == incident.kind and finding.severity is not Severity.LOW
        if is_told and incident.opened_seq <= places[finding.at] <= incident.last_seq:
            proof.update(places[entry] for entry in finding.evidence if entry in places)
    last = min(incident.last_seq, len(events) - 1)
    noticed = incident.opened_seq if incident.opened_seq < len(events) else None
    return Episode(incident, min([*proof, incident.opened_seq, last]), last, noticed, sorted(proof))


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
