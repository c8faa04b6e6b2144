"""Decide when steps that no rule reports are alike enough for a judge to be asked about them."""

import functools
import re
from collections.abc import Sequence
from typing import Final

from msgspec import Struct, field

from steadyhelm.events import LLM_REQUEST, TOOL_CALL, TraceEvent
from steadyhelm.judging.run_notes import StepNote

MIN_STEPS_BETWEEN: Final = 25
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

_CHANT_CHARS: Final = 600
_MIN_CHANT_CHARS: Final = 300
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
    asked_at: int = -MIN_STEPS_BETWEEN
    gap: int = MIN_STEPS_BETWEEN

    def observe(self, event: TraceEvent, steps: Sequence[StepNote], *, is_noticed: bool = False) -> list[str]:
        """Record a step; return the ids of the steps to ask about, none when no question is due.

        `steps` are the latest notes, the one of this event last; `is_noticed` is whether a rule has a LOW
        finding of a loop here.
        """
        if event.action_type not in {TOOL_CALL, LLM_REQUEST} or not steps:
            return []
        self.steps += 1
        twin = _find_alike(steps)
        count = _MIN_ALIKE if is_chant(event) else int(is_noticed or twin is not None)
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


def is_chant(event: TraceEvent) -> bool:
    """Return whether the end of a reply only repeats itself.

    >>> said = {"agent_id": "a", "run_id": "r", "action_type": "llm_request", "action_name": "llm"}
    >>> is_chant(TraceEvent(**said, output_data="and so on, " * 40))
    True
    """
    text = event.text[-_CHANT_CHARS:] if event.action_type == LLM_REQUEST else ""
    if len(text) < _MIN_CHANT_CHARS:
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
