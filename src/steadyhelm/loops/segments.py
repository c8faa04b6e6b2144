"""Where a loop can begin and end: new work and a new user message are progress."""

from typing import Final

from msgspec import Struct, field

from steadyhelm.events import USER_MESSAGE, TraceEvent
from steadyhelm.loops.text_overlap import hash_text

_MAX_WORK_CALLS: Final = 64


class SegmentTracker(Struct):
    """Recognise what starts a new segment of a run: work not done before, or a user message not sent before.

    Repetitions are counted within one segment.
    The same edit made again is not new work, and a harness that sends the same text again is not a user.
    Nothing else starts a segment: a refused call does not.
    """

    work_calls: dict[int, None] = field(default_factory=dict)
    last_message: int = 0

    def record_work(self, call_key: int) -> bool:
        """Record a call that changed something, and return whether it was not made before."""
        if call_key in self.work_calls:
            return False
        self.work_calls[call_key] = None
        if len(self.work_calls) > _MAX_WORK_CALLS:
            del self.work_calls[next(iter(self.work_calls))]
        return True

    def record_message(self, event: TraceEvent) -> bool:
        """Record a user message, and return whether its text is new; False for any other event."""
        if event.action_type != USER_MESSAGE:
            return False
        before, self.last_message = self.last_message, hash_text(event.text)
        return before != self.last_message
