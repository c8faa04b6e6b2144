"""Records of what a detector noticed: how severe it is, and which events are its evidence."""

import enum
import time
from collections.abc import Iterable
from typing import Any, Final, Literal, Self, get_args

from msgspec import Struct, field, structs, to_builtins

from steadyhelm.events import TraceEvent, new_id

Kind = Literal["loop", "goal", "resource", "style", "correction", "transition"]
_KINDS: Final = get_args(Kind)
_MAX_SCORE: Final = 1e9
"""Far above the scale: a score beyond it is a mistake, and so is none at all."""

MED_FROM: Final = 0.5
HIGH_FROM: Final = 0.7
CRITICAL_FROM: Final = 0.9


class Severity(enum.StrEnum):
    """The severity of a finding. LOW is noticed, not reported."""

    LOW = "LOW"
    MED = "MED"
    HIGH = "HIGH"
    CRITICAL = "CRITICAL"

    @classmethod
    def from_score(cls, score: float) -> "Severity":
        """Return the severity of a score between 0 and 1.

        >>> [str(Severity.from_score(score)) for score in (0.49, 0.5, 0.7, 0.9)]
        ['LOW', 'MED', 'HIGH', 'CRITICAL']
        """
        if score >= CRITICAL_FROM:
            return cls.CRITICAL
        if score >= HIGH_FROM:
            return cls.HIGH
        return cls.MED if score >= MED_FROM else cls.LOW

    @property
    def rank(self) -> int:
        """The place in the order, LOW being 0: compare these, not the names."""
        return _RANKS[self]


_RANKS: Final = {severity: rank for rank, severity in enumerate(Severity)}


def count_quarters_past(spent: float, limit: float) -> int:
    """Return by how many quarters of a limit more was spent: a passed limit is listed again at each.

    >>> [count_quarters_past(spent, 1000) for spent in (1001, 1249, 1250, 2000)]
    [0, 0, 1, 4]
    """
    return int(4 * (spent - limit) / limit)


class DetectorType:
    """The names of the first three detectors, as constants."""

    ACTION_LOOP: Final = "action_loop"
    GOAL_DRIFT: Final = "goal_drift"
    RESOURCE_SPIKE: Final = "resource_spike"


_KIND_NOT_GIVEN: Final[Any] = ""
_KIND_BY_DETECTOR: Final[dict[str, Kind]] = {
    DetectorType.ACTION_LOOP: "loop",
    DetectorType.GOAL_DRIFT: "goal",
    DetectorType.RESOURCE_SPIKE: "resource",
}


def _find_kind(detector: str) -> Kind:
    if detector not in _KIND_BY_DETECTOR:
        raise ValueError(
            f"kind must be given for a finding of {detector!r}; "
            f"it is known for {', '.join(_KIND_BY_DETECTOR)}."
        )
    return _KIND_BY_DETECTOR[detector]


class DriftEvent(Struct, frozen=True, kw_only=True):
    """A finding: something a detector noticed at one event.

    `context["event_ids"]` always holds the ids of the events that are its evidence;
    the rest of `context` is specific to the detector.
    `context["ongoing"]` marks a condition that merely goes on, such as a limit that was passed before: it
    counts for incidents, drift score and decisions, and is neither stored nor listed again.
    `kind` may be left out for the three detectors that `DetectorType` names.
    """

    agent_id: str
    run_id: str
    detector: str
    kind: Kind = _KIND_NOT_GIVEN
    severity: Severity
    score: float
    message: str
    suggested_action: str
    timestamp: float = field(default_factory=time.time)
    event_id: str = field(default_factory=new_id)
    context: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.kind == _KIND_NOT_GIVEN:
            structs.force_setattr(self, "kind", _find_kind(self.detector))

    @property
    def event_ids(self) -> list[str]:
        """The ids of the events that are its evidence, oldest first."""
        ids: list[str] = self.context.get("event_ids", [])
        return ids

    @property
    def subject(self) -> str:
        """What it is about, named the same in every run: a tool, a sequence of tools, or a pattern."""
        return str(self.context.get("subject", ""))

    @property
    def repeats(self) -> int:
        """How often the subject was repeated; 0 where nothing is counted."""
        count = self.context.get("repeat_count", 0)
        return count if type(count) is int and count >= 0 else 0  # a plug-in may put anything there

    @property
    def is_ongoing(self) -> bool:
        """Whether it only says that a condition goes on which was listed before."""
        return bool(self.context.get("ongoing"))

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as plain data, one key per field."""
        plain: dict[str, Any] = to_builtins(self)
        return plain

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Build a finding from the result of `to_dict`; unknown keys are ignored."""
        known = {name: data[name] for name in cls.__struct_fields__ if name in data}
        return cls(**known | {"severity": Severity(known["severity"])})

    def require_valid(self) -> None:
        """Raise TypeError for what cannot be judged, such as a score that is no number.

        Nothing checks the fields when a plug-in makes a finding.
        """
        texts = (self.agent_id, self.run_id, self.message, *self.event_ids)
        if self.kind not in _KINDS or type(self.severity) is not Severity:
            raise TypeError(f"kind or severity are none: {self.kind!r}, {self.severity!r}.")
        if not abs(self.score) < _MAX_SCORE:
            raise TypeError(f"score must be a number from 0 to 1, got {self.score!r}.")
        if not all(isinstance(text, str) for text in texts):
            raise TypeError("agent_id, run_id, message and the ids of events must be texts.")

    def lower_severity(self, reason: str) -> Self:
        """Return the same finding as LOW, noticed but not reported, with the reason in its context."""
        context = {**self.context, "lowered_because": reason}
        return structs.replace(self, severity=Severity.LOW, context=context)


def make_finding(
    event: TraceEvent,
    detector: str,
    kind: Kind,
    /,
    *,
    score: float,
    message: str,
    suggested_action: str,
    event_ids: Iterable[str] | None = None,
    **context: Any,
) -> DriftEvent:
    """Return a finding at an event, as severe as its score; without `event_ids` the event is the evidence."""
    evidence = [event.event_id] if event_ids is None else list(event_ids)
    return DriftEvent(
        agent_id=event.agent_id,
        run_id=event.run_id,
        detector=detector,
        kind=kind,
        severity=Severity.from_score(score),
        score=score,
        message=message,
        suggested_action=suggested_action,
        timestamp=event.timestamp,
        event_id=f"{event.event_id}/{detector}",
        context={**context, "event_ids": evidence},
    )
