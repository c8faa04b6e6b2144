"""What scan says to people: a block for each flagged run, and one line that sums everything up."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

from msgspec import Struct, field
from rich.text import Text

from holdfast.adapters.runfile import ReadRun
from holdfast.cli.output import safe, severity
from holdfast.cli.scan_report import Answer, Judged, RunReport, spared
from holdfast.decisions import DriftAction
from holdfast.events import LLM_REQUEST, STATE_TRANSITION, TOOL_CALL, USER_MESSAGE, TraceEvent
from holdfast.findings import Severity
from holdfast.fingerprints import canonical
from holdfast.incidents import Incident
from holdfast.redaction import Redactor

LEGEND: Final = "A run step by step: . call  x failed call  r reply  u user  s state  [ ] where it drifted"

_MARKS: Final = {TOOL_CALL: ".", LLM_REQUEST: "r", USER_MESSAGE: "u", STATE_TRANSITION: "s"}
_PLURALS: Final = {"loop": "loops", "transition": "transitions", "correction": "corrections"}
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
NOBODY: Final = "scan"
"""The agent of a run whose file names none."""

_NEAR: Final = 12
_EDGE: Final = 6
_STRIP: Final = 80


def least_rank(fail_on: Severity) -> int:
    """The rank from which a run is flagged: MED, or LOW when that alone is to fail."""
    return min(fail_on.rank, Severity.MED.rank)


class Tally(Struct):
    """Everything counted over all runs."""

    runs: int = 0
    flagged: int = 0
    failing: int = 0
    unreadable: int = 0
    in_part: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    not_checked: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, report: RunReport, *, least: int, fail_on: int) -> None:
        """Count one run; `least` is the rank from which it is flagged."""
        self.runs += 1
        self.not_checked.update((missed.detector, missed.reason) for missed in report.not_checked)
        if report.worst < least:
            return
        self.flagged += 1
        self.failing += report.worst >= fail_on
        self.kinds.update({finding.kind for finding in report.findings if finding.severity.rank >= least})


def summary(tally: Tally, fail_on: Severity) -> str:
    """One line over all runs.

    >>> tally = Tally(runs=98, flagged=3, failing=3, kinds=Counter(loop=2, resource=1), unreadable=1)
    >>> summary(tally, Severity.MED)
    '98 runs, 3 flagged (2 loops, 1 resource), 1 unreadable'
    """
    words = [f"{tally.runs:,} run{'s' * (tally.runs != 1)}", f"{tally.flagged:,} flagged"]
    if tally.kinds:
        words[1] += f" ({', '.join(_counted(kind, n) for kind, n in tally.kinds.most_common())})"
    if tally.failing != tally.flagged:
        words.append(f"{tally.failing:,} of them {fail_on} or above")
    if tally.in_part:
        words.append(f"{tally.in_part:,} read in part")
    if tally.unreadable:
        words.append(f"{tally.unreadable:,} unreadable")
    return ", ".join(words)


def unchecked(tally: Tally) -> Iterator[str]:
    """What could not be looked at, the most frequent first: silence must not pass for health."""
    for (detector, reason), runs in tally.not_checked.most_common(_ROWS):
        yield f"not checked: {detector} in {runs:,} of {tally.runs:,} runs ({safe(reason, most=_GOAL)})"
    rest = len(tally.not_checked) - _ROWS
    if rest > 0:
        yield f"not checked: {rest} further reasons; --format json has them all"


class Blocks:
    """Makes the block of a flagged run.

    Args:
        redactor: Takes secrets out of what is shown of calls and results.
        least: The rank from which a finding is told.
    """

    def __init__(self, redactor: Redactor, *, least: int) -> None:
        self._redactor = redactor
        self._least = least

    def block(self, judged: Judged, where: str) -> Iterator[Text]:
        """The run, what was found, when and how often, the evidence, and what would have been done."""
        run, report = judged.run, judged.report
        told = [finding for finding in report.findings if finding.severity.rank >= self._least]
        worst = max(told, key=lambda finding: finding.severity.rank)
        agent = "" if run.info.agent_id == NOBODY else f"  {safe(run.info.agent_id)}"
        name = (safe(report.run_id), "bold")
        yield Text.assemble(severity(worst.severity), " ", name, f"{agent}  {safe(where)}")
        if run.info.goal:
            yield _line("goal", self._shown(run.info.goal, _GOAL))
        spans = []
        for incident in judged.incidents:
            first, last = self._span(judged, incident)
            if incident.kind != "resource":
                spans.append((first, last))
            yield from self._incident(judged, incident, first, last)
        yield from self._noticed(report, {incident.detector for incident in judged.incidents})
        if spans:
            yield _line("run", strip(run.events, spans))
        if judged.answers:
            yield _line("Holdfast", _would_have(run, report, judged.answers))

    def _incident(self, judged: Judged, incident: Incident, first: int, last: int) -> Iterator[Text]:
        run = judged.run
        noticed = incident.opened_seq
        proof = self._evidence(judged, incident)
        yield _line(incident.kind, safe(incident.message))
        steps = f"step {first + 1}" if first == last else f"steps {first + 1}-{last + 1}"
        at = "noticed at the run's end"
        if noticed < len(run.events):
            at = f"noticed at step {noticed + 1} (events[{run.events[noticed].event_id}])"
        again = f", {incident.findings} times in all" if incident.findings > 1 else ""
        yield _line("when", f"{steps} of {len(run.events)}, {at}{again}")
        if incident.kind != "resource":
            for row in self._rows([run.events[place] for place in proof]):
                yield _line("", row)

    def _evidence(self, judged: Judged, incident: Incident) -> list[int]:
        """The places, in the run's order of steps, of every step that proves the incident."""
        places = {int(event.event_id): place for place, event in enumerate(judged.run.events)}
        proof: set[int] = set()
        for finding in judged.report.findings:
            at = places[finding.at]
            if finding.detector == incident.detector and incident.opened_seq <= at <= incident.last_seq:
                proof.update(places[entry] for entry in finding.evidence if entry in places)
        return sorted(proof)

    def _span(self, judged: Judged, incident: Incident) -> tuple[int, int]:
        last = min(incident.last_seq, len(judged.run.events) - 1)
        proof = self._evidence(judged, incident)
        return min([*proof, incident.opened_seq, last]), last

    def _rows(self, events: Sequence[TraceEvent]) -> Iterator[str]:
        """Equal calls on one row, with what came back the last time."""
        alike: dict[tuple[str, bytes], list[TraceEvent]] = {}
        for event in events:
            alike.setdefault((event.action_name, canonical(event.input_data)), []).append(event)
        for same in list(alike.values())[:_ROWS]:
            yield f"{len(same):>3}x {self._step(same[-1])}"
        if len(alike) > _ROWS:
            yield f"and {len(alike) - _ROWS} other steps"

    def _step(self, event: TraceEvent) -> str:
        came_back = self._shown(event.error or event.text or self._result(event.output_data), _RESULT)
        if event.action_type == LLM_REQUEST:
            return f'reply "{came_back}"'
        arguments = safe(self._plain(event.input_data), most=_ARGUMENTS)
        mark = "failed: " if event.error else ""
        return f"{safe(event.action_name, most=_ARGUMENTS)} {arguments} → {mark}{came_back or '(nothing)'}"

    def _result(self, value: Any) -> str:
        is_empty = isinstance(value, dict) and not any(value.values())
        return "" if is_empty else self._plain(value)

    def _plain(self, value: Any) -> str:
        _, encoded = self._redactor.clean(value, canonical(value))
        return encoded[:_LOOKED_AT].decode("utf-8", "replace")

    def _shown(self, text: str, most: int) -> str:
        return safe(self._redactor.text(" ".join(text[:_LOOKED_AT].split())), most=most)

    def _noticed(self, report: RunReport, told: set[str]) -> Iterator[Text]:
        """What was found without becoming an incident: only when LOW findings are asked for."""
        counted = Counter(
            finding.detector
            for finding in report.findings
            if finding.severity.rank >= self._least and finding.detector not in told
        )
        for detector, n in counted.items():
            last = next(found for found in reversed(report.findings) if found.detector == detector)
            yield _line(last.kind, f"{safe(last.message)} (LOW, {n} times)")


def strip(events: Sequence[TraceEvent], spans: Sequence[tuple[int, int]]) -> str:
    """The run as one character a step, with each span in brackets; long stretches are left out."""
    merged = _merged(spans)
    opens, closes = {first for first, _ in merged}, {last for _, last in merged}
    edges = opens | closes
    parts, skipped = [], 0
    for place, event in enumerate(events):
        is_near = any(abs(place - edge) <= _NEAR for edge in edges)
        if len(events) > _STRIP and not is_near and _EDGE <= place < len(events) - _EDGE:
            skipped += 1
            continue
        if skipped:
            parts.append(f"…{skipped}…")
            skipped = 0
        parts.append(f"{'[' * (place in opens)}{_mark(event)}{']' * (place in closes)}")
    return "".join(parts)


def _merged(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return merged


def _mark(event: TraceEvent) -> str:
    return "x" if event.error else _MARKS.get(event.action_type, "?")


def _would_have(run: ReadRun, report: RunReport, answers: Sequence[Answer]) -> str:
    done = [f"{_DONE[answer.action]} at step {answer.place + 1}" for answer in answers]
    words = f"would have {', then '.join(done)}"
    if report.tokens_saved is None:
        return words
    stopped = next(a.place for a in answers if a.action.rung >= DriftAction.SUMMARIZE_REPLAN.rung)
    steps = len(spared(run.events, stopped))
    total = sum(event.token_count for event in run.events)
    cost = f" and {report.tokens_saved:,} of {total:,} tokens" if total else ""
    return f"{words}; {steps} step{'s' * (steps != 1)}{cost} came after the new plan was due"


def _counted(kind: str, n: int) -> str:
    return f"{n:,} {kind if n == 1 else _PLURALS.get(kind, kind)}"


def _line(title: str, words: str) -> Text:
    return Text.assemble(("  " + title.ljust(10), "dim"), words)
