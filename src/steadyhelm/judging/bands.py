"""Where the rules are unsure about a reply, the goal or a repetition, so that a judge is asked."""

import functools
import re
from collections.abc import Sequence
from typing import Final

from msgspec import Struct, field

from steadyhelm.corrections.reply_classifier import ReplyLabel
from steadyhelm.events import LLM_REQUEST, TOOL_CALL, TraceEvent
from steadyhelm.goals.tracker import SHORTEST_REPLY_CHARS, GoalTracker
from steadyhelm.judging.questions import StepNote

REPLY_BAND: Final = (0.18, 0.8)
"""Probabilities of a correction between which the classifier is unsure: three in ten messages at most.

Chosen on labelled replies whose project the weights had not seen: .26 of them are asked about.
"""

ANSWER_BAND_FROM: Final = 0.3
"""The lowest one for an answer to an agent that did nothing but ask: few of them correct anything."""


def is_reply_uncertain(label: ReplyLabel, *, is_answer: bool = False) -> bool:
    """Return whether the classifier cannot tell if a message is a correction."""
    low, high = REPLY_BAND
    return (ANSWER_BAND_FROM if is_answer else low) <= label.drift <= high


MAX_GOAL_QUESTIONS: Final = 2
"""Questions about the goal in one run."""

MIN_STEPS_BETWEEN_GOALS: Final = 4
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
    asked_at: int = -MIN_STEPS_BETWEEN_GOALS
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
        is_allowed = self.asked < MAX_GOAL_QUESTIONS and self.steps - self.asked_at >= MIN_STEPS_BETWEEN_GOALS
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


MIN_STEPS_BETWEEN_LOOPS: Final = 25
"""Steps from one question about a repetition to the next; doubled with each that was asked by likeness."""

_STEPS_COMPARED: Final = 25
_MIN_ALIKE: Final = 4
_WITHIN_STEPS: Final = 8
"""So many of the latest steps resemble earlier ones: the agent may be going in circles."""

_MIN_CALL_LIKENESS: Final = 0.75
"""The mean likeness of arguments and results of two calls of one tool."""
_MIN_ERROR_LIKENESS: Final = 0.8
_MIN_REPLY_LIKENESS: Final = 0.6
_MIN_REPLY_WORDS: Final = 5

_REPETITION_CHARS: Final = 600
_MIN_REPETITION_CHARS: Final = 300
_PIECE_CHARS: Final = 10
_MAX_PIECE_SHARE: Final = 0.25
"""The share of different pieces at the end of a reply that only repeats itself."""

_WORD: Final = re.compile(r"\d+|[^\W\d]+")
_MAX_WORDS: Final = 300
_WORD_SETS_KEPT: Final = 128


class LoopBand(Struct):
    """Where a repetition is uncertain: the latest steps resemble earlier ones, whatever the rules report.

    `alike` has the places of such steps, with their ids in `proof`.
    """

    steps: int = 0
    alike: list[int] = field(default_factory=list)
    proof: list[str] = field(default_factory=list)
    asked_at: int = -MIN_STEPS_BETWEEN_LOOPS
    gap: int = MIN_STEPS_BETWEEN_LOOPS

    def observe(self, event: TraceEvent, steps: Sequence[StepNote], *, is_noticed: bool = False) -> list[str]:
        """Record a step; return the ids of the steps to ask about, none when no question is due.

        `steps` are the latest notes, the one of this event last; `is_noticed` is whether a rule has a LOW
        finding of a loop here.
        """
        if event.action_type not in {TOOL_CALL, LLM_REQUEST} or not steps:
            return []
        self.steps += 1
        twin = _find_alike(steps)
        count = _MIN_ALIKE if is_repetitive_reply(event) else int(is_noticed or twin is not None)
        self.alike += [self.steps] * count
        self.alike = [place for place in self.alike if self.steps - place < _WITHIN_STEPS]
        if count:
            shown = [twin.event_id] if twin is not None else []
            fresh = [it for it in [*shown, event.event_id] if it not in self.proof]
            self.proof = [*self.proof, *fresh][-2 * _WITHIN_STEPS :]
        is_due = bool(count) and len(self.alike) >= _MIN_ALIKE and self.steps - self.asked_at >= self.gap
        return list(self.proof) if is_due else []

    def record_question(self, *, is_reported: bool = False) -> None:
        """Count a question about a repetition; `is_reported` is whether a rule has reported it."""
        self.asked_at = self.steps
        self.gap *= 1 if is_reported else 2
        self.alike, self.proof = [], []


def _find_alike(steps: Sequence[StepNote]) -> StepNote | None:
    """Return the latest step that the last one resembles."""
    last = steps[-1]
    earlier = steps[-_STEPS_COMPARED - 1 : -1]
    return next((it for it in reversed(earlier) if is_alike(it, last)), None)


def is_alike(one: StepNote, other: StepNote) -> bool:
    """Return whether two steps are of one kind and nearly the same: calls with results, or replies."""
    if one.action_type != other.action_type:
        return False
    if one.action_type == LLM_REQUEST:
        is_long = len(_split_words(other.result)) >= _MIN_REPLY_WORDS
        return is_long and _compare(one.result, other.result) >= _MIN_REPLY_LIKENESS
    if one.action_type != TOOL_CALL or one.name != other.name:
        return False
    results = _compare(one.result, other.result)
    if one.failed and other.failed and results >= _MIN_ERROR_LIKENESS:
        return True
    return (results + _compare(one.asked, other.asked)) / 2 >= _MIN_CALL_LIKENESS


def is_repetitive_reply(event: TraceEvent) -> bool:
    """Return whether the end of a reply only repeats itself.

    >>> said = {"agent_id": "a", "run_id": "r", "action_type": "llm_request", "action_name": "llm"}
    >>> is_repetitive_reply(TraceEvent(**said, output_data="and so on, " * 40))
    True
    """
    text = event.text[-_REPETITION_CHARS:] if event.action_type == LLM_REQUEST else ""
    if len(text) < _MIN_REPETITION_CHARS:
        return False
    pieces = len(text) - _PIECE_CHARS + 1
    return len({text[at : at + _PIECE_CHARS] for at in range(pieces)}) <= _MAX_PIECE_SHARE * pieces


def _compare(one: str, other: str) -> float:
    """Return the share of words that two texts have in common; 1.0 for two empty ones."""
    if one == other:
        return 1.0
    words, others = _split_words(one), _split_words(other)
    either = len(words | others)
    return len(words & others) / either if either else 1.0


@functools.lru_cache(maxsize=_WORD_SETS_KEPT)
def _split_words(text: str) -> frozenset[str]:
    """Return the words of a text in lower case, every number as the same one."""
    return frozenset("0" if word[0].isdigit() else word for word in _WORD.findall(text.lower())[:_MAX_WORDS])
