"""Decide when steps may have left the goal, so that a judge is asked about them."""

from typing import Final

from msgspec import Struct, field

from steadyhelm.events import LLM_REQUEST, TOOL_CALL, TraceEvent
from steadyhelm.goals.tracker import SHORTEST_REPLY_CHARS, GoalTracker

MAX_GOAL_QUESTIONS: Final = 2
"""Questions about the goal in one run."""

MIN_STEPS_BETWEEN: Final = 4
_STEPS_TO_WAIT: Final = 2
"""Steps after a suspicion until the question is asked: it shows what the agent did next."""

_STEPS_TO_WAIT_IF_FOUND: Final = 1
_MIN_DRIFT: Final = 0.28
_MIN_RISE: Final = 0.13
"""How much the average must have risen within the latest comparisons: a habit of the agent is no change."""

_MIN_COMPARED: Final = 3
_AVERAGES_KEPT: Final = 5
_MAX_NOT_COMPARED: Final = 3
"""Steps in a row that share no words with anything: the goal is not checked then."""

_SMOOTHING: Final = 0.3
_FADED_SHARE: Final = 0.8


class GoalBand(Struct):
    """Where the drift from the goal is uncertain: it has risen, or steps could not be compared.

    It measures the average drift of the steps as `goal_drift` does, from words alone and without a baseline,
    and asks earlier than that detector reports. `due` is the step at which a question is asked; a suspicion
    that fades before is dropped, a finding (`is_found`) is not.
    """

    steps: int = 0
    compared: int = 0
    not_compared: int = 0
    recent: list[float] = field(default_factory=list)
    due: int | None = None
    is_found: bool = False
    asked: int = 0
    asked_at: int = -MIN_STEPS_BETWEEN
    changes: int = 0

    def observe(self, event: TraceEvent, tracker: GoalTracker, *, is_found: bool = False) -> bool:
        """Record an event that the tracker has read; return whether a question about the goal is due.

        `is_found` is whether a rule has a finding about the goal here.
        """
        if tracker.changes != self.changes:
            self.changes, self.compared, self.not_compared = tracker.changes, 0, 0
            self.recent, self.due, self.is_found = [], None, False
        if event.action_type not in {TOOL_CALL, LLM_REQUEST} or not tracker.current:
            return False
        self.steps += 1
        self._add_drift(_measure_drift(event, tracker))
        if is_found:
            self.is_found = True
            soon = self.steps + _STEPS_TO_WAIT_IF_FOUND
            self.due = soon if self.due is None else min(soon, self.due)
        is_due = self.due is not None and self.steps >= self.due
        is_allowed = self.asked < MAX_GOAL_QUESTIONS and self.steps - self.asked_at >= MIN_STEPS_BETWEEN
        return is_due and is_allowed

    def record_question(self) -> None:
        """Count a question about the goal, whatever was the reason to ask it."""
        self.asked += 1
        self.asked_at = self.steps
        self.due, self.is_found = None, False
        self.not_compared, self.recent = 0, self.recent[-1:]

    def _add_drift(self, drift: float | None) -> None:
        if drift is None:
            self.not_compared += 1
            if self.due is None and self.recent and self.not_compared >= _MAX_NOT_COMPARED:
                self.due = self.steps
            return
        before = self.recent[-1] if self.recent else 0.0
        average = before + _SMOOTHING * (drift - before)
        self.compared += 1
        self.not_compared = 0
        lowest = min(self.recent, default=average)
        self.recent = [*self.recent, average][-_AVERAGES_KEPT:]
        is_raised = average >= _MIN_DRIFT and average - lowest >= _MIN_RISE
        if self.due is None and is_raised and self.compared >= _MIN_COMPARED:
            self.due = self.steps + _STEPS_TO_WAIT
        elif not self.is_found and average < _FADED_SHARE * _MIN_DRIFT:
            self.due = None


def _measure_drift(event: TraceEvent, tracker: GoalTracker) -> float | None:
    """Return how far a step is from the goal; None when they share nothing that can be compared."""
    if event.action_type == LLM_REQUEST:
        return tracker.reply_drift if len(event.text) >= SHORTEST_REPLY_CHARS else None
    compared = tracker.compare_call(event)
    return None if compared is None else compared.drift
