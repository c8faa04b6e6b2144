"""Records of one episode of drift: its start, its evidence, its peak, its interventions, and its end.

A loop of forty calls is one incident with forty findings, not forty alerts.
"""

from typing import Any, Literal

from msgspec import Struct, field, to_builtins

from steadyhelm.decisions import Intervention
from steadyhelm.findings import Kind, Severity

IncidentState = Literal["open", "closed"]
Review = Literal["", "false_alarm", "confirmed"]

MAX_INCIDENT_EVENTS = 50


class Incident(Struct, frozen=True, kw_only=True):
    """An episode of drift in one run, as far as it is known.

    The engine makes a new version whenever it grows or ends; `incident_id` stays the same. Of a passed limit
    that merely goes on, a version is stored about every ten seconds, not at every event.
    `review` and `acknowledged_at` are set by people, never by the engine.
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
        """Return the incident as plain data, one key per field."""
        plain: dict[str, Any] = to_builtins(self)
        return plain


class Mute(Struct, frozen=True, kw_only=True):
    """A mute: no alerts of this detector for this agent until the given time. It always ends.

    With `up_to`, an alert of higher severity is sent all the same; with `version`, only alerts about runs of
    that version are held back.
    """

    agent_id: str
    detector: str
    until: float
    set_at: float = 0.0
    up_to: Severity | None = None
    version: str | None = None


class Threshold(Struct, frozen=True, kw_only=True):
    """A detector's threshold for one agent, raised because a person marked an incident as a false alarm.

    Findings of that detector scoring below `min_score` are noticed, not reported.
    """

    agent_id: str
    detector: str
    min_score: float
    incident_id: str = ""
    set_at: float = 0.0


class ThresholdEffect(Struct, frozen=True, kw_only=True):
    """What a raised threshold would have done to past incidents: shown before it is saved."""

    threshold: Threshold
    incidents: int
    silenced: int
    confirmed_silenced: int
    silenced_ids: tuple[str, ...] = field(default_factory=tuple)
