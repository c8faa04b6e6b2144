"""Replay a recorded run through a session of its own, and sum up what it would have led to.

The session is the one that watches live agents; nothing is written to any store.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from msgspec import Struct, field, structs

from steadyhelm.components import make_detector_factory, make_steering
from steadyhelm.decisions import Decision, DriftAction, Mode, Verdict
from steadyhelm.declarations import ToolDeclaration, parse_declarations
from steadyhelm.detector import Detector
from steadyhelm.engine import registry
from steadyhelm.engine.agent_knowledge import KnowledgeStore, StoredKnowledge
from steadyhelm.engine.health import Health
from steadyhelm.engine.session import Session
from steadyhelm.engine.session_factory import SessionFactory
from steadyhelm.events import USER_MESSAGE, RunInfo, RunSummary, TraceEvent
from steadyhelm.findings import DriftEvent, Severity
from steadyhelm.incidents import Incident
from steadyhelm.judge import Question
from steadyhelm.judging.questioner import Questioner
from steadyhelm.policy.response_levels import DRIFT_SCORE, FIRST_LEVEL, choose_first_level
from steadyhelm.recordings.run_file import ReadRun
from steadyhelm.settings import Settings


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
    """A detector that could not look, with its reason."""

    detector: str
    reason: str


class RunReport(Struct, frozen=True, kw_only=True):
    """The report on one run: one of the runs that `steadyhelm scan --json` prints."""

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


class FirstResponse(NamedTuple):
    """The first response of its level that Steadyhelm would have made, at one step, counted from 0.

    `finding` is the worst of what was noticed there, `verdict` what the caller would have been asked for.
    """

    action: DriftAction
    place: int
    finding: FindingReport | None = None
    verdict: Verdict = "proceed"


class JudgedReplay(NamedTuple):
    """A run with its report, incidents, responses and summary."""

    run: ReadRun
    report: RunReport
    incidents: Sequence[Incident]
    answers: Sequence[FirstResponse]
    summary: RunSummary

    @property
    def doubts(self) -> Sequence[tuple[str, str, float]]:
        """The tools and files that findings lowered the trust in, with the trust left."""
        return self.summary.doubts


class Replay:
    """One recorded run, shown to a session event by event, then ended.

    Args:
        session: A session that has seen nothing yet.
        missing: What is known from the start not to be checked.
    """

    def __init__(self, session: Session, *, missing: Sequence[NotChecked] = ()) -> None:
        self.session = session
        self._missing = missing
        self._findings: list[FindingReport] = []
        self._incidents: dict[str, Incident] = {}
        self._answers: list[FirstResponse] = []
        self._action = DriftAction.CONTINUE
        self._place = 0
        self.questions: Sequence[Question] = ()
        """What a judge is to be asked after the latest event."""

    def observe(self, event: TraceEvent) -> list[FindingReport]:
        """Judge this event and return its findings, without those that merely go on."""
        seen = self.session.observe(event)
        self.questions = seen.questions
        listed = [finding for finding in seen.decision.findings if not finding.is_ongoing]
        found = self._take(int(event.event_id), listed, seen.incidents)
        if seen.decision.action.level > self._action.level:
            self._action = seen.decision.action
            worst = _find_worst(seen.decision, int(event.event_id))
            self._answers.append(FirstResponse(self._action, self._place, worst, seen.decision.verdict))
        self._place += 1
        return found

    def foresee(self, call: TraceEvent) -> Decision:
        """Return the decision for a recorded call before it is made, without its result."""
        unknown = {"output_data": None, "error": None, "result_hash": 0, "token_count": 0, "cost_usd": None}
        began_at = call.timestamp - call.duration_ms / 1000
        return self.session.foresee(structs.replace(call, timestamp=began_at, duration_ms=0.0, **unknown))

    def end(self, run: ReadRun) -> JudgedReplay:
        """End the run after its last event: judge it as a whole, and return the report."""
        # Known before the end: a detector that ends its work may forget why it could not look.
        not_checked = [
            NotChecked(detector=name, reason=why) for name, why in self.session.not_checked.items()
        ]
        ending = self.session.end(at=run.events[-1].timestamp)
        self._take(int(run.events[-1].event_id), ending.findings, ending.incidents)
        incidents = list(self._incidents.values())
        report = RunReport(
            run_id=run.info.run_id,
            events=run.entries,
            findings=self._findings,
            incidents=_build_incident_reports(run, incidents),
            action=self._action,
            tokens_saved=_count_tokens_saved(run.events, self._answers),
            not_checked=[*not_checked, *self._missing],
        )
        return JudgedReplay(run, report, incidents, self._answers, ending.summary)

    def _take(
        self, at: int, found: Sequence[DriftEvent], incidents: Sequence[Incident]
    ) -> list[FindingReport]:
        findings = [report_finding(finding, at) for finding in found]
        self._findings += findings
        self._incidents.update((incident.incident_id, incident) for incident in incidents)
        return findings


_Result = TypeVar("_Result")


class Replayer:
    """Replays recorded runs, each with fresh detectors, and reports what they found.

    Args:
        settings: The detectors and their options.
        store: Has the agents' baselines and moved thresholds; None judges each run alone.
        kinds: The kinds of detectors that look; None for all.
        health: Counts detectors that fail.
        tools: What is known about tools, by name, instead of what the settings say.
        mode: The mode that decides the verdicts; actions are the same in every mode.
        make_detectors: Returns fresh detectors for each run, instead of those the settings name.
        make_questioner: Returns what raises questions for a judge about one run; None raises none.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        store: KnowledgeStore | None = None,
        kinds: Collection[str] | None = None,
        health: Health | None = None,
        tools: Mapping[str, ToolDeclaration] | None = None,
        mode: Mode = "observe",
        make_detectors: Callable[[], Sequence[Detector]] | None = None,
        make_questioner: Callable[[], Questioner] | None = None,
    ) -> None:
        self._settings = settings
        self._mode: Mode = mode
        self._store = store
        if kinds is not None:
            settings = with_kinds(settings, kinds)
        self._make_detectors = make_detectors or make_detector_factory(settings)
        self._health = health or Health()
        self._tools = parse_declarations(settings.tools) if tools is None else tools
        self._sessions = SessionFactory(
            make_detectors=self._make_detectors,
            health=self._health,
            mode=mode,
            tools=self._tools,
            steering=make_steering(settings),
            make_questioner=make_questioner,
        )
        self._known: dict[str, StoredKnowledge] = {}

    @property
    def detectors(self) -> list[str]:
        """The names of the detectors that look."""
        return [detector.name for detector in self._make_detectors()]

    @property
    def troubles(self) -> dict[str, int]:
        """The errors while replaying, counted by reason: results of a detector that failed are incomplete."""
        return {why: times for why, times in self._health.totals().items() if why.startswith("error in")}

    def judge(self, run: ReadRun) -> JudgedReplay:
        """Judge a recorded run and return the report."""
        replay = self.begin(run.info)
        for event in run.events:
            replay.observe(event)
        return replay.end(run)

    def judge_all(self, runs: Iterable[ReadRun]) -> Iterator[JudgedReplay]:
        """Judge runs, and yield them in the order they came in."""
        return map(self.judge, runs)

    def apply(
        self, function: Callable[["Replayer", ReadRun], _Result], runs: Iterable[ReadRun]
    ) -> Iterator[_Result]:
        """Call a function with this replayer and each of the runs; yield the results in order."""
        return (function(self, run) for run in runs)

    def begin(self, info: RunInfo) -> Replay:
        """Return a replay of this run that has seen no event yet."""
        reference = self._knowledge_of(info.agent_id).get_reference(info.version, info.task_type)
        session = self._sessions.begin(info, reference)
        if self._store is None or session.baseline.calibration_runs:
            return Replay(session)
        reason = f"no baseline of agent {info.agent_id!r} was learnt; the run was judged alone"
        return Replay(session, missing=[NotChecked(detector="baseline", reason=reason)])

    def _knowledge_of(self, agent_id: str) -> StoredKnowledge:
        """Return what the store knows about an agent, read once for all runs."""
        if agent_id not in self._known:
            self._known[agent_id] = StoredKnowledge(
                agent_id,
                self._store,
                calibration_runs=self._settings.calibration_runs,
                uses_profiles=self._settings.budget_from_profiles,
            )
        return self._known[agent_id]


class RemoteReplayer(Replayer):
    """A replayer whose `judge_all` and `apply` work elsewhere, in processes that have one of their own."""

    def __init__(
        self,
        settings: Settings,
        *,
        store: KnowledgeStore | None,
        kinds: Collection[str] | None,
        mode: Mode,
    ) -> None:
        super().__init__(settings, store=store, kinds=kinds, mode=mode)
        self._remote_troubles: Counter[str] = Counter()

    @property
    def troubles(self) -> dict[str, int]:
        """The errors while replaying, here and elsewhere."""
        return dict(self._remote_troubles + Counter(super().troubles))

    def judge_all(self, runs: Iterable[ReadRun]) -> Iterator[JudgedReplay]:
        """Judge runs elsewhere, and yield them in the order they came in."""
        for run, outcome in self._send(_judge_run, runs):
            yield JudgedReplay(run, *outcome)

    def apply(
        self, function: Callable[[Replayer, ReadRun], _Result], runs: Iterable[ReadRun]
    ) -> Iterator[_Result]:
        """Call a function of a module elsewhere, with a replayer and each of the runs."""
        for _, result in self._send(function, runs):
            yield result

    def _send(
        self, function: Callable[[Replayer, ReadRun], _Result], runs: Iterable[ReadRun]
    ) -> Iterator[tuple[ReadRun, _Result]]:
        """Call a function elsewhere; yield each run with the result, in order, and count the troubles."""
        raise NotImplementedError


def call_counted(
    replayer: Replayer, function: Callable[[Replayer, ReadRun], _Result], run: ReadRun
) -> tuple[_Result, dict[str, int]]:
    """Return a function's result, and the troubles it led to."""
    before = Counter(replayer.troubles)
    result = function(replayer, run)
    return result, dict(Counter(replayer.troubles) - before)


def _judge_run(
    replayer: Replayer, run: ReadRun
) -> tuple[RunReport, Sequence[Incident], Sequence[FirstResponse], RunSummary]:
    """Judge a run; the run itself is not sent back, since the sender has it."""
    return replayer.judge(run)[1:]


def with_kinds(settings: Settings, kinds: Collection[str]) -> Settings:
    """Return the settings with every detector of another kind turned off."""
    detectors = dict(settings.detectors)
    for name in registry.list_names(registry.DETECTORS):
        if registry.load(registry.DETECTORS, name).kind not in kinds:
            detectors[name] = {**detectors.get(name, {}), "enabled": False}
    return structs.replace(settings, detectors=detectors)


def _build_incident_reports(run: ReadRun, incidents: Sequence[Incident]) -> list[IncidentReport]:
    places = {event.seq: int(event.event_id) for event in run.events}
    last = int(run.events[-1].event_id)
    return [
        IncidentReport(
            kind=incident.kind,
            since=places.get(incident.opened_seq, last),
            to=places.get(incident.last_seq, last),
            peak=round(incident.peak, 4),
            severity=incident.severity,
            message=incident.message,
        )
        for incident in incidents
    ]


def report_finding(finding: DriftEvent, at: int) -> FindingReport:
    """Return a finding as reports have it, at this entry of the run."""
    return FindingReport(
        at=at,
        detector=finding.detector,
        kind=finding.kind,
        severity=finding.severity,
        score=round(finding.score, 4),
        message=finding.message,
        evidence=[int(proof) for proof in finding.event_ids if str(proof).isdecimal()],
    )


def _find_worst(decision: Decision, at: int) -> FindingReport | None:
    """Return the finding that called for the strongest response."""
    worst = max(decision.findings, key=_rank_finding, default=None)
    return None if worst is None else report_finding(worst, at)


def _rank_finding(finding: DriftEvent) -> tuple[int, float, bool]:
    level = FIRST_LEVEL[finding.severity] if finding.detector == DRIFT_SCORE else choose_first_level(finding)
    return level.level, finding.score, bool(finding.context.get("hard_limit"))


def _count_tokens_saved(events: Sequence[TraceEvent], answers: Sequence[FirstResponse]) -> int | None:
    """Return the tokens spent after a new plan or stop, until the run's end or the user's next message."""
    level = DriftAction.SUMMARIZE_REPLAN.level
    stopped = next((answer.place for answer in answers if answer.action.level >= level), None)
    return None if stopped is None else sum(event.token_count for event in find_steps_after(events, stopped))


def find_steps_after(events: Sequence[TraceEvent], place: int) -> list[TraceEvent]:
    """Return the steps after this one, until the user's next message."""
    after = events[place + 1 :]
    spoken = next((i for i, event in enumerate(after) if event.action_type == USER_MESSAGE), len(after))
    return list(after[:spoken])
