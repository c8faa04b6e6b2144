"""Findings become incidents, and answers to them are tried: one episode of drift, however many findings."""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

from msgspec import Struct, field, structs

from steadyhelm.decisions import Decision, DriftAction, Intervention
from steadyhelm.engine.totals import Totals
from steadyhelm.engine.trials import CORRECTION, Judged, Trials
from steadyhelm.events import TraceEvent
from steadyhelm.findings import DriftEvent, Severity
from steadyhelm.incidents import EVIDENCE_KEPT, Incident
from steadyhelm.policy.ladder import FAILED, Answered
from steadyhelm.policy.outcomes import EXPECTED

QUIET_EVENTS: Final = 10
"""An incident is over when nothing of its kind was seen for this many events, and no answer is on trial."""

_INTERVENTIONS_KEPT: Final = 20
_EVIDENCE_NAMED: Final = 10
_PAST_KEPT: Final = 3


_NOBODYS_DOING: Final = frozenset({CORRECTION, "resource"})
"""Drift that an answer does not bring about: a user's word, and a budget that comes to its end."""


class Start(Struct, array_like=True):
    """Where an incident's first evidence lies, and what the run had cost before it."""

    seq: int
    tokens: int = 0


class Episodes(Struct):
    """The open incidents of one run, one per kind: several detectors may see the same loop.

    `starts` says where each of them began, `past` what incidents that are over were about.
    """

    open: dict[str, Incident] = field(default_factory=dict)
    total: int = 0
    trials: Trials = field(default_factory=Trials)
    starts: dict[str, Start] = field(default_factory=dict)
    past: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        # A damaged state may try answers that were never given.
        given = {kind for kind, incident in self.open.items() if incident.interventions}
        for kind in self.trials.running.keys() - (given & self.trials.answered.keys()):
            self.trials.drop(kind)

    @property
    def answered(self) -> dict[str, Answered]:
        """The latest answer to each kind of drift."""
        return self.trials.answered

    def began(self) -> int | None:
        """Where the earliest evidence of the open incidents lies; None when none is open."""
        return min((it.seq for kind, it in self.starts.items() if kind in self.open), default=None)

    def has_failed(self) -> bool:
        """Whether any answer to what is going on was ignored or did harm."""
        return any(it.outcome in FAILED for incident in self.open.values() for it in incident.interventions)

    def tried(self, findings: Sequence[DriftEvent]) -> list[str]:
        """What earlier incidents of this run were about, apart from what is noticed now."""
        now = {finding.message for finding in findings}
        return [message for message in self.past if message not in now]

    def foreseen(self, call: TraceEvent, findings: Sequence[DriftEvent]) -> dict[str, Answered]:
        """The latest answers as they would stand if this call were made and led to these findings."""
        return self.trials.foreseen(call, _reported(findings))

    def judge(self, event: TraceEvent, findings: Sequence[DriftEvent]) -> list[Incident]:
        """What this event says about the answers being tried; gives the incidents whose answer is judged."""
        if not self.trials.running:
            return []
        seen = _reported(findings)
        if any(finding.kind == CORRECTION for finding in findings):
            # One more correction is news for an answer to corrections, though none to report by itself.
            seen.add(CORRECTION)
        judged = self.trials.judge(event, seen, begins=bool(seen - self.open.keys() - _NOBODYS_DOING))
        return [self._with_outcome(it, event.seq) for it in judged]

    def note(
        self,
        event: TraceEvent,
        findings: Sequence[DriftEvent],
        decision: Decision,
        totals: Totals | None = None,
    ) -> list[Incident]:
        """Take in what one event showed and what was answered; gives the incidents that changed."""
        totals = totals or Totals(last_seq=event.seq)
        changed: dict[str, Incident] = {}
        for finding in findings:
            if finding.severity is Severity.LOW:
                continue
            before = self.open.get(finding.kind) or self._begun(event, finding, totals)
            incident = self.open[finding.kind] = _grown(before, event, finding)
            # Several detectors may see the same at one event: it was answered once.
            if decision.guidance and before.last_seq != event.seq:
                answer = _intervention(event, decision, finding.event_ids)
                incident = self._answer(finding.kind, event, answer, totals)
            changed[incident.incident_id] = incident
        return [*changed.values(), *self._quiet_ones(event)]

    def refused(self, event: TraceEvent, action: DriftAction, reason: str, totals: Totals) -> list[Incident]:
        """A call was refused: an answer like any other, and asking for the same again ignores it."""
        kind = "loop" if "loop" in self.open else next(iter(self.open), "")
        if not kind:
            return []
        # As long as the agent asks for it, the drift goes on.
        incident = self.open[kind] = structs.replace(
            self.open[kind], last_seq=event.seq, last_at=event.timestamp
        )
        last = incident.interventions[-1] if incident.interventions else None
        if last is not None and last.verdict == "deny" and kind in self.trials.running:
            judged = self.trials.ignored_once(kind)
            if not judged:
                return [incident]
            self._with_outcome(judged[0], event.seq)
        decision = Decision(action=action, verdict="deny", guidance=reason, wording=f"refuse.{kind}")
        return [self._answer(kind, event, _intervention(event, decision, incident.event_ids), totals)]

    def close_all(self, at: float, seq: int) -> list[Incident]:
        """The run is over, and so are its incidents; what was being tried is judged by what was seen."""
        for kind in list(self.trials.running):
            judged = self.trials.at_the_end(kind)
            self._with_outcome(judged, None if judged.outcome == "unknown" else seq)
        closed = [structs.replace(incident, state="closed", closed_at=at) for incident in self.open.values()]
        self.open.clear()
        return closed

    def not_carried_out(self, reason: str) -> list[Incident]:
        """The caller could not do what it was asked for last: there is nothing to judge."""
        answers = [it.interventions[-1].seq for it in self.open.values() if it.interventions]
        latest = max(answers, default=-1)
        told: dict[str, Incident] = {}
        for kind, incident in self.open.items():
            if incident.interventions and incident.interventions[-1].seq == latest:
                *earlier, last = incident.interventions
                failed = structs.replace(last, not_carried_out=reason)
                told[kind] = structs.replace(incident, interventions=(*earlier, failed))
                self.trials.drop(kind)
        self.open.update(told)
        return list(told.values())

    def _begun(self, event: TraceEvent, finding: DriftEvent, totals: Totals) -> Incident:
        self.total += 1
        seq = _first_evidence(finding, event)
        self.starts[finding.kind] = Start(seq, totals.tokens_before(seq))
        return _opened(event, finding)

    def _answer(self, kind: str, event: TraceEvent, answer: Intervention, totals: Totals) -> Incident:
        """Keep an answer with its incident, and try it."""
        incident = self.open[kind]
        if kind in self.trials.running:
            # Overtaken by another answer: the drift went on.
            incident = self._with_outcome(self.trials.settle(kind, "ignored"), event.seq)
        start = self.starts.get(kind) or Start(incident.opened_seq, totals.tokens)
        tokens_a_step = (totals.tokens - start.tokens) / max(1, event.seq - start.seq + 1)
        trial = self.trials.begin(kind, answer.action, event, tokens_a_step)
        answer = structs.replace(
            answer,
            expected=EXPECTED[kind],
            window=trial.window,
            tokens_before=totals.tokens,
            cost_before_usd=totals.cost_usd,
        )
        answers = (*incident.interventions, answer)[-_INTERVENTIONS_KEPT:]
        incident = self.open[kind] = structs.replace(incident, interventions=answers)
        return incident

    def _with_outcome(self, judged: Judged, seq: int | None) -> Incident:
        """The incident with its latest answer judged."""
        incident = self.open[judged.kind]
        *earlier, last = incident.interventions
        last = structs.replace(
            last, outcome=judged.outcome, settled_seq=seq, tokens_saved=judged.tokens_saved
        )
        incident = self.open[judged.kind] = structs.replace(incident, interventions=(*earlier, last))
        return incident

    def _quiet_ones(self, event: TraceEvent) -> list[Incident]:
        quiet = [
            kind
            for kind, it in self.open.items()
            if event.seq - it.last_seq >= QUIET_EVENTS and kind not in self.trials.running
        ]
        for kind in quiet:
            self.trials.close(kind)
            self.starts.pop(kind, None)
            self.past = [*self.past, self.open[kind].message][-_PAST_KEPT:]
        return [
            structs.replace(self.open.pop(kind), state="closed", closed_at=event.timestamp) for kind in quiet
        ]


def _reported(findings: Sequence[DriftEvent]) -> set[str]:
    """The kinds of drift that findings of MED and above show."""
    return {finding.kind for finding in findings if finding.severity is not Severity.LOW}


def _first_evidence(finding: DriftEvent, event: TraceEvent) -> int:
    """The place of a finding's first evidence, where its id tells; otherwise that of the event."""
    whose, _, place = (finding.event_ids[0] if finding.event_ids else "").rpartition(".")
    return int(place) if whose == event.run_id and place.isascii() and place.isdigit() else event.seq


def _intervention(event: TraceEvent, decision: Decision, evidence: Sequence[str]) -> Intervention:
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


def _grown(before: Incident, event: TraceEvent, finding: DriftEvent) -> Incident:
    is_peak = finding.score >= before.peak
    fresh = [proof for proof in finding.event_ids if proof not in before.event_ids]
    return structs.replace(
        before,
        severity=max(before.severity, finding.severity, key=lambda severity: severity.rank),
        peak=max(before.peak, finding.score),
        message=finding.message if is_peak else before.message,
        suggested_action=finding.suggested_action if is_peak else before.suggested_action,
        last_at=event.timestamp,
        last_seq=event.seq,
        findings=before.findings + (before.last_seq not in {-1, event.seq}),
        event_ids=(*before.event_ids, *fresh)[-EVIDENCE_KEPT:],
    )


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
