"""Turn findings into incidents: one incident per episode of drift, however many findings it has."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct, field, structs

from steadyhelm.decisions import PROCEED, Decision, DriftAction, Intervention
from steadyhelm.engine.drift_findings import BUDGET, DAILY_BUDGET
from steadyhelm.engine.incident_records import (
    extend_incident,
    find_first_evidence,
    find_reported_kinds,
    has_other_steps,
    is_about_incident,
    make_incident,
    make_intervention,
    make_verdict,
    measure_period,
)
from steadyhelm.engine.intervention_outcomes import CORRECTION, InterventionOutcomes, JudgedIntervention
from steadyhelm.engine.totals import Totals
from steadyhelm.events import TraceEvent
from steadyhelm.findings import DriftEvent, Severity
from steadyhelm.incidents import Incident
from steadyhelm.judge import JudgedReport, name_pattern
from steadyhelm.judging.severity_shifts import is_certain, shift_severity
from steadyhelm.policy.outcomes import EXPECTED_CHANGES
from steadyhelm.policy.response_levels import FAILED_OUTCOMES, LastResponse, is_unusual_spending

QUIET_EVENTS: Final = 10
"""Events without a finding of its kind after which an incident closes, unless an outcome is open."""
QUIET_PERIODS: Final = 2
"""Periods of a slow loop without a finding after which its incident closes, where that is later."""

_MAX_PERIOD: Final = 256
_INTERVENTIONS_KEPT: Final = 20
_PAST_KEPT: Final = 3
_CLEARED_KEPT: Final = 16
_CERTAIN_KEPT: Final = 16


_NOT_CAUSED_BY_ANSWERS: Final = frozenset({CORRECTION, "resource"})
"""Kinds of drift that an intervention cannot cause: corrections by the user, and spending."""


class IncidentStart(Struct, array_like=True):
    """The place of an incident's first evidence, the tokens spent before it, and the period of its loop.

    The period is the number of events from one repetition to the next, 0 where nothing is repeated.
    """

    seq: int
    tokens: int = 0
    period: int = 0


class IncidentTracker(Struct):
    """The open incidents of one run, one per kind: several detectors may see the same loop.

    `starts` has the beginning of each, `past` the messages of incidents that are closed. `total` counts what
    was wrong with the run; that it spent more than it was given is not. `cleared` has the incidents that were
    judged healthy, by pattern; one whose pattern gets worse is opened again. `certain` are the ids of those
    that no verdict can change.
    """

    open: dict[str, Incident] = field(default_factory=dict)
    total: int = 0
    outcomes: InterventionOutcomes = field(default_factory=InterventionOutcomes)
    starts: dict[str, IncidentStart] = field(default_factory=dict)
    past: list[str] = field(default_factory=list)
    cleared: dict[str, Incident] = field(default_factory=dict)
    certain: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        # A damaged state may name interventions that do not exist.
        given = {kind for kind, incident in self.open.items() if incident.interventions}
        for kind in self.outcomes.running.keys() - (given & self.outcomes.answered.keys()):
            self.outcomes.drop(kind)

    def drop_texts(self) -> "IncidentTracker":
        """Return it without what interventions quote."""
        return structs.replace(self, open={kind: it.drop_texts() for kind, it in self.open.items()})

    @property
    def answered(self) -> dict[str, LastResponse]:
        """The latest intervention against each kind of drift."""
        return self.outcomes.answered

    def first_evidence_seq(self) -> int | None:
        """Return the place of the earliest evidence of the open incidents; None when none is open."""
        return min((it.seq for kind, it in self.starts.items() if kind in self.open), default=None)

    def has_failed_intervention(self) -> bool:
        """Return whether an intervention in an open incident was ignored or made things worse."""
        return any(
            it.outcome in FAILED_OUTCOMES for incident in self.open.values() for it in incident.interventions
        )

    def list_past_messages(self, findings: Sequence[DriftEvent]) -> list[str]:
        """Return the messages of earlier incidents, without those of the given findings."""
        now = {finding.message for finding in findings}
        return [message for message in self.past if message not in now]

    def predict_answers(self, call: TraceEvent, findings: Sequence[DriftEvent]) -> dict[str, LastResponse]:
        """Return the latest answers as they would be if this call were made and led to these findings.

        Drift that is back after a rollback has ignored it: no second step has to show that.
        """
        kinds = find_reported_kinds(findings)
        predicted = self.outcomes.predict_answers(call, kinds)
        for kind in kinds & self.outcomes.running.keys():
            if self.open[kind].interventions[-1].verdict == "rollback":
                predicted[kind] = predicted[kind]._replace(outcome="ignored")
        return predicted

    def judge(
        self, event: TraceEvent, findings: Sequence[DriftEvent], totals: Totals | None = None
    ) -> list[Incident]:
        """Judge open interventions by this event; return the incidents whose outcome was decided."""
        if not self.outcomes.running:
            return []
        seen = find_reported_kinds(findings)
        if any(finding.kind == CORRECTION for finding in findings):
            # One more correction decides the outcome, though it is not reported by itself.
            seen.add(CORRECTION)
        judged = self.outcomes.judge(
            event, seen, begins=bool(seen - self.open.keys() - _NOT_CAUSED_BY_ANSWERS)
        )
        return [self._set_outcome(it, event.seq, totals) for it in judged]

    def observe(
        self,
        event: TraceEvent,
        findings: Sequence[DriftEvent],
        decision: Decision,
        totals: Totals | None = None,
    ) -> list[Incident]:
        """Record the findings at an event and the decision; return the incidents that changed."""
        totals = totals or Totals(last_seq=event.seq)
        changed: dict[str, Incident] = {}
        for finding in findings:
            if finding.severity is Severity.LOW:
                continue
            before = self.open.get(finding.kind) or self._open_incident(event, finding, totals)
            incident = self.open[finding.kind] = extend_incident(before, event, finding)
            self._record_period(event, finding)
            # Several detectors may see the same at one event: that is one intervention.
            if decision.guidance and before.last_seq != event.seq:
                answer = make_intervention(event, decision, finding.event_ids)
                is_judged = not is_unusual_spending(finding)
                incident = self._add_intervention(finding.kind, event, answer, totals, is_judged=is_judged)
            changed[incident.incident_id] = incident
            if is_certain(finding) and incident.incident_id not in self.certain:
                self.certain = [*self.certain, incident.incident_id][-_CERTAIN_KEPT:]
        return [*changed.values(), *self._close_quiet(event, totals)]

    def shift_severity(
        self, kind: str, report: JudgedReport, step: int, words: str, event: TraceEvent
    ) -> list[Incident]:
        """Move the severity of an open incident by a verdict about it; one that becomes LOW is closed.

        Returns the incident where it changed.
        """
        incident = self.open[kind]
        severity = shift_severity(incident.severity, step)
        if not is_about_incident(report, incident) or severity is incident.severity or incident.hard_limit:
            return []
        if incident.incident_id in self.certain:
            return []
        message = f"{incident.message}; {words}"
        judged = make_verdict(report, incident.severity, severity, event)
        moved = structs.replace(incident, severity=severity, message=message, judged=judged)
        if severity is not Severity.LOW:
            self.open[kind] = moved
            return [moved]
        del self.open[kind]
        self.outcomes.drop(kind)
        self.outcomes.close(kind)
        self.starts.pop(kind, None)
        closed = structs.replace(moved, state="closed", closed_at=event.timestamp)
        self.cleared[report.pattern] = closed
        if len(self.cleared) > _CLEARED_KEPT:
            del self.cleared[next(iter(self.cleared))]
        return [closed]

    def open_judged(
        self, event: TraceEvent, report: JudgedReport, finding: DriftEvent, totals: Totals
    ) -> list[Incident]:
        """Record what a judge found where nothing was reported; return the incidents that changed."""
        is_open = finding.kind in self.open
        changed = self.observe(event, [finding], PROCEED, totals)
        incident = self.open.get(finding.kind)
        if is_open or incident is None:
            return changed
        judged = make_verdict(report, None, incident.severity, event)
        self.open[finding.kind] = opened = structs.replace(incident, judged=judged)
        return [opened if it.incident_id == opened.incident_id else it for it in changed]

    def record_refusal(
        self, event: TraceEvent, action: DriftAction, reason: str, totals: Totals
    ) -> list[Incident]:
        """Record a refused call as an intervention; asking for the same call again ignores it."""
        kind = "loop" if "loop" in self.open else next(iter(self.open), "")
        if not kind:
            return []
        # While the agent asks for the call, the drift goes on.
        incident = self.open[kind] = structs.replace(
            self.open[kind], last_seq=event.seq, last_at=event.timestamp
        )
        last = incident.interventions[-1] if incident.interventions else None
        if last is not None and last.verdict == "deny" and kind in self.outcomes.running:
            judged = self.outcomes.record_ignored(kind)
            if not judged:
                return [incident]
            self._set_outcome(judged[0], event.seq, totals)
        decision = Decision(action=action, verdict="deny", guidance=reason, wording=f"refuse.{kind}")
        return [
            self._add_intervention(
                kind, event, make_intervention(event, decision, incident.event_ids), totals
            )
        ]

    def close_all(self, at: float, seq: int, totals: Totals | None = None) -> list[Incident]:
        """Close every incident at the end of the run, and settle open outcomes; return them."""
        for kind in list(self.outcomes.running):
            judged = self.outcomes.settle_at_end(kind)
            self._set_outcome(judged, None if judged.outcome == "unknown" else seq, totals)
        closed = [structs.replace(incident, state="closed", closed_at=at) for incident in self.open.values()]
        self.open.clear()
        return closed

    def mark_not_carried_out(self, reason: str) -> list[Incident]:
        """Record that the latest intervention could not be carried out; return the incidents that changed."""
        answers = [it.interventions[-1].seq for it in self.open.values() if it.interventions]
        latest = max(answers, default=-1)
        changed: dict[str, Incident] = {}
        for kind, incident in self.open.items():
            if incident.interventions and incident.interventions[-1].seq == latest:
                *earlier, last = incident.interventions
                failed = structs.replace(last, not_carried_out=reason)
                changed[kind] = structs.replace(incident, interventions=(*earlier, failed))
                self.outcomes.drop(kind)
        self.open.update(changed)
        return list(changed.values())

    def mark_rolled_back(self) -> list[Incident]:
        """Record that denied calls led to a rollback; return the incidents that changed."""
        changed: dict[str, Incident] = {}
        for kind, incident in self.open.items():
            last = incident.interventions[-1] if incident.interventions else None
            if last is not None and (last.verdict, last.action) == ("deny", DriftAction.CHECKPOINT_RESET):
                returned = structs.replace(last, verdict="rollback")
                changed[kind] = structs.replace(
                    incident, interventions=(*incident.interventions[:-1], returned)
                )
        self.open.update(changed)
        return list(changed.values())

    def mark_delivered(self, event: TraceEvent, seq: int) -> list[Incident]:
        """Record that the guidance decided at `seq` was delivered now; return the incidents that changed.

        From here on it is an intervention, and its outcome is decided by what follows.
        """
        changed: dict[str, Incident] = {}
        for kind, incident in self.open.items():
            last = incident.interventions[-1] if incident.interventions else None
            if last is None or last.seq != seq or last.said:
                continue
            if last.window:
                self.outcomes.restart(kind, last.action, event)
            said = structs.replace(
                last, verdict="guide", timestamp=event.timestamp, outcome="unknown", settled_seq=None
            )
            changed[kind] = structs.replace(incident, interventions=(*incident.interventions[:-1], said))
        self.open.update(changed)
        return list(changed.values())

    def _open_incident(self, event: TraceEvent, finding: DriftEvent, totals: Totals) -> Incident:
        seq = find_first_evidence(finding, event)
        self.starts[finding.kind] = IncidentStart(seq, totals.tokens_before(seq))
        cleared = self._take_cleared(finding) if self.cleared else None
        if cleared is not None:
            # The same incident: what was alerted before is not alerted again, unless it has become worse.
            return structs.replace(cleared, state="open", closed_at=None, message=finding.message)
        self.total += finding.detector not in {BUDGET, DAILY_BUDGET}
        return make_incident(event, finding)

    def _record_period(self, event: TraceEvent, finding: DriftEvent) -> None:
        """Keep how far apart the repetitions are: the next one must be due before the incident closes."""
        start = self.starts.get(finding.kind)
        if start is not None:
            start.period = min(_MAX_PERIOD, max(start.period, measure_period(finding, event)))

    def _take_cleared(self, finding: DriftEvent) -> Incident | None:
        name = name_pattern(finding.kind, finding.subject, finding.detector)
        known = self.cleared.get(name)
        if known is None or ("judged" not in finding.context and has_other_steps(known, finding)):
            return None
        return self.cleared.pop(name)

    def _add_intervention(
        self, kind: str, event: TraceEvent, answer: Intervention, totals: Totals, *, is_judged: bool = True
    ) -> Incident:
        """Add an intervention to its incident, and start to judge it; without that its window is 0."""
        incident = self.open[kind]
        if kind in self.outcomes.running:
            # A second intervention was needed: the first was ignored.
            incident = self._set_outcome(self.outcomes.settle(kind, "ignored"), event.seq, totals)
        start = self.starts.get(kind) or IncidentStart(incident.opened_seq, totals.tokens)
        steps = totals.count_events(start.seq, event.seq) + 1
        tokens_a_step = (totals.tokens - start.tokens) / max(1, steps)
        trial = self.outcomes.begin(kind, answer.action, event, tokens_a_step)
        answer = structs.replace(
            answer,
            expected=EXPECTED_CHANGES[kind],
            window=trial.window if is_judged else 0,
            tokens_before=totals.tokens,
            cost_before_usd=totals.cost_usd,
        )
        if not is_judged:
            self.outcomes.drop(kind)
        answers = (*incident.interventions, answer)[-_INTERVENTIONS_KEPT:]
        incident = self.open[kind] = structs.replace(incident, interventions=answers)
        return incident

    def _set_outcome(self, judged: JudgedIntervention, seq: int | None, totals: Totals | None) -> Incident:
        """Set the outcome of an incident's latest intervention; return the incident.

        Words that nobody received have saved nothing, and others at most what was spent since.
        """
        incident = self.open[judged.kind]
        *earlier, last = incident.interventions
        spent = totals.tokens - last.tokens_before if totals is not None and last.said else 0
        saved = min(judged.tokens_saved or 0, spent) or None
        last = structs.replace(last, outcome=judged.outcome, settled_seq=seq, tokens_saved=saved)
        incident = self.open[judged.kind] = structs.replace(incident, interventions=(*earlier, last))
        return incident

    def _is_quiet(self, kind: str, incident: Incident, event: TraceEvent, totals: Totals) -> bool:
        quiet = totals.count_events(incident.last_seq, event.seq)
        if quiet < QUIET_EVENTS or kind in self.outcomes.running:
            return False
        start = self.starts.get(kind)
        return start is None or quiet >= QUIET_PERIODS * start.period

    def _close_quiet(self, event: TraceEvent, totals: Totals) -> list[Incident]:
        quiet = [kind for kind, it in self.open.items() if self._is_quiet(kind, it, event, totals)]
        for kind in quiet:
            self.outcomes.close(kind)
            self.starts.pop(kind, None)
            self.past = [*self.past, self.open[kind].message][-_PAST_KEPT:]
        return [
            structs.replace(self.open.pop(kind), state="closed", closed_at=event.timestamp) for kind in quiet
        ]
