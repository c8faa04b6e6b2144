"""The contract of a sink: it receives records in batches, on the writer's thread."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Self

from msgspec import Struct

from steadyhelm.events import RunInfo, RunSummary, TraceEvent
from steadyhelm.findings import DriftEvent
from steadyhelm.fingerprints import encode_canonical
from steadyhelm.incidents import Incident


class RecordedEvent(Struct, frozen=True):
    """An event as it is stored: its payload is reduced, redacted and encoded as JSON.

    Sinks read the payload here. `event.input_data` may still be the agent's own object, which the
    agent may have changed since.
    """

    event: TraceEvent
    input_json: bytes | None = None
    output_json: bytes | None = None
    metadata_json: bytes | None = None

    @classmethod
    def of(cls, event: TraceEvent) -> Self:
        """Return the event with its payload encoded unchanged: redact first what must not be stored."""
        return cls(
            event,
            encode_canonical(event.input_data) or None,
            encode_canonical(event.output_data) or None,
            encode_canonical(event.metadata) or None,
        )


class Loss(Struct, frozen=True):
    """Something that was not stored or could not be done, counted by reason."""

    reason: str
    count: int
    timestamp: float


class SavedState(Struct, frozen=True):
    """The saved session of a suspended run, from which it can continue later, also in another process."""

    agent_id: str
    run_id: str
    state: bytes
    timestamp: float


class PinnedBaseline(Struct, frozen=True):
    """What a run is compared with, from the event `seq` on and until its end.

    `content` is the encoded baseline with the moved thresholds and the task profile, `digest` its hash: what
    several runs are compared with is stored once.
    """

    agent_id: str
    run_id: str
    seq: int
    digest: str
    content: bytes


Record = RunInfo | RecordedEvent | DriftEvent | Incident | RunSummary | Loss | SavedState | PinnedBaseline


class Sink(ABC):
    """Receives every record, in order, in batches, from one thread.

    A sink may be slow and may fail: others still get their batch, and the failure is counted.
    """

    name: ClassVar[str]

    @abstractmethod
    def write(self, records: Sequence[Record]) -> None:
        """Write one batch."""

    def flush(self) -> None:  # noqa: B027 - a sink without a buffer has nothing to do
        """Finish everything written so far."""

    def close(self) -> None:  # noqa: B027 - the same
        """Release all resources. Called once."""
