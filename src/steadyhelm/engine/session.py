"""One run: events in, decisions out. A plain function of the events it was shown.

Live monitoring, the scanner and every backtest run this same class.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Struct, field, structs

from steadyhelm.baselines import BaselineStats
from steadyhelm.budgets.adaptive_budget import AdaptiveBudget
from steadyhelm.decisions import PROCEED, Decision, DriftAction, Hook, Mode, Verdict
from steadyhelm.declarations import ToolDeclaration
from steadyhelm.detector import Detector
from steadyhelm.engine.detector_runner import DetectorRunner
from steadyhelm.engine.drift_state import DriftState, SavedDriftState
from steadyhelm.engine.health import Health
from steadyhelm.engine.incident_tracker import IncidentTracker
from steadyhelm.engine.steering import Steering
from steadyhelm.engine.totals import Totals
from steadyhelm.engine.trust import TrustTracker
from steadyhelm.errors import FormatError
from steadyhelm.events import (
    CALL_REFUSED,
    CHECKPOINT_TAKEN,
    NOT_CARRIED_OUT,
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
from steadyhelm.incidents import Incident
from steadyhelm.policy.guidance import write_guidance
from steadyhelm.policy.response_levels import VERDICTS, Response, choose_verdict, respond

STATE_VERSION: Final = 4
_CLEAN_KEPT: Final = 16

# A call that was refused: as long as nothing else happens it stays so, then it may be tried again.
_REFUSED: Final = "refused"
_LIFTED: Final = "lifted"


class Observation(NamedTuple):
    """What one event led to."""

    decision: Decision
    incidents: Sequence[Incident] = ()


class Ending(NamedTuple):
    """What a run leaves behind."""

    summary: RunSummary
    findings: Sequence[DriftEvent]
    incidents: Sequence[Incident]


QUIET: Final = Observation(PROCEED)


class _State(Struct):
    version: int
    totals: Totals
    episodes: IncidentTracker
    detectors: dict[str, bytes]
    fatigue: Fatigue
    trust: Trust
    drift: SavedDriftState
    refusal: str = ""
    clean: list[int] = field(default_factory=list)


class Session:
    """Watches one run with one set of detectors.

    Args:
        run: The run.
        detectors: Fresh detectors, used by this session alone.
        baseline: What is normal for this agent.
        mode: Whether anything but watching is allowed.
        can: What the caller can carry out.
        steering: Thresholds, weights, budget and words of the policy.
        budget: What this run may spend, instead of what `steering` gives every run.
        thresholds: Scores below which a detector's findings are noticed, not reported.
        tools: What is known about tools, by name.
        health: Where a failing detector is counted.
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
        thresholds: Mapping[str, float] | None = None,
        tools: Mapping[str, ToolDeclaration] | None = None,
        health: Health | None = None,
    ) -> None:
        self.run = run
        self.baseline = baseline
        self.mode: Mode = mode
        self.can = frozenset(can)
        self.drift = DriftState(run, steering or Steering(), budget)
        self._health = health or Health()
        self._tools = tools or {}
        self._totals = Totals()
        self._incidents = IncidentTracker()
        self._fatigue = Fatigue()
        self._trust = TrustTracker()
        self._refusal = ""
        self._clean: list[int] = []
        self._runner = DetectorRunner(detectors, baseline, thresholds=thresholds, health=self._health)
        self._runner.begin(run)

    @property
    def next_seq(self) -> int:
        """The place the next event will have."""
        return self._totals.last_seq + 1

    @property
    def last_at(self) -> float:
        """The time of the latest event; 0 before the first."""
        return self._totals.last_at

    def forget_checkpoints(self) -> None:
        """There is nothing to return to: whoever kept it does not have it any more."""
        self._clean.clear()

    @property
    def not_checked(self) -> dict[str, str]:
        """What could not be looked at, and why: detectors, and limits of the budget."""
        return {**self._runner.not_checked, **self.drift.not_checked}

    @property
    def is_drifting(self) -> bool:
        """Whether an incident is open."""
        return bool(self._incidents.open)

    @property
    def drifting_since(self) -> int | None:
        """Where the earliest evidence of the incidents now open lies; None while there is none."""
        return self._incidents.first_evidence_seq()

    def observe(self, event: TraceEvent) -> Observation:
        """Take one event in; one already seen changes nothing."""
        totals = self._totals
        if event.seq <= totals.last_seq:
            self._health.count("event seen twice")
            return QUIET
        if event.timestamp < totals.last_at:
            self._health.count("event out of order")
        totals.add(event)
        if event.action_name in self._tools:
            event = self._tools[event.action_name].apply_to(event)
        told = self._take_word(event) if event.action_type == STATE_TRANSITION else ()
        findings = self._runner.check(event, totals.last_names)
        own = self.drift.observe(event, findings or (), self._runner)
        if self._refusal and event.action_type in {TOOL_CALL, USER_MESSAGE}:
            self._refusal = "" if findings else _LIFTED
        if own:
            findings = [*(findings or ()), *(self._runner.adjust(it, totals.last_names) for it in own)]
        return self._quiet(event, told) if findings is None else self._answered(event, findings)

    def before_tool(self, name: str, args: Any = None) -> Decision:
        """Whether a call shall be made: proceed, guide, deny or ask. Changes nothing."""
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

    def foresee(self, call: TraceEvent) -> Decision:
        """What is to be said to this call, if it were made and gave the same answer? Changes nothing."""
        if call.action_name in self._tools:
            call = self._tools[call.action_name].apply_to(call)
        recent = self._totals.last_names
        findings = self._runner.foresee(call, recent)
        findings += [self._runner.adjust(it, recent) for it in self.drift.foresee(call)]
        if not findings:
            return PROCEED
        predicted = self._incidents.predict_answers(call, findings)
        response = self._response(findings, answered=predicted)
        if response.action is DriftAction.CONTINUE:
            return Decision(findings=tuple(findings))
        answer = choose_verdict(
            response.action, self.mode, self.can, certain=response.certain, before_call=True
        )
        if self._refusal == _LIFTED and answer.verdict == "deny":
            answer = choose_verdict(DriftAction.INJECT_REMINDER, self.mode, self.can, before_call=True)
        return self._said(response, findings, answer.verdict, answer.wanted)

    def end(self, *, at: float, outcome: str = "") -> Ending:
        """The run is over: judge it as a whole, and sum it up."""
        findings = self._runner.end(self._totals.last_names)
        # A rise over runs is this agent's, not this run's: the run itself may still teach the baseline.
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
        incidents = [*noted, *self._incidents.close_all(last.timestamp, last.seq)]
        summary = self._totals.summarise(
            self.run,
            at=last.timestamp,
            outcome=outcome,
            had_incident=had_incident,
            doubts=self._trust.list_doubtful(),
        )
        return Ending(self._runner.teach(summary), findings, _latest(incidents))

    # --- put aside, taken up, rolled back ---------------------------------------------------------

    def state(self) -> bytes:
        """Everything needed to go on with this run later, or elsewhere."""
        return msgspec.msgpack.encode(
            _State(
                STATE_VERSION,
                self._totals,
                self._incidents,
                self._runner.state(),
                self._fatigue,
                self._trust.trust,
                self.drift.state(),
                self._refusal,
                self._clean,
            )
        )

    def restore(self, state: bytes) -> None:
        """Go on from a state that `state` gave; raises FormatError when it is none of ours.

        A detector whose own part cannot be read begins afresh, and that is counted.
        """
        saved = self._decoded(state)
        self._totals, self._incidents = saved.totals, saved.episodes
        self._fatigue, self._trust = saved.fatigue, TrustTracker(saved.trust)
        self._refusal, self._clean = saved.refusal, saved.clean
        self.drift.restore(saved.drift)
        self._runner.restore(saved.detectors)

    def roll_back(self, state: bytes) -> None:
        """Go back with the agent: its steps since then are forgotten by those that judge them.

        What was spent stays spent, and incidents with their answers stay known: the next attempt is judged
        as what it is, another attempt.
        """
        saved = self._decoded(state)
        self._incidents.outcomes.lengthen(self._calls_to_walk_again(saved.totals))
        self._runner.restore(saved.detectors)
        self.drift.roll_back(saved.drift)
        self._fatigue.reset()
        self._refusal = ""

    def _calls_to_walk_again(self, then: Totals) -> int:
        """About how many calls lie between a checkpoint and where things went wrong."""
        since, now = self._incidents.first_evidence_seq(), self._totals
        if since is None or now.events <= then.events:
            return 0
        share = (now.tool_calls - then.tool_calls) / (now.events - then.events)
        return round(max(0, since - then.last_seq - 1) * share)

    def _decoded(self, state: bytes) -> _State:
        try:
            saved = msgspec.msgpack.decode(state, type=_State)
        except (msgspec.MsgspecError, UnicodeDecodeError) as exc:
            raise FormatError(f"The saved session of run {self.run.run_id!r} cannot be read: {exc}.") from exc
        if saved.version != STATE_VERSION:
            raise FormatError(f"The saved session of run {self.run.run_id!r} has version {saved.version}.")
        return saved

    # --- inside ----------------------------------------------------------------------------------

    def _take_word(self, event: TraceEvent) -> Sequence[Incident]:
        """Something the caller tells us about what it did; gives the incidents this changes."""
        told = event.metadata or {}
        if event.action_name == CALL_REFUSED:
            self._refusal = _REFUSED
            action = _action(told.get("action"))
            return self._incidents.record_refusal(event, action, str(told.get("reason", "")), self._totals)
        if event.action_name == CHECKPOINT_TAKEN and not self._incidents.open:
            self._clean.append(event.seq)
            del self._clean[1:-_CLEAN_KEPT]  # the first stays: it lies before everything
        elif event.action_name == NOT_CARRIED_OUT:
            return self._incidents.mark_not_carried_out(str(told.get("reason", "")))
        return ()

    def _quiet(self, event: TraceEvent, told: Sequence[Incident]) -> Observation:
        """Nothing was noticed; `told` are incidents that changed by the caller's word."""
        self._fatigue.event_count += 1
        self._trust.record_clean(event)
        hooks = () if self.mode == "observe" else self.drift.pick_hooks(drifting=bool(self._incidents.open))
        decision = Decision(hooks=hooks) if hooks else PROCEED
        if not self._incidents.open:
            return Observation(decision) if hooks else QUIET
        judged = self._incidents.judge(event, ())
        return Observation(decision, _latest([*told, *judged, *self._incidents.observe(event, (), decision)]))

    def _answered(self, event: TraceEvent, findings: Sequence[DriftEvent]) -> Observation:
        """Something was noticed."""
        judged = self._incidents.judge(event, findings)
        reported = [it for it in findings if it.severity is not Severity.LOW]
        readings = self._fatigue.observe([_pattern(finding) for finding in reported])
        self._trust.record_findings(event, self._totals.names, is_reported=bool(reported))
        chronic = {
            finding.kind
            for finding in reported
            if any(it.hard and it.pattern == _pattern(finding) for it in readings)
        }
        decision = self._decide(findings, seq=event.seq, chronic=chronic)
        if decision.guidance:
            self.drift.note_goal_stated()
            # Somebody stepped in: whether the pattern comes back is counted from here.
            for finding in reported:
                self._fatigue.reset(_pattern(finding))
        noted = self._incidents.observe(event, findings, decision, self._totals)
        return Observation(decision, _latest([*judged, *noted]))

    def _decide(self, findings: Sequence[DriftEvent], *, seq: int, chronic: Collection[str]) -> Decision:
        response = self._response(findings, chronic=chronic)
        if response.action is DriftAction.CONTINUE:
            return Decision(findings=tuple(findings))
        if not self._is_news(findings, response.action, seq):
            quiet = Decision(action=response.action, findings=tuple(findings), hard=bool(chronic))
            return self.drift.explain(quiet, response)
        can = self.can if self._can_return(event_seq=seq) else self.can - {"rollback"}
        answer = choose_verdict(response.action, self.mode, can, certain=response.certain)
        said = self._said(response, findings, answer.verdict, answer.wanted)
        return structs.replace(said, hard=bool(chronic), hooks=self._hooks(response))

    def _response(
        self,
        findings: Sequence[DriftEvent],
        *,
        chronic: Collection[str] = (),
        answered: Mapping[str, Any] | None = None,
    ) -> Response:
        if self.drift.is_exhausted:
            return Response(DriftAction.ASK_USER, certain=True, reasons=("the budget is used up",))
        known = self._incidents.answered if answered is None else answered
        return respond(findings, known, by_score=self.drift.action, chronic=chronic)

    def _said(
        self, response: Response, findings: Sequence[DriftEvent], answer: Verdict, wanted: Verdict | None
    ) -> Decision:
        words = write_guidance(
            response.action,
            findings,
            self.drift.goal,
            wordings=self.drift.steering.wordings,
            tried=self._incidents.past_messages(findings),
            user_words=self.drift.user_words,
        )
        decision = Decision(
            action=response.action,
            verdict=answer,
            wanted=wanted,
            guidance=words.text,
            wording=words.wording,
            findings=tuple(findings),
        )
        return self.drift.explain(decision, response)

    def _can_return(self, *, event_seq: int) -> bool:
        """Whether there is a checkpoint from before the first evidence of what goes on."""
        since = self._incidents.first_evidence_seq()
        return any(taken <= (event_seq if since is None else since) for taken in self._clean)

    def _hooks(self, response: Response) -> tuple[Hook, ...]:
        """Where answers were ignored up to a return, another model may do better."""
        if self.mode == "observe":
            return ()
        is_late = response.action.level >= DriftAction.CHECKPOINT_RESET.level
        return ("switch_model",) if is_late and self._incidents.has_failed_intervention() else ()

    def _is_news(self, findings: Sequence[DriftEvent], action: DriftAction, seq: int) -> bool:
        """Whether there is anything new to say: something stronger, or the last word is long enough ago."""
        for finding in findings:
            if finding.severity is Severity.LOW:
                continue
            incident = self._incidents.open.get(finding.kind)
            if incident is None or not incident.interventions:
                return True
            last = incident.interventions[-1]
            if action.level > last.action.level or seq - last.seq > self._fatigue.cooldown(_pattern(finding)):
                return True
        return False


def _action(name: Any) -> DriftAction:
    """The action a caller says it followed; a refusal that does not say stands for a new plan."""
    try:
        return DriftAction(name)
    except ValueError:
        return DriftAction.SUMMARIZE_REPLAN


def _pattern(finding: DriftEvent) -> str:
    """What a finding is an instance of: its detector's pattern, or the detector itself."""
    return f"{finding.detector}/{finding.context.get('pattern', '')}"


def _latest(incidents: Sequence[Incident]) -> Sequence[Incident]:
    """Of several versions of one incident the last."""
    return tuple({incident.incident_id: incident for incident in incidents}.values())
