"""What verdicts change: the severity of a pattern in a run, by one step at most."""

from typing import Final

from msgspec import Struct, field, structs

from steadyhelm.findings import CRITICAL_FROM, HIGH_FROM, MED_FROM, DriftEvent, Severity
from steadyhelm.judge import JudgedReport, name_pattern

MAX_JUDGED_REPEATS: Final = 10
"""An identical call with identical results that was made more often is a loop, whatever a judge says."""

_IDENTICAL_PATTERNS: Final = frozenset({"repetition", "slow loop", "cycle"})
_PATTERNS_KEPT: Final = 64
_ORDER: Final = tuple(Severity)
_LOWEST_SCORES: Final = {
    Severity.LOW: 0.0,
    Severity.MED: MED_FROM,
    Severity.HIGH: HIGH_FROM,
    Severity.CRITICAL: CRITICAL_FROM,
}


class SeverityShifts(Struct):
    """How far the verdicts about each pattern of a run have moved its severity: -1, 0 or 1."""

    steps: dict[str, int] = field(default_factory=dict)

    def note(self, report: JudgedReport) -> int:
        """Note a verdict; return the step it makes: none beyond one from what the rules say."""
        before = self.steps.pop(report.pattern, 0)
        after = self.steps[report.pattern] = min(1, max(-1, before + report.direction))
        if len(self.steps) > _PATTERNS_KEPT:
            del self.steps[next(iter(self.steps))]
        return after - before

    def apply_to(self, finding: DriftEvent) -> DriftEvent:
        """Return the finding with its severity moved by what was judged about its pattern."""
        step = self.steps.get(name_pattern(finding.kind, finding.subject, finding.detector), 0)
        return finding if not step or is_certain(finding) else shift_finding(finding, step)


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
    words = describe_step(finding.kind, step)
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
    return _ORDER[min(len(_ORDER) - 1, max(0, severity.rank + step))]


def describe_step(kind: str, step: int) -> str:
    """Return what was judged, in words for people.

    >>> describe_step("loop", -1), describe_step("goal", 1)
    ('judged healthy', 'judged off the goal')
    """
    if step < 0:
        return "judged healthy"
    return {"loop": "judged to be without progress", "goal": "judged off the goal"}.get(
        kind, "judged a correction"
    )
