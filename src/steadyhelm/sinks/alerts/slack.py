"""Alerts as Slack messages, through an incoming webhook."""

from typing import Any, ClassVar, Final

from steadyhelm.policy.alerting import Alert
from steadyhelm.sinks.alerts.address_guard import get_host
from steadyhelm.sinks.alerts.channel import COLOURS, AlertChannel, build_headline, fit_text, list_facts

HOSTS: Final = ("hooks.slack.com", "hooks.slack-gov.com")

# Slack's own limits for the parts we write.
_HEADER_LIMIT: Final = 150
_SECTION_LIMIT: Final = 3000
_FIELD_LIMIT: Final = 2000

_ENTITIES: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


class Slack(AlertChannel):
    """A message with one attachment in the colour of the severity, and blocks of plain text.

    >>> Slack.matches("https://hooks.slack.com/services/T0/B0/x")
    True
    >>> Slack.matches("https://example.org/hooks.slack.com")
    False
    """

    name: ClassVar[str] = "slack"

    @classmethod
    def matches(cls, url: str) -> bool:
        """Return whether the host is Slack's for incoming webhooks."""
        return get_host(url) in HOSTS

    def build_payload(self, alert: Alert) -> dict[str, Any]:
        """Return a message with one coloured attachment."""
        incident = alert.incident
        title = build_headline(alert)
        fields = [_build_text(f"{name}\n{value}", _FIELD_LIMIT) for name, value in list_facts(alert)]
        blocks: list[dict[str, Any]] = [
            {"type": "header", "text": _build_text(title, _HEADER_LIMIT)},
            {"type": "section", "text": _build_text(incident.message or title, _SECTION_LIMIT)},
            {"type": "section", "fields": fields},
        ]
        if incident.suggested_action:
            action = _build_text(f"Suggested: {incident.suggested_action}", _SECTION_LIMIT)
            blocks.append({"type": "context", "elements": [action]})
        colour = f"#{COLOURS[incident.severity.value]:06x}"
        summary = _escape(title, _HEADER_LIMIT)
        # `mrkdwn` off and plain text throughout: what an agent wrote is shown, never formatted or linked.
        return {
            "text": summary,
            "mrkdwn": False,
            "attachments": [{"color": colour, "fallback": summary, "blocks": blocks}],
        }


def _build_text(text: str, limit: int) -> dict[str, Any]:
    return {"type": "plain_text", "text": _escape(text, limit) or "-", "emoji": False}


def _escape(text: str, limit: int) -> str:
    return fit_text(text, limit, lambda character: _ENTITIES.get(character, character))
