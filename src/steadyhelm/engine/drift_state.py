"""The drift signals of a run, the score they add up to, and its budget."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct, field, structs

from steadyhelm.budgets.adaptive_budget import AdaptiveBudget
from steadyhelm.decisions import DailyBudgetState, Decision, DriftAction, DriftSignals, Hook
from steadyhelm.engine.coercion import to_share
from steadyhelm.engine.detector_runner import DetectorRunner
from steadyhelm.engine.drift_findings import make_drift_score_findings
from steadyhelm.engine.run_budget import RunBudget
from steadyhelm.engine.steering import Steering
from steadyhelm.events import (
    BUDGET_SET,
    CHECKPOINT_TAKEN,
    LLM_REQUEST,
    NEW_GOAL,
    PROGRESS,
    STATE_TRANSITION,
    TOOL_CALL,
    USER_MESSAGE,
    RunInfo,
    TraceEvent,
)
from steadyhelm.findings import DriftEvent, Severity
from steadyhelm.goals.progress import Progress
from steadyhelm.goals.quality import ContextQuality
from steadyhelm.loops.steps import read_step
from steadyhelm.policy.drift_engine import ScoreHistory
from steadyhelm.policy.response_levels import Response, choose_first_level
from steadyhelm.sink import BudgetLimits, DriftPoint

LOOP_RISK_DECAY: Final = 0.8
"""The share of the loop risk that is left after each step without a loop."""

CALLS_PER_SCORE: Final = 4
"""Calls between two updates of the score while nothing is found: calls alone change it slowly."""

CHECKPOINT_CONTEXT_SHARE: Final = 0.5
"""How full a context is when a checkpoint is asked for."""

CHECKPOINT_CONTEXT_STEP: Final = 0.25
"""How much fuller it must be than at the last checkpoint to ask for another."""

USER_WORDS_KEPT_CHARS: Final = 300
_SCORE_DIGITS: Final = 4
_SHOWN_PROGRESS: Final = ("declared", "plan")
"""The sources of progress that show how far a run is; work done alone does not."""


class DriftPoints(Struct):
    """The latest point and limits of a run. Between two points the score stays as it is.

    `decisions` is how many changes of the limits were seen.
    """

    point: DriftPoint | None = None
    limits: BudgetLimits | None = None
    decisions: int = -1
    is_new: bool = False
    has_new_limits: bool = False

    def note_score(self, contributions: Sequence[float | None]) -> None:
        """Note the contributions to the score after an event, in the order of the signals."""
        known = [part for part in contributions if part is not None]
        score = round(min(1.0, sum(known)), _SCORE_DIGITS) if known else None
        point = DriftPoint(score, *contributions)
        if point != self.point:
            self.point, self.is_new = point, True

    def note_limits(self, budget: AdaptiveBudget, *, are_set: bool = False) -> None:
        """Note the limits of the budget after an event; `are_set` says that it has set them."""
        # Building the status of a budget costs as much as judging a step: it is done where one was changed.
        if budget.decisions_made == self.decisions and not are_set:
            return
        self.decisions = budget.decisions_made
        status = budget.get_status()
        limits = BudgetLimits(
            status.steps_limit,
            status.tokens_limit,
            status.cost_limit_usd,
            status.wall_limit_s,
            budget.rules.landing_reserve,
        )
        if limits != self.limits:
            self.limits, self.has_new_limits = limits, True

    def take(self) -> tuple[DriftPoint | None, BudgetLimits | None]:
        """Return what changed since the last time, each once."""
        changes = (self.point if self.is_new else None, self.limits if self.has_new_limits else None)
        self.is_new = self.has_new_limits = False
        return changes


class SavedDriftState(Struct):
    """What is saved of a `DriftState`."""

    quality: ContextQuality = field(default_factory=ContextQuality)
    progress: Progress = field(default_factory=Progress)
    budget: bytes = b""
    history: ScoreHistory = field(default_factory=ScoreHistory)
    turn: int = 0
    last_at: float = -1.0
    goal_drift: float | None = None
    loop_risk: float | None = None
    quality_degradation: float | None = None
    stuck: float | None = None
    reported_stuck: float | None = None
    checkpointed_at: float = 0.0
    goal: str = ""
    known_goal: str | None = None
    """The goal as events have stated it so far, which a rollback takes back; None where that is not known."""
    user_words: str = ""
    landing_reported: bool = False
    exhausted_quarters: int = -1
    points: DriftPoints = field(default_factory=DriftPoints)
    daily: DailyBudgetState | None = None
    daily_reported: bool = False
    daily_extensions: int = 0
    goal_reason: str = "no goal was given"


class DriftState:
    """The five drift signals of one run and their score, updated event by event."""

    def __init__(self, run: RunInfo, steering: Steering, budget: AdaptiveBudget | None = None) -> None:
        self.steering = steering
        self.budget = RunBudget(run, steering, budget)
        self._engine = steering.make_engine()
        self._memory = SavedDriftState(quality=ContextQuality(run.goal), goal=run.goal, known_goal=run.goal)
        self.score = 0.0

    @property
    def turn(self) -> int:
        """The number of steps the agent has taken."""
        return self._memory.turn

    @property
    def goal(self) -> str:
        """The goal that holds now; a user's message may have changed it."""
        return self._memory.goal

    @property
    def user_words(self) -> str:
        """The user's latest message since the agent started; empty when it set the goal."""
        return self._memory.user_words

    @property
    def not_checked(self) -> dict[str, str]:
        """The limits of the budget that cannot be checked, with their reasons."""
        return self.budget.not_checked

    @property
    def is_exhausted(self) -> bool:
        """Whether the run's budget, or its agent's budget of the day, is used up."""
        return self.budget.is_exhausted

    @property
    def action(self) -> DriftAction:
        """The action the drift score calls for, if the latest steps all reached its threshold."""
        action = self._engine.choose_action(self._engine.get_sustained_score())
        return (
            action.next_stronger()
            if action is not DriftAction.CONTINUE and self._engine.is_rising()
            else action
        )

    def observe(
        self, event: TraceEvent, findings: Sequence[DriftEvent], runner: DetectorRunner, goal: str
    ) -> Sequence[DriftEvent]:
        """Record one event; return findings about the drift score and the budget. `goal` holds now."""
        memory, kind, budget = self._memory, event.action_type, self.budget
        has_budget = budget.limits is not None or budget.daily is not None
        is_judged = runner.detectors or has_budget or self.steering.context_window
        gained = self._track_progress(event) if is_judged or kind == STATE_TRANSITION else 0.0
        if kind == STATE_TRANSITION:
            self._note_report(event, gained, goal)
        if budget.limits is not None:
            self._spend(budget.limits, event, gained, findings)
        if kind == USER_MESSAGE:
            self._note_user_message(event, goal)
        if kind not in {TOOL_CALL, LLM_REQUEST}:
            return ()
        memory.turn += 1
        if not is_judged:
            return ()
        if kind == LLM_REQUEST and self.steering.context_window and event.token_count:
            memory.quality.note_context(event.token_count, self.steering.context_window)
        if findings or memory.loop_risk != 0.0:
            self._update_loop_risk(findings)
        if findings or self._is_scoring_due(runner):
            self._update_score(findings, runner)
        if not has_budget and self.score < self.steering.nudge_threshold:
            return ()
        return [*self._score_finding(event, findings), *budget.find(event)]

    def take_points(self) -> tuple[DriftPoint | None, BudgetLimits | None] | None:
        """Return the score and the limits if the latest event changed them, each once."""
        points = self._memory.points
        if points.point is None and self._memory.turn:
            # Between two updates the score holds; before the first it is what is known by now.
            self._note_point(None)
        return points.take() if points.is_new or points.has_new_limits else None

    def note_goal_stated(self) -> None:
        """Note that guidance has just stated the goal to the model."""
        self._memory.quality.note_goal_stated()

    def foresee(self, call: TraceEvent) -> Sequence[DriftEvent]:
        """Return a finding when the budget is used up before a call."""
        return self.budget.foresee(call)

    def pick_hooks(self, *, drifting: bool) -> tuple[Hook, ...]:
        """Return the hooks to call: `force_checkpoint` when the context fills up."""
        memory = self._memory
        full = memory.quality.fullness
        if full is None:
            return ()
        # A context that was compacted fills up anew.
        memory.checkpointed_at = min(memory.checkpointed_at, full)
        if (
            drifting
            or full < CHECKPOINT_CONTEXT_SHARE
            or full - memory.checkpointed_at < CHECKPOINT_CONTEXT_STEP
        ):
            return ()
        memory.checkpointed_at = full
        return ("force_checkpoint",)

    def build_signals(self) -> DriftSignals:
        """Return the five signals, with the reasons of those that are unknown."""
        memory = self._memory
        reasons = {
            "goal_dna_drift": memory.goal_reason,
            "loop_risk": "no step was taken yet",
            "budget_velocity": "no budget was set" if self.budget.limits is None else "progress is not known",
            "quality_degradation": "too little was seen yet",
            "stuck_time": "too little was seen yet",
        }
        return DriftSignals(
            goal_dna_drift=memory.goal_drift,
            loop_risk=memory.loop_risk,
            budget_velocity=self.budget.get_pace(),
            quality_degradation=memory.quality_degradation,
            stuck_time=memory.stuck,
            reasons=reasons,
        )

    def explain(self, decision: Decision, response: Response) -> Decision:
        """Return the decision with the drift assessment and the budget added."""
        assessment = self._engine.score_drift(self.build_signals(), exhausted=self.is_exhausted)
        if response.reasons:
            reasons = dict.fromkeys((*assessment.raised_by, *response.reasons))
            assessment = structs.replace(assessment, raised_by=tuple(reasons))
        daily = self.budget.daily
        return structs.replace(
            decision,
            assessment=assessment,
            budget=self.budget.get_status(),
            daily_budget=daily if daily is not None and daily.exhausted else None,
        )

    def state(self) -> SavedDriftState:
        """Return everything needed to restore it."""
        memory = self._memory
        memory.history = self._engine.history
        self.budget.save_into(memory)
        return memory

    def restore(self, saved: SavedDriftState) -> None:
        """Restore from `state`; raises FormatError when the budget cannot be read."""
        self.budget.restore(saved)
        self._memory = saved
        if saved.known_goal is None:
            saved.known_goal = saved.goal
        self._set_history(saved.history)

    def roll_back(self, saved: SavedDriftState) -> None:
        """Go back to a saved state; what was spent stays spent, and turns keep counting."""
        self.budget.roll_back(saved)
        now = self._memory
        self._memory = structs.replace(
            saved, turn=now.turn, goal=now.goal, user_words=now.user_words, points=now.points
        )
        self._set_history(saved.history)

    def _set_history(self, history: ScoreHistory) -> None:
        self._engine.history = history
        self.score = history.scores[-1] if history.scores else 0.0

    def _track_progress(self, event: TraceEvent) -> float:
        """Update context quality and progress by an event; return the progress made."""
        memory = self._memory
        if event.action_type != TOOL_CALL:
            memory.quality.observe(event)
            return memory.progress.observe(event)
        step = read_step(event)
        failed = step.outcome.failed
        memory.quality.observe(event, failed=failed)
        return memory.progress.observe(
            event, kind=step.kind, failed=failed, call=step.call_key, result=step.outcome.raw
        )

    def _note_user_message(self, event: TraceEvent, goal: str) -> None:
        """Update the goal by a message or a report of a new goal; one that sets none is kept beside it."""
        memory, before = self._memory, self._memory.known_goal
        memory.known_goal = goal
        is_new = event.action_name == NEW_GOAL or (before is not None and goal != before)
        if is_new or not memory.goal:
            memory.goal = goal or memory.goal
        memory.user_words = "" if is_new or not memory.turn else event.text[:USER_WORDS_KEPT_CHARS]

    def _note_report(self, event: TraceEvent, gained: float, goal: str) -> None:
        if event.action_name == NEW_GOAL:
            self._note_user_message(event, goal)
        if event.action_name == PROGRESS:
            self._memory.reported_stuck = to_share((event.metadata or {}).get("stuck"))
            # A report that nothing has moved is a report too.
            if self.budget.limits is not None and self._memory.progress.declared is not None:
                self.budget.limits.record_progress(gained)
        if event.action_name == CHECKPOINT_TAKEN:
            self._memory.checkpointed_at = self._memory.quality.fullness or 0.0
        progress = self._memory.progress
        self.budget.apply_report(event, progress.value if progress.source in _SHOWN_PROGRESS else None)

    def _spend(
        self, limits: AdaptiveBudget, event: TraceEvent, gained: float, findings: Sequence[DriftEvent]
    ) -> None:
        """Count what an event used. Only a host's report says how fast a run is: see `_note_report`."""
        if event.action_type != STATE_TRANSITION:
            loops = (it for it in findings if it.kind == "loop" and it.severity is not Severity.LOW)
            by_plan = gained if self._memory.progress.source == "plan" else 0.0
            self.budget.spend(event, self._memory.turn + 1, in_loop=any(loops), gained=by_plan)
        self._memory.points.note_limits(limits, are_set=event.action_name == BUDGET_SET)

    def _update_loop_risk(self, findings: Sequence[DriftEvent]) -> None:
        """Lower the loop risk by a step, and raise it by loops that were found."""
        risk = (self._memory.loop_risk or 0.0) * LOOP_RISK_DECAY
        for finding in findings:
            if finding.kind == "loop" and finding.severity is not Severity.LOW:
                risk = max(risk, finding.score)
        self._memory.loop_risk = risk

    def _is_scoring_due(self, runner: DetectorRunner) -> bool:
        """Return whether a step without findings can have changed the score by more than a little."""
        return (
            self.budget.limits is not None
            or self.score >= self.steering.nudge_threshold
            or self._memory.turn % CALLS_PER_SCORE == 0
            or runner.measure_goal_drift() != self._memory.goal_drift
        )

    def _update_score(self, findings: Sequence[DriftEvent], runner: DetectorRunner) -> None:
        """Update the signals and the score."""
        memory = self._memory
        if findings or memory.turn % CALLS_PER_SCORE == 0:
            memory.quality.note_style(runner.measure_style_drift())
            memory.quality_degradation = memory.quality.get_degradation()
            reported = memory.reported_stuck
            memory.stuck = memory.progress.get_stuck_score() if reported is None else reported
        memory.goal_drift = runner.measure_goal_drift()
        memory.goal_reason = runner.explain_missing_goal_level() if memory.goal_drift is None else ""
        limits = self.budget.limits
        pace = None if limits is None else limits.get_pace()
        behind = None if pace is None else max(0.0, -pace)
        self.score = self._engine.score(
            memory.goal_drift, memory.loop_risk, behind, memory.quality_degradation, memory.stuck
        )
        self._engine.record_drift(memory.turn, self.score)
        self._note_point(behind)

    def _note_point(self, behind: float | None) -> None:
        memory = self._memory
        memory.points.note_score(
            self._engine.split_score(
                memory.goal_drift, memory.loop_risk, behind, memory.quality_degradation, memory.stuck
            )
        )

    def _score_finding(self, event: TraceEvent, findings: Sequence[DriftEvent]) -> Sequence[DriftEvent]:
        """Return the score as a finding, if it calls for more than the findings at this event do."""
        action = self.action
        if action.level <= max((choose_first_level(finding).level for finding in findings), default=0):
            return ()
        return make_drift_score_findings(event, self._engine.score_drift(self.build_signals()), action)
