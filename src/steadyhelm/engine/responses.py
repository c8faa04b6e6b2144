"""From findings to a decision: which response they call for, whether it is new, and what is said."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

from msgspec import structs

from steadyhelm.decisions import PROCEED, BudgetDecision, Decision, DriftAction, Hook, Mode, Verdict
from steadyhelm.engine.coercion import to_count
from steadyhelm.engine.drift_state import DriftState
from steadyhelm.engine.run_memory import LIFTED, REFUSED, RunMemory
from steadyhelm.engine.totals import Skipped
from steadyhelm.events import (
    CALL_REFUSED,
    CHECKPOINT_TAKEN,
    GUIDANCE_DELIVERED,
    NOT_CARRIED_OUT,
    ROLLED_BACK,
    RunSummary,
    TraceEvent,
)
from steadyhelm.fatigue import record_clean_use, record_findings
from steadyhelm.findings import DriftEvent, Severity
from steadyhelm.goals.plan_tracker import describe_plan
from steadyhelm.goals.reminders import GoalReminderInjector
from steadyhelm.incidents import Incident
from steadyhelm.judge import Question
from steadyhelm.policy.guidance import write_guidance
from steadyhelm.policy.response_levels import (
    LastResponse,
    Response,
    VerdictChoice,
    choose_verdict,
    is_unusual_spending,
    respond,
)

REMINDER: Final = "reminder"
"""The wording of a reminder that nothing but the number of steps called for."""


class Observation(NamedTuple):
    """What one event led to."""

    decision: Decision
    incidents: Sequence[Incident] = ()
    seq: int = 0
    """The place of the event, where it had findings."""
    extension: BudgetDecision | None = None
    """What was decided about a request or a grant of budget."""
    questions: Sequence[Question] = ()
    """What a judge is to be asked."""
    skipped: Skipped = ""
    """Why the event was not judged."""


class Ending(NamedTuple):
    """What a run leaves behind."""

    summary: RunSummary
    findings: Sequence[DriftEvent]
    incidents: Sequence[Incident]


QUIET: Final = Observation(PROCEED)


class Responder:
    """Chooses what is done about the findings of one run.

    Args:
        memory: What the session remembers of the run.
        drift: Score, budget and goal of the run.
        mode: Whether anything but watching is allowed.
    """

    def __init__(self, memory: RunMemory, drift: DriftState, mode: Mode) -> None:
        self._memory = memory
        self._drift = drift
        self._mode: Mode = mode

    def apply_report(self, event: TraceEvent) -> Sequence[Incident]:
        """Apply what the host reports about its own actions; return the incidents this changes."""
        report, memory = event.metadata or {}, self._memory
        if event.action_name == CALL_REFUSED:
            memory.refusal = REFUSED
            action, reason = _read_action(report.get("action")), str(report.get("reason", ""))
            return memory.incidents.record_refusal(event, action, reason, memory.totals)
        if event.action_name == CHECKPOINT_TAKEN and not memory.incidents.open:
            memory.note_checkpoint(event.seq)
        elif event.action_name == GUIDANCE_DELIVERED:
            self._drift.note_goal_stated()
            return memory.incidents.mark_delivered(event, to_count(report.get("seq")))
        elif event.action_name == ROLLED_BACK:
            return memory.incidents.mark_rolled_back()
        elif event.action_name == NOT_CARRIED_OUT:
            return memory.incidents.mark_not_carried_out(str(report.get("reason", "")))
        return ()

    def foresee(
        self,
        call: TraceEvent,
        findings: Sequence[DriftEvent],
        can: Collection[Verdict],
        *,
        rolls_back: bool,
    ) -> Decision:
        """Return the decision for a call that has not been made yet. Does not change state."""
        memory, mode = self._memory, self._mode
        predicted = memory.incidents.predict_answers(call, findings)
        response = _choose_response(findings, self._drift, predicted)
        if response.action is DriftAction.CONTINUE:
            return Decision(findings=tuple(findings))
        answer = choose_verdict(response.action, mode, can, certain=response.certain, before_call=True)
        if memory.refusal == LIFTED and answer.verdict == "deny":
            answer = choose_verdict(DriftAction.INJECT_REMINDER, mode, can, before_call=True)
        is_return = response.action is DriftAction.CHECKPOINT_RESET and answer.verdict == "deny"
        if rolls_back and is_return and "rollback" in can and memory.can_roll_back(call.seq):
            answer = VerdictChoice("rollback")
        return self._make_decision(response, findings, answer)

    def respond(
        self, event: TraceEvent, findings: Sequence[DriftEvent], can: Collection[Verdict]
    ) -> Observation:
        """Return what an event with findings led to."""
        memory = self._memory
        judged = memory.incidents.judge(event, findings, memory.totals)
        reported = [it for it in findings if it.severity is not Severity.LOW]
        readings = memory.fatigue.observe([_get_pattern(finding) for finding in reported])
        if reported:
            record_findings(memory.trust, event, memory.totals.names)
        else:
            record_clean_use(memory.trust, event)
        chronic = {
            finding.kind
            for finding in reported
            if not is_unusual_spending(finding)
            and any(it.hard and it.pattern == _get_pattern(finding) for it in readings)
        }
        decision, is_repeated = self._decide(findings, seq=event.seq, chronic=chronic, can=can)
        if decision.guidance and not is_repeated:
            if decision.verdict != "proceed" or decision.wanted is None:
                self._drift.note_goal_stated()
            # After an intervention, whether the pattern comes back is counted anew.
            for finding in reported:
                memory.fatigue.reset(_get_pattern(finding))
        said = Decision(action=decision.action, findings=decision.findings) if is_repeated else decision
        noted = memory.incidents.observe(event, findings, said, memory.totals)
        return Observation(decision, keep_latest([*judged, *noted]), event.seq)

    def remind(self, seen: Observation, seq: int, can: Collection[Verdict]) -> Observation:
        """Add a reminder of goal and plan, when one is due and no incident is open."""
        if self._memory.incidents.open and not seen.decision.guidance:
            return seen
        decision = self._add_reminder(seen.decision, can)
        return seen if decision is seen.decision else seen._replace(decision=decision, seq=seq)

    def _add_reminder(self, decision: Decision, can: Collection[Verdict]) -> Decision:
        """Return the decision with a reminder, when one is due: the model was given nothing for long enough.

        It is no response to drift, and its outcome is not judged.
        """
        drift, plan = self._drift, self._memory.plan
        if decision.guidance:
            plan.reminded_turn = drift.turn
            return decision
        is_due = drift.turn - plan.reminded_turn >= drift.steering.remind_every
        if self._mode == "observe" or not is_due or not (drift.goal or plan):
            return decision
        plan.reminded_turn = drift.turn
        tree = plan.build_tree(drift.goal) if plan.is_followed else None
        injector = GoalReminderInjector(drift.goal, tree)
        injector.note_drift(drift.score)
        choice = choose_verdict(DriftAction.INJECT_REMINDER, self._mode, can)
        if choice.verdict == "guide":
            drift.note_goal_stated()
        return structs.replace(
            decision,
            verdict=choice.verdict,
            wanted=choice.wanted,
            guidance=injector.get_reminder(drift.turn),
            wording=REMINDER,
        )

    def _decide(
        self, findings: Sequence[DriftEvent], *, seq: int, chronic: Collection[str], can: Collection[Verdict]
    ) -> tuple[Decision, bool]:
        """Return the decision about findings, and whether it only says again what was said before."""
        memory, drift = self._memory, self._drift
        response = _choose_response(findings, drift, memory.incidents.answered, chronic)
        if response.action is DriftAction.CONTINUE:
            return Decision(findings=tuple(findings)), False
        is_new = _is_news(findings, response.action, seq, memory)
        # A budget that is used up is the answer to every further step, not only to the first.
        if not is_new and not drift.is_exhausted:
            quiet = Decision(action=response.action, findings=tuple(findings), hard=bool(chronic))
            return drift.explain(quiet, response), False
        able = frozenset(can) if memory.can_roll_back(seq) else frozenset(can) - {"rollback"}
        answer = choose_verdict(response.action, self._mode, able, certain=response.certain)
        decision = self._make_decision(response, findings, answer)
        return structs.replace(decision, hard=bool(chronic), hooks=self._pick_hooks(response)), not is_new

    def _make_decision(
        self, response: Response, findings: Sequence[DriftEvent], answer: VerdictChoice
    ) -> Decision:
        """Return the decision with its guidance."""
        memory, drift = self._memory, self._drift
        kinds = {finding.kind for finding in findings if finding.severity is not Severity.LOW}
        words = write_guidance(
            response.action,
            findings,
            drift.goal,
            wordings=drift.steering.wordings,
            tried=memory.incidents.list_past_messages(findings),
            user_words=drift.user_words,
            plan=describe_plan(memory.plan, drift.goal, response.action, kinds),
            is_blocked=answer.verdict == "deny",
        )
        decision = Decision(
            action=response.action,
            verdict=answer.verdict,
            wanted=answer.wanted,
            guidance=words.text,
            wording=words.wording,
            findings=tuple(findings),
        )
        return drift.explain(decision, response)

    def _pick_hooks(self, response: Response) -> tuple[Hook, ...]:
        """Return `switch_model` where interventions up to a rollback were ignored."""
        if self._mode == "observe":
            return ()
        is_late = response.action.level >= DriftAction.CHECKPOINT_RESET.level
        return ("switch_model",) if is_late and self._memory.incidents.has_failed_intervention() else ()


def keep_latest(incidents: Sequence[Incident]) -> Sequence[Incident]:
    """Return the last version of each incident."""
    return tuple({incident.incident_id: incident for incident in incidents}.values())


def _read_action(name: Any) -> DriftAction:
    """Return the action a caller says it followed; a refusal without one counts as a new plan."""
    try:
        return DriftAction(name)
    except ValueError:
        return DriftAction.SUMMARIZE_REPLAN


def _choose_response(
    findings: Sequence[DriftEvent],
    drift: DriftState,
    answered: Mapping[str, LastResponse],
    chronic: Collection[str] = (),
) -> Response:
    """Return the response to findings, by the latest answers; `chronic` are kinds that keep coming back."""
    if drift.is_exhausted:
        return Response(DriftAction.ASK_USER, certain=True, reasons=("the budget is used up",))
    return respond(findings, answered, by_score=drift.action, chronic=chronic)


def _is_news(findings: Sequence[DriftEvent], action: DriftAction, seq: int, memory: RunMemory) -> bool:
    """Return whether to intervene again: the action is stronger, or the last one is long enough ago.

    A run that is longer than usual, and nothing else, is reminded again only when it is much longer still.
    """
    reported = [it for it in findings if it.severity is not Severity.LOW]
    for finding in [it for it in reported if not is_unusual_spending(it)] or reported:
        incident = memory.incidents.open.get(finding.kind)
        if incident is None or not incident.interventions:
            return True
        if is_unusual_spending(finding):
            return finding.severity.rank > incident.severity.rank
        last = incident.interventions[-1]
        since = memory.totals.count_events(last.seq, seq)
        if action.level > last.action.level or since > memory.fatigue.cooldown(_get_pattern(finding)):
            return True
    return False


def _get_pattern(finding: DriftEvent) -> str:
    """Return what a finding is an instance of: its detector with the pattern, if it has one."""
    return f"{finding.detector}/{finding.context.get('pattern', '')}"
