"""Alerts as Slack messages, through an incoming webhook."""

from typing import Any, ClassVar, Final

from steadyhelm.policy.alerting import Alert
from steadyhelm.sinks.alerts.channel import COLOURS, Channel, facts, fitted, headline
from steadyhelm.sinks.alerts.guard import host_of

HOSTS: Final = ("hooks.slack.com", "hooks.slack-gov.com")

# Slack's own limits for the places we write to.
_HEADER: Final = 150
_SECTION: Final = 3000
_FIELD: Final = 2000

_ENTITIES: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


class Slack(Channel):
    """One attachment in the colour of the severity, its words in blocks of plain text.

    >>> Slack.matches("https://hooks.slack.com/services/T0/B0/x")
    True
    >>> Slack.matches("https://example.org/hooks.slack.com")
    False
    """

    name: ClassVar[str] = "slack"

    @classmethod
    def matches(cls, url: str) -> bool:
        """Whether the host is Slack's for incoming webhooks."""
        return host_of(url) in HOSTS

    def payload(self, alert: Alert) -> dict[str, Any]:
        """A message with one coloured attachment."""
        incident = alert.incident
        title = headline(alert)
        fields = [_plain(f"{name}\n{value}", _FIELD) for name, value in facts(alert)]
        blocks: list[dict[str, Any]] = [
            {"type": "header", "text": _plain(title, _HEADER)},
            {"type": "section", "text": _plain(incident.message or title, _SECTION)},
            {"type": "section", "fields": fields},
        ]
        if incident.suggested_action:
            said = _plain(f"Suggested: {incident.suggested_action}", _SECTION)
            blocks.append({"type": "context", "elements": [said]})
        colour = f"#{COLOURS[incident.severity.value]:06x}"
        summary = _escaped(title, _HEADER)
        # `mrkdwn` off and plain text throughout: what an agent wrote is shown, never formatted or linked.
        return {
            "text": summary,
            "mrkdwn": False,
            "attachments": [{"color": colour, "fallback": summary, "blocks": blocks}],
        }


def _plain(text: str, limit: int) -> dict[str, Any]:
    return {"type": "plain_text", "text": _escaped(text, limit) or "-", "emoji": False}


def _escaped(text: str, limit: int) -> str:
    return fitted(text, limit, lambda character: _ENTITIES.get(character, character))
