"""Replay a recorded run through a session of its own, and sum up what it would have led to.

The session is the one that watches live agents; nothing is written to any store.
"""

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct, field, structs

from holdfast.adapters.runfile import ReadRun
from holdfast.assembly import detector_factory
from holdfast.decisions import DriftAction
from holdfast.engine.health import Health
from holdfast.engine.sessions import Sessions
from holdfast.events import USER_MESSAGE, TraceEvent
from holdfast.findings import DriftEvent, Severity
from holdfast.incidents import Incident
from holdfast.settings import Settings
from holdfast.store import Store

_LIMITS = ("absolute_token_limit", "absolute_duration_limit_ms")


class FindingReport(Struct, frozen=True, kw_only=True):
    """One finding; `at` and `evidence` are indices in the run's own `events` list."""

    at: int
    detector: str
    kind: str
    severity: Severity
    score: float
    message: str
    evidence: list[int]


class IncidentReport(Struct, frozen=True, kw_only=True):
    """One episode of drift, from the entry of its first finding to that of its last."""

    kind: str
    since: int = field(name="from")
    to: int
    peak: float
    severity: Severity
    message: str


class NotChecked(Struct, frozen=True, kw_only=True):
    """A detector that could not look, and why."""

    detector: str
    reason: str


class RunReport(Struct, frozen=True, kw_only=True):
    """What scan says about one run: one line of its JSON output."""

    run_id: str
    events: int
    findings: list[FindingReport]
    incidents: list[IncidentReport]
    action: DriftAction
    tokens_saved: int | None
    not_checked: list[NotChecked]

    @property
    def worst(self) -> int:
        """The rank of the worst finding; -1 when there is none."""
        return max((finding.severity.rank for finding in self.findings), default=-1)


class Answer(NamedTuple):
    """What Holdfast would have done for the first time at one step, counted from 0."""

    action: DriftAction
    place: int


class Judged(NamedTuple):
    """A run, what scan says about it, and what its words for people are made of."""

    run: ReadRun
    report: RunReport
    incidents: Sequence[Incident]
    answers: Sequence[Answer]


class _Replay(Struct):
    findings: list[FindingReport] = field(default_factory=list)
    incidents: dict[str, Incident] = field(default_factory=dict)
    answers: list[Answer] = field(default_factory=list)
    action: DriftAction = DriftAction.CONTINUE

    def take(self, at: int, found: Sequence[DriftEvent], incidents: Sequence[Incident]) -> None:
        self.findings.extend(_finding(finding, at) for finding in found)
        self.incidents.update((incident.incident_id, incident) for incident in incidents)

    def answer(self, action: DriftAction, place: int) -> None:
        if action.rung > self.action.rung:
            self.action = action
            self.answers.append(Answer(action, place))


class Judge:
    """Judges recorded runs, each with fresh detectors.

    Args:
        settings: Which detectors there are, and their options.
        store: Where the agents' baselines and moved thresholds are read; None judges each run alone.
    """

    def __init__(self, settings: Settings, *, store: Store | None = None) -> None:
        self._settings = settings
        self._store = store
        self._make_detectors = detector_factory(with_soft_limits(settings))
        self._health = Health()
        self._sessions: dict[str, Sessions] = {}

    def judge(self, run: ReadRun) -> Judged:
        """Show the run to a session, event by event, and sum up."""
        session = self._sessions_of(run.info.agent_id).begin(run.info)
        replay = _Replay()
        for place, event in enumerate(run.events):
            seen = session.observe(event)
            replay.take(int(event.event_id), seen.decision.findings, seen.incidents)
            replay.answer(seen.decision.action, place)
        # Known before the end: a detector that ends its work may forget why it could not look.
        not_checked = [NotChecked(detector=name, reason=why) for name, why in session.not_checked.items()]
        if self._store is not None and session.baseline.calibration_runs == 0:
            reason = f"no baseline of agent {run.info.agent_id!r} was learnt; the run was judged alone"
            not_checked.append(NotChecked(detector="baseline", reason=reason))
        ending = session.end(at=run.events[-1].timestamp)
        replay.take(int(run.events[-1].event_id), ending.findings, ending.incidents)
        return _judged(run, replay, not_checked)

    def _sessions_of(self, agent_id: str) -> Sessions:
        if agent_id not in self._sessions:
            self._sessions[agent_id] = Sessions(
                agent_id,
                make_detectors=self._make_detectors,
                store=self._store,
                health=self._health,
                calibration_runs=self._settings.calibration_runs,
                # Time stands still: what was read of a baseline holds for the whole scan.
                clock=lambda: 0.0,
            )
        return self._sessions[agent_id]


def with_soft_limits(settings: Settings) -> Settings:
    """The settings with only those hard limits that somebody set: real sessions pass every default."""
    options = dict(settings.detectors.get("resource_spike", {}))
    given = [name for name in _LIMITS if name in options]
    if not given:
        options.setdefault("soft_limits", True)
    for name in _LIMITS if given else ():
        options.setdefault(name, None)
    return structs.replace(settings, detectors={**settings.detectors, "resource_spike": options})


def _judged(run: ReadRun, replay: _Replay, not_checked: list[NotChecked]) -> Judged:
    incidents = list(replay.incidents.values())
    places = {event.seq: int(event.event_id) for event in run.events}
    last = int(run.events[-1].event_id)
    report = RunReport(
        run_id=run.info.run_id,
        events=run.entries,
        findings=replay.findings,
        incidents=[
            IncidentReport(
                kind=incident.kind,
                since=places.get(incident.opened_seq, last),
                to=places.get(incident.last_seq, last),
                peak=round(incident.peak, 4),
                severity=incident.severity,
                message=incident.message,
            )
            for incident in incidents
        ],
        action=replay.action,
        tokens_saved=_tokens_saved(run.events, replay.answers),
        not_checked=not_checked,
    )
    return Judged(run, report, incidents, replay.answers)


def _finding(finding: DriftEvent, at: int) -> FindingReport:
    return FindingReport(
        at=at,
        detector=finding.detector,
        kind=finding.kind,
        severity=finding.severity,
        score=round(finding.score, 4),
        message=finding.message,
        evidence=[int(proof) for proof in finding.event_ids if str(proof).isdecimal()],
    )


def _tokens_saved(events: Sequence[TraceEvent], answers: Sequence[Answer]) -> int | None:
    """Tokens spent after the run would have been re-planned or stopped, until its end or the user's word."""
    rung = DriftAction.SUMMARIZE_REPLAN.rung
    stopped = next((answer.place for answer in answers if answer.action.rung >= rung), None)
    return None if stopped is None else sum(event.token_count for event in spared(events, stopped))


def spared(events: Sequence[TraceEvent], place: int) -> list[TraceEvent]:
    """The steps after this one, until the user speaks."""
    after = events[place + 1 :]
    spoken = next((i for i, event in enumerate(after) if event.action_type == USER_MESSAGE), len(after))
    return list(after[:spoken])
