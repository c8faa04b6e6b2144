"""Judge the captured events of one run in order, and queue what they lead to.

Everything here happens under the lock of the run; no code of the host runs.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from msgspec import structs

from steadyhelm.decisions import BudgetDecision, DailyBudgetState, Decision, Verdict
from steadyhelm.engine.agent_knowledge import Reference
from steadyhelm.engine.capture import Payload
from steadyhelm.engine.responses import Ending, Observation
from steadyhelm.engine.run_services import RunServices
from steadyhelm.engine.session import Session
from steadyhelm.events import DAILY_BUDGET, STATE_TRANSITION, TOOL_CALL, new_id
from steadyhelm.findings import DriftEvent
from steadyhelm.incidents import Incident
from steadyhelm.policy.response_levels import VERDICTS
from steadyhelm.sink import DailyGrant, Record, RecordedEvent, SavedState

MAX_AGE_S: Final = 10.0
"""How far the stored version of an incident may be behind, in the time of the events."""


class SessionWriter:
    """Shows events to the session of one run, and queues them with what they lead to.

    The lock of the run is held whenever a method is called.

    Args:
        session: The session of the run.
        services: What the run shares with the agent's other runs.
        reference: What the run is compared with; None while that was not read yet.
    """

    def __init__(self, session: Session, services: RunServices, reference: Reference | None) -> None:
        self.session = session
        self.reference = reference
        self.hold: Callable[[Sequence[Record]], None] | None = None
        """Takes records instead of the queue, while it is not known how the run continues."""
        self._services = services
        self._incident_updates = IncidentUpdates()
        self._counted_anew = range(0)
        self._seqs_before = 0

    def resume(
        self, session: Session, reference: Reference | None, *, pin: bool, held: Sequence[Record]
    ) -> None:
        """Continue with the session of a suspended run: until now its events were counted from 0.

        The steps of the records held until now are judged again, and count when they are.
        """
        if self._services.daily is not None:
            self._services.daily.withdraw(held)
        self._counted_anew, self._seqs_before = range(self.session.next_seq + 1), session.next_seq
        self.session, self.reference = session, reference
        self._incident_updates = IncidentUpdates()
        self.hold = None
        self.announce(pin=pin)

    def start_child(self, run_id: str) -> None:
        """Go on in a forked process as a run of its own, a child of the run it was."""
        run = self.session.run
        self.session.run = structs.replace(run, run_id=run_id, parent_run_id=run.run_id, epoch=new_id())
        # Its checkpoints are kept under its parent's id.
        self.session.forget_checkpoints()
        # What was postponed is the parent's to record.
        self.hold, self._incident_updates = None, IncidentUpdates()

    def announce(self, *, pin: bool) -> None:
        """Record that the run starts or continues, and with `pin` what it is compared with."""
        session, reference = self.session, self.reference
        pins = (reference.pin(session.run, session.next_seq),) if pin and reference is not None else ()
        self.put_records(session.run, *pins)

    def observe(
        self,
        payload: Payload,
        action_type: str,
        action_name: str,
        at: float | None,
        event_id: str | None,
        token_count: int,
        duration_ms: float,
        started_seq: int | None,
        call_id: str | None,
        cost_usd: float | None,
        can: Collection[Verdict],
    ) -> Observation:
        """Put a captured event in its place, judge it and queue it."""
        services, session = self._services, self.session
        if self.reference is None:
            self._pin_baseline()
        if started_seq is not None and started_seq in self._counted_anew:
            started_seq += self._seqs_before
        if services.daily is not None and action_type != STATE_TRANSITION:
            steps = 1 if action_type == TOOL_CALL else 0
            self._note_daily_budget(
                services.daily.get_state(steps=steps, tokens=token_count, cost_usd=cost_usd or 0.0)
            )
        run, seq = session.run, session.next_seq
        recorded = services.capture.build(
            payload,
            agent_id=services.agent_id,
            run_id=run.run_id,
            action_type=action_type,
            action_name=action_name,
            timestamp=services.clock() if at is None else at,
            event_id=event_id or f"{run.run_id}.{seq}",
            seq=seq,
            token_count=token_count,
            duration_ms=duration_ms,
            started_seq=started_seq,
            call_id=call_id,
            parent_run_id=run.parent_run_id,
            cost_usd=cost_usd,
        )
        seen = session.observe(recorded.event, can)
        self._put(recorded, seen)
        return seen

    def foresee(self, payload: Payload, name: str, started_seq: int | None, *, rolls_back: bool) -> Decision:
        """Return the decision for a call that has not been made yet."""
        services, session = self._services, self.session
        if services.daily is not None:
            self._note_daily_budget(services.daily.get_state())
        call = services.capture.build(
            payload,
            agent_id=services.agent_id,
            run_id=session.run.run_id,
            action_type=TOOL_CALL,
            action_name=name,
            timestamp=services.clock(),
            event_id=f"{session.run.run_id}.{session.next_seq}",
            seq=session.next_seq,
            started_seq=started_seq,
        )
        return session.foresee(call.event, rolls_back=rolls_back)

    def extend_budget(self, name: str, payload: Payload, at: float | None) -> Observation | None:
        """Judge a request or a grant of budget, and queue what it adds to the day."""
        budget, daily = self.session.drift.budget, self._services.daily
        if daily is not None:
            self._note_daily_budget(daily.get_state(), always=True)
        if not budget.is_set:
            return None
        budget.forget_decisions()
        at = self.session.last_at or at
        seen = self.observe(payload, STATE_TRANSITION, name, at, None, 0, 0.0, None, None, None, VERDICTS)
        if budget.daily_grant is not None and daily is not None:
            self.put_records(self._make_daily_grant(budget.daily_grant))
            self._note_daily_budget(daily.get_state())
        return seen._replace(extension=budget.last_decision)

    def save(self, at: float | None) -> bytes:
        """Queue the state of the session, to resume the run later, and return it."""
        services, run = self._services, self.session.run
        state = self.session.state(keeps_text=services.capture.keeps_text)
        at = services.clock() if at is None else at
        saved = SavedState(services.agent_id, run.run_id, state, at)
        self.put_records(*self._incident_updates.take_held(), saved)
        return state

    def end(self, outcome: str, at: float | None, unseen: Mapping[str, str]) -> Ending:
        """End the session, and queue what it found, its incidents and its summary.

        `unseen` is what could not be seen of the run, with the reasons.
        """
        at = self._services.clock() if at is None else at
        ending = self.session.end(at=at, outcome=outcome, is_new_rise=self._is_new_rise)
        if unseen:
            not_checked = {**ending.summary.not_checked, **unseen}
            ending = ending._replace(summary=structs.replace(ending.summary, not_checked=not_checked))
        self.put_records(*ending.findings, *ending.incidents, ending.summary)
        return ending

    def put_records(self, *records: Record, were_held: bool = False) -> None:
        """Queue what may be stored of records, or hold it until it is known how the run continues.

        What was spent counts at once: that of records that `were_held` is counted already.
        """
        if not records:
            return
        capture = self._services.capture
        if not capture.keeps_text:
            records = tuple(capture.strip(it) for it in records)
        if self._services.daily is not None and not were_held:
            self._services.daily.record(records)
        if self.hold is not None:
            self.hold(records)
            return
        self._services.queue.put(self.session.run.epoch, *records)
        if type(records[0]) is RecordedEvent:
            return  # it comes alone
        incidents = [it for it in records if isinstance(it, Incident)]
        if incidents and self._services.knowledge is not None:
            self._services.knowledge.add_incidents(incidents)

    def put_held_incidents(self) -> None:
        """Queue the latest versions of incidents that merely went on."""
        self.put_records(*self._incident_updates.take_held())

    @property
    def has_held_incidents(self) -> bool:
        """Whether a version of an incident that merely went on is not queued."""
        return self._incident_updates.has_held

    def _note_daily_budget(self, state: DailyBudgetState, *, always: bool = False) -> None:
        """Record that the agent's budget of the day is used up, or open again.

        As an event it is part of the run: whoever judges the run again comes to the same decisions.
        """
        services, session = self._services, self.session
        known = session.drift.budget.daily
        if not always and _is_known(known, state):
            return
        run, seq = session.run, session.next_seq
        recorded = services.capture.build(
            services.capture.encode(None, None, structs.asdict(state), None),
            agent_id=services.agent_id,
            run_id=run.run_id,
            action_type=STATE_TRANSITION,
            action_name=DAILY_BUDGET,
            timestamp=session.last_at or services.clock(),
            event_id=f"{run.run_id}.{seq}",
            seq=seq,
            parent_run_id=run.parent_run_id,
        )
        self._put(recorded, session.observe(recorded.event))

    def _is_new_rise(self, finding: DriftEvent) -> bool:
        """Return whether no other run has reported this rise over the agent's runs."""
        knowledge = self._services.knowledge
        return knowledge is None or knowledge.claim_rise(
            self.session.baseline, str(finding.context.get("measure", finding.detector))
        )

    def _make_daily_grant(self, decision: BudgetDecision) -> DailyGrant:
        run = self.session.run
        return DailyGrant(
            run.agent_id,
            run.run_id,
            new_id(),
            self._services.clock(),
            steps=decision.granted_steps,
            tokens=decision.granted_tokens,
            cost_usd=decision.granted_cost_usd,
            reason=decision.justification,
        )

    def _pin_baseline(self) -> None:
        """Compare the run with its baseline from now on, if that was read by now."""
        session, knowledge = self.session, self._services.knowledge
        run = session.run
        reference = knowledge.get_reference(run.version, run.task_type) if knowledge is not None else None
        if reference is not None:
            self.reference = reference
            session.use_baseline(reference.baseline, reference.thresholds, reference.tools)
            self.put_records(reference.pin(run, session.next_seq))

    def _put(self, recorded: RecordedEvent, seen: Observation) -> None:
        """Queue an event and what it led to."""
        # The event goes in by itself: when the queue is full it may be dropped, its findings may not.
        changes = self.session.drift.take_points()
        if changes is not None:
            recorded = RecordedEvent(
                recorded.event, recorded.input_json, recorded.output_json, recorded.metadata_json, *changes
            )
        self.put_records(recorded)
        if seen.decision.findings or seen.incidents:
            findings = [it for it in seen.decision.findings if not it.is_ongoing]
            self.put_records(*findings, *self._incident_updates.select(seen))


class IncidentUpdates:
    """The incidents of one run as far as they are stored, and their later versions that are not.

    While a passed limit is all that is found, an incident differs from event to event by its counts alone.
    """

    __slots__ = ("_held", "_stored")

    def __init__(self) -> None:
        self._stored: dict[str, Incident] = {}
        self._held: dict[str, Incident] = {}

    def select(self, seen: Observation) -> Sequence[Incident]:
        """Return the incidents to store with an event."""
        goes_on = bool(seen.decision.findings) and all(it.is_ongoing for it in seen.decision.findings)
        selected = []
        for incident in seen.incidents:
            if goes_on and self._differs_by_counts_alone(incident):
                self._held[incident.incident_id] = incident
                continue
            self._held.pop(incident.incident_id, None)
            selected.append(incident)
            if incident.state == "open":
                self._stored[incident.incident_id] = incident
            else:
                self._stored.pop(incident.incident_id, None)
        return selected

    @property
    def has_held(self) -> bool:
        """Whether there is a version that is not stored."""
        return bool(self._held)

    def take_held(self) -> Sequence[Incident]:
        """Return the latest versions that are not stored, once."""
        held, self._held = self._held, {}
        self._stored.update(held)
        return tuple(held.values())

    def _differs_by_counts_alone(self, incident: Incident) -> bool:
        stored = self._stored.get(incident.incident_id)
        return (
            stored is not None
            and incident.state == stored.state
            and incident.severity is stored.severity
            and incident.interventions is stored.interventions
            and incident.last_at - stored.last_at < MAX_AGE_S
        )


def _is_known(known: DailyBudgetState | None, state: DailyBudgetState) -> bool:
    """Return whether a run that knows one state of the day's budget need not record another."""
    if known is None or not known.exhausted:
        return not state.exhausted
    return (known.day, known.exhausted_by) == (state.day, state.exhausted_by)
