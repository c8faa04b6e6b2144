"""Alerts as Discord messages, through a channel's webhook."""

from datetime import UTC, datetime
from typing import Any, ClassVar, Final

from steadyhelm.policy.alerting import Alert
from steadyhelm.sinks.alerts.channel import COLOURS, Channel, facts, fitted, headline
from steadyhelm.sinks.alerts.guard import host_of

DOMAINS: Final = ("discord.com", "discordapp.com")

# Discord's own limits; an embed as a whole may hold 6000 characters, so the longest places get less.
_TITLE: Final = 256
_DESCRIPTION: Final = 3000
_VALUE: Final = 256
_ACTION: Final = 500

_MARKUP: Final = frozenset("\\*_~`|>#-+[]()<:@")


class Discord(Channel):
    """One embed with the colour of the severity; nobody is ever mentioned.

    >>> Discord.matches("https://ptb.discord.com/api/webhooks/1/x")
    True
    >>> Discord.matches("https://discord.com.example.org/api/webhooks/1/x")
    False
    """

    name: ClassVar[str] = "discord"

    @classmethod
    def matches(cls, url: str) -> bool:
        """Whether the host is Discord's, or one under it."""
        host = host_of(url)
        return host in DOMAINS or host.endswith(tuple(f".{domain}" for domain in DOMAINS))

    def payload(self, alert: Alert) -> dict[str, Any]:
        """A message with one embed."""
        incident = alert.incident
        fields = [
            {"name": name, "value": _escaped(value, _VALUE) or "-", "inline": True}
            for name, value in facts(alert)
        ]
        if incident.suggested_action:
            said = _escaped(incident.suggested_action, _ACTION)
            fields.append({"name": "Suggested", "value": said or "-", "inline": False})
        embed: dict[str, Any] = {
            "title": _escaped(headline(alert), _TITLE),
            "description": _escaped(incident.message, _DESCRIPTION),
            "color": COLOURS[incident.severity.value],
            "fields": fields,
            "footer": {"text": f"Steadyhelm · {alert.delivery_id}"[:_VALUE]},
        }
        when = _written(incident.last_at)
        if when:
            embed["timestamp"] = when
        return {"embeds": [embed], "allowed_mentions": {"parse": []}}


def _escaped(text: str, limit: int) -> str:
    return fitted(text, limit, lambda character: f"\\{character}" if character in _MARKUP else character)


def _written(timestamp: float) -> str:
    try:
        return datetime.fromtimestamp(timestamp, UTC).isoformat()
    except (OverflowError, OSError, ValueError):
        return ""
