"""Apply the verdict of a judge: the only place where it has an effect, live and in every replay."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from msgspec import Struct, field

from steadyhelm.engine.incident_tracker import IncidentTracker
from steadyhelm.engine.totals import Totals
from steadyhelm.events import TraceEvent
from steadyhelm.findings import MED_FROM, DriftEvent, Kind, make_finding
from steadyhelm.incidents import Incident
from steadyhelm.judge import JudgedReport, Subject
from steadyhelm.judging.questioner import QuestionMemory
from steadyhelm.judging.severity_shifts import SeverityShifts, describe_shift
from steadyhelm.judging.usage import JudgeAmounts

JUDGE: Final = "judge"
"""The detector name of findings that a verdict makes."""

_KIND_BY_SUBJECT: Final[dict[Subject, Kind]] = {"loop": "loop", "goal": "goal", "reply": "correction"}
_ADVICE_BY_SUBJECT: Final[dict[Subject, str]] = {
    "loop": "Say what is known by now, then try something that was not tried yet.",
    "goal": "Say in one sentence how the next step serves the goal, then take it.",
    "reply": "Read the user's last message as a correction of the turn before it.",
}
_NOTICED_SCORE: Final = 0.3
_APPLIED_KEPT: Final = 256
_CORRECTIONS_KEPT: Final = 32


class VerdictMemory(Struct):
    """What verdicts have changed in a run, and what they have used.

    `corrections` are the places of messages that were corrections.
    """

    shifts: SeverityShifts = field(default_factory=SeverityShifts)
    used: JudgeAmounts = JudgeAmounts()
    applied: list[str] = field(default_factory=list)
    corrections: list[int] = field(default_factory=list)

    def note_corrections(self, event: TraceEvent, findings: Sequence[DriftEvent]) -> None:
        """Note a message that a detector took for a correction."""
        if any(finding.kind == "correction" for finding in findings):
            self.set_correction(event.seq, is_one=True)

    def set_correction(self, place: int, *, is_one: bool) -> bool:
        """Note whether a message was a correction; return whether it was noted as one before."""
        before = place in self.corrections
        others = [it for it in self.corrections if it != place]
        self.corrections = [*others, place][-_CORRECTIONS_KEPT:] if is_one else others
        return before

    def is_repeated(self, report: JudgedReport) -> bool:
        """Return whether the message before the one that was judged was a correction too."""
        return any(report.pattern.endswith(f"/after {place}") for place in self.corrections)


class SavedJudging(Struct):
    """What is saved of a session's verdicts and questions."""

    verdicts: VerdictMemory = field(default_factory=VerdictMemory)
    questions: QuestionMemory | None = None


class VerdictEffect(NamedTuple):
    """What a verdict led to."""

    findings: Sequence[DriftEvent] = ()
    incidents: Sequence[Incident] = ()


def apply_verdict(
    event: TraceEvent,
    report: JudgedReport,
    memory: VerdictMemory,
    incidents: IncidentTracker,
    totals: Totals,
) -> VerdictEffect:
    """Apply what a `judged` event reports, once: severity moves by one step at most."""
    if report.asked:
        tokens = report.input_tokens + report.output_tokens
        memory.used = memory.used.add(JudgeAmounts(1, tokens, report.cost_usd or 0.0))
    key = f"{report.question_id}/{report.subject}/{report.place}"
    if key in memory.applied:
        return VerdictEffect()
    memory.applied = [*memory.applied, key][-_APPLIED_KEPT:]
    noticed = [_build_addressed_finding(event, report)] if report.addressed else []
    effect = _apply_step(event, report, memory, incidents, totals) if report.direction else VerdictEffect()
    return effect._replace(findings=[*noticed, *effect.findings])


def _apply_step(
    event: TraceEvent,
    report: JudgedReport,
    memory: VerdictMemory,
    incidents: IncidentTracker,
    totals: Totals,
) -> VerdictEffect:
    kind, step = _KIND_BY_SUBJECT[report.about], report.direction
    if report.about == "reply":
        was_noticed = memory.set_correction(report.place, is_one=step > 0)
        if step > 0 and was_noticed and not memory.is_repeated(report):
            return VerdictEffect()
    else:
        step = memory.shifts.note(report)
        if not step:
            return VerdictEffect()
    if kind in incidents.open and (step < 0 or report.about != "reply"):
        return VerdictEffect(
            (), incidents.shift_severity(kind, report, step, describe_shift(kind, step), event)
        )
    if step < 0:
        return VerdictEffect()
    finding = _build_finding(event, report, memory)
    return VerdictEffect([finding], incidents.open_judged(event, report, finding, totals))


def _build_finding(event: TraceEvent, report: JudgedReport, memory: VerdictMemory) -> DriftEvent:
    """Return what a judge found where nothing was reported: one step above that."""
    score = MED_FROM
    if report.about == "reply":
        # One correction is noticed; a second in a row is reported.
        score = MED_FROM if memory.is_repeated(report) else _NOTICED_SCORE
    words = describe_shift(_KIND_BY_SUBJECT[report.about], 1)
    return _make_judge_finding(event, report, score, words, _ADVICE_BY_SUBJECT[report.about])


def _build_addressed_finding(event: TraceEvent, report: JudgedReport) -> DriftEvent:
    message = "text of this run tries to tell a judge what to answer"
    return _make_judge_finding(event, report, _NOTICED_SCORE, message, "Find out where that text comes from.")


def _make_judge_finding(
    event: TraceEvent, report: JudgedReport, score: float, message: str, advice: str
) -> DriftEvent:
    return make_finding(
        event,
        JUDGE,
        _KIND_BY_SUBJECT[report.about],
        score=score,
        message=message,
        suggested_action=advice,
        event_ids=report.evidence,
        subject=report.pattern.partition("/")[2] if report.about == "loop" else "",
    )
