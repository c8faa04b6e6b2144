"""Records of one episode of drift: its start, its evidence, its peak, its interventions, and its end.

A loop of forty calls is one incident with forty findings, not forty alerts.
"""

from collections.abc import Iterable
from typing import Any, Final, Literal, Self

from msgspec import Struct, field, structs, to_builtins

from steadyhelm.decisions import Intervention
from steadyhelm.findings import DriftEvent, Kind, Severity

IncidentState = Literal["open", "closed"]
Review = Literal["", "false_alarm", "confirmed"]
IncidentTab = Literal["open", "acknowledged", "muted", "closed"]
"""One at a time. closed: reviewed, or ended and last seen more than 14 days ago. Else muted, acknowledged, or
open: nobody has dealt with it yet."""

IN_INBOX_S: Final = 14 * 86_400.0
"""How long an incident that nobody has reviewed stays in the inbox after it was last seen."""

MAX_INCIDENT_EVENTS = 50


class IncidentVerdict(Struct, frozen=True, kw_only=True):
    """The verdict of a judge that changed an incident, and how its severity moved.

    `moved_from` is None where nothing had been reported. `seq` is the place of the verdict in the run.
    """

    label: str
    confidence: float
    moved_from: Severity | None
    moved_to: Severity
    quote: str = ""
    cost_usd: float | None = None
    seq: int = -1


class Incident(Struct, frozen=True, kw_only=True):
    """An episode of drift in one run, as far as it is known.

    The engine makes a new version whenever it grows or ends; `incident_id` stays the same. Of a passed limit
    that merely goes on, a version is stored about every ten seconds, not at every event.
    `subject` and `repeats` are those of the finding at its peak: which tools, how often.
    `review` and `acknowledged_at` are set by people, never by the engine. `judged` is the latest verdict of a
    judge that moved its severity.
    """

    incident_id: str
    agent_id: str
    run_id: str
    detector: str
    kind: Kind
    severity: Severity
    peak: float
    message: str
    suggested_action: str
    opened_at: float
    opened_seq: int
    last_at: float
    last_seq: int
    state: IncidentState = "open"
    closed_at: float | None = None
    findings: int = 1
    hard_limit: bool = False
    event_ids: tuple[str, ...] = ()
    interventions: tuple[Intervention, ...] = ()
    review: Review = ""
    acknowledged_at: float | None = None
    subject: str = ""
    repeats: int = 0
    judged: IncidentVerdict | None = None

    @property
    def pattern(self) -> str:
        """What it is about in a few words, by which incidents are grouped: its subject, else its detector."""
        return self.subject or self.detector.replace("_", " ")

    def drop_texts(self) -> "Incident":
        """Return the incident without what it quotes: plans, messages, reasons of the host, a judge."""
        bare = (
            structs.replace(it, guidance="", not_carried_out=it.not_carried_out and "not carried out")
            for it in self.interventions
        )
        judged = None if self.judged is None else structs.replace(self.judged, quote="")
        return structs.replace(self, interventions=tuple(bare), judged=judged)

    def to_dict(self) -> dict[str, Any]:
        """Return the incident as plain data, one key per field."""
        plain: dict[str, Any] = to_builtins(self)
        return plain


class Mute(Struct, frozen=True, kw_only=True):
    """A mute: no alerts of this detector for this agent until the given time. It always ends.

    With `up_to`, an alert of higher severity is sent all the same; with `version`, only alerts about runs of
    that version are held back.
    """

    agent_id: str
    detector: str
    until: float
    set_at: float = 0.0
    up_to: Severity | None = None
    version: str | None = None


def is_current(state: str, last_at: float, now: float) -> bool:
    """Return whether the drift goes on, or was last seen so lately that somebody should look at it."""
    return state == "open" or last_at > now - IN_INBOX_S


def is_muted(mutes: Iterable[Mute], detector: str, severity: int) -> bool:
    """Return whether one of these mutes of an agent holds for this detector and severity."""
    return any(it.detector == detector and (it.up_to is None or severity <= it.up_to.rank) for it in mutes)


def name_tab(review: str, *, is_current: bool, is_acknowledged: bool, is_muted: bool) -> IncidentTab:
    """Return the tab an incident is in: open is what nobody has dealt with yet.

    >>> name_tab("", is_current=True, is_acknowledged=False, is_muted=False)
    'open'
    """
    if review or not is_current:
        return "closed"
    if is_muted:
        return "muted"
    return "acknowledged" if is_acknowledged else "open"


class Threshold(Struct, frozen=True, kw_only=True):
    """What is no longer reported for one agent, because a person marked an incident as a false alarm.

    It holds for findings of `kind` about `subject`, whichever detector makes them; without a subject, for
    those of `detector`. They are noticed and not reported up to `max_repeats` repetitions, or, where
    nothing is counted, below the score `min_score`.
    """

    agent_id: str
    detector: str
    min_score: float
    incident_id: str = ""
    set_at: float = 0.0
    kind: str = ""
    subject: str = ""
    max_repeats: int | None = None

    def covers(self, incident: Incident) -> bool:
        """Return whether an incident of the same agent would not have been reported."""
        if incident.hard_limit or not self.concerns(incident):
            return False
        return _is_below(incident.peak, incident.repeats, self.min_score, self.max_repeats)

    def concerns(self, incident: Incident) -> bool:
        """Return whether an incident is about what was marked, however grave it is."""
        if incident.agent_id != self.agent_id:
            return False
        if self.subject:
            return (incident.kind, incident.subject) == (self.kind, self.subject)
        return incident.detector == self.detector


class Limits(Struct, frozen=True):
    """Up to which score, or number of repetitions, something is noticed and not reported."""

    min_score: float
    max_repeats: int | None = None


class Thresholds(Struct, frozen=True):
    """All that is no longer reported for one agent, by kind and subject, or by detector."""

    limits: dict[str, tuple[Limits, ...]] = field(default_factory=dict)

    @classmethod
    def combine(cls, marked: Iterable[Threshold]) -> Self:
        """Return the thresholds that these marks of false alarms set together."""
        limits: dict[str, tuple[Limits, ...]] = {}
        for it in marked:
            key = _name_subject(it.kind, it.subject) if it.subject else it.detector
            limits[key] = (*limits.get(key, ()), Limits(it.min_score, it.max_repeats))
        return cls(limits)

    def cover(self, finding: DriftEvent) -> bool:
        """Return whether a finding is noticed and not reported."""
        if finding.context.get("hard_limit") or not self.limits:
            return False
        known = (
            *self.limits.get(finding.detector, ()),
            *self.limits.get(_name_subject(finding.kind, finding.subject), ()),
        )
        return any(_is_below(finding.score, finding.repeats, it.min_score, it.max_repeats) for it in known)


def _is_below(score: float, repeats: int, min_score: float, max_repeats: int | None) -> bool:
    return score < min_score if max_repeats is None else repeats <= max_repeats


def _name_subject(kind: str, subject: str) -> str:
    return f"{kind}/{subject}"


class ThresholdEffect(Struct, frozen=True, kw_only=True):
    """What a raised threshold would have done to past incidents: shown before it is saved."""

    threshold: Threshold
    incidents: int
    silenced: int
    confirmed_silenced: int
    silenced_ids: tuple[str, ...] = field(default_factory=tuple)
