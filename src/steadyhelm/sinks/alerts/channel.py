"""The contract of a channel, and how hostile text is made safe to show in one."""

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
_KEPT: Final = "\n\u200c\u200d"  # the joiners hold scripts and emoji together
_GROUP_MENTIONS: Final = re.compile(r"@(?=everyone|here|channel)", re.IGNORECASE)

COLOURS: Final = {"LOW": 0x2E9E5B, "MED": 0xE3B505, "HIGH": 0xE8710A, "CRITICAL": 0xC5221F}
"""What a severity looks like; its name is always written beside it."""

_HEADLINES: Final = {
    "opened": "{severity}: {detector} in {agent}",
    "worse": "Now {severity}: {detector} in {agent}",
    "still": "Still drifting, {severity}: {detector} in {agent}",
}


class Channel(ABC):
    """Turns an alert into what one service wants to be sent.

    Agent output is hostile text: whatever comes out of `payload` mentions nobody, formats nothing
    and fits the service's limits.
    """

    name: ClassVar[str]

    @classmethod
    @abstractmethod
    def matches(cls, url: str) -> bool:
        """Whether this URL belongs to the service; the host decides, not the rest of the URL."""

    @abstractmethod
    def payload(self, alert: Alert) -> dict[str, Any]:
        """What is sent, as plain data."""


def headline(alert: Alert) -> str:
    """The alert in one line, not yet escaped."""
    incident = alert.incident
    return _HEADLINES[alert.reason].format(
        severity=incident.severity.value, detector=incident.detector, agent=incident.agent_id
    )


def facts(alert: Alert) -> list[tuple[str, str]]:
    """What a reader wants to know at a glance, as names and values, not yet escaped."""
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
    return rows


def cleaned(text: str) -> str:
    r"""A text without terminal sequences, control and invisible characters, and changes of direction.

    >>> cleaned("\x1b[31mred\x1b[0m \u202egnp.exe")
    'red gnp.exe'
    """
    text = _ESCAPE_SEQUENCES.sub("", text).replace("\r\n", "\n").replace("\t", " ")
    return "".join(_visible(character) for character in text)


def unmentioned(text: str) -> str:
    """A text in which @everyone, @here and @channel call nobody."""
    return _GROUP_MENTIONS.sub("@\u200b", text)


def fitted(text: str, limit: int, escape: Callable[[str], str] = str) -> str:
    """A cleaned text, escaped character by character, cut so that the whole is at most `limit` long."""
    pieces: list[str] = []
    length = 0
    for character in unmentioned(cleaned(text)):
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


def _visible(character: str) -> str:
    if character in _KEPT:
        return character
    category = unicodedata.category(character)
    if category in ("Zl", "Zp"):
        return "\n"
    return "" if category in ("Cc", "Cf", "Cs") else character
