"""The contract of a sink: where records go, a batch at a time, off the agent's thread."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Self

from msgspec import Struct

from steadyhelm.events import RunInfo, RunSummary, TraceEvent
from steadyhelm.findings import DriftEvent
from steadyhelm.fingerprints import canonical
from steadyhelm.incidents import Incident


class RecordedEvent(Struct, frozen=True):
    """An event as it is kept: its payload already reduced, redacted and encoded as JSON.

    Sinks read the payload here. `event.input_data` may still be the agent's own object, which the
    agent may have changed since.
    """

    event: TraceEvent
    input_json: bytes | None = None
    output_json: bytes | None = None
    metadata_json: bytes | None = None

    @classmethod
    def of(cls, event: TraceEvent) -> Self:
        """The event with its payload encoded as it is: redact first what must not be kept."""
        return cls(
            event,
            canonical(event.input_data) or None,
            canonical(event.output_data) or None,
            canonical(event.metadata) or None,
        )


class Loss(Struct, frozen=True):
    """Something we did not keep or could not do, counted by reason."""

    reason: str
    count: int
    timestamp: float


class SavedState(Struct, frozen=True):
    """A run put aside: everything its session needs to go on later, perhaps in another process."""

    agent_id: str
    run_id: str
    state: bytes
    timestamp: float


Record = RunInfo | RecordedEvent | DriftEvent | Incident | RunSummary | Loss | SavedState


class Sink(ABC):
    """Receives every record, in order, in batches, from one thread.

    A sink may be slow and may fail: others still get their batch, and the failure is counted.
    """

    name: ClassVar[str]

    @abstractmethod
    def write(self, records: Sequence[Record]) -> None:
        """Take one batch."""

    def flush(self) -> None:  # noqa: B027 - a sink that keeps nothing back has nothing to do
        """Make everything written so far final."""

    def close(self) -> None:  # noqa: B027 - the same
        """Let go of what it holds; called once."""
