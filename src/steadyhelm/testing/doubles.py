"""A clock that a test sets, and a detector that fires at one tool call."""

from typing import Any, ClassVar

import msgspec

from steadyhelm.baselines import BaselineStats
from steadyhelm.detector import Detector
from steadyhelm.events import TOOL_CALL, TraceEvent
from steadyhelm.findings import DriftEvent, Kind, Severity


class FakeClock:
    """A clock that stays at one time until a test advances it.

    >>> clock = FakeClock(100.0)
    >>> clock.advance(2.5)
    >>> clock()
    102.5
    """

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        """Return the time it is set to."""
        return self.now

    def advance(self, seconds: float) -> None:
        """Move the time forward."""
        self.now += seconds


# A detector that fires at one tool call, to test how an agent handles the strongest responses.


class _Memory(msgspec.Struct):
    calls: int = 0


class Alarm(Detector):
    """Reports a confirmed loop at the n-th tool call of a run, whatever was called.

    Args:
        at: Which call.
    """

    name: ClassVar[str] = "alarm"
    kind: ClassVar[Kind] = "loop"

    def __init__(self, at: int) -> None:
        self._at = at
        self._memory: Any = _Memory()

    def check(self, event: TraceEvent, baseline: BaselineStats) -> DriftEvent | None:  # noqa: ARG002
        """Count the call, and return a critical finding at the chosen one."""
        if event.action_type != TOOL_CALL:
            return None
        self._memory.calls += 1
        return self._make_finding(event) if self._memory.calls == self._at else None

    def _make_finding(self, event: TraceEvent) -> DriftEvent:
        return DriftEvent(
            agent_id=event.agent_id,
            run_id=event.run_id,
            detector=self.name,
            kind=self.kind,
            severity=Severity.CRITICAL,
            score=0.95,
            message="the same page again and again",
            suggested_action="Take another way.",
            timestamp=event.timestamp,
            event_id=event.event_id,
            context={"events": [event.event_id]},
        )
