"""One run: events in, decisions out. A plain function of the events it was shown.

Live runs, hooks, recordings and every evaluation use this same class.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec
from msgspec import structs

from steadyhelm.baselines import BaselineStats
from steadyhelm.budgets.adaptive_budget import AdaptiveBudget
from steadyhelm.decisions import PROCEED, Decision, Mode, Verdict
from steadyhelm.declarations import ToolDeclaration, add_asides, add_kinds
from steadyhelm.detector import Detector
from steadyhelm.engine.detector_runner import DetectorRunner
from steadyhelm.engine.drift_state import DriftState
from steadyhelm.engine.health import Health
from steadyhelm.engine.judged_events import SavedJudging, VerdictMemory, apply_verdict
from steadyhelm.engine.responses import QUIET, Ending, Observation, Responder, keep_latest
from steadyhelm.engine.run_memory import (
    LIFTED,
    STATE_VERSION,
    RunMemory,
    SavedSession,
    decode_session,
)
from steadyhelm.engine.steering import Steering
from steadyhelm.engine.totals import Skipped
from steadyhelm.events import (
    JUDGED,
    LLM_REQUEST,
    STATE_TRANSITION,
    TOOL_CALL,
    USER_MESSAGE,
    RunInfo,
    TraceEvent,
)
from steadyhelm.fatigue import list_doubtful, record_clean_use
from steadyhelm.findings import DriftEvent
from steadyhelm.fingerprints import encode_canonical, hash_call
from steadyhelm.goals.plan_tracker import PlanTracker
from steadyhelm.incidents import Incident, Thresholds
from steadyhelm.judge import FIXED_WEIGHT, read_judged
from steadyhelm.judging.questioner import Questioner, RunFacts
from steadyhelm.judging.usage import JudgeAmounts
from steadyhelm.policy.response_levels import VERDICTS

_SKIPPED_AS: Final[dict[Skipped, str]] = {
    "repeated": "event seen twice",
    "late": "late event not judged",
    "conflicting": "other event at a place already taken",
}


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
        self._memory = RunMemory()
        self._responder = Responder(self._memory, self.drift, mode)
        self._runner = DetectorRunner(detectors, baseline, thresholds=thresholds, health=self._health)
        self._verdicts = VerdictMemory(self._runner.shifts)
        self._questioner = questioner
        self._memory.goal.start(run.goal)
        self._runner.begin(run, self._memory.goal)

    @property
    def plan(self) -> PlanTracker:
        """The plan of the run."""
        return self._memory.plan

    @property
    def next_seq(self) -> int:
        """The place of the next event."""
        return self._memory.totals.last_seq + 1

    @property
    def last_at(self) -> float:
        """The time of the latest event; 0 before the first."""
        return self._memory.totals.last_at

    def use_baseline(
        self, baseline: BaselineStats, thresholds: Thresholds, tools: Mapping[str, str] | None = None
    ) -> None:
        """Compare further events with a baseline, and with kinds of tools, that were not known yet."""
        self.baseline = baseline
        self._tools = add_asides(add_kinds(self._tools, tools or {}), baseline.asides)
        self._runner.use_baseline(baseline, thresholds)

    def forget_checkpoints(self) -> None:
        """Forget the checkpoints of this run: they do not exist any more."""
        self._memory.clean.clear()

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
        return bool(self._memory.incidents.open)

    @property
    def drifting_since(self) -> int | None:
        """The place of the earliest evidence of the open incidents; None when none is open."""
        return self._memory.incidents.first_evidence_seq()

    def observe(self, event: TraceEvent, can: Collection[Verdict] = VERDICTS) -> Observation:
        """Judge one event and return what it led to.

        One whose place is not above that of every event before changes nothing: `skipped` says why.
        `can` are the verdicts that whoever records this event can carry out, of those the run can.
        """
        memory = self._memory
        totals = memory.totals
        if event.seq <= totals.last_seq:
            skipped = memory.places.classify(event, totals.last_seq)
            self._health.count(_SKIPPED_AS[skipped])
            return QUIET._replace(skipped=skipped)
        memory.places.add(event, totals.last_seq)
        if event.action_name == JUDGED and event.action_type == STATE_TRANSITION:
            return self._apply_verdict(event)
        if event.timestamp < totals.last_at:
            self._health.count("event out of order")
        totals.add(event)
        if event.action_name in self._tools:
            event = self._tools[event.action_name].apply_to(event)
        reported = self._responder.apply_report(event) if event.action_type == STATE_TRANSITION else ()
        memory.follow_goal(event)
        if memory.clean and event.action_type == TOOL_CALL and event.error is None:
            memory.note_written_file(event)
        findings = self._runner.check(event, totals.last_names)
        own = self.drift.observe(event, findings or (), self._runner, memory.goal.current)
        if memory.refusal and event.action_type in {TOOL_CALL, USER_MESSAGE}:
            memory.refusal = "" if findings else LIFTED
        if findings and self._runner.shifts.repetitions:
            self._runner.shifts.follow(findings, event)
        if own:
            findings = [*(findings or ()), *(self._runner.adjust(it, totals.last_names) for it in own)]
        seen = self._pass(event, reported) if findings is None else self._respond(event, findings, can)
        is_step = event.action_type in {TOOL_CALL, LLM_REQUEST}
        if self.drift.steering.remind_every and is_step:
            seen = self._responder.remind(seen, event.seq, self.can.intersection(can))
        return seen if self._questioner is None else self._ask(self._questioner, event, seen)

    def before_tool(self, name: str, args: Any = None) -> Decision:
        """Return the decision for a call that has not been made yet. Does not change state."""
        return self.foresee(
            TraceEvent(
                agent_id=self.run.agent_id,
                run_id=self.run.run_id,
                action_type=TOOL_CALL,
                action_name=name,
                timestamp=self._memory.totals.last_at,
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
        recent = self._memory.totals.last_names
        findings = self._runner.foresee(call, recent)
        findings += [self._runner.adjust(it, recent) for it in self.drift.foresee(call)]
        if not findings:
            return PROCEED
        return self._responder.foresee(call, findings, self.can, rolls_back=rolls_back)

    def end(
        self, *, at: float, outcome: str = "", is_new_rise: Callable[[DriftEvent], bool] = lambda _: True
    ) -> Ending:
        """End the run: judge it as a whole, and return its findings, incidents and summary.

        `is_new_rise` returns whether a rise over runs is reported for the first time.
        """
        totals, incidents = self._memory.totals, self._memory.incidents
        had_incident = incidents.total > 0
        # A rise over runs is not this run's fault: the baseline may still learn from it. A run from which it
        # does not learn is no part of the rise.
        findings = [
            finding
            for finding in self._runner.end(totals.last_names)
            if not finding.context.get("over_runs") or (not had_incident and is_new_rise(finding))
        ]
        last = TraceEvent(
            agent_id=self.run.agent_id,
            run_id=self.run.run_id,
            action_type=STATE_TRANSITION,
            action_name="run_end",
            timestamp=max(at, totals.last_at),
            event_id=f"{self.run.run_id}.end",
            seq=self.next_seq,
        )
        noted = incidents.observe(last, findings, PROCEED)
        closed = incidents.close_all(last.timestamp, self.next_seq - 1, totals)
        summary = totals.summarise(
            self.run,
            at=last.timestamp,
            outcome=outcome,
            had_incident=had_incident,
            doubts=list_doubtful(self._memory.trust),
        )
        summary = structs.replace(
            self._runner.teach(summary), checked=self._runner.list_checked(), not_checked=self.not_checked
        )
        return Ending(summary, findings, keep_latest([*noted, *closed]))

    # --- saved, restored, rolled back -------------------------------------------------------------

    def state(self, *, keeps_text: bool = True) -> bytes:
        """Return everything needed to resume this run later, or elsewhere.

        Without text, the plan, the user's latest words, the texts of interventions and the steps for
        questions are left out: they serve guidance and questions only. What detectors compare with stays.
        """
        memory, drift, incidents = self._memory, self.drift.state(), self._memory.incidents
        questions = None if self._questioner is None else self._questioner.memory
        if not keeps_text:
            incidents = incidents.drop_texts()
            drift = structs.replace(drift, user_words="")
            questions = None if questions is None else questions.drop_texts()
        return msgspec.msgpack.encode(
            SavedSession(
                STATE_VERSION,
                memory.totals,
                incidents,
                self._runner.state(),
                memory.fatigue,
                memory.trust,
                drift,
                memory.goal,
                memory.refusal,
                memory.clean,
                self.run.epoch,
                memory.plan if keeps_text else PlanTracker(),
                memory.written,
                SavedJudging(self._verdicts, questions),
                memory.places,
                self._runner.list_reasons(),
                self._runner.failures,
            )
        )

    def restore(self, state: bytes) -> None:
        """Restore the session from `state`; raises FormatError when it cannot be read.

        A detector whose own part cannot be read starts afresh, and that is counted.
        """
        saved = decode_session(state, self.run.run_id)
        if saved.epoch:
            self.run = structs.replace(self.run, epoch=saved.epoch)
        self._memory.restore(saved)
        self._runner.follow_goal(saved.goal)
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
        saved = decode_session(state, self.run.run_id)
        memory = self._memory
        memory.incidents.outcomes.lengthen(memory.estimate_repeated_calls(saved.totals))
        memory.goal, memory.plan = saved.goal, saved.plan
        self._runner.follow_goal(saved.goal)
        self._runner.restore(saved.detectors)
        self.drift.roll_back(saved.drift)
        memory.fatigue.reset()
        memory.refusal = ""

    def list_written_files(self, since: int) -> list[str]:
        """Return the files that calls have written for the first time after this place in the run."""
        return [path for path, seq in self._memory.written.items() if seq > since]

    # --- inside ----------------------------------------------------------------------------------

    def _apply_verdict(self, event: TraceEvent) -> Observation:
        """Apply what a judge answered. Nothing else sees the event: it is no part of what the agent did."""
        self._memory.totals.hide(event.seq)
        report = read_judged(event.metadata)
        if report is None:
            self._health.count("verdict that cannot be read")
            return QUIET
        if self._questioner is not None:
            self._questioner.close(report)
        effect = apply_verdict(event, report, self._verdicts, self._memory.incidents, self._memory.totals)
        decision = Decision(findings=tuple(effect.findings)) if effect.findings else PROCEED
        return Observation(decision, keep_latest(effect.incidents), event.seq)

    def _ask(self, questioner: Questioner, event: TraceEvent, seen: Observation) -> Observation:
        """Add the questions that an event raises."""
        facts = RunFacts(self._memory.goal, self._memory.incidents.open, self._runner.shifts)
        questions = questioner.observe(event, seen.decision.findings, facts)
        return seen._replace(questions=questions) if questions else seen

    def _pass(self, event: TraceEvent, reported: Sequence[Incident]) -> Observation:
        """Return what an event without findings led to; `reported` are incidents changed by a report."""
        memory = self._memory
        incidents = memory.incidents
        memory.fatigue.event_count += 1
        if memory.trust.tools:
            record_clean_use(memory.trust, event)
        hooks = () if self.mode == "observe" else self.drift.pick_hooks(drifting=bool(incidents.open))
        decision = Decision(hooks=hooks) if hooks else PROCEED
        if not incidents.open:
            return Observation(decision) if hooks else QUIET
        judged = incidents.judge(event, (), memory.totals)
        noted = incidents.observe(event, (), decision, memory.totals)
        return Observation(decision, keep_latest([*reported, *judged, *noted]))

    def _respond(
        self, event: TraceEvent, findings: Sequence[DriftEvent], can: Collection[Verdict]
    ) -> Observation:
        """Return what an event with findings led to."""
        self._verdicts.note_corrections(event, findings)
        return self._responder.respond(event, findings, self.can.intersection(can))


@lru_cache(maxsize=128)
def _share_verdicts(can: frozenset[Verdict]) -> frozenset[Verdict]:
    """Return an equal set that all runs share: there are few, and every run has one."""
    return can
