"""Calls that fail and are tried again after a pause made on purpose, at what may pass by itself."""

import re
from typing import Final

from msgspec import Struct, field

from steadyhelm.events import TraceEvent
from steadyhelm.loops.outcomes import CallOutcome
from steadyhelm.loops.phrases import Phrases, to_lower
from steadyhelm.loops.steps import ToolStep
from steadyhelm.loops.waiting import LONG_CALL_MS

_RETRY_PAUSE_S: Final = 15.0
_LOCK_PAUSE_S: Final = 3.0
_MAX_CALLS: Final = 32

_LOCK_PHRASES: Final = Phrases(
    ("lock", "held by", "busy", "in use", "used by", "another "),
    re.compile(
        r"\b(?:could ?n[o']t|cannot|can't|unable to|failed to) (?:get|acquire|obtain|take)"
        r" (?:\w{1,12} ){0,3}lock\b"
        r"|\b(?:held|locked|owned|(?:in|being) used?) by (?:process|pid|an?other|some other)\b"
        r"|\b(?:resource|device|text file|target)(?: is)? busy\b"
        r"|\block (?:file )?(?:is )?(?:already |currently )?(?:held|taken|owned)\b|\bstate lock\b"
        r"|\banother (?:\w{1,16} ){0,2}(?:is|has|seems)\b[^\n]{0,30}\b(?:in progress|running|lock)"
    ),
)
"""What another process holds, and gives back."""
_SAME_AGAIN: Final = re.compile(
    r"\b(?:assert\w{0,12}|traceback|(?:type|value|key|index|name|attribute|import|modulenotfound|reference)error"
    r"|[1-9]\d{0,6} failed|cannot find|could not compile|undefined|undeclared|mismatch|missing|required"
    r"|must be|expected|not a|rejected|declined|refused by|conflicts?)\b"
)
"""What fails again whenever it is tried."""


class RetryPauses(Struct):
    """When each call failed last, and how long the run had been busy by then: that is no pause.

    `has_replies` is whether the run tells how long replies took: else a pause may be one to think.
    """

    failed_at: dict[int, tuple[float, float]] = field(default_factory=dict)
    busy_s: float = 0.0
    has_replies: bool = False

    def record_reply(self, event: TraceEvent) -> None:
        """Record how long a reply took."""
        self.busy_s += event.duration_ms / 1000
        self.has_replies |= event.duration_ms > 0

    def record_work(self, step: ToolStep) -> None:
        """Record how long a call took, unless it waited itself."""
        if step.kind != "wait" and step.event.duration_ms < LONG_CALL_MS:
            self.busy_s += step.event.duration_ms / 1000

    def record_failure(self, step: ToolStep) -> bool:
        """Record a failure, and return whether the call had failed before and was patiently tried again."""
        at, before = step.event.timestamp, self.failed_at.pop(step.call_key, None)
        self.failed_at[step.call_key] = at, self.busy_s
        if len(self.failed_at) > _MAX_CALLS:
            del self.failed_at[next(iter(self.failed_at))]
        if before is None:
            return False
        pause_s = at - before[0] - (self.busy_s - before[1])
        return is_patient_retry(step.outcome, pause_s, has_times=at > before[0], is_pause=self.has_replies)


def is_patient_retry(outcome: CallOutcome, pause_s: float, *, has_times: bool, is_pause: bool) -> bool:
    """Return whether a call that failed was tried again after a pause, at what may pass by itself.

    `is_pause` says that the agent paused on purpose. Where it is not known how long replies took, it may only
    have thought, unless its pauses are exactly even or grow.

    What another process holds is tried again sooner, and in a run without times it is taken to pass.
    """
    if not outcome.failed or not outcome.known or (has_times and pause_s < _LOCK_PAUSE_S):
        return False
    if outcome.is_permanent:
        return False
    lowered = to_lower(outcome.sample)
    if _LOCK_PHRASES.occur_in(lowered):
        return True
    return is_pause and pause_s >= _RETRY_PAUSE_S and _SAME_AGAIN.search(lowered) is None
