"""The contract of a channel, and the functions that make hostile text safe to show in one."""

import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Final

from steadyhelm.policy.alerting import Alert

_ESCAPE_SEQUENCES: Final = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # colours, cursor moves
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"  # titles, links
    r"|\x1b[ -/]*[0-~]?"
)
_ALLOWED_CONTROLS: Final = "\n\u200c\u200d"  # the joiners hold scripts and emoji together
_GROUP_MENTIONS: Final = re.compile(r"@(?=everyone|here|channel)", re.IGNORECASE)

COLOURS: Final = {"LOW": 0x2E9E5B, "MED": 0xE3B505, "HIGH": 0xE8710A, "CRITICAL": 0xC5221F}
"""The colour of a severity; its name is always shown too."""

_HEADLINES: Final = {
    "opened": "{severity}: {detector} in {agent}",
    "worse": "Now {severity}: {detector} in {agent}",
    "still": "Still drifting, {severity}: {detector} in {agent}",
}


class AlertChannel(ABC):
    """Turns an alert into the message format of one service.

    Agent output is hostile text: what `build_payload` returns mentions no person, formats nothing and fits
    the service's limits.
    """

    name: ClassVar[str]

    @classmethod
    @abstractmethod
    def matches(cls, url: str) -> bool:
        """Return whether this URL belongs to the service. Only the host counts, not the rest of the URL."""

    @abstractmethod
    def build_payload(self, alert: Alert) -> dict[str, Any]:
        """Return the message to send, as plain data."""


def build_headline(alert: Alert) -> str:
    """Return the alert in one line, not yet escaped."""
    incident = alert.incident
    return _HEADLINES[alert.reason].format(
        severity=incident.severity.value, detector=incident.detector, agent=incident.agent_id
    )


def list_facts(alert: Alert) -> list[tuple[str, str]]:
    """Return the main facts of an alert as names and values, not yet escaped."""
    incident = alert.incident
    rows = [
        ("Agent", incident.agent_id),
        ("Run", incident.run_id),
        ("Detector", f"{incident.detector} ({incident.kind})"),
        ("Peak", f"{incident.peak:.2f} ({incident.severity.value})"),
        ("Findings", str(incident.findings)),
        ("Incident", incident.incident_id),
    ]
    if alert.also:
        rows.append(("Also", f"{alert.also} more since the last alert"))
    if alert.link:
        rows.append(("Page", alert.link))
    return rows


def clean_text(text: str) -> str:
    r"""Return a text without terminal sequences, control and invisible characters, and changes of direction.

    >>> clean_text("\x1b[31mred\x1b[0m \u202egnp.exe")
    'red gnp.exe'
    """
    text = _ESCAPE_SEQUENCES.sub("", text).replace("\r\n", "\n").replace("\t", " ")
    return "".join(_keep_if_visible(character) for character in text)


def disable_group_mentions(text: str) -> str:
    """Return a text in which @everyone, @here and @channel mention no person."""
    return _GROUP_MENTIONS.sub("@\u200b", text)


def fit_text(text: str, limit: int, escape: Callable[[str], str] = str) -> str:
    """Return a cleaned and escaped text, cut so that the whole is at most `limit` characters long."""
    pieces: list[str] = []
    length = 0
    for character in disable_group_mentions(clean_text(text)):
        piece = escape(character)
        length += len(piece)
        pieces.append(piece)
        if length > limit:
            break
    if length <= limit:
        return "".join(pieces)
    while length > limit - 1:
        length -= len(pieces.pop())
    return "".join(pieces) + "…"


def _keep_if_visible(character: str) -> str:
    if character in _ALLOWED_CONTROLS:
        return character
    category = unicodedata.category(character)
    if category in ("Zl", "Zp"):
        return "\n"
    return "" if category in ("Cc", "Cf", "Cs") else character
