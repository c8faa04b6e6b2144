"""Alerts as plain JSON, for any program that receives webhooks."""

from typing import Any, ClassVar, Final

from steadyhelm.policy.alerting import Alert
from steadyhelm.sinks.alerts.address_guard import get_host
from steadyhelm.sinks.alerts.channel import AlertChannel, clean_text

TEXT_LIMIT: Final = 4000
ITEM_LIMIT: Final = 100


class Webhook(AlertChannel):
    """The finding, its incident, and the reason for the alert, as plain data."""

    name: ClassVar[str] = "webhook"

    @classmethod
    def matches(cls, url: str) -> bool:
        """Return whether this is a web address. Channels for one service are tried first."""
        return bool(get_host(url))

    def build_payload(self, alert: Alert) -> dict[str, Any]:
        """Return the alert as plain data."""
        return {
            "source": "steadyhelm",
            "event": _clean(alert.to_event()),
            "incident": _clean(alert.incident.to_dict()),
            "reason": alert.reason,
            "also": alert.also,
            "delivery_id": alert.delivery_id,
            **({"link": alert.link} if alert.link else {}),
        }


def _clean(value: Any) -> Any:
    """Return the same data with texts cleaned and shortened, and lists cut to their latest items."""
    if isinstance(value, str):
        text = clean_text(value)
        return text if len(text) <= TEXT_LIMIT else text[: TEXT_LIMIT - 1] + "…"
    if isinstance(value, dict):
        return {key: _clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(item) for item in value[-ITEM_LIMIT:]]
    return value
