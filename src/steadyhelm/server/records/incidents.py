"""Incidents: the inbox, the why card, and what people do with them."""

from typing import Annotated, Literal

from msgspec import Meta

from steadyhelm.findings import Kind, Severity
from steadyhelm.incidents import IncidentTab
from steadyhelm.server.records.common import AgentName, Figure, IncidentRow, Key, Record, Request
from steadyhelm.server.records.runs import Payload

FalseAlarmReason = Literal["polls", "new_task", "level", "other"]
"""polls: the tool is declared a poll or batch tool; new_task: only marked, so that the run teaches the
baseline; level and other: the detector needs a higher score for this agent."""

MuteUntil = Literal["1h", "8h", "tomorrow", "worse", "version"]
"""tomorrow: 24 hours; worse: until its severity rises; version: until a run of another version; the last two
14 days at most."""

Note = Annotated[str, Meta(max_length=2000)]


class Group(Record, frozen=True, kw_only=True):
    """Incidents of one agent, kind and pattern. `newest` identifies the group: any member's id does.

    `days` counts incidents per day of UTC for the last 14 days, oldest first. `ongoing` counts those whose
    drift goes on now.
    """

    newest: str
    agent: AgentName
    kind: Kind
    pattern: str
    message: str
    detectors: list[str]
    severity: Severity
    count: int
    ongoing: int
    first_at: float
    last_at: float
    days: list[int]
    first_step: int
    last_step: int
    run: Key


class GroupList(Record, frozen=True, kw_only=True):
    """A page of groups, the one with the latest finding first. `totals` has the groups of each tab.

    Closed incidents are grouped among the latest 2,000 that are reviewed and the latest 2,000 that ended.
    """

    groups: list[Group]
    next: str | None
    totals: dict[IncidentTab, int]


class Against(Record, frozen=True, kw_only=True):
    """A row of "against normal": what was seen beside what is normal."""

    label: str
    unit: str
    figure: Figure


class Said(Record, frozen=True, kw_only=True):
    """An intervention: what was said, and what came of it.

    `before` and `after` are drift scores; `measure` is the outcome in words ("Drift 0.54 → 0.07").
    """

    step: int
    at: float
    response: str
    delivered: bool
    guidance: str
    outcome: str
    not_carried_out: str
    because: list[str]
    before: float | None
    after: float | None
    tokens_saved: int | None
    measure: str


class Pair(Record, frozen=True, kw_only=True):
    """Two consecutive calls of the pattern. `same_arguments` and `same_result` need no payload."""

    first: int
    second: int
    tool: str
    same_arguments: bool
    same_result: bool
    failed_first: bool
    failed_second: bool


class Comment(Record, frozen=True, kw_only=True):
    """What somebody wrote about an incident."""

    id: int
    by: str
    at: float
    text: str


class RunOfGroup(Record, frozen=True, kw_only=True):
    """One incident of the group, with its run and its step range."""

    incident: IncidentRow
    goal: str


class IncidentJudged(Record, frozen=True, kw_only=True):
    """What a judge changed about an incident. `moved_from` is None where nothing had been reported."""

    step: int
    label: str
    confidence: float
    quote: str
    moved_from: Severity | None
    moved_to: Severity
    cost_usd: float | None


class IncidentDetail(Record, frozen=True, kw_only=True):
    """The why card. `pairs` lead to the evidence (at most 50); load a pair for its payloads.

    `proof` are the steps that are its evidence. `noticed_at` is the step of its first finding.
    `declare` is the tool whose declaration would make this expected; empty when there is none.
    `muted_until` is None when it is not muted; `mute_ends` says in words when. `elsewhere` counts other
    incidents of the group. `judged` is the latest verdict of a judge that moved its severity.
    `false_alarm_changes` says for each reason that can be given what a mark as false alarm would change.
    """

    row: IncidentRow
    sentence: str
    advice: str
    hard_limit: bool
    noticed_at: int
    detectors: list[str]
    proof: list[int]
    against: list[Against]
    pairs: list[Pair]
    said: list[Said]
    comments: list[Comment]
    declare: str
    declared: str
    muted_until: float | None
    mute_ends: str
    acknowledged_at: float | None
    acknowledged_by: str
    reviewed_by: str
    elsewhere: int
    judged: IncidentJudged | None
    false_alarm_changes: dict[FalseAlarmReason, str]


class GroupDetail(Record, frozen=True, kw_only=True):
    """A group opened: its newest incident in the tab of the one asked for, the runs it occurred in (at most
    50), and all their comments.
    """

    group: Group
    newest: IncidentDetail
    runs: list[RunOfGroup]
    comments: list[Comment]


class EvidencePair(Record, frozen=True, kw_only=True):
    """The payloads of a pair, for the diff: JSON text with sorted keys."""

    pair: Pair
    arguments: tuple[Payload | None, Payload | None]
    results: tuple[Payload | None, Payload | None]
    errors: tuple[str, str]


class Effected(Record, frozen=True, kw_only=True):
    """One recent incident of the pattern: with or without the change.

    `unknown`: it could not be judged again, for example because its payloads were deleted.
    """

    incident_id: str
    run_id: str
    first_step: int
    last_step: int
    at: float
    effect: Literal["silenced", "raised", "unknown"]
    review: Literal["", "false_alarm", "confirmed"]


class Effect(Record, frozen=True, kw_only=True):
    """What a change would have done to the recent incidents (at most 20), before it is saved.

    `sentence` has both counts. `change` says what will be changed. `allowed` is false for a hard limit.
    """

    change: str
    sentence: str
    silenced: int
    right_lost: int
    incidents: list[Effected]
    allowed: bool


class Precision(Record, frozen=True, kw_only=True):
    """Right and false marks of one detector in 90 days. `precision` is None with fewer than 5 marks."""

    detector: str
    right: int
    false: int
    unmarked: int
    precision: float | None


class PrecisionList(Record, frozen=True, kw_only=True):
    """One entry per detector that raised an incident in 90 days."""

    detectors: list[Precision]


class Acknowledge(Request, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Mark as seen; `undo` takes it back. `whole_group`: every incident of the group that is in the inbox and
    not acknowledged; with `undo`, every one acknowledged with it.
    """

    undo: bool = False
    whole_group: bool = False


class MuteRequest(Request, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Send no alerts of this agent and detector until then; `undo` ends the mute. `whole_group`: of every
    detector of the group's incidents in the inbox; with `undo`, of every one muted with it.
    """

    until: MuteUntil = "8h"
    undo: bool = False
    whole_group: bool = False


class FalseAlarm(Request, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Mark as a false alarm. `tool_kind` is for the reason `polls`. `whole_group`: every incident of
    the group that is in the inbox.
    """

    reason: FalseAlarmReason
    note: Note = ""
    tool_kind: Literal["poll", "batch"] = "poll"
    whole_group: bool = False


class Right(Request, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Mark as right. A threshold that it had raised goes back. `whole_group`: every incident of the
    group that is in the inbox.
    """

    note: Note = ""
    whole_group: bool = False


class Undo(Request, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Take back the mark and what it changed."""


class NewComment(Request, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Write a comment."""

    text: Annotated[str, Meta(min_length=1, max_length=2000)]
