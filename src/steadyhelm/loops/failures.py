"""Calls that failed, one by one and in a row."""

import re
from typing import Final, Self

from msgspec import Struct, field

from steadyhelm.loops.call_arguments import find_command
from steadyhelm.loops.halving import Halving
from steadyhelm.loops.loop_detector import MAX_EVIDENCE_IDS, split_words, word_overlap
from steadyhelm.loops.outcomes import CallOutcome, hash_error, looks_failed
from steadyhelm.loops.steps import ToolStep

MAX_STEPS_BETWEEN: Final = 8

_DIVERGED: Final = re.compile(r"\b(?:nan|inf)\b", re.IGNORECASE)
_DECIMAL: Final = re.compile(rb"(?<![\d.])\d{1,9}(?:\.\d{1,12}|[eE]-?\d{1,3})")
# Calls with so few words cannot be told apart by them: the error alone counts.
_MIN_WORDS_TO_COMPARE: Final = 3


class Attempt(Struct, frozen=True):
    """What is remembered of a call that failed, or whose result is not known yet.

    `only_said` is whether a tool said in plain words what became of one thing, and nobody marked an error.
    """

    name: str
    event_id: str
    seq: int
    started_seq: int | None
    arguments: bytes
    has_result: bool
    only_said: bool = False

    @classmethod
    def from_step(cls, step: ToolStep) -> Self:
        """Return the attempt for a step."""
        event = step.event
        return cls(
            event.action_name,
            event.event_id,
            event.seq,
            event.started_seq,
            step.arguments,
            step.outcome.known,
            _is_only_said(step),
        )

    def has_seen(self, seq: int) -> bool:
        """Return whether the agent had seen the event with this `seq` when it made this call."""
        return self.started_seq is None or self.started_seq > seq


class FailedCall(Struct):
    """A call that failed before, and how often.

    The same call failing in the same way within one segment is plain repetition, which action_loop reports.
    """

    outcome: CallOutcome
    segment: int
    last_seq: int
    last_step: int
    ids: list[str]
    count: int = 1
    is_repetition: bool = True

    def add(self, attempt: Attempt, step_number: int) -> None:
        """Count one more failure of this call."""
        self.count += 1
        self.last_seq, self.last_step = attempt.seq, step_number
        self.ids = [*self.ids, attempt.event_id][-MAX_EVIDENCE_IDS:]


class FailureRun(Struct):
    """Failures of calls that may differ, with the arguments of the latest; `error` is kept until hashed."""

    arguments: bytes
    segment: int
    last_seq: int
    last_step: int
    ids: list[str]
    is_repetition: bool
    error: str = ""
    error_hash: int = 0
    first_error: str = ""
    first_arguments: bytes = b""
    count: int = 1
    overlap: float = 1.0
    halving: Halving = field(default_factory=Halving)
    is_reported: bool = False
    name: str = ""
    only_said: bool = False

    @classmethod
    def start(cls, attempt: Attempt, step_number: int, segment: int, error: str = "") -> Self:
        """Return a run of failures that begins with this attempt."""
        ids, is_repetition = [attempt.event_id], attempt.has_result
        run = cls(attempt.arguments, segment, attempt.seq, step_number, ids, is_repetition, error)
        run.first_error, run.first_arguments = error, attempt.arguments
        run.name, run.only_said = attempt.name, attempt.only_said
        run.halving.record(attempt.arguments)
        return run

    def add(self, attempt: Attempt, step_number: int) -> None:
        """Count one more failure, perhaps of another call."""
        words, before = split_words(attempt.arguments), split_words(self.arguments)
        if max(len(words), len(before)) >= _MIN_WORDS_TO_COMPARE:
            self.overlap = min(self.overlap, word_overlap(words, before))
        self.is_repetition &= attempt.arguments == self.arguments
        self.arguments = attempt.arguments
        self.halving.record(attempt.arguments)
        self.count += 1
        self.last_seq, self.last_step = attempt.seq, step_number
        self.ids = [*self.ids, attempt.event_id][-MAX_EVIDENCE_IDS:]

    def has_error(self, error_hash: int) -> bool:
        """Return whether its error has this hash; its own hash is costly, and computed on first use."""
        if not self.error_hash:
            self.error_hash = hash_error(self.error)
            self.error = ""
        return self.error_hash == error_hash


def is_other_setting(run: FailureRun, attempt: Attempt, error: str) -> bool:
    """Return whether a computation diverged with another setting than before: that is a search for one."""
    if not _DIVERGED.search(error):
        return False
    before, now = (_DECIMAL.findall(it) for it in (run.arguments, attempt.arguments))
    if before == now:
        return False
    run.last_step = -MAX_STEPS_BETWEEN  # what follows is compared with this attempt
    return True


def _is_only_said(step: ToolStep) -> bool:
    event, outcome = step.event, step.outcome
    if event.error is not None or not outcome.failed or find_command(event.input_data) is not None:
        return False
    return not looks_failed(outcome.sample, is_error=False)
