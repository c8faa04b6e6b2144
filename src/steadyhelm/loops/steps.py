"""One tool call as the loop patterns see it: what kind of step, what was asked, what came back."""

from typing import Final

from steadyhelm.events import TraceEvent
from steadyhelm.fingerprints import call_hash, canonical
from steadyhelm.loops.kinds import DECLARED, StepKind, kind_of
from steadyhelm.loops.outcomes import Outcome, outcome_of

_ASKED: Final = 2048

# Words that only explain a call, or say how long to wait for it: they do not make it another call.
_ASIDE: Final = frozenset(
    {"description", "reason", "explanation", "rationale", "justification", "purpose", "comment", "thought",
     "intent", "timeout", "request_id", "tool_call_id"}
)  # fmt: skip


class Step:
    """One tool call, read once however many patterns look at it.

    Args:
        event: The call.
        outcome: What shall have come of it, whatever the event says.
    """

    __slots__ = ("_asked", "call", "event", "is_work_done", "kind", "outcome")

    def __init__(self, event: TraceEvent, outcome: Outcome | None = None) -> None:
        self.event = event
        self.call, self._asked = _call_of(event)
        self.outcome = outcome_of(event) if outcome is None else outcome
        self.kind: StepKind = DECLARED.get(event.tool_kind) or kind_of(event.action_name, event.input_data)
        if self.kind == "look" and self.outcome.says_wait:
            self.kind = "wait"
        # Whether it changed something, as far as can be told.
        self.is_work_done = self.kind == "work" and self.outcome.known and not self.outcome.failed

    @property
    def asked(self) -> bytes:
        """Its arguments as canonical text, as much of it as tells calls apart."""
        if self._asked is None:
            known = _encoded
            if known is not None and known[0] is self.event:
                self._asked = known[1][:_ASKED]
            else:
                self._asked = canonical(self.event.input_data)[:_ASKED]
        return self._asked

    @property
    def is_real_failure(self) -> bool:
        """Whether it failed by its own fault: an outage is nobody's, and waiting is no attempt."""
        outcome = self.outcome
        return outcome.failed and outcome.known and not outcome.outage and self.kind != "wait"

    def had_seen(self, seq: int) -> bool:
        """Whether the agent had seen the event at that place when it made this call."""
        started = self.event.started_seq
        return started is None or started > seq


_last: tuple[TraceEvent, Step] | None = None
_encoded: tuple[TraceEvent, bytes] | None = None


def note_encoded(event: TraceEvent, arguments: bytes) -> None:
    """Whoever made the event has its arguments as canonical text: they need not be encoded again for it."""
    global _encoded  # noqa: PLW0603 - as below: without it they are encoded once more, to the same
    _encoded = (event, arguments)


def read_step(event: TraceEvent) -> Step:
    """The event as a step; the latest one is kept, since several patterns ask for it in turn."""
    global _last  # noqa: PLW0603 - a memo of a pure function: a race costs a second reading, nothing else
    known = _last
    if known is not None and known[0] is event:
        return known[1]
    step = Step(event)
    _last = (event, step)
    return step


def call_key(event: TraceEvent) -> int:
    """A number for a call, without the words that only explain it."""
    return _call_of(event)[0]


def _call_of(event: TraceEvent) -> tuple[int, bytes | None]:
    """The call's number, and what was asked if that had to be encoded for it."""
    args = event.input_data
    if isinstance(args, dict) and not _ASIDE.isdisjoint(args):
        meant = {name: value for name, value in args.items() if name not in _ASIDE}
        return call_hash(event.action_name, canonical(meant)), None
    if event.call_hash:
        return event.call_hash, None
    encoded = canonical(args)
    return call_hash(event.action_name, encoded), encoded[:_ASKED]
