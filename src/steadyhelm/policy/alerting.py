"""Decide when an incident gets an alert, what the alert says, and what a "false alarm" changes.

Pure: event times and the latest alert come in, a reason comes out.
The same incidents lead to the same alerts with the same ids, so a replay sends nothing twice.
"""

import hashlib
from collections.abc import Sequence
from typing import Any, Final, Literal
from urllib.parse import quote

import msgspec
from msgspec import Struct

from steadyhelm.errors import SettingsError
from steadyhelm.findings import MED_FROM, Severity
from steadyhelm.incidents import Incident, Threshold, ThresholdEffect
from steadyhelm.store_rows import Delivery, LastAlert

AlertReason = Literal["opened", "worse", "still"]

_MARGIN_ABOVE_PEAK: Final = 0.01
_REPEATS_FACTOR: Final = 2
"""Up to twice as many repetitions as were marked a false alarm are not reported; more are."""


class Alert(Struct, frozen=True, kw_only=True):
    """A message about an incident.

    `also` counts the other incidents of this agent and detector that got no alert since the previous one.
    `channel` is empty until the alert is addressed to one, `link` leads to the page, where that is known.
    """

    alert_id: str
    reason: AlertReason
    incident: Incident
    also: int = 0
    created_at: float
    channel: str = ""
    link: str = ""

    @property
    def delivery_id(self) -> str:
        """The id of the alert for its channel, the same however often it is sent."""
        return f"{self.alert_id}-{self.channel}" if self.channel else self.alert_id

    def to_event(self) -> dict[str, Any]:
        """Return the incident as plain data in the shape of a DriftEvent, for programs that read those."""
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

    def to_delivery(self, channel: str) -> Delivery:
        """Return the alert addressed to one channel, ready for the outbox."""
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
            body=_encode(addressed),
            created_at=self.created_at,
        )

    @classmethod
    def from_body(cls, body: bytes) -> "Alert":
        """Return the alert in the body of a delivery; raises msgspec's DecodeError when there is none."""
        return msgspec.json.decode(body, type=cls)


class AlertPolicy:
    """The rules by which a version of an incident gets an alert.

    Args:
        min_severity: The lowest severity that gets an alert.
        cooldown_s: Seconds after an alert in which other incidents of the same agent and detector wait.
        digest_s: Seconds after which an incident that still goes on gets another alert; infinity for never.
        public_url: The address of the page, for links; empty for none.

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
        public_url: str = "",
    ) -> None:
        self.min_severity = _parse_severity(min_severity)
        if not (_is_number(cooldown_s) and 0 <= cooldown_s < float("inf")):
            raise SettingsError(f"alerts.cooldown_s must be 0 or more seconds, got {cooldown_s!r}.")
        if not (_is_number(digest_s) and digest_s > 0):
            raise SettingsError(f"alerts.digest_s must be more than 0 seconds, got {digest_s!r}.")
        self.cooldown_s = float(cooldown_s)
        self.digest_s = float(digest_s)
        self.public_url = public_url

    def decide(
        self, incident: Incident, last: LastAlert | None, *, now: float, own: LastAlert | None = None
    ) -> AlertReason | None:
        """Return why an alert is due for this version of an incident, or None when none is.

        `last` is the latest alert of this agent and detector, `own` the latest of this very incident.
        Without `own`, `last` is used when it is about the same incident.
        """
        if incident.severity.rank < self.min_severity.rank:
            return None
        if own is None and last is not None and last.incident_id == incident.incident_id:
            own = last
        if own is None:
            return None if self._is_cooling_down(last, now) else "opened"
        if incident.state == "closed":
            return None
        if incident.severity.rank > own.severity.rank:
            return "worse"
        return "still" if now - own.at >= self.digest_s else None

    def build_alert(self, incident: Incident, reason: AlertReason, *, now: float, also: int = 0) -> Alert:
        """Return the alert for an incident; its id depends only on what it says."""
        number = int((now - incident.opened_at) // self.digest_s) if reason == "still" else 0
        content = "\0".join((incident.incident_id, reason, incident.severity.value, str(number)))
        alert_id = hashlib.blake2b(content.encode("utf-8", "replace"), digest_size=10).hexdigest()
        link = build_link(self.public_url, incident)
        return Alert(
            alert_id=alert_id, reason=reason, incident=incident, also=also, created_at=now, link=link
        )

    def _is_cooling_down(self, last: LastAlert | None, now: float) -> bool:
        # Distance, not difference: one event dated far in the future must not silence an agent for years.
        return last is not None and abs(now - last.at) < self.cooldown_s


def build_link(public_url: str, incident: Incident) -> str:
    """Return the address on the page that leads to an incident's run; empty when the page's is not known.

    >>> from steadyhelm.testing.store_records import an_incident
    >>> build_link("https://helm.example.com/", an_incident("4f2a"))
    'https://helm.example.com/#/incidents/4f2a'
    """
    if not public_url.startswith(("http://", "https://")):
        return ""
    return f"{public_url.rstrip('/')}/#/incidents/{quote(incident.incident_id, safe='')}"


def build_threshold(incident: Incident, *, at: float) -> Threshold:
    """Return the threshold below which incidents like this one are not reported."""
    if incident.hard_limit:
        raise SettingsError(
            f"Incident {incident.incident_id} is about a hard limit, which never adapts: "
            f"raise or remove the limit of detector {incident.detector!r} instead."
        )
    return Threshold(
        agent_id=incident.agent_id,
        detector=incident.detector,
        min_score=max(MED_FROM, incident.peak) + _MARGIN_ABOVE_PEAK,
        incident_id=incident.incident_id,
        set_at=at,
        kind=incident.kind,
        subject=incident.subject,
        max_repeats=_REPEATS_FACTOR * incident.repeats or None,
    )


def preview_threshold(threshold: Threshold, past: Sequence[Incident]) -> ThresholdEffect:
    """Return what the threshold would have done to past incidents of the same agent and subject."""
    affected = [it for it in past if threshold.concerns(it)]
    silenced = [it for it in affected if threshold.covers(it)]
    return ThresholdEffect(
        threshold=threshold,
        incidents=len(affected),
        silenced=len(silenced),
        confirmed_silenced=sum(it.review == "confirmed" for it in silenced),
        silenced_ids=tuple(it.incident_id for it in silenced),
    )


def describe_threshold(threshold: Threshold) -> str:
    """Return in a sentence what a threshold leaves unreported."""
    what = f"Findings of {threshold.detector}"
    if threshold.subject:
        what = f"Findings about {threshold.subject} ({threshold.kind})"
    if threshold.max_repeats is not None:
        what += f", up to {threshold.max_repeats} repetitions,"
    elif threshold.min_score <= 1:
        what += f" that score below {threshold.min_score:.2f}"
    else:
        what = f"All f{what[1:]}"
    return f"{what} in runs of {threshold.agent_id} are recorded, not reported."


def _parse_severity(value: Severity | str) -> Severity:
    try:
        return Severity(str(value).upper())
    except ValueError:
        raise SettingsError(
            f"alerts.min_severity must be one of {', '.join(Severity)}, got {value!r}."
        ) from None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _encode(alert: Alert) -> bytes:
    try:
        return msgspec.json.encode(alert)
    except UnicodeEncodeError:
        # Python accepts half a surrogate pair in text, JSON does not: an alert must not fail because of it.
        return msgspec.json.encode(_replace_surrogates(msgspec.to_builtins(alert)))


def _replace_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {key: _replace_surrogates(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_replace_surrogates(item) for item in value]
    return value
