"""One run: events in, decisions out. A plain function of the events it was shown.

Live monitoring, the scanner and every backtest run this same class.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
from msgspec import Struct, field

from holdfast.baselines import BaselineStats
from holdfast.calibration import frequent_sequences
from holdfast.decisions import PROCEED, Decision, DriftAction, Mode
from holdfast.declarations import ToolDeclaration
from holdfast.detector import Detector
from holdfast.engine.episodes import Episodes
from holdfast.engine.health import Health
from holdfast.errors import FormatError
from holdfast.events import LLM_REQUEST, TOOL_CALL, RunInfo, RunSummary, TraceEvent
from holdfast.fatigue import Fatigue, SubjectKind, Trust, TrustBand
from holdfast.findings import DriftEvent, Severity
from holdfast.incidents import Incident
from holdfast.loops.oscillation import path_in
from holdfast.policy.guidance import guidance
from holdfast.policy.ladder import respond, verdict

_NAMES_KEPT: Final = 400
_FAILURES_ALLOWED: Final = 3
_DOUBTS_KEPT: Final = 10
STATE_VERSION: Final = 2


class Observation(NamedTuple):
    """What one event led to."""

    decision: Decision
    incidents: Sequence[Incident] = ()


class Ending(NamedTuple):
    """What a run leaves behind."""

    summary: RunSummary
    findings: Sequence[DriftEvent]
    incidents: Sequence[Incident]


QUIET: Final = Observation(PROCEED)


class _Totals(Struct):
    last_seq: int = -1
    events: int = 0
    tokens: int = 0
    tool_calls: int = 0
    llm_calls: int = 0
    errors: int = 0
    first_at: float = -1.0
    last_at: float = 0.0
    names: list[str] = field(default_factory=list)
    last_names: list[str] = field(default_factory=list)


class _State(Struct):
    version: int
    totals: _Totals
    episodes: Episodes
    detectors: dict[str, bytes]
    fatigue: Fatigue
    trust: Trust


class Session:
    """Watches one run with one set of detectors.

    Args:
        run: The run.
        detectors: Fresh detectors, used by this session alone.
        baseline: What is normal for this agent.
        mode: Whether anything but watching is allowed.
        thresholds: Scores below which a detector's findings are noticed, not reported.
        tools: What is known about tools, by name.
        health: Where a failing detector is counted.
    """

    def __init__(
        self,
        run: RunInfo,
        detectors: Sequence[Detector],
        baseline: BaselineStats,
        *,
        mode: Mode = "observe",
        thresholds: Mapping[str, float] | None = None,
        tools: Mapping[str, ToolDeclaration] | None = None,
        health: Health | None = None,
    ) -> None:
        self.run = run
        self.baseline = baseline
        self.mode: Mode = mode
        self._detectors = list(detectors)
        self._thresholds = dict(thresholds or {})
        self._tools = tools or {}
        self._health = health or Health()
        self._failures: dict[str, int] = {}
        self._totals = _Totals()
        self._episodes = Episodes()
        self._fatigue = Fatigue()
        self._trust = Trust()
        for detector in self._detectors:
            try:
                detector.begin(run)
            except Exception as exc:  # noqa: BLE001 - see observe
                self._failed(detector, exc)

    @property
    def next_seq(self) -> int:
        """The place the next event will have."""
        return self._totals.last_seq + 1

    @property
    def not_checked(self) -> dict[str, str]:
        """The detectors that could not look, and why."""
        reasons = {detector.name: detector.not_checked for detector in self._detectors}
        return {name: reason for name, reason in reasons.items() if reason}

    def observe(self, event: TraceEvent) -> Observation:
        """Take one event in; one already seen changes nothing."""
        totals = self._totals
        if event.seq <= totals.last_seq:
            self._health.count("event seen twice")
            return QUIET
        self._add(event)
        if event.action_name in self._tools:
            event = self._tools[event.action_name].applied(event)
        findings = None
        for detector in self._detectors:
            try:
                finding = detector.check(event, self.baseline)
                if finding is not None:
                    findings = [*(findings or ()), self._weighed(finding)]
            except Exception as exc:  # noqa: BLE001 - a plug-in may fail in any way, the agent must not notice
                self._failed(detector, exc)
        return self._quiet(event) if findings is None else self._answered(event, findings)

    def _quiet(self, event: TraceEvent) -> Observation:
        """Nothing was noticed."""
        self._fatigue.event_count += 1
        if self._trust.tools:
            self._weigh_trust(event, lowered=False)
        if not self._episodes.open:
            return QUIET
        return Observation(PROCEED, self._episodes.note(event, (), PROCEED))

    def _answered(self, event: TraceEvent, findings: Sequence[DriftEvent]) -> Observation:
        """Something was noticed."""
        reported = [it for it in findings if it.severity is not Severity.LOW]
        readings = self._fatigue.observe([_pattern(finding) for finding in reported])
        self._weigh_trust(event, lowered=bool(reported))
        decision = self._decide(findings, seq=event.seq, hard=any(reading.hard for reading in readings))
        if decision.verdict != "proceed":
            # Somebody stepped in: whether the pattern comes back is counted from here.
            for finding in reported:
                self._fatigue.start_afresh(_pattern(finding))
        return Observation(decision, self._episodes.note(event, findings, decision))

    def foresee(self, call: TraceEvent) -> Decision:
        """What would be decided if this call were made and gave the same answer? Changes nothing."""
        findings = []
        for detector in self._detectors:
            try:
                finding = detector.foresee(call, self.baseline)
                if finding is not None:
                    findings.append(self._weighed(finding))
            except Exception as exc:  # noqa: BLE001 - see observe
                self._failed(detector, exc)
        return self._decide(findings, seq=self.next_seq) if findings else PROCEED

    def end(self, *, at: float, outcome: str = "") -> Ending:
        """The run is over: judge it as a whole, and sum it up."""
        findings = []
        for detector in self._detectors:
            try:
                finding = detector.end(self.baseline)
                if finding is not None:
                    findings.append(self._weighed(finding))
            except Exception as exc:  # noqa: BLE001 - see observe
                self._failed(detector, exc)
        totals = self._totals
        # A rise over runs is this agent's, not this run's: the run itself may still teach the baseline.
        had_incident = self._episodes.total > 0
        last = TraceEvent(
            agent_id=self.run.agent_id,
            run_id=self.run.run_id,
            action_type="state_transition",
            action_name="run_end",
            timestamp=max(at, totals.last_at),
            event_id=f"{self.run.run_id}.end",
            seq=self.next_seq,
        )
        incidents = [*self._episodes.note(last, findings, PROCEED), *self._episodes.close_all(last.timestamp)]
        return Ending(self._summary(last.timestamp, outcome, had_incident), findings, _latest(incidents))

    def state(self) -> bytes:
        """Everything needed to go on with this run later, or elsewhere."""
        detectors = {detector.name: detector.state() for detector in self._detectors}
        return msgspec.msgpack.encode(
            _State(STATE_VERSION, self._totals, self._episodes, detectors, self._fatigue, self._trust)
        )

    def restore(self, state: bytes) -> None:
        """Go on from a state that `state` gave; raises FormatError when it is none of ours.

        A detector whose own part cannot be read begins afresh, and that is counted.
        """
        try:
            saved = msgspec.msgpack.decode(state, type=_State)
        except (msgspec.MsgspecError, UnicodeDecodeError) as exc:
            raise FormatError(f"The saved session of run {self.run.run_id!r} cannot be read: {exc}.") from exc
        if saved.version != STATE_VERSION:
            raise FormatError(f"The saved session of run {self.run.run_id!r} has version {saved.version}.")
        self._totals, self._episodes = saved.totals, saved.episodes
        self._fatigue, self._trust = saved.fatigue, saved.trust
        for detector in self._detectors:
            if detector.name in saved.detectors:
                try:
                    detector.restore(saved.detectors[detector.name])
                except FormatError:
                    self._health.count(f"saved state of detector {detector.name} cannot be read")

    def _add(self, event: TraceEvent) -> None:
        totals = self._totals
        if event.timestamp < totals.last_at:
            self._health.count("event out of order")
        totals.last_seq = event.seq
        totals.events += 1
        totals.tokens += event.token_count
        if event.action_type == TOOL_CALL:
            totals.tool_calls += 1
            totals.last_names = [*totals.last_names[-1:], event.action_name]
            if totals.tool_calls <= _NAMES_KEPT:
                totals.names.append(event.action_name)
        elif event.action_type == LLM_REQUEST:
            totals.llm_calls += 1
        if event.error is not None:
            totals.errors += 1
        if totals.first_at < 0:
            totals.first_at = event.timestamp - event.duration_ms / 1000
        totals.last_at = max(totals.last_at, event.timestamp)

    def _weighed(self, finding: DriftEvent) -> DriftEvent:
        """The finding after what people said about such findings, with what is unusual about the order."""
        usual = self.baseline.common_sequences
        recent = self._totals.last_names
        if self.baseline.is_calibrated and usual and len(recent) > 1:
            known = any(recent == seq[i : i + 2] for seq in usual for i in range(len(seq) - 1))
            finding.context.update(usual_sequences=usual, unusual_order=None if known else recent)
        least = self._thresholds.get(finding.detector, 0.0)
        if finding.score < least and not finding.context.get("hard_limit"):
            return finding.lowered("an incident like this was marked a false alarm")
        return finding

    def _decide(self, findings: Sequence[DriftEvent], *, seq: int, hard: bool = False) -> Decision:
        action = respond(findings, self._episodes.answered())
        if action is DriftAction.CONTINUE:
            return Decision(findings=tuple(findings))
        if not self._is_news(findings, action, seq):
            return Decision(action=action, findings=tuple(findings), hard=hard)
        answer = verdict(action, self.mode)
        words = guidance(action, findings, self.run.goal)
        return Decision(action=action, verdict=answer, guidance=words, findings=tuple(findings), hard=hard)

    def _is_news(self, findings: Sequence[DriftEvent], action: DriftAction, seq: int) -> bool:
        """Whether there is anything new to say: something stronger, or the last word is long enough ago."""
        for finding in findings:
            incident = self._episodes.open.get(finding.kind)
            if incident is None or not incident.interventions:
                return True
            last = incident.interventions[-1]
            if action.rung > last.action.rung or seq - last.seq > self._fatigue.cooldown(_pattern(finding)):
                return True
        return False

    def _weigh_trust(self, event: TraceEvent, *, lowered: bool) -> None:
        """Findings lower the trust in a tool and a file; clean use raises it, before as well as after."""
        if event.action_type != TOOL_CALL:
            return
        trust, tool, path = self._trust, event.action_name, path_in(event.input_data)
        if not lowered:
            if tool in trust.tools:
                trust.raise_("tool", tool)
            if path in trust.files:
                trust.raise_("file", path)
            return
        if tool not in trust.tools:
            # Kept up only for what findings point at: what went well before is made up for here.
            trust.raise_("tool", tool, self._totals.names.count(tool))
        trust.lower("tool", tool)
        if path is not None:
            trust.lower("file", path)

    def _failed(self, detector: Detector, exc: Exception) -> None:
        """A detector that fails again and again is left out for the rest of the run, and says so."""
        name = detector.name
        self._failures[name] = self._failures.get(name, 0) + 1
        if self._failures[name] >= _FAILURES_ALLOWED and detector in self._detectors:
            self._detectors = [other for other in self._detectors if other is not detector]
            self._detectors.append(_Failed(name, f"failed {_FAILURES_ALLOWED} times: {type(exc).__name__}"))
        self._health.swallowed(f"detector {name}", exc)

    def _doubts(self) -> list[tuple[str, str, float]]:
        """The tools and files that findings have brought into doubt, the most doubtful first."""
        kinds: tuple[SubjectKind, ...] = ("tool", "file")
        doubtful: list[tuple[str, str, float]] = [
            (kind, subject, round(standing.mean, 3))
            for kind in kinds
            for subject, standing in self._trust.standings(kind).items()
            if standing.band in {TrustBand.DISTRUSTED, TrustBand.DOUBTFUL}
        ]
        return sorted(doubtful, key=lambda doubt: doubt[2])[:_DOUBTS_KEPT]

    def _summary(self, at: float, outcome: str, had_incident: bool) -> RunSummary:
        totals, run = self._totals, self.run
        started_at = run.started_at if run.started_at > 0 else max(totals.first_at, 0.0)
        summary = RunSummary(
            agent_id=run.agent_id,
            run_id=run.run_id,
            version=run.version,
            task_type=run.task_type,
            started_at=started_at,
            ended_at=at,
            outcome=outcome,
            events=totals.events,
            tokens=totals.tokens,
            tool_calls=totals.tool_calls,
            llm_calls=totals.llm_calls,
            errors=totals.errors,
            duration_ms=max(0.0, totals.last_at - started_at) * 1000,
            had_incident=had_incident,
            sequences=frequent_sequences(totals.names),
            doubts=self._doubts(),
        )
        for detector in self._detectors:
            try:
                summary = detector.teach(summary)
            except Exception as exc:  # noqa: BLE001 - see observe
                self._failed(detector, exc)
        return summary


def _pattern(finding: DriftEvent) -> str:
    """What a finding is an instance of: its detector's pattern, or the detector itself."""
    return f"{finding.detector}/{finding.context.get('pattern', '')}"


class _Failed(Detector):
    """Stands where a detector was that failed too often, and says why it is not there."""

    kind = "resource"

    def __init__(self, name: str, reason: str) -> None:
        self.name = name  # type: ignore[misc]
        self.not_checked = reason
        self._memory = Struct()

    def check(self, event: TraceEvent, baseline: BaselineStats) -> DriftEvent | None:  # noqa: ARG002
        return None


def _latest(incidents: Sequence[Incident]) -> Sequence[Incident]:
    """Of several versions of one incident the last."""
    return tuple({incident.incident_id: incident for incident in incidents}.values())
