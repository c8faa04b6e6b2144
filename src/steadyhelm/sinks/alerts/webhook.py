"""Alerts as plain JSON, for any program that listens for them."""

from typing import Any, ClassVar, Final

from steadyhelm.policy.alerting import Alert
from steadyhelm.sinks.alerts.channel import Channel, cleaned
from steadyhelm.sinks.alerts.guard import host_of

TEXT_LIMIT: Final = 4000
ITEM_LIMIT: Final = 100


class Webhook(Channel):
    """The finding, the incident it belongs to, and why it is told now."""

    name: ClassVar[str] = "webhook"

    @classmethod
    def matches(cls, url: str) -> bool:
        """Any web address will do; the more particular channels are asked first."""
        return bool(host_of(url))

    def payload(self, alert: Alert) -> dict[str, Any]:
        """The alert as plain data."""
        return {
            "source": "steadyhelm",
            "event": _safe(alert.to_event()),
            "incident": _safe(alert.incident.to_dict()),
            "reason": alert.reason,
            "also": alert.also,
            "delivery_id": alert.delivery_id,
        }


def _safe(value: Any) -> Any:
    """The same data, texts cleaned and shortened, lists cut to their latest entries."""
    if isinstance(value, str):
        text = cleaned(value)
        return text if len(text) <= TEXT_LIMIT else text[: TEXT_LIMIT - 1] + "…"
    if isinstance(value, dict):
        return {key: _safe(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_safe(item) for item in value[-ITEM_LIMIT:]]
    return value
