"""Call after call that meets one outage, without a pause that would let it pass."""

from typing import Final

from msgspec import Struct, field

from steadyhelm.loops.loop_detector import MAX_EVIDENCE_IDS, LoopMatch, is_report_due
from steadyhelm.loops.outcomes import hash_error
from steadyhelm.loops.patient_retries import RetryPauses
from steadyhelm.loops.steps import ToolStep

_MAX_CALLS: Final = 64
CALLS_OF_LOOP: Final = 8

_PAUSE_S: Final = 3.0
_PAUSE_OR_THOUGHT_S: Final = 15.0


class OutageWall(Struct):
    """The different calls in a row that met the same outage; a pause and a success end the row.

    The same call again is a retry, and counted elsewhere.
    """

    error: int = 0
    count: int = 0
    calls: list[int] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    last_seq: int = 0
    last_at: float = 0.0
    busy_s: float = 0.0

    def clear(self) -> None:
        """Forget the calls: one succeeded."""
        self.count = 0
        self.calls.clear()
        self.ids.clear()

    def record(self, step: ToolStep, pauses: RetryPauses) -> LoopMatch | None:
        """Record a call that met an outage, and return a match when too many did without a pause."""
        event, error = step.event, hash_error(step.outcome.sample)
        if self.ids and not step.has_seen(self.last_seq):
            return None
        pause_s = event.timestamp - self.last_at - (pauses.busy_s - self.busy_s)
        least_s = _PAUSE_S if pauses.has_replies else _PAUSE_OR_THOUGHT_S
        if error != self.error or pause_s >= least_s:
            self.clear()
        self.error, self.last_seq, self.last_at = error, event.seq, event.timestamp
        self.busy_s = pauses.busy_s
        if step.call_key in self.calls:
            return None
        self.count += 1
        self.calls = [*self.calls, step.call_key][-_MAX_CALLS:]
        self.ids = [*self.ids, event.event_id][-MAX_EVIDENCE_IDS:]
        count = self.count
        if not is_report_due(count, CALLS_OF_LOOP):
            return None
        return LoopMatch(
            pattern="dead end",
            count=count,
            patience=CALLS_OF_LOOP,
            event_ids=tuple(self.ids),
            message=f"{count} different calls met the same outage, without a pause between",
        )
