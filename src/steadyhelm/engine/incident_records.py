"""Make incidents, interventions and verdicts of the findings, decisions and reports of a run."""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

from msgspec import structs

from steadyhelm.decisions import Decision, Intervention
from steadyhelm.events import TraceEvent
from steadyhelm.findings import DriftEvent, Severity
from steadyhelm.incidents import MAX_INCIDENT_EVENTS, Incident, IncidentVerdict
from steadyhelm.judge import JudgedReport, name_pattern, name_places

_EVIDENCE_NAMED: Final = 10


def is_about_incident(report: JudgedReport, incident: Incident) -> bool:
    """Return whether a verdict is about an incident: asked about it, or about the same repetition before."""
    if report.subject in {incident.incident_id, str(incident.last_seq)}:
        return True
    is_named = report.pattern == name_pattern(incident.kind, incident.subject, incident.detector)
    places = name_places(incident.event_ids, incident.run_id)
    return is_named and (not report.proof or not set(report.proof).isdisjoint(places))


def has_other_steps(incident: Incident, finding: DriftEvent) -> bool:
    """Return whether a finding is proven by none of the steps that prove an incident."""
    return bool(incident.event_ids) and set(incident.event_ids).isdisjoint(finding.event_ids)


def make_verdict(
    report: JudgedReport, moved_from: Severity | None, moved_to: Severity, event: TraceEvent
) -> IncidentVerdict:
    """Return what a judge answered, as an incident keeps it."""
    return IncidentVerdict(
        label=report.label,
        confidence=report.confidence,
        moved_from=moved_from,
        moved_to=moved_to,
        quote=report.quote,
        cost_usd=report.cost_usd,
        seq=event.seq,
    )


def find_reported_kinds(findings: Sequence[DriftEvent]) -> set[str]:
    """Return the kinds of the findings of severity MED and above."""
    return {finding.kind for finding in findings if finding.severity is not Severity.LOW}


def find_first_evidence(finding: DriftEvent, event: TraceEvent) -> int:
    """Return the place of a finding's first evidence, if its id has one, else that of the event."""
    whose, place = _split_id(finding.event_ids[0] if finding.event_ids else "")
    return event.seq if place is None or whose != event.run_id else place


def measure_period(finding: DriftEvent, event: TraceEvent) -> int:
    """Return how many events lie from one repetition to the next; 0 where their ids name no places."""
    if finding.repeats <= 1 or not finding.event_ids:
        return 0
    first, last = _split_id(finding.event_ids[0])[1], _split_id(event.event_id)[1]
    return 0 if first is None or last is None else max(0, last - first) // (finding.repeats - 1)


def _split_id(event_id: str) -> tuple[str, int | None]:
    """Return whose event an id names, and its place; a recording names the place alone."""
    whose, _, place = event_id.rpartition(".")
    return whose, int(place) if place.isascii() and place.isdigit() else None


def make_intervention(event: TraceEvent, decision: Decision, evidence: Sequence[str]) -> Intervention:
    """Return the intervention that a decision is; its outcome is not known yet."""
    return Intervention(
        action=decision.action,
        verdict=decision.verdict,
        wanted=decision.wanted,
        seq=event.seq,
        timestamp=event.timestamp,
        guidance=decision.guidance,
        wording=decision.wording,
        because=decision.assessment.raised_by if decision.assessment is not None else (),
        evidence=tuple(evidence[-_EVIDENCE_NAMED:]),
        hard=decision.hard,
    )


def extend_incident(before: Incident, event: TraceEvent, finding: DriftEvent) -> Incident:
    """Return an incident with one more finding."""
    # What another detector sees after calls were denied may be our own doing: an agent that can only talk
    # repeats itself. The first cause stays the headline.
    is_blocked = any(it.verdict == "deny" for it in before.interventions)
    is_peak = finding.score >= before.peak and (finding.detector == before.detector or not is_blocked)
    fresh = [proof for proof in finding.event_ids if proof not in before.event_ids]
    return structs.replace(
        before,
        severity=max(before.severity, finding.severity, key=lambda severity: severity.rank),
        peak=max(before.peak, finding.score),
        message=finding.message if is_peak else before.message,
        suggested_action=finding.suggested_action if is_peak else before.suggested_action,
        subject=finding.subject if is_peak else before.subject,
        repeats=finding.repeats if is_peak else before.repeats,
        last_at=event.timestamp,
        last_seq=event.seq,
        findings=before.findings + (before.last_seq not in {-1, event.seq}),
        event_ids=(*before.event_ids, *fresh)[-MAX_INCIDENT_EVENTS:],
    )


def make_incident(event: TraceEvent, finding: DriftEvent) -> Incident:
    """Return a new incident that this finding opens."""
    # The same trace gives the same id, so that a replay updates the incident instead of adding one.
    key = f"{finding.agent_id}\0{finding.run_id}\0{finding.detector}\0{event.seq}"
    return Incident(
        incident_id=blake2b(key.encode("utf-8", "replace"), digest_size=6).hexdigest(),
        agent_id=finding.agent_id,
        run_id=finding.run_id,
        detector=finding.detector,
        kind=finding.kind,
        severity=finding.severity,
        peak=finding.score,
        message=finding.message,
        suggested_action=finding.suggested_action,
        opened_at=event.timestamp,
        opened_seq=event.seq,
        last_at=event.timestamp,
        last_seq=-1,
        hard_limit=bool(finding.context.get("hard_limit")),
    )
