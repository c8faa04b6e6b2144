"""Run the detectors of one run; one that fails harms neither the others nor the agent."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from steadyhelm.baselines import BaselineStats
from steadyhelm.detector import Detector
from steadyhelm.engine.health import Health
from steadyhelm.errors import FormatError
from steadyhelm.events import RunInfo, RunSummary, TraceEvent
from steadyhelm.findings import DriftEvent
from steadyhelm.goals.tracker import GoalTracker
from steadyhelm.incidents import Thresholds
from steadyhelm.judging.severity_shifts import SeverityShifts

_MAX_FAILURES: Final = 3


class DetectorRunner:
    """Runs every detector of a run, and adjusts what it finds.

    Args:
        detectors: Fresh detectors, used by this run alone.
        baseline: What is normal for this agent.
        thresholds: What people marked as false alarms: such findings are LOW.
        health: Counts detectors that fail.
    """

    def __init__(
        self,
        detectors: Sequence[Detector],
        baseline: BaselineStats,
        *,
        thresholds: Thresholds | None = None,
        health: Health,
    ) -> None:
        self.baseline = baseline
        self.detectors = list(detectors)
        self._select_goal_detectors = _select_goal_detectors(self.detectors)
        self.thresholds = thresholds or Thresholds()
        self._health = health
        self.failures: dict[str, int] = {}
        """How often each detector has failed."""
        self.shifts = SeverityShifts()
        """What verdicts of a judge have changed in this run."""

    def use_baseline(self, baseline: BaselineStats, thresholds: Thresholds) -> None:
        """Compare further events with another baseline."""
        self.baseline, self.thresholds = baseline, thresholds

    @property
    def not_checked(self) -> dict[str, str]:
        """The detectors that could not look, with their reasons."""
        reasons = {detector.name: detector.not_checked for detector in self.detectors}
        return {name: reason for name, reason in reasons.items() if reason}

    def list_checked(self) -> list[str]:
        """Return the names of the detectors that could look, sorted."""
        return sorted(detector.name for detector in self.detectors if not detector.not_checked)

    def begin(self, run: RunInfo, goal: GoalTracker) -> None:
        """Start the run in every detector; those of goal drift are given the goal the engine tracks."""
        self.follow_goal(goal)
        for detector in self.detectors:
            try:
                detector.begin(run)
            except BaseException as exc:  # noqa: BLE001 - see check
                self._note_failure(detector, exc)

    def follow_goal(self, goal: GoalTracker) -> None:
        """Pass the tracked goal to the detectors of goal drift."""
        for detector in self._select_goal_detectors:
            detector.follow_goal(goal)

    def check(self, event: TraceEvent, recent: Sequence[str]) -> list[DriftEvent] | None:
        """Return the findings at this event; None for none. `recent` are the names of the latest calls."""
        findings = None
        for detector in self.detectors:
            try:
                finding = detector.check(event, self.baseline)
                if finding is not None:
                    findings = [*(findings or ()), self.adjust(finding, recent, event)]
            except BaseException as exc:  # noqa: BLE001 - a plug-in may fail in any way, the agent must not notice
                self._note_failure(detector, exc)
        return findings

    def foresee(self, call: TraceEvent, recent: Sequence[str]) -> list[DriftEvent]:
        """Return the findings that a call not made yet would lead to. Does not change state."""
        return self._collect(lambda detector: detector.foresee(call, self.baseline), recent, call)

    def end(self, recent: Sequence[str]) -> list[DriftEvent]:
        """Return the findings about the run as a whole."""
        return self._collect(lambda detector: detector.end(self.baseline), recent)

    def teach(self, summary: RunSummary) -> RunSummary:
        """Return the summary with what each detector learnt from the run."""
        for detector in self.detectors:
            try:
                summary = detector.teach(summary)
            except BaseException as exc:  # noqa: BLE001 - see check
                self._note_failure(detector, exc)
        return summary

    def measure_goal_drift(self) -> float | None:
        """Return the largest goal drift, 0 to 1, that a detector measured; None when none could."""
        level = None
        for detector in self._select_goal_detectors:
            seen = detector.level
            if seen is not None and (level is None or seen > level):
                level = seen
        return level

    def measure_style_drift(self) -> float | None:
        """Return the largest style drift, 0 to 1, that a detector measured; None when none could."""
        levels = [it.level for it in self.detectors if it.kind == "style" and it.level is not None]
        return max(levels, default=None)

    def explain_missing_goal_level(self) -> str:
        """Return why no detector measured the goal drift."""
        reasons = [
            detector.not_checked or "too little was said to judge" for detector in self._select_goal_detectors
        ]
        return reasons[-1] if reasons else "no detector of goal drift"

    def state(self) -> dict[str, bytes]:
        """Return the state of each detector, by name."""
        return {detector.name: detector.state() for detector in self.detectors}

    def list_reasons(self) -> dict[str, str | None]:
        """Return why each detector could not look, None where it could."""
        return {detector.name: detector.not_checked for detector in self.detectors}

    def restore(
        self,
        states: Mapping[str, bytes],
        reasons: Mapping[str, str | None] | None = None,
        failures: Mapping[str, int] | None = None,
    ) -> None:
        """Restore detectors from `state`; one whose state cannot be read starts afresh and is counted.

        With `failures` and `reasons`, those that failed too often stay left out.
        """
        reasons = reasons or {}
        if failures:
            self.failures = dict(failures)
            self._leave_out_failed(states, reasons)
        for detector in self.detectors:
            name = detector.name
            if name not in states:
                continue
            try:
                detector.restore(states[name])
            except FormatError:
                self._health.count(f"saved state of detector {name} cannot be read")
                continue
            if name in reasons and detector.not_checked != reasons[name]:
                detector.not_checked = reasons[name]

    def _leave_out_failed(self, order: Iterable[str], reasons: Mapping[str, str | None]) -> None:
        """Replace detectors that failed too often, in the order in which they were left out."""
        for name in order:
            found = next((it for it in self.detectors if it.name == name), None)
            if found is not None and self.failures.get(name, 0) >= _MAX_FAILURES:
                self._replace(found, _FailedDetector(name, reasons.get(name) or ""))

    def adjust(
        self, finding: DriftEvent, recent: Sequence[str], event: TraceEvent | None = None
    ) -> DriftEvent:
        """Return the finding with unusual order noted, lowered if such ones were marked false alarms.

        What a judge said about its pattern moves it by one severity. Raises an error for what is no finding.
        """
        finding.require_valid()
        usual = self.baseline.common_sequences
        if self.baseline.is_calibrated and usual and len(recent) > 1:
            pair = list(recent)
            known = any(pair == seq[i : i + 2] for seq in usual for i in range(len(seq) - 1))
            finding.context.update(usual_sequences=usual, unusual_order=None if known else pair)
        if self.thresholds.cover(finding):
            return finding.lower_severity("an incident like this was marked a false alarm")
        is_judged = self.shifts.steps or self.shifts.repetitions
        return self.shifts.apply_to(finding, event) if is_judged else finding

    def _collect(
        self,
        question: Callable[[Detector], DriftEvent | None],
        recent: Sequence[str],
        event: TraceEvent | None = None,
    ) -> list[DriftEvent]:
        findings = []
        for detector in self.detectors:
            try:
                finding = question(detector)
                if finding is not None:
                    findings.append(self.adjust(finding, recent, event))
            except BaseException as exc:  # noqa: BLE001 - see check
                self._note_failure(detector, exc)
        return findings

    def _note_failure(self, detector: Detector, exc: BaseException) -> None:
        """Count a failure; after three the detector is left out for the rest of the run, with the reason."""
        name = detector.name
        self.failures[name] = self.failures.get(name, 0) + 1
        if self.failures[name] >= _MAX_FAILURES and detector in self.detectors:
            reason = f"failed {_MAX_FAILURES} times: {type(exc).__name__}"
            self._replace(detector, _FailedDetector(name, reason))
        self._health.swallow(f"detector {name}", exc)

    def _replace(self, detector: Detector, placeholder: Detector) -> None:
        self.detectors = [*(other for other in self.detectors if other is not detector), placeholder]
        self._select_goal_detectors = _select_goal_detectors(self.detectors)


def _select_goal_detectors(detectors: Sequence[Detector]) -> list[Detector]:
    return [detector for detector in detectors if detector.kind == "goal"]


class _FailedDetector(Detector):
    """A placeholder for a detector that failed too often, with the reason."""

    kind = "resource"

    def __init__(self, name: str, reason: str) -> None:
        self.name = name  # type: ignore[misc]
        self.not_checked = reason
        self._memory = Struct()

    def check(self, event: TraceEvent, baseline: BaselineStats) -> DriftEvent | None:  # noqa: ARG002
        return None
