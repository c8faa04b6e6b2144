"""What a person's "false alarm" changes: a detector's threshold for one agent."""

from collections.abc import Sequence
from typing import Final

from steadyhelm.errors import SettingsError
from steadyhelm.findings import MED_FROM
from steadyhelm.incidents import Incident, Threshold, ThresholdEffect

_JUST_ABOVE: Final = 0.01
_HIGHEST: Final = 0.95
"""A detector can be made careful by false alarms, never blind: its surest findings always count."""


def threshold_for(incident: Incident, *, at: float) -> Threshold:
    """The threshold under which incidents like this one stay quiet."""
    if incident.hard_limit:
        raise SettingsError(
            f"Incident {incident.incident_id} is about a hard limit, which never adapts: "
            f"raise or remove the limit of detector {incident.detector!r} instead."
        )
    return Threshold(
        agent_id=incident.agent_id,
        detector=incident.detector,
        min_score=min(_HIGHEST, max(MED_FROM, incident.peak) + _JUST_ABOVE),
        incident_id=incident.incident_id,
        set_at=at,
    )


def effect_of(threshold: Threshold, past: Sequence[Incident]) -> ThresholdEffect:
    """What the threshold would have done to past incidents of this agent and detector."""
    alike = [
        incident
        for incident in past
        if (incident.agent_id, incident.detector) == (threshold.agent_id, threshold.detector)
    ]
    silenced = [it for it in alike if it.peak < threshold.min_score and not it.hard_limit]
    return ThresholdEffect(
        threshold=threshold,
        incidents=len(alike),
        silenced=len(silenced),
        confirmed_silenced=sum(it.review == "confirmed" for it in silenced),
        silenced_ids=tuple(it.incident_id for it in silenced),
    )
