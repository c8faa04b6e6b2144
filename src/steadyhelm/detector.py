"""The contract of a detector: the events of one run in, findings out, no side effects.

A detector depends only on the events it checked: no clock, no randomness, no input or output,
no logging, no threads.
The session creates one for every run, passes it each event in order, and can save and restore
its state at any event.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar

import msgspec

from steadyhelm.baselines import BaselineStats
from steadyhelm.errors import FormatError
from steadyhelm.events import RunInfo, RunSummary, TraceEvent
from steadyhelm.findings import DriftEvent, Kind, make_finding


class Detector(ABC):
    """Base class of the detectors: watches one run for one sign of drift.

    A subclass sets its `name` and the `kind` of its findings, and keeps everything it
    remembers in `self._memory`, a msgspec Struct: that alone is saved and restored.
    Raise `version` whenever that Struct changes: older state is then ignored.
    The keywords of its constructor are its settings.
    """

    name: ClassVar[str]
    kind: ClassVar[Kind]
    version: ClassVar[int] = 1

    _memory: msgspec.Struct

    not_checked: str | None = None
    """The reason it could not check, or None when it could."""

    level: float | None = None
    """The present strength of its kind of drift, 0 to 1, with or without findings; None when unknown."""

    def begin(self, run: RunInfo) -> None:  # noqa: B027 - most detectors need nothing at the start
        """Prepare for a run that starts or is resumed."""

    def follow_goal(self, tracker: Any) -> None:  # noqa: B027 - most detectors need no goal
        """Use the `GoalTracker` that the session keeps up to date; called for detectors of kind `goal`."""

    @abstractmethod
    def check(self, event: TraceEvent, baseline: BaselineStats) -> DriftEvent | None:
        """Record one event, and return a finding if it shows drift."""

    def end(self, baseline: BaselineStats) -> DriftEvent | None:  # noqa: ARG002
        """Return a finding about the run as a whole, when it has ended."""
        return None

    def foresee(self, call: TraceEvent, baseline: BaselineStats) -> DriftEvent | None:  # noqa: ARG002
        """Return the finding that a call not yet made would lead to if its result stayed the same.

        Changes no state.
        """
        return None

    def teach(self, summary: RunSummary) -> RunSummary:
        """Return the summary with what this detector learnt from the run, for the baseline."""
        return summary

    def state(self) -> bytes:
        """Return everything it remembers of this run."""
        return msgspec.msgpack.encode((self.version, self._memory))

    def restore(self, state: bytes) -> None:
        """Restore a state that `state` returned; one of another version is ignored."""
        try:
            version, memory = msgspec.msgpack.decode(state, type=tuple[int, msgspec.Raw])
            if version == self.version:
                self._memory = msgspec.msgpack.decode(memory, type=type(self._memory))
        except (msgspec.MsgspecError, UnicodeDecodeError) as exc:
            raise FormatError(f"The saved state of detector {self.name!r} cannot be read: {exc}.") from exc

    def finding(
        self,
        event: TraceEvent,
        *,
        score: float,
        message: str,
        suggested_action: str,
        event_ids: Iterable[str] = (),
        **context: Any,
    ) -> DriftEvent:
        """Return a finding at this event; without `event_ids` the event itself is the evidence.

        Guidance tells the agent to follow the suggestion. Where that is meant for people, give what the agent
        should do as `advice`.
        """
        return make_finding(
            event,
            self.name,
            self.kind,
            score=min(1.0, max(0.0, score)),
            message=message,
            suggested_action=suggested_action,
            event_ids=list(event_ids) or None,
            **context,
        )
