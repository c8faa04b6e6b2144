"""What the loop detectors share: a pattern that takes events in, and the finding its sighting becomes."""

from typing import ClassVar, Protocol

from msgspec import structs

from steadyhelm.baselines import BaselineStats
from steadyhelm.detector import Detector
from steadyhelm.events import TOOL_CALL, USER_MESSAGE, TraceEvent
from steadyhelm.findings import DriftEvent
from steadyhelm.loops.sightings import Sighting


class Pattern(Protocol):
    """A loop pattern: a msgspec Struct that remembers a run and says what each event repeats."""

    def take(self, event: TraceEvent) -> Sighting | None:
        """What this event repeats, if anything."""

    def foresee(self, call: TraceEvent) -> Sighting | None:
        """What a call not yet made would repeat if it came to the same as before; changes nothing."""


class LoopDetector(Detector):
    """A thin plug-in over one loop pattern."""

    kind = "loop"
    advice: ClassVar[str]
    looks_at: ClassVar[frozenset[str]] = frozenset({TOOL_CALL, USER_MESSAGE})

    def check(self, event: TraceEvent, baseline: BaselineStats) -> DriftEvent | None:  # noqa: ARG002
        """Show the event to the pattern."""
        if event.action_type not in self.looks_at:
            return None
        pattern: Pattern = self._memory  # type: ignore[assignment]
        sighting = pattern.take(event)
        return None if sighting is None else self.sighted(event, sighting)

    def foresee(self, call: TraceEvent, baseline: BaselineStats) -> DriftEvent | None:  # noqa: ARG002
        """Ask the pattern what the call would show."""
        if call.action_type != TOOL_CALL:
            return None
        pattern: Pattern = self._memory  # type: ignore[assignment]
        sighting = pattern.foresee(call)
        return None if sighting is None else self.foreseen(call, sighting)

    def foreseen(self, call: TraceEvent, sighting: Sighting, **context: object) -> DriftEvent:
        """The finding a sighting of a call not yet made becomes: proven by what has happened alone."""
        proof = tuple(event_id for event_id in sighting.event_ids if event_id != call.event_id)
        words = f"with this call: {sighting.message}"
        return self.sighted(call, structs.replace(sighting, event_ids=proof, message=words), **context)

    def sighted(self, event: TraceEvent, sighting: Sighting, **context: object) -> DriftEvent:
        """The finding a sighting becomes."""
        if sighting.ignored:
            context["ignored"] = list(sighting.ignored)
        return self.finding(
            event,
            score=sighting.score,
            message=sighting.message,
            suggested_action=self.advice,
            event_ids=sighting.event_ids,
            pattern=sighting.pattern,
            repeat_count=sighting.count,
            **context,
        )
