"""When an incident is worth telling somebody about, and what they are told.

Pure: event times and the latest alert come in, a reason comes out.
The same incidents give the same alerts with the same ids, so a replay sends nothing twice.
"""

import hashlib
from typing import Any, Final, Literal, get_args

import msgspec
from msgspec import Struct

from steadyhelm.errors import SettingsError
from steadyhelm.findings import Severity
from steadyhelm.incidents import Incident
from steadyhelm.store import Delivery, LastAlert

Reason = Literal["opened", "worse", "still"]
REASONS: Final[tuple[Reason, ...]] = get_args(Reason)


class Alert(Struct, frozen=True, kw_only=True):
    """What somebody is told about an incident.

    `also` counts the other incidents of this agent and detector that nobody was told about since the
    alert before. `channel` is empty until the alert is put on its way to one.
    """

    alert_id: str
    reason: Reason
    incident: Incident
    also: int = 0
    created_at: float
    channel: str = ""

    @property
    def delivery_id(self) -> str:
        """The id that stays the same however often this alert is sent to its channel."""
        return f"{self.alert_id}-{self.channel}" if self.channel else self.alert_id

    def event(self) -> dict[str, Any]:
        """The incident as plain data in the shape of a DriftEvent, for programs that read those."""
        incident = self.incident
        return {
            "agent_id": incident.agent_id,
            "run_id": incident.run_id,
            "detector": incident.detector,
            "kind": incident.kind,
            "severity": incident.severity.value,
            "score": incident.peak,
            "message": incident.message,
            "suggested_action": incident.suggested_action,
            "timestamp": incident.last_at,
            "event_id": incident.event_ids[-1] if incident.event_ids else incident.incident_id,
            "context": {
                "event_ids": list(incident.event_ids),
                "incident_id": incident.incident_id,
                "findings": incident.findings,
                "opened_at": incident.opened_at,
                "state": incident.state,
            },
        }

    def delivery(self, channel: str) -> Delivery:
        """The alert on its way to one channel, ready for the outbox."""
        addressed = msgspec.structs.replace(self, channel=channel)
        return Delivery(
            delivery_id=addressed.delivery_id,
            agent_id=self.incident.agent_id,
            run_id=self.incident.run_id,
            incident_id=self.incident.incident_id,
            detector=self.incident.detector,
            severity=self.incident.severity,
            reason=self.reason,
            channel=channel,
            body=_encoded(addressed),
            created_at=self.created_at,
        )

    @classmethod
    def from_body(cls, body: bytes) -> "Alert":
        """The alert in a delivery's body; raises msgspec's DecodeError when it is none."""
        return msgspec.json.decode(body, type=cls)


class AlertPolicy:
    """Decides which version of which incident is worth an alert.

    Args:
        min_severity: The lowest severity anybody is told about.
        cooldown_s: Seconds after an alert in which other incidents of the same agent and detector wait.
        digest_s: Seconds after which an incident that still goes on is told again; infinity for never.

    >>> AlertPolicy(min_severity="BAD")
    Traceback (most recent call last):
    ...
    steadyhelm.errors.SettingsError: alerts.min_severity must be one of LOW, MED, HIGH, CRITICAL, got 'BAD'.
    """

    def __init__(
        self,
        *,
        min_severity: Severity | str = Severity.MED,
        cooldown_s: float = 60.0,
        digest_s: float = 600.0,
    ) -> None:
        self.min_severity = _severity(min_severity)
        if not (_is_number(cooldown_s) and 0 <= cooldown_s < float("inf")):
            raise SettingsError(f"alerts.cooldown_s must be 0 or more seconds, got {cooldown_s!r}.")
        if not (_is_number(digest_s) and digest_s > 0):
            raise SettingsError(f"alerts.digest_s must be more than 0 seconds, got {digest_s!r}.")
        self.cooldown_s = float(cooldown_s)
        self.digest_s = float(digest_s)

    def decide(
        self, incident: Incident, last: LastAlert | None, *, now: float, own: LastAlert | None = None
    ) -> Reason | None:
        """Why an alert is due for this version of an incident, or None when none is.

        `last` is the latest alert of this agent and detector, `own` the latest of this very incident.
        Without `own`, `last` stands for it when it speaks of the same incident.
        """
        if incident.severity.rank < self.min_severity.rank:
            return None
        if own is None and last is not None and last.incident_id == incident.incident_id:
            own = last
        if own is None:
            return None if self._cooling(last, now) else "opened"
        if incident.state == "closed":
            return None
        if incident.severity.rank > own.severity.rank:
            return "worse"
        return "still" if now - own.at >= self.digest_s else None

    def alert(self, incident: Incident, reason: Reason, *, now: float, also: int = 0) -> Alert:
        """The alert for an incident, under an id that follows from what it says."""
        number = int((now - incident.opened_at) // self.digest_s) if reason == "still" else 0
        said = "\0".join((incident.incident_id, reason, incident.severity.value, str(number)))
        alert_id = hashlib.blake2b(said.encode("utf-8", "replace"), digest_size=10).hexdigest()
        return Alert(alert_id=alert_id, reason=reason, incident=incident, also=also, created_at=now)

    def _cooling(self, last: LastAlert | None, now: float) -> bool:
        # Distance, not difference: one event dated far in the future must not silence an agent for years.
        return last is not None and abs(now - last.at) < self.cooldown_s


def _severity(value: Severity | str) -> Severity:
    try:
        return Severity(str(value).upper())
    except ValueError:
        raise SettingsError(
            f"alerts.min_severity must be one of {', '.join(Severity)}, got {value!r}."
        ) from None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _encoded(alert: Alert) -> bytes:
    try:
        return msgspec.json.encode(alert)
    except UnicodeEncodeError:
        # Half a surrogate pair is text to Python and to nobody else: an alert must not fail over it.
        return msgspec.json.encode(_encodable(msgspec.to_builtins(alert)))


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {key: _encodable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_encodable(item) for item in value]
    return value
