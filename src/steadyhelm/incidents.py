"""One episode of drift: its start, its evidence, its peak, what was tried, and its end.

A loop of forty calls is one incident with forty findings, not forty alerts.
"""

from typing import Any, Literal

from msgspec import Struct, field, to_builtins

from steadyhelm.decisions import Intervention
from steadyhelm.findings import Kind, Severity

IncidentState = Literal["open", "closed"]
Review = Literal["", "false_alarm", "confirmed"]

EVIDENCE_KEPT = 50


class Incident(Struct, frozen=True, kw_only=True):
    """An episode of drift in one run, as far as it is known.

    The engine writes a new version of it whenever it grows or ends; `incident_id` stays the same.
    `review` and `acknowledged_at` are what people said about it: the engine never sets them.
    """

    incident_id: str
    agent_id: str
    run_id: str
    detector: str
    kind: Kind
    severity: Severity
    peak: float
    message: str
    suggested_action: str
    opened_at: float
    opened_seq: int
    last_at: float
    last_seq: int
    state: IncidentState = "open"
    closed_at: float | None = None
    findings: int = 1
    hard_limit: bool = False
    event_ids: tuple[str, ...] = ()
    interventions: tuple[Intervention, ...] = ()
    review: Review = ""
    acknowledged_at: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """The incident as plain data, one key per field."""
        plain: dict[str, Any] = to_builtins(self)
        return plain


class Mute(Struct, frozen=True, kw_only=True):
    """No alerts of this detector for this agent until the given time; a mute always ends."""

    agent_id: str
    detector: str
    until: float
    set_at: float = 0.0


class Threshold(Struct, frozen=True, kw_only=True):
    """A detector's threshold for one agent, moved because a person called an incident a false alarm.

    Findings of that detector scoring below `min_score` are noticed, not reported.
    """

    agent_id: str
    detector: str
    min_score: float
    incident_id: str = ""
    set_at: float = 0.0


class ThresholdEffect(Struct, frozen=True, kw_only=True):
    """What a moved threshold would have done to past incidents: shown before it is saved."""

    threshold: Threshold
    incidents: int
    silenced: int
    confirmed_silenced: int
    silenced_ids: tuple[str, ...] = field(default_factory=tuple)
