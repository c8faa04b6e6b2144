"""Findings become incidents, and answers to them are tried: one episode of drift, however many findings."""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

from msgspec import Struct, field, structs

from holdfast.decisions import Decision, Intervention, Outcome
from holdfast.events import LLM_REQUEST, TOOL_CALL, USER_MESSAGE, TraceEvent
from holdfast.findings import DriftEvent, Severity
from holdfast.incidents import EVIDENCE_KEPT, Incident
from holdfast.policy.ladder import FAILED, Answered
from holdfast.policy.outcomes import EXPECTED, Trial

QUIET_EVENTS: Final = 10
"""An incident is over when nothing of its kind was seen for this many events."""

_INTERVENTIONS_KEPT: Final = 20
_EVIDENCE_NAMED: Final = 10
_PAST_KEPT: Final = 3


class Spent(NamedTuple):
    """What the run has cost so far."""

    tokens: int = 0
    cost_usd: float = 0.0


NOTHING_SPENT: Final = Spent()


class Tried(Struct, array_like=True):
    """An answer being tried, and what each step of its incident had cost when it was given."""

    trial: Trial
    tokens_a_step: float = 0.0


class Episodes(Struct):
    """The open incidents of one run, one per kind: several detectors may see the same loop.

    `answered` holds the latest answer to each kind of drift, also of incidents that are over;
    `trials` those whose outcome is not known yet; `tokens_at` what the run had cost when an incident opened;
    `past` what incidents that are over were about.
    """

    open: dict[str, Incident] = field(default_factory=dict)
    total: int = 0
    answered: dict[str, Answered] = field(default_factory=dict)
    trials: dict[str, Tried] = field(default_factory=dict)
    tokens_at: dict[str, int] = field(default_factory=dict)
    past: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        # A damaged state may try answers that were never given.
        given = {kind for kind, incident in self.open.items() if incident.interventions}
        self.trials = {kind: it for kind, it in self.trials.items() if kind in given & self.answered.keys()}

    def began(self, run_id: str) -> int | None:
        """Where the earliest known evidence of the open incidents lies; None when none is open."""
        places = [_began(incident, run_id) for incident in self.open.values()]
        return min(places, default=None)

    def has_failed(self) -> bool:
        """Whether any answer to what is going on was ignored or did harm."""
        return any(it.outcome in FAILED for incident in self.open.values() for it in incident.interventions)

    def tried(self, findings: Sequence[DriftEvent]) -> list[str]:
        """What earlier incidents of this run were about, apart from what is noticed now."""
        now = {finding.message for finding in findings}
        return [message for message in self.past if message not in now]

    def foreseen(self, call: TraceEvent, findings: Sequence[DriftEvent]) -> dict[str, Answered]:
        """The latest answers as they would stand if this call were made and led to these findings."""
        answered = dict(self.answered)
        for kind in {finding.kind for finding in findings if finding.severity is not Severity.LOW}:
            tried = self.trials.get(kind)
            if tried is not None and tried.trial.heard(call.started_seq) and tried.trial.is_last_chance:
                answered[kind] = Answered(answered[kind].action, "ignored")
        return answered

    def judge(self, event: TraceEvent, findings: Sequence[DriftEvent]) -> list[Incident]:
        """What this event says about the answers being tried; gives the incidents whose answer is judged."""
        if event.action_type == USER_MESSAGE:
            # Whatever happens now, it is not our answer alone that made it happen.
            return [self._settled(kind, "unknown", event.seq) for kind in list(self.trials)]
        if event.action_type not in {TOOL_CALL, LLM_REQUEST}:
            return []
        seen = {finding.kind for finding in findings if finding.severity is not Severity.LOW}
        begins = bool(seen - self.open.keys())
        judged = []
        for kind, tried in list(self.trials.items()):
            if not tried.trial.heard(event.started_seq):
                continue
            outcome = tried.trial.note(returned=kind in seen, other=begins)
            if outcome is not None:
                judged.append(self._settled(kind, outcome, event.seq))
        return judged

    def note(
        self,
        event: TraceEvent,
        findings: Sequence[DriftEvent],
        decision: Decision,
        spent: Spent = NOTHING_SPENT,
    ) -> list[Incident]:
        """Take in what one event showed and what was answered; gives the incidents that changed."""
        changed: dict[str, Incident] = {}
        for finding in findings:
            if finding.severity is Severity.LOW:
                continue
            before = self.open.get(finding.kind) or self._begun(event, finding, spent)
            incident = _grown(before, event, finding)
            # Several detectors may see the same at one event: it was answered once.
            if decision.guidance and before.last_seq != event.seq:
                incident = self._answered(incident, event, finding, decision, spent)
            self.open[finding.kind] = incident
            changed[incident.incident_id] = incident
        return [*changed.values(), *self._quiet_ones(event)]

    def close_all(self, at: float) -> list[Incident]:
        """The run is over, and so are its incidents; what was still being tried stays unknown."""
        closed = [structs.replace(incident, state="closed", closed_at=at) for incident in self.open.values()]
        self.open.clear()
        self.trials.clear()
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
                self.trials.pop(kind, None)
        self.open.update(told)
        return list(told.values())

    def _begun(self, event: TraceEvent, finding: DriftEvent, spent: Spent) -> Incident:
        self.total += 1
        self.tokens_at[finding.kind] = spent.tokens - event.token_count
        return _opened(event, finding)

    def _answered(
        self, incident: Incident, event: TraceEvent, finding: DriftEvent, decision: Decision, spent: Spent
    ) -> Incident:
        kind = finding.kind
        if kind in self.trials:
            # Overtaken by a stronger answer: the drift went on.
            incident = _with_outcome(incident, "ignored", event.seq)
        trial = Trial(seq=event.seq)
        steps = event.seq - incident.opened_seq + 1
        tokens_a_step = max(0, spent.tokens - self.tokens_at.get(kind, spent.tokens)) / steps
        self.trials[kind] = Tried(trial, tokens_a_step)
        self.answered[kind] = Answered(decision.action, going_on=True)
        answer = Intervention(
            action=decision.action,
            verdict=decision.verdict,
            wanted=decision.wanted,
            seq=event.seq,
            timestamp=event.timestamp,
            guidance=decision.guidance,
            wording=decision.wording,
            evidence=tuple(finding.event_ids[-_EVIDENCE_NAMED:]),
            expected=EXPECTED[kind],
            window=trial.window,
            tokens_before=spent.tokens,
            cost_before_usd=spent.cost_usd,
            hard=decision.hard,
        )
        answers = (*incident.interventions, answer)[-_INTERVENTIONS_KEPT:]
        return structs.replace(incident, interventions=answers)

    def _settled(self, kind: str, outcome: Outcome, seq: int) -> Incident:
        tried = self.trials.pop(kind)
        # After a user's word it is another stretch, and begins gently.
        going_on = outcome != "unknown"
        self.answered[kind] = Answered(self.answered[kind].action, outcome, going_on)
        saved = None
        if outcome == "worked" and tried.tokens_a_step > 0:
            saved = round(tried.tokens_a_step * tried.trial.window)
        incident = self.open[kind] = _with_outcome(self.open[kind], outcome, seq, saved)
        return incident

    def _quiet_ones(self, event: TraceEvent) -> list[Incident]:
        quiet = [kind for kind, it in self.open.items() if event.seq - it.last_seq >= QUIET_EVENTS]
        for kind in quiet:
            if kind in self.trials:
                self._settled(kind, "worked" if self.trials[kind].trial.quiet else "unknown", event.seq)
            self.tokens_at.pop(kind, None)
            if kind in self.answered:
                self.answered[kind] = self.answered[kind]._replace(going_on=False)
            self.past = [*self.past, self.open[kind].message][-_PAST_KEPT:]
        return [
            structs.replace(self.open.pop(kind), state="closed", closed_at=event.timestamp) for kind in quiet
        ]


def _began(incident: Incident, run_id: str) -> int:
    """The place of an incident's first evidence, where its id tells; otherwise where it was opened."""
    whose, _, place = (incident.event_ids[0] if incident.event_ids else "").rpartition(".")
    return int(place) if whose == run_id and place.isascii() and place.isdigit() else incident.opened_seq


def _with_outcome(incident: Incident, outcome: Outcome, seq: int, saved: int | None = None) -> Incident:
    """The incident with its latest answer judged."""
    *earlier, last = incident.interventions
    judged = structs.replace(last, outcome=outcome, settled_seq=seq, tokens_saved=saved)
    return structs.replace(incident, interventions=(*earlier, judged))


def _grown(before: Incident, event: TraceEvent, finding: DriftEvent) -> Incident:
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
