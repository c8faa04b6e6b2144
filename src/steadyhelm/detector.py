"""The contract of a detector: one run in, findings out, nothing else touched.

A detector is a plain function of what it was shown: no clock, no randomness, no input or output,
no logging, no threads.
The session makes a fresh one for every run, shows it each event in order, and can put its state
aside and take it up again at any event.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar

import msgspec

from steadyhelm.baselines import BaselineStats
from steadyhelm.errors import FormatError
from steadyhelm.events import RunInfo, RunSummary, TraceEvent
from steadyhelm.findings import DriftEvent, Kind, Severity


class Detector(ABC):
    """Watches one run for one sign of drift.

    A subclass names itself, says which `kind` of finding it makes, and keeps everything it
    remembers in `self._memory`, a msgspec Struct: that alone is saved and restored.
    Raise `version` whenever that Struct changes meaning: older state is then left aside.
    Its constructor's keywords are its settings.
    """

    name: ClassVar[str]
    kind: ClassVar[Kind]
    version: ClassVar[int] = 1

    _memory: msgspec.Struct

    not_checked: str | None = None
    """Why it could not look, or None when it could."""

    level: float | None = None
    """How strongly it sees its kind of drift at present, 0 to 1, findings or not; None when it cannot say."""

    def begin(self, run: RunInfo) -> None:  # noqa: B027 - most detectors need nothing at the start
        """The run starts (or is taken up again)."""

    @abstractmethod
    def check(self, event: TraceEvent, baseline: BaselineStats) -> DriftEvent | None:
        """Take one event in, and say what it shows."""

    def end(self, baseline: BaselineStats) -> DriftEvent | None:  # noqa: ARG002
        """The run is over: judge it as a whole."""
        return None

    def foresee(self, call: TraceEvent, baseline: BaselineStats) -> DriftEvent | None:  # noqa: ARG002
        """What would a call not yet made show, if its result stayed the same? Changes no state."""
        return None

    def teach(self, summary: RunSummary) -> RunSummary:
        """Add what this run taught to its summary, for the baseline to learn from."""
        return summary

    def state(self) -> bytes:
        """Everything it remembers of this run."""
        return msgspec.msgpack.encode((self.version, self._memory))

    def restore(self, state: bytes) -> None:
        """Take up a state that `state` gave; one of another version is left aside."""
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
        """A finding at this event; without other ids the event itself is the proof."""
        score = min(1.0, max(0.0, score))
        return DriftEvent(
            agent_id=event.agent_id,
            run_id=event.run_id,
            detector=self.name,
            kind=self.kind,
            severity=Severity.from_score(score),
            score=score,
            message=message,
            suggested_action=suggested_action,
            timestamp=event.timestamp,
            event_id=f"{event.event_id}/{self.name}",
            context={**context, "event_ids": list(event_ids) or [event.event_id]},
        )
