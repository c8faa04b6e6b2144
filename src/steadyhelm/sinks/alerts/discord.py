"""Alerts as Discord messages, through a channel's webhook."""

from datetime import UTC, datetime
from typing import Any, ClassVar, Final

from steadyhelm.policy.alerting import Alert
from steadyhelm.sinks.alerts.address_guard import get_host
from steadyhelm.sinks.alerts.channel import COLOURS, AlertChannel, build_headline, fit_text, list_facts

DOMAINS: Final = ("discord.com", "discordapp.com")

# Discord's own limits; an embed as a whole may hold 6000 characters, so the longest parts get less.
_TITLE_LIMIT: Final = 256
_DESCRIPTION_LIMIT: Final = 3000
_MAX_VALUE_CHARS: Final = 256
_ACTION_LIMIT: Final = 500

_MARKUP: Final = frozenset("\\*_~`|>#-+[]()<:@")


class Discord(AlertChannel):
    """A message with one embed in the colour of the severity. It mentions no person.

    >>> Discord.matches("https://ptb.discord.com/api/webhooks/1/x")
    True
    >>> Discord.matches("https://discord.com.example.org/api/webhooks/1/x")
    False
    """

    name: ClassVar[str] = "discord"

    @classmethod
    def matches(cls, url: str) -> bool:
        """Return whether the host is Discord's, or one under it."""
        host = get_host(url)
        return host in DOMAINS or host.endswith(tuple(f".{domain}" for domain in DOMAINS))

    def build_payload(self, alert: Alert) -> dict[str, Any]:
        """Return a message with one embed."""
        incident = alert.incident
        fields = [
            {"name": name, "value": _escape(value, _MAX_VALUE_CHARS) or "-", "inline": True}
            for name, value in list_facts(alert)
        ]
        if incident.suggested_action:
            action = _escape(incident.suggested_action, _ACTION_LIMIT)
            fields.append({"name": "Suggested", "value": action or "-", "inline": False})
        embed: dict[str, Any] = {
            "title": _escape(build_headline(alert), _TITLE_LIMIT),
            "description": _escape(incident.message, _DESCRIPTION_LIMIT),
            "color": COLOURS[incident.severity.value],
            "fields": fields,
            "footer": {"text": f"Steadyhelm · {alert.delivery_id}"[:_MAX_VALUE_CHARS]},
        }
        when = _format_time(incident.last_at)
        if when:
            embed["timestamp"] = when
        return {"embeds": [embed], "allowed_mentions": {"parse": []}}


def _escape(text: str, limit: int) -> str:
    return fit_text(text, limit, lambda character: f"\\{character}" if character in _MARKUP else character)


def _format_time(timestamp: float) -> str:
    try:
        return datetime.fromtimestamp(timestamp, UTC).isoformat()
    except (OverflowError, OSError, ValueError):
        return ""
