"""Findings become incidents: one episode of drift, however many findings it has."""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

from msgspec import Struct, field, structs

from holdfast.decisions import Decision, Intervention
from holdfast.events import TraceEvent
from holdfast.findings import DriftEvent, Severity
from holdfast.incidents import EVIDENCE_KEPT, Incident

QUIET_EVENTS: Final = 10
"""An incident is over when nothing of its kind was seen for this many events."""

_INTERVENTIONS_KEPT: Final = 20


class Episodes(Struct):
    """The open incidents of one run, one per kind: several detectors may see the same loop."""

    open: dict[str, Incident] = field(default_factory=dict)
    total: int = 0

    def answered(self) -> set[str]:
        """The kinds of drift that already got an answer."""
        return {kind for kind, incident in self.open.items() if incident.interventions}

    def note(self, event: TraceEvent, findings: Sequence[DriftEvent], decision: Decision) -> list[Incident]:
        """Take in what one event showed and what was answered; gives the incidents that changed."""
        changed: dict[str, Incident] = {}
        for finding in findings:
            if finding.severity is Severity.LOW:
                continue
            incident = self._grown(event, finding, decision)
            self.open[finding.kind] = incident
            changed[incident.incident_id] = incident
        return [*changed.values(), *self._quiet_ones(event)]

    def close_all(self, at: float) -> list[Incident]:
        """The run is over, and so are its incidents."""
        closed = [structs.replace(incident, state="closed", closed_at=at) for incident in self.open.values()]
        self.open.clear()
        return closed

    def _grown(self, event: TraceEvent, finding: DriftEvent, decision: Decision) -> Incident:
        before = self.open.get(finding.kind)
        if before is None:
            self.total += 1
            before = _opened(event, finding)
        interventions = before.interventions
        # Several detectors may see the same at one event: it was answered once.
        if decision.guidance and before.last_seq != event.seq:
            answer = Intervention(
                action=decision.action,
                verdict=decision.verdict,
                seq=event.seq,
                timestamp=event.timestamp,
                guidance=decision.guidance,
                hard=decision.hard,
            )
            interventions = (*interventions, answer)[-_INTERVENTIONS_KEPT:]
        is_peak = finding.score >= before.peak
        fresh = [proof for proof in finding.event_ids if proof not in before.event_ids]
        return structs.replace(
            before,
            severity=max(before.severity, finding.severity, key=lambda severity: severity.rank),
            peak=max(before.peak, finding.score),
            message=finding.message if is_peak else before.message,
            last_at=event.timestamp,
            last_seq=event.seq,
            findings=before.findings + (before.last_seq not in {-1, event.seq}),
            event_ids=(*before.event_ids, *fresh)[-EVIDENCE_KEPT:],
            interventions=interventions,
        )

    def _quiet_ones(self, event: TraceEvent) -> list[Incident]:
        quiet = [name for name, it in self.open.items() if event.seq - it.last_seq >= QUIET_EVENTS]
        return [
            structs.replace(self.open.pop(name), state="closed", closed_at=event.timestamp) for name in quiet
        ]


def _opened(event: TraceEvent, finding: DriftEvent) -> Incident:
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
