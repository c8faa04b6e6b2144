"""Where a run is heading: the five signals, the score they give, and what it may still spend."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct, field, structs

from steadyhelm.budgets.adaptive_budget import AdaptiveBudget
from steadyhelm.decisions import BudgetDecision, BudgetState, Decision, DriftAction, DriftSignals, Hook
from steadyhelm.engine.budget_words import extended
from steadyhelm.engine.course_findings import off_course, short_of
from steadyhelm.engine.given import share
from steadyhelm.engine.panel import Panel
from steadyhelm.engine.steering import Steering
from steadyhelm.events import (
    CHECKPOINT_TAKEN,
    LLM_REQUEST,
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
from steadyhelm.policy.drift_engine import History
from steadyhelm.policy.ladder import Response, first_rung

_CALMING: Final = 0.8
"""What is left of the risk of a loop after each step without one."""

_LOOK_EVERY: Final = 4
"""Calls between two looks at a run that is on course: what a call alone changes, changes slowly."""

_FULL_FROM: Final = 0.5
"""How full a context is when what it holds should be put down in a checkpoint."""


_FULLER_BY: Final = 0.25
"""How much fuller it must be than at the last checkpoint to ask for another."""


_WORDS_KEPT: Final = 300


class CourseState(Struct):
    """What a run's course remembers."""

    quality: ContextQuality = field(default_factory=ContextQuality)
    progress: Progress = field(default_factory=Progress)
    budget: bytes = b""
    history: History = field(default_factory=History)
    turn: int = 0
    last_at: float = -1.0
    goal_drift: float | None = None
    loop_risk: float | None = None
    quality_lost: float | None = None
    stuck: float | None = None
    told_stuck: float | None = None
    put_down_at: float = 0.0
    goal: str = ""
    user_words: str = ""
    landing_told: bool = False


class Course:
    """Keeps the signals of one run up to date, event by event."""

    def __init__(self, run: RunInfo, steering: Steering, budget: AdaptiveBudget | None = None) -> None:
        self.steering = steering
        self.budget = budget if budget is not None else steering.budget_for(run)
        self.last_extension: BudgetDecision | None = None
        self._run = run
        self._engine = steering.engine()
        self._memory = CourseState(quality=ContextQuality(run.goal), goal=run.goal)
        self._told_goal: str | None = run.goal
        self._goal_reason = "no goal was given"
        self.score = 0.0

    @property
    def turn(self) -> int:
        """How many steps the agent has taken."""
        return self._memory.turn

    @property
    def goal(self) -> str:
        """What the run is for now; a user's message may have changed it."""
        return self._memory.goal

    @property
    def user_words(self) -> str:
        """What the user said last after the agent had begun; empty while the goal says it all."""
        return self._memory.user_words

    @property
    def not_checked(self) -> dict[str, str]:
        """The limits of the budget that cannot be judged, and why."""
        limits = self.budget.not_checked if self.budget is not None else {}
        return {f"budget.{name}": reason for name, reason in limits.items()}

    @property
    def is_exhausted(self) -> bool:
        """Whether the run's budget is used up."""
        return self.budget is not None and self.budget.is_exhausted()

    @property
    def action(self) -> DriftAction:
        """What the drift score calls for, as far as the last steps all reached it."""
        action = self._engine.action_for(self._engine.sustained())
        return action.raised() if action is not DriftAction.CONTINUE and self._engine.is_rising() else action

    def note(self, event: TraceEvent, findings: Sequence[DriftEvent], panel: Panel) -> Sequence[DriftEvent]:
        """Take one event in; gives what the course itself shows: too much drift, too little budget left."""
        memory, kind = self._memory, event.action_type
        gained = self._take(event)
        if kind == STATE_TRANSITION:
            self._take_word(event, gained)
            return ()
        if self.budget is not None:
            self._spend(event, self._counted(gained))
        if kind == USER_MESSAGE:
            self._heard(event, panel)
        if kind not in {TOOL_CALL, LLM_REQUEST}:
            return ()
        memory.turn += 1
        if kind == LLM_REQUEST and self.steering.context_window and event.token_count:
            memory.quality.note_context(event.token_count, self.steering.context_window)
        if findings or memory.loop_risk != 0.0:
            self._calm(findings)
        if findings or self._is_look_due(panel):
            self._look(findings, panel)
        if self.budget is None and self.score < self.steering.nudge_threshold:
            return ()
        return [*self._score_finding(event, findings), *self._budget_finding(event)]

    def goal_stated(self) -> None:
        """The goal was just put before the model, in the words of an answer."""
        self._memory.quality.note_goal_stated()

    def foresee(self, call: TraceEvent) -> Sequence[DriftEvent]:
        """What is to be said of the budget before a call: nothing, unless it is used up."""
        return short_of(call, self.budget.get_status()) if self.is_exhausted and self.budget else ()

    def hooks(self, *, drifting: bool) -> tuple[Hook, ...]:
        """What the caller may do besides: put down in a checkpoint what a filling context may lose."""
        memory = self._memory
        full = memory.quality.fullness
        if full is None:
            return ()
        # A context that was compacted fills up anew.
        memory.put_down_at = min(memory.put_down_at, full)
        if drifting or full < _FULL_FROM or full - memory.put_down_at < _FULLER_BY:
            return ()
        memory.put_down_at = full
        return ("force_checkpoint",)

    def signals(self) -> DriftSignals:
        """The five signals as they stand, and why those that are unknown are so."""
        memory = self._memory
        pace = self.budget.get_pace() if self.budget is not None else None
        reasons = {
            "goal_dna_drift": self._goal_reason,
            "loop_risk": "no step was taken yet",
            "budget_velocity": "no budget was set" if self.budget is None else "progress is not known",
            "quality_degradation": "too little was seen yet",
            "stuck_time": "too little was seen yet",
        }
        return DriftSignals(
            goal_dna_drift=memory.goal_drift,
            loop_risk=memory.loop_risk,
            budget_velocity=pace,
            quality_degradation=memory.quality_lost,
            stuck_time=memory.stuck,
            reasons=reasons,
        )

    def explained(self, decision: Decision, response: Response) -> Decision:
        """The decision with the run's course and its budget."""
        assessment = self._engine.score_drift(self.signals(), exhausted=self.is_exhausted)
        if response.reasons:
            reasons = dict.fromkeys((*assessment.raised_by, *response.reasons))
            assessment = structs.replace(assessment, raised_by=tuple(reasons))
        return structs.replace(decision, assessment=assessment, budget=self.budget_state())

    def budget_state(self) -> BudgetState | None:
        """What the run may still spend; None when it has no budget."""
        return self.budget.get_status() if self.budget is not None else None

    def lend(self) -> AdaptiveBudget | None:
        """A budget for a run inside this one, set aside from what is left; None without a budget."""
        if self.budget is None:
            return None
        left, share = self.budget.get_status(), self.steering.child_share
        return self.budget.reserve(
            steps=_part(left.steps_remaining, share),
            tokens=_part(left.tokens_remaining, share),
            cost_usd=None if left.cost_remaining_usd is None else left.cost_remaining_usd * share,
        )

    def take_back(self, child: AdaptiveBudget) -> None:
        """The inner run is over: what it used is spent, the rest is free again."""
        if self.budget is not None:
            self.budget.give_back(child)

    # --- put aside, taken up, rolled back ---------------------------------------------------------

    def state(self) -> CourseState:
        """What it remembers."""
        memory = self._memory
        memory.history = self._engine.history
        memory.budget = self.budget.state() if self.budget is not None else b""
        return memory

    def restore(self, saved: CourseState) -> None:
        """Take up what `state` gave; raises FormatError when its budget cannot be read."""
        if saved.budget:
            if self.budget is None:
                self.budget = AdaptiveBudget()
            self.budget.restore(saved.budget)
        # Nobody worked while the run was put aside: its clock starts with the next event.
        self._memory = structs.replace(saved, last_at=-1.0)
        self._told_goal = saved.goal
        self._take_up(saved.history)

    def roll_back(self, saved: CourseState) -> None:
        """Go back with the agent; what was spent stays spent, and turns go on counting."""
        if saved.budget and self.budget is not None:
            self.budget.rewind(saved.budget)
        now = self._memory
        self._memory = structs.replace(
            saved, turn=now.turn, last_at=now.last_at, goal=now.goal, user_words=now.user_words
        )
        self._told_goal = None
        self._take_up(saved.history)

    # --- inside ----------------------------------------------------------------------------------

    def _take_up(self, history: History) -> None:
        self._engine.history = history
        self.score = history.scores[-1] if history.scores else 0.0

    def _take(self, event: TraceEvent) -> float:
        """Show an event to what follows quality and progress; gives the progress made."""
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

    def _heard(self, event: TraceEvent, panel: Panel) -> None:
        """The user spoke: the goal may be another one, and if not, these words belong to it."""
        memory, before = self._memory, self._told_goal
        self._told_goal = panel.goal()
        is_new = before is not None and self._told_goal != before
        if is_new or not memory.goal:
            memory.goal = self._told_goal or memory.goal
        memory.user_words = "" if is_new or not memory.turn else event.text[:_WORDS_KEPT]

    def _take_word(self, event: TraceEvent, gained: float) -> None:
        if event.action_name == PROGRESS:
            self._memory.told_stuck = share((event.metadata or {}).get("stuck"))
        if gained and self.budget is not None:
            self.budget.record_progress(gained)
        if event.action_name == CHECKPOINT_TAKEN:
            self._memory.put_down_at = self._memory.quality.fullness or 0.0
        elif self.budget is not None:
            self.last_extension = extended(self.budget, event) or self.last_extension

    def _spend(self, event: TraceEvent, gained: float | None) -> None:
        assert self.budget is not None
        memory = self._memory
        began = memory.last_at if memory.last_at >= 0 else event.timestamp - event.duration_ms / 1000
        # The time a user takes to answer is not the agent's.
        passed = 0.0 if event.action_type == USER_MESSAGE else max(0.0, event.timestamp - began)
        memory.last_at = max(memory.last_at, event.timestamp)
        if event.action_type == TOOL_CALL:
            self.budget.record_step(
                memory.turn + 1, event.token_count, gained, cost_usd=event.cost_usd, wall_s=passed
            )
        else:
            self.budget.record_spending(event.token_count, cost_usd=event.cost_usd, wall_s=passed)

    def _counted(self, gained: float) -> float | None:
        """The progress of a step as the budget counts it.

        What is inferred from work alone says when a run gets on, not when it does not: exploring changes no
        file, and must not cost an agent its budget.
        """
        progress = self._memory.progress
        is_told = progress.source in {"declared", "plan"}
        return gained if is_told or (gained > 0 and progress.steps_since_change == 0) else None

    def _calm(self, findings: Sequence[DriftEvent]) -> None:
        """The risk of a loop falls with every step, and rises with a loop."""
        risk = (self._memory.loop_risk or 0.0) * _CALMING
        for finding in findings:
            if finding.kind == "loop" and finding.severity is not Severity.LOW:
                risk = max(risk, finding.score)
        self._memory.loop_risk = risk

    def _is_look_due(self, panel: Panel) -> bool:
        """Whether a step with nothing found can have changed the score by more than a little."""
        return (
            self.budget is not None
            or self.score >= self.steering.nudge_threshold
            or self._memory.turn % _LOOK_EVERY == 0
            or panel.goal_level() != self._memory.goal_drift
        )

    def _look(self, findings: Sequence[DriftEvent], panel: Panel) -> None:
        """Bring the signals and the score up to date."""
        memory = self._memory
        if findings or memory.turn % _LOOK_EVERY == 0:
            memory.quality.note_style(panel.style_level())
            memory.quality_lost = memory.quality.get_degradation()
            told = memory.told_stuck
            memory.stuck = memory.progress.get_stuck_score() if told is None else told
        memory.goal_drift = panel.goal_level()
        self._goal_reason = panel.goal_unseen() if memory.goal_drift is None else ""
        pace = self.budget.get_pace() if self.budget is not None else None
        behind = None if pace is None else max(0.0, -pace)
        self.score = self._engine.score(
            memory.goal_drift, memory.loop_risk, behind, memory.quality_lost, memory.stuck
        )
        self._engine.record_drift(memory.turn, self.score)

    def _score_finding(self, event: TraceEvent, findings: Sequence[DriftEvent]) -> Sequence[DriftEvent]:
        """The score as a finding, where it calls for more than what was found at this event does."""
        action = self.action
        if action.rung <= max((first_rung(finding).rung for finding in findings), default=0):
            return ()
        return off_course(event, self._engine.score_drift(self.signals()), action)

    def _budget_finding(self, event: TraceEvent) -> Sequence[DriftEvent]:
        """What is left, as a finding: once when only the reserve is, and always when nothing is."""
        budget, memory = self.budget, self._memory
        if budget is None:
            return ()
        if budget.is_exhausted():
            return short_of(event, budget.get_status())
        was_told, memory.landing_told = memory.landing_told, budget.is_landing()
        # Told again and again, it would count as ignored: the reserve is there to be used.
        return short_of(event, budget.get_status()) if memory.landing_told and not was_told else ()


def _part(amount: int | None, share: float) -> int | None:
    return None if amount is None else int(amount * share)
