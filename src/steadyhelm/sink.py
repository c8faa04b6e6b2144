"""The contract of a sink: it receives records in batches, on the writer's thread."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Final, NamedTuple, Self, TypeVar, get_args, get_origin

from msgspec import Struct, structs

from steadyhelm.events import RunInfo, RunSummary, TraceEvent
from steadyhelm.findings import DriftEvent
from steadyhelm.fingerprints import encode_canonical, to_plain_data
from steadyhelm.incidents import Incident


class DriftPoint(Struct, frozen=True, array_like=True):
    """The drift score of a run after an event, and the five contributions that add up to it.

    None is unknown: a contribution that was not checked, or a score with none that was.
    """

    score: float | None = None
    goal: float | None = None
    loop: float | None = None
    budget: float | None = None
    quality: float | None = None
    stuck: float | None = None


class BudgetLimits(Struct, frozen=True, array_like=True):
    """The limits of a run's budget after an event; None is no limit. `reserve` is kept for finishing."""

    steps: int | None = None
    tokens: int | None = None
    cost_usd: float | None = None
    wall_s: float | None = None
    reserve: float = 0.0


class RecordedEvent(Struct, frozen=True):
    """An event as it is stored: its payload is reduced, redacted and encoded as JSON.

    Sinks read the payload here. `event.input_data` may still be the agent's own object, which the
    agent may have changed since. `drift` and `limits` are there where the event changed them.
    """

    event: TraceEvent
    input_json: bytes | None = None
    output_json: bytes | None = None
    metadata_json: bytes | None = None
    drift: DriftPoint | None = None
    limits: BudgetLimits | None = None

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
    """Something that was not stored or could not be done, counted by reason.

    `count` is the total so far of the process or journal that `token` names: the same loss may arrive twice.
    """

    reason: str
    count: int
    timestamp: float
    token: str = ""


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


class DailyGrant(Struct, frozen=True):
    """What a user added to an agent's budget of one day; `grant_id` lets it arrive twice and count once."""

    agent_id: str
    run_id: str
    grant_id: str
    timestamp: float
    steps: int = 0
    tokens: int = 0
    cost_usd: float = 0.0
    reason: str = ""


Record = (
    RunInfo
    | RecordedEvent
    | DriftEvent
    | Incident
    | RunSummary
    | Loss
    | SavedState
    | PinnedBaseline
    | DailyGrant
)


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


class RunKey(NamedTuple):
    """What identifies a run before it has a place in the store: the same id may be used twice."""

    agent_id: str
    run_id: str
    epoch: str
    at: float


class StoringSink(Sink):
    """The sink that keeps the records: what it could not write is tried again until it is written."""

    @property
    @abstractmethod
    def path(self) -> str | None:
        """The file it writes to, beside which records wait for it; None when there is none."""

    @property
    @abstractmethod
    def replacements(self) -> int:
        """How often that file was found deleted or replaced, and was opened or created again."""

    @abstractmethod
    def reserve_runs(self, runs: Sequence[RunKey]) -> dict[str, str]:
        """Return the id under which each run is stored, by epoch; another run may have its id already."""


# Make a record fit: one odd value must not lose the batch it is in.

_MAX_INTEGER: Final = 2**63 - 1
_MAX_COUNT: Final = 2**53  # the sum over a batch full of these still fits into a column
_PAYLOAD_FIELDS: Final = ("input_data", "output_data")

_AnyStruct = TypeVar("_AnyStruct", bound=Struct)


def to_unicode(text: str) -> str:
    """Return the text with characters that cannot be encoded replaced, so that a column can hold it."""
    return text.encode("utf-8", "replace").decode("utf-8")


def make_storable(record: Record) -> Record:
    """Return the record with every number in range and every text valid Unicode.

    Called only for records that could not be stored as they are.
    """
    if isinstance(record, RecordedEvent):
        return structs.replace(record, event=_make_struct_storable(record.event))
    return _make_struct_storable(record)


def _make_struct_storable(record: _AnyStruct) -> _AnyStruct:
    fields = [field for field in structs.fields(record) if field.name not in _PAYLOAD_FIELDS]
    return structs.replace(
        record,
        **{field.name: _convert(field.name, getattr(record, field.name), field.type) for field in fields},
    )


def _convert(name: str, value: Any, wanted: Any) -> Any:
    return _convert_container(value) if _is_container(wanted) else _convert_single(name, value, wanted)


def _convert_single(name: str, value: Any, wanted: Any) -> Any:
    allowed = get_args(wanted) or (wanted,)
    empty = None if type(None) in allowed else 0
    if value is None and empty is None:
        return None
    try:
        if int in allowed:
            largest = _MAX_INTEGER if name.endswith("_hash") else _MAX_COUNT
            return max(-largest, min(largest, int(value)))
        if float in allowed:
            return float(value) if math.isfinite(float(value)) else empty
    except (TypeError, ValueError, OverflowError):
        return empty
    if str in allowed:
        return to_unicode(str(value))
    return value


def _is_container(wanted: Any) -> bool:
    """Return whether a field's type is a tuple, a list or a dict, optional or not."""
    return any(get_origin(it) in {tuple, list, dict} for it in (wanted, *get_args(wanted)))


def _convert_container(value: Any) -> Any:
    """Return a container of the same type with every item converted."""
    if isinstance(value, dict):
        return to_plain_data(value)
    if isinstance(value, (tuple, list)):
        return type(value)(_convert_container(item) for item in value)
    if isinstance(value, Struct):
        return _make_struct_storable(value)
    return to_unicode(value) if type(value) is str else value
