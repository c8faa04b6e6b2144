"""What verdicts change: the severity of a pattern in a run, by one step at most."""

from collections.abc import Collection, Iterable
from typing import Final

from msgspec import Struct, field, structs

from steadyhelm.events import TOOL_CALL, TraceEvent
from steadyhelm.findings import CRITICAL_FROM, HIGH_FROM, MED_FROM, DriftEvent, Severity
from steadyhelm.fingerprints import fingerprint
from steadyhelm.judge import JudgedReport, name_pattern, name_places

MAX_JUDGED_REPEATS: Final = 10
"""An identical call with identical results that was made more often is a loop, whatever a judge says."""

_IDENTICAL_PATTERNS: Final = frozenset({"repetition", "slow loop", "cycle"})
_PATTERNS_KEPT: Final = 64
_STEPS_KEPT: Final = 48
_CALLS_KEPT: Final = 16
_SEVERITY_ORDER: Final = tuple(Severity)
_LOWEST_SCORES: Final = {
    Severity.LOW: 0.0,
    Severity.MED: MED_FROM,
    Severity.HIGH: HIGH_FROM,
    Severity.CRITICAL: CRITICAL_FROM,
}


class JudgedRepetition(Struct):
    """A repetition that was judged: known by its name with its steps, or with the call that it repeats.

    A tool may be repeated in several ways in one run: only the way that was judged is meant.
    """

    name: str
    step: int = 0
    places: list[str] = field(default_factory=list)
    calls: list[int] = field(default_factory=list)

    def is_same(self, name: str, places: Collection[str], call: int) -> bool:
        """Return whether steps belong to this repetition."""
        if name != self.name:
            return False
        return call in self.calls or not set(self.places).isdisjoint(places)

    def extend(self, places: Iterable[str], call: int) -> None:
        """Add steps that belong to it."""
        fresh = [it for it in places if it not in self.places]
        self.places = [*self.places, *fresh][-_STEPS_KEPT:]
        if call and call not in self.calls:
            self.calls = [*self.calls, call][-_CALLS_KEPT:]


class SeverityShifts(Struct):
    """How far verdicts have moved severities in a run: -1, 0 or 1.

    `steps` has them by the name of a pattern, such as the goal, `repetitions` one by one.
    """

    steps: dict[str, int] = field(default_factory=dict)
    repetitions: list[JudgedRepetition] = field(default_factory=list)

    def note(self, report: JudgedReport) -> int:
        """Note a verdict; return the step it makes: none beyond one from what the rules say."""
        if report.proof:
            known = self._find(report.pattern, report.proof, report.call) or self._add(report.pattern)
            known.extend(report.proof, report.call)
            before = known.step
            known.step = after = min(1, max(-1, before + report.direction))
            return after - before
        before = self.steps.pop(report.pattern, 0)
        after = self.steps[report.pattern] = min(1, max(-1, before + report.direction))
        if len(self.steps) > _PATTERNS_KEPT:
            del self.steps[next(iter(self.steps))]
        return after - before

    def find_shift(self, finding: DriftEvent, event: TraceEvent | None) -> int:
        """Return how far verdicts have moved what a finding at an event is about."""
        name = name_pattern(finding.kind, finding.subject, finding.detector)
        known = self._find(name, _list_places(finding), identify_call(event)) if self.repetitions else None
        return self.steps.get(name, 0) if known is None else known.step

    def apply_to(self, finding: DriftEvent, event: TraceEvent | None) -> DriftEvent:
        """Return the finding with its severity moved by what was judged about its pattern."""
        step = self.find_shift(finding, event)
        return finding if not step or is_certain(finding) else shift_finding(finding, step)

    def follow(self, findings: Iterable[DriftEvent], event: TraceEvent) -> None:
        """Note the steps of findings that belong to a repetition that was judged."""
        for finding in findings:
            name = name_pattern(finding.kind, finding.subject, finding.detector)
            places, call = _list_places(finding), identify_call(event)
            known = self._find(name, places, call)
            if known is not None:
                known.extend(places, call)

    def _find(self, name: str, places: Collection[str], call: int) -> JudgedRepetition | None:
        return next((it for it in reversed(self.repetitions) if it.is_same(name, places, call)), None)

    def _add(self, name: str) -> JudgedRepetition:
        added = JudgedRepetition(name)
        self.repetitions = [*self.repetitions, added][-_PATTERNS_KEPT:]
        return added


def _list_places(finding: DriftEvent) -> tuple[str, ...]:
    return name_places(finding.event_ids, finding.run_id)


def identify_call(event: TraceEvent | None) -> int:
    """Return the fingerprint of a tool call: its name and arguments; 0 for every other event."""
    return fingerprint(event).call if event is not None and event.action_type == TOOL_CALL else 0


def is_certain(finding: DriftEvent) -> bool:
    """Return whether no verdict can change a finding: a passed limit, or an identical call once too often."""
    if finding.context.get("hard_limit"):
        return True
    is_identical = finding.context.get("pattern") in _IDENTICAL_PATTERNS
    return is_identical and finding.repeats > MAX_JUDGED_REPEATS


def shift_finding(finding: DriftEvent, step: int) -> DriftEvent:
    """Return a finding one severity higher or lower; its message says why."""
    severity = shift_severity(finding.severity, step)
    if severity is finding.severity:
        return finding
    words = describe_shift(finding.kind, step)
    return structs.replace(
        finding,
        severity=severity,
        score=max(finding.score, _LOWEST_SCORES[severity]),
        message=f"{finding.message} ({words})",
        context={**finding.context, "judged": words},
    )


def shift_severity(severity: Severity, step: int) -> Severity:
    """Return the next higher or lower severity, where there is one.

    >>> str(shift_severity(Severity.MED, 1)), str(shift_severity(Severity.LOW, -1))
    ('HIGH', 'LOW')
    """
    return _SEVERITY_ORDER[min(len(_SEVERITY_ORDER) - 1, max(0, severity.rank + step))]


def describe_shift(kind: str, step: int) -> str:
    """Return what was judged, in words for people.

    >>> describe_shift("loop", -1), describe_shift("goal", 1)
    ('judged healthy', 'judged off the goal')
    """
    if step < 0:
        return "judged healthy"
    return {"loop": "judged to be without progress", "goal": "judged off the goal"}.get(
        kind, "judged a correction"
    )
