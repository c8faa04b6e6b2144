"""One run: events in, decisions out. A plain function of the events it was shown.

Live runs, hooks, recordings and every evaluation use this same class.
"""

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Struct, field, structs

from steadyhelm.baselines import BaselineStats
from steadyhelm.budgets.adaptive_budget import AdaptiveBudget
from steadyhelm.decisions import PROCEED, BudgetDecision, Decision, DriftAction, Hook, Mode, Verdict
from steadyhelm.declarations import ToolDeclaration, add_asides, add_kinds
from steadyhelm.detector import Detector
from steadyhelm.engine.coercion import to_count
from steadyhelm.engine.detector_runner import DetectorRunner
from steadyhelm.engine.drift_state import DriftState, SavedDriftState
from steadyhelm.engine.health import Health
from steadyhelm.engine.incident_tracker import IncidentTracker
from steadyhelm.engine.judged_events import SavedJudging, VerdictMemory, apply_verdict
from steadyhelm.engine.reminding import add_reminder
from steadyhelm.engine.responses import choose_response, is_news, make_decision, pattern_of, read_action
from steadyhelm.engine.seen_places import SeenPlaces, Skipped
from steadyhelm.engine.steering import Steering
from steadyhelm.engine.totals import Totals
from steadyhelm.engine.trust import TrustTracker
from steadyhelm.errors import FormatError
from steadyhelm.events import (
    CALL_REFUSED,
    CHECKPOINT_TAKEN,
    GUIDANCE_DELIVERED,
    JUDGED,
    LLM_REQUEST,
    NOT_CARRIED_OUT,
    ROLLED_BACK,
    STATE_TRANSITION,
    TOOL_CALL,
    USER_MESSAGE,
    RunInfo,
    RunSummary,
    TraceEvent,
)
from steadyhelm.fatigue import Fatigue, Trust
from steadyhelm.findings import DriftEvent, Severity
from steadyhelm.fingerprints import encode_canonical, hash_call
from steadyhelm.goals.plan_tracker import PlanTracker
from steadyhelm.goals.tracker import GoalTracker
from steadyhelm.goals.work_signals import find_written_path
from steadyhelm.incidents import Incident, Thresholds
from steadyhelm.judge import FIXED_WEIGHT, Question, read_judged
from steadyhelm.judging.limits import JudgeAmounts
from steadyhelm.judging.questioner import Questioner, RunFacts
from steadyhelm.policy.response_levels import VERDICTS, Response, VerdictChoice, choose_verdict

STATE_VERSION: Final = 4
_CLEAN_KEPT: Final = 16
_FILES_KEPT: Final = 500
_MAX_PATH_CHARS: Final = 1_000

# A refused call stays refused until something else happens; then it may be tried again.
_REFUSED: Final = "refused"
_LIFTED: Final = "lifted"


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

_SKIPPED_AS: Final[dict[Skipped, str]] = {
    "repeated": "event seen twice",
    "late": "late event not judged",
    "conflicting": "other event at a place already taken",
}


class _State(Struct):
    version: int
    totals: Totals
    incidents: IncidentTracker
    detectors: dict[str, bytes]
    fatigue: Fatigue
    trust: Trust
    drift: SavedDriftState
    goal: GoalTracker
    refusal: str = ""
    clean: list[int] = field(default_factory=list)
    epoch: str = ""
    plan: PlanTracker = field(default_factory=PlanTracker)
    written: dict[str, int] = field(default_factory=dict)
    judging: SavedJudging = field(default_factory=SavedJudging)
    places: SeenPlaces = field(default_factory=SeenPlaces)
    reasons: dict[str, str | None] = field(default_factory=dict)
    failures: dict[str, int] = field(default_factory=dict)


class Session:
    """The judgement of one run, by one set of detectors.

    Args:
        run: The run.
        detectors: Fresh detectors, used by this session alone.
        baseline: What is normal for this agent.
        mode: Whether anything but watching is allowed.
        can: The verdicts the caller can carry out.
        steering: Thresholds, weights, budget and texts of the policy.
        budget: What this run may spend, instead of the budget of `steering`.
        thresholds: What people marked as false alarms: such findings are LOW.
        tools: What is known about tools, by name.
        health: Counts detectors that fail.
        questioner: Raises the questions for a judge; None where there is none.
    """

    def __init__(
        self,
        run: RunInfo,
        detectors: Sequence[Detector],
        baseline: BaselineStats,
        *,
        mode: Mode = "observe",
        can: Collection[Verdict] = VERDICTS,
        steering: Steering | None = None,
        budget: AdaptiveBudget | None = None,
        thresholds: Thresholds | None = None,
        tools: Mapping[str, ToolDeclaration] | None = None,
        health: Health | None = None,
        questioner: Questioner | None = None,
    ) -> None:
        self.run = run
        self.baseline = baseline
        self.mode: Mode = mode
        self.can = _share_verdicts(frozenset(can))
        self.drift = DriftState(run, steering or Steering(), budget)
        self._health = health or Health()
        self._tools = add_asides(tools or {}, baseline.asides)
        self._totals = Totals()
        self._incidents = IncidentTracker()
        self._fatigue = Fatigue()
        self._trust = TrustTracker()
        self._refusal = ""
        self._clean: list[int] = []
        self._written: dict[str, int] = {}
        self._places = SeenPlaces()
        self._runner = DetectorRunner(detectors, baseline, thresholds=thresholds, health=self._health)
        self._verdicts = VerdictMemory(self._runner.shifts)
        self._questioner = questioner
        self._goal = GoalTracker()
        self._goal.start(run.goal)
        self.plan = PlanTracker()
        self._runner.begin(run, self._goal)

    @property
    def next_seq(self) -> int:
        """The place of the next event."""
        return self._totals.last_seq + 1

    @property
    def last_at(self) -> float:
        """The time of the latest event; 0 before the first."""
        return self._totals.last_at

    def use_baseline(
        self, baseline: BaselineStats, thresholds: Thresholds, tools: Mapping[str, str] | None = None
    ) -> None:
        """Compare further events with a baseline, and with kinds of tools, that were not known yet."""
        self.baseline = baseline
        self._tools = add_asides(add_kinds(self._tools, tools or {}), baseline.asides)
        self._runner.use_baseline(baseline, thresholds)

    def forget_checkpoints(self) -> None:
        """Forget the checkpoints of this run: they do not exist any more."""
        self._clean.clear()

    @property
    def not_checked(self) -> dict[str, str]:
        """The detectors and limits of the budget that could not be checked, with their reasons."""
        return {**self._runner.not_checked, **self.drift.not_checked}

    @property
    def thresholds(self) -> Thresholds:
        """What people marked as false alarms."""
        return self._runner.thresholds

    @property
    def tool_kinds(self) -> dict[str, str]:
        """The kinds of tools that are known, by name."""
        return {name: it.kind for name, it in self._tools.items() if it.kind}

    @property
    def judge_spending(self) -> JudgeAmounts:
        """What judges have used for this run."""
        return self._verdicts.used

    @property
    def judge_weight(self) -> float:
        """How far verdicts are trusted in this run, from its first step to its last."""
        pinned = None if self._questioner is None else self._questioner.memory.weight
        return FIXED_WEIGHT if pinned is None else pinned

    @property
    def is_drifting(self) -> bool:
        """Whether an incident is open."""
        return bool(self._incidents.open)

    @property
    def drifting_since(self) -> int | None:
        """The place of the earliest evidence of the open incidents; None when none is open."""
        return self._incidents.first_evidence_seq()

    def observe(self, event: TraceEvent, can: Collection[Verdict] = VERDICTS) -> Observation:
        """Judge one event and return what it led to.

        One whose place is not above that of every event before changes nothing: `skipped` says why.
        `can` are the verdicts that whoever records this event can carry out, of those the run can.
        """
        totals = self._totals
        if event.seq <= totals.last_seq:
            skipped = self._places.classify(event, totals.last_seq)
            self._health.count(_SKIPPED_AS[skipped])
            return QUIET._replace(skipped=skipped)
        self._places.add(event, totals.last_seq)
        if event.action_name == JUDGED and event.action_type == STATE_TRANSITION:
            return self._apply_verdict(event)
        if event.timestamp < totals.last_at:
            self._health.count("event out of order")
        totals.add(event)
        if event.action_name in self._tools:
            event = self._tools[event.action_name].apply_to(event)
        reported = self._read_report(event) if event.action_type == STATE_TRANSITION else ()
        self._follow_goal(event)
        if self._clean and event.action_type == TOOL_CALL and event.error is None:
            self._note_written_file(event)
        findings = self._runner.check(event, totals.last_names)
        own = self.drift.observe(event, findings or (), self._runner, self._goal.current)
        if self._refusal and event.action_type in {TOOL_CALL, USER_MESSAGE}:
            self._refusal = "" if findings else _LIFTED
        if own:
            findings = [*(findings or ()), *(self._runner.adjust(it, totals.last_names) for it in own)]
        seen = self._pass(event, reported) if findings is None else self._respond(event, findings, can)
        is_step = event.action_type in {TOOL_CALL, LLM_REQUEST}
        if self.drift.steering.remind_every and is_step:
            seen = self._remind(seen, event.seq, can)
        return seen if self._questioner is None else self._ask(self._questioner, event, seen)

    def before_tool(self, name: str, args: Any = None) -> Decision:
        """Return the decision for a call that has not been made yet. Does not change state."""
        return self.foresee(
            TraceEvent(
                agent_id=self.run.agent_id,
                run_id=self.run.run_id,
                action_type=TOOL_CALL,
                action_name=name,
                timestamp=self._totals.last_at,
                event_id=f"{self.run.run_id}.{self.next_seq}",
                input_data=args,
                seq=self.next_seq,
                call_hash=hash_call(name, encode_canonical(args)),
            )
        )

    def foresee(self, call: TraceEvent, *, rolls_back: bool = False) -> Decision:
        """Return the decision for a call that has not been made yet. Does not change state.

        With `rolls_back` the caller returns to a checkpoint where that is called for, instead of only
        denying the call.
        """
        if call.action_name in self._tools:
            call = self._tools[call.action_name].apply_to(call)
        recent = self._totals.last_names
        findings = self._runner.foresee(call, recent)
        findings += [self._runner.adjust(it, recent) for it in self.drift.foresee(call)]
        if not findings:
            return PROCEED
        predicted = self._incidents.predict_answers(call, findings)
        response = choose_response(findings, self.drift, predicted)
        if response.action is DriftAction.CONTINUE:
            return Decision(findings=tuple(findings))
        answer = choose_verdict(
            response.action, self.mode, self.can, certain=response.certain, before_call=True
        )
        if self._refusal == _LIFTED and answer.verdict == "deny":
            answer = choose_verdict(DriftAction.INJECT_REMINDER, self.mode, self.can, before_call=True)
        is_return = response.action is DriftAction.CHECKPOINT_RESET and answer.verdict == "deny"
        if rolls_back and is_return and "rollback" in self.can and self._can_roll_back(event_seq=call.seq):
            answer = VerdictChoice("rollback")
        verdicts = (answer.verdict, answer.wanted)
        return make_decision(response, findings, verdicts, self.drift, self._incidents, self.plan)

    def end(self, *, at: float, outcome: str = "") -> Ending:
        """End the run: judge it as a whole, and return its findings, incidents and summary."""
        findings = self._runner.end(self._totals.last_names)
        # A rise over runs is not this run's fault: the baseline may still learn from it.
        had_incident = self._incidents.total > 0
        last = TraceEvent(
            agent_id=self.run.agent_id,
            run_id=self.run.run_id,
            action_type=STATE_TRANSITION,
            action_name="run_end",
            timestamp=max(at, self._totals.last_at),
            event_id=f"{self.run.run_id}.end",
            seq=self.next_seq,
        )
        noted = self._incidents.observe(last, findings, PROCEED)
        incidents = [*noted, *self._incidents.close_all(last.timestamp, self.next_seq - 1, self._totals)]
        summary = self._totals.summarise(
            self.run,
            at=last.timestamp,
            outcome=outcome,
            had_incident=had_incident,
            doubts=self._trust.list_doubtful(),
        )
        return Ending(self._runner.teach(summary), findings, _latest(incidents))

    # --- saved, restored, rolled back -------------------------------------------------------------

    def state(self, *, keeps_text: bool = True) -> bytes:
        """Return everything needed to resume this run later, or elsewhere.

        Without text, the plan, the user's latest words, the texts of interventions and the steps for
        questions are left out: they serve guidance and questions only. What detectors compare with stays.
        """
        incidents, drift = self._incidents, self.drift.state()
        questions = None if self._questioner is None else self._questioner.memory
        if not keeps_text:
            incidents = incidents.drop_texts()
            drift = structs.replace(drift, user_words="")
            questions = None if questions is None else questions.drop_texts()
        return msgspec.msgpack.encode(
            _State(
                STATE_VERSION,
                self._totals,
                incidents,
                self._runner.state(),
                self._fatigue,
                self._trust.trust,
                drift,
                self._goal,
                self._refusal,
                self._clean,
                self.run.epoch,
                self.plan if keeps_text else PlanTracker(),
                self._written,
                SavedJudging(self._verdicts, questions),
                self._places,
                self._runner.list_reasons(),
                self._runner.failures,
            )
        )

    def restore(self, state: bytes) -> None:
        """Restore the session from `state`; raises FormatError when it cannot be read.

        A detector whose own part cannot be read starts afresh, and that is counted.
        """
        saved = self._decode(state)
        if saved.epoch:
            self.run = structs.replace(self.run, epoch=saved.epoch)
        self._totals, self._incidents = saved.totals, saved.incidents
        self._fatigue, self._trust = saved.fatigue, TrustTracker(saved.trust)
        self._refusal, self._clean, self._written = saved.refusal, saved.clean, saved.written
        self._places = saved.places
        self._set_goal(saved.goal)
        self.plan = saved.plan
        self.drift.restore(saved.drift)
        self._runner.restore(saved.detectors, saved.reasons, saved.failures)
        self._verdicts = saved.judging.verdicts
        self._runner.shifts = self._verdicts.shifts
        if self._questioner is not None and saved.judging.questions is not None:
            self._questioner.resume(saved.judging.questions)

    def roll_back(self, state: bytes) -> None:
        """Go back to a saved state with the agent: detectors forget the steps since then.

        What was spent stays spent, and incidents with their interventions stay known.
        """
        saved = self._decode(state)
        self._incidents.outcomes.lengthen(self._estimate_repeated_calls(saved.totals))
        self._set_goal(saved.goal)
        self.plan = saved.plan
        self._runner.restore(saved.detectors)
        self.drift.roll_back(saved.drift)
        self._fatigue.reset()
        self._refusal = ""

    def _follow_goal(self, event: TraceEvent) -> None:
        """Update goal and plan by an event; with another task, the plan is another one too."""
        changes = self._goal.changes
        self._goal.observe(event)
        if self._goal.changes != changes:
            self.plan.forget()
        self.plan.observe(event)

    def list_written_files(self, since: int) -> list[str]:
        """Return the files that calls have written for the first time after this place in the run."""
        return [path for path, seq in self._written.items() if seq > since]

    def _note_written_file(self, event: TraceEvent) -> None:
        """Note which file a call writes, from the first checkpoint on: a rollback may remove it."""
        path = find_written_path(event.input_data)
        if path is not None and len(path) <= _MAX_PATH_CHARS and len(self._written) < _FILES_KEPT:
            self._written.setdefault(path, event.seq)

    def _set_goal(self, goal: GoalTracker) -> None:
        self._goal = goal
        self._runner.follow_goal(goal)

    def _estimate_repeated_calls(self, then: Totals) -> int:
        """Return about how many calls lie between a checkpoint and where things went wrong."""
        since, now = self._incidents.first_evidence_seq(), self._totals
        if since is None or now.events <= then.events:
            return 0
        share = (now.tool_calls - then.tool_calls) / (now.events - then.events)
        return round(max(0, since - then.last_seq - 1) * share)

    def _decode(self, state: bytes) -> _State:
        try:
            saved = msgspec.msgpack.decode(state, type=_State)
        except (msgspec.MsgspecError, UnicodeDecodeError) as exc:
            raise FormatError(f"The saved session of run {self.run.run_id!r} cannot be read: {exc}.") from exc
        if saved.version != STATE_VERSION:
            raise FormatError(f"The saved session of run {self.run.run_id!r} has version {saved.version}.")
        return saved

    # --- inside ----------------------------------------------------------------------------------

    def _read_report(self, event: TraceEvent) -> Sequence[Incident]:
        """Apply what the host reports about its own actions; return the incidents this changes."""
        report = event.metadata or {}
        if event.action_name == CALL_REFUSED:
            self._refusal = _REFUSED
            action = read_action(report.get("action"))
            return self._incidents.record_refusal(event, action, str(report.get("reason", "")), self._totals)
        if event.action_name == CHECKPOINT_TAKEN and not self._incidents.open:
            self._clean.append(event.seq)
            del self._clean[1:-_CLEAN_KEPT]  # the first stays: it is from before everything
        elif event.action_name == GUIDANCE_DELIVERED:
            self.drift.note_goal_stated()
            return self._incidents.mark_delivered(event, to_count(report.get("seq")))
        elif event.action_name == ROLLED_BACK:
            return self._incidents.mark_rolled_back()
        elif event.action_name == NOT_CARRIED_OUT:
            return self._incidents.mark_not_carried_out(str(report.get("reason", "")))
        return ()

    def _apply_verdict(self, event: TraceEvent) -> Observation:
        """Apply what a judge answered. Nothing else sees the event: it is no part of what the agent did."""
        self._totals.hide(event.seq)
        report = read_judged(event.metadata)
        if report is None:
            self._health.count("verdict that cannot be read")
            return QUIET
        if self._questioner is not None:
            self._questioner.close(report)
        effect = apply_verdict(event, report, self._verdicts, self._incidents, self._totals)
        decision = Decision(findings=tuple(effect.findings)) if effect.findings else PROCEED
        return Observation(decision, _latest(effect.incidents), event.seq)

    def _ask(self, questioner: Questioner, event: TraceEvent, seen: Observation) -> Observation:
        """Add the questions that an event raises."""
        facts = RunFacts(self._goal, self._incidents.open)
        questions = questioner.observe(event, seen.decision.findings, facts)
        return seen._replace(questions=questions) if questions else seen

    def _pass(self, event: TraceEvent, reported: Sequence[Incident]) -> Observation:
        """Return what an event without findings led to; `reported` are incidents changed by a report."""
        self._fatigue.event_count += 1
        if self._trust.trust.tools:
            self._trust.record_clean(event)
        hooks = () if self.mode == "observe" else self.drift.pick_hooks(drifting=bool(self._incidents.open))
        decision = Decision(hooks=hooks) if hooks else PROCEED
        if not self._incidents.open:
            return Observation(decision) if hooks else QUIET
        judged = self._incidents.judge(event, (), self._totals)
        return Observation(
            decision,
            _latest([*reported, *judged, *self._incidents.observe(event, (), decision, self._totals)]),
        )

    def _remind(self, seen: Observation, seq: int, can: Collection[Verdict]) -> Observation:
        """Add a reminder of goal and plan, when one is due and no incident is open."""
        if self._incidents.open and not seen.decision.guidance:
            return seen
        can = self.can.intersection(can)
        decision = add_reminder(seen.decision, self.drift, self.plan, self.mode, can)
        return seen if decision is seen.decision else seen._replace(decision=decision, seq=seq)

    def _respond(
        self, event: TraceEvent, findings: Sequence[DriftEvent], can: Collection[Verdict]
    ) -> Observation:
        """Return what an event with findings led to."""
        judged = self._incidents.judge(event, findings, self._totals)
        reported = [it for it in findings if it.severity is not Severity.LOW]
        readings = self._fatigue.observe([pattern_of(finding) for finding in reported])
        self._trust.record_findings(event, self._totals.names, is_reported=bool(reported))
        self._verdicts.note_corrections(event, findings)
        chronic = {
            finding.kind
            for finding in reported
            if any(it.hard and it.pattern == pattern_of(finding) for it in readings)
        }
        decision, is_repeated = self._decide(findings, seq=event.seq, chronic=chronic, can=can)
        if decision.guidance and not is_repeated:
            if decision.verdict != "proceed" or decision.wanted is None:
                self.drift.note_goal_stated()
            # After an intervention, whether the pattern comes back is counted anew.
            for finding in reported:
                self._fatigue.reset(pattern_of(finding))
        said = Decision(action=decision.action, findings=decision.findings) if is_repeated else decision
        noted = self._incidents.observe(event, findings, said, self._totals)
        return Observation(decision, _latest([*judged, *noted]), event.seq)

    def _decide(
        self, findings: Sequence[DriftEvent], *, seq: int, chronic: Collection[str], can: Collection[Verdict]
    ) -> tuple[Decision, bool]:
        """Return the decision about findings, and whether it only says again what was said before."""
        response = choose_response(findings, self.drift, self._incidents.answered, chronic)
        if response.action is DriftAction.CONTINUE:
            return Decision(findings=tuple(findings)), False
        is_new = is_news(findings, response.action, seq, self._incidents, self._fatigue, self._totals)
        # A budget that is used up is the answer to every further step, not only to the first.
        if not is_new and not self.drift.is_exhausted:
            quiet = Decision(action=response.action, findings=tuple(findings), hard=bool(chronic))
            return self.drift.explain(quiet, response), False
        can = self.can.intersection(can)
        can = can if self._can_roll_back(event_seq=seq) else can - {"rollback"}
        answer = choose_verdict(response.action, self.mode, can, certain=response.certain)
        verdicts = (answer.verdict, answer.wanted)
        decision = make_decision(response, findings, verdicts, self.drift, self._incidents, self.plan)
        return structs.replace(decision, hard=bool(chronic), hooks=self._pick_hooks(response)), not is_new

    def _can_roll_back(self, *, event_seq: int) -> bool:
        """Return whether there is a checkpoint from before the first evidence of the open incidents."""
        since = self._incidents.first_evidence_seq()
        return any(taken <= (event_seq if since is None else since) for taken in self._clean)

    def _pick_hooks(self, response: Response) -> tuple[Hook, ...]:
        """Return `switch_model` where interventions up to a rollback were ignored."""
        if self.mode == "observe":
            return ()
        is_late = response.action.level >= DriftAction.CHECKPOINT_RESET.level
        return ("switch_model",) if is_late and self._incidents.has_failed_intervention() else ()


@lru_cache(maxsize=128)
def _share_verdicts(can: frozenset[Verdict]) -> frozenset[Verdict]:
    """Return an equal set that all runs share: there are few, and every run has one."""
    return can


def _latest(incidents: Sequence[Incident]) -> Sequence[Incident]:
    """Return the last version of each incident."""
    return tuple({incident.incident_id: incident for incident in incidents}.values())
