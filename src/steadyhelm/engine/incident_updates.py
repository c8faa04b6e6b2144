"""Choose the versions of incidents that are stored: one that merely goes on is not stored at every event."""

from collections.abc import Sequence
from typing import Final

from steadyhelm.engine.session import Observation
from steadyhelm.incidents import Incident

MAX_AGE_S: Final = 10.0
"""How far the stored version of an incident may be behind, in the time of the events."""


class IncidentUpdates:
    """The incidents of one run as far as they are stored, and their later versions that are not.

    While a passed limit is all that is found, an incident differs from event to event by its counts alone.
    """

    __slots__ = ("_held", "_stored")

    def __init__(self) -> None:
        self._stored: dict[str, Incident] = {}
        self._held: dict[str, Incident] = {}

    def select(self, seen: Observation) -> Sequence[Incident]:
        """Return the incidents to store with an event."""
        goes_on = bool(seen.decision.findings) and all(it.is_ongoing for it in seen.decision.findings)
        selected = []
        for incident in seen.incidents:
            if goes_on and self._differs_by_counts_alone(incident):
                self._held[incident.incident_id] = incident
                continue
            self._held.pop(incident.incident_id, None)
            selected.append(incident)
            if incident.state == "open":
                self._stored[incident.incident_id] = incident
            else:
                self._stored.pop(incident.incident_id, None)
        return selected

    @property
    def has_held(self) -> bool:
        """Whether there is a version that is not stored."""
        return bool(self._held)

    def take_held(self) -> Sequence[Incident]:
        """Return the latest versions that are not stored, once."""
        held, self._held = self._held, {}
        self._stored.update(held)
        return tuple(held.values())

    def _differs_by_counts_alone(self, incident: Incident) -> bool:
        stored = self._stored.get(incident.incident_id)
        return (
            stored is not None
            and incident.state == stored.state
            and incident.severity is stored.severity
            and incident.interventions is stored.interventions
            and incident.last_at - stored.last_at < MAX_AGE_S
        )
