"""The detectors of one run, asked one after the other: none of them may harm the others, or the agent."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from steadyhelm.baselines import BaselineStats
from steadyhelm.detector import Detector
from steadyhelm.engine.health import Health
from steadyhelm.errors import FormatError
from steadyhelm.events import RunInfo, RunSummary, TraceEvent
from steadyhelm.findings import DriftEvent

_FAILURES_ALLOWED: Final = 3


class Panel:
    """Asks every detector of a run, and weighs what it says.

    Args:
        detectors: Fresh detectors, used by this run alone.
        baseline: What is normal for this agent.
        thresholds: Scores below which a detector's findings are noticed, not reported.
        health: Where a failing detector is counted.
    """

    def __init__(
        self,
        detectors: Sequence[Detector],
        baseline: BaselineStats,
        *,
        thresholds: Mapping[str, float] | None = None,
        health: Health,
    ) -> None:
        self.baseline = baseline
        self.detectors = list(detectors)
        self._of_goals = _of_goals(self.detectors)
        self._thresholds = dict(thresholds or {})
        self._health = health
        self._failures: dict[str, int] = {}

    @property
    def not_checked(self) -> dict[str, str]:
        """The detectors that could not look, and why."""
        reasons = {detector.name: detector.not_checked for detector in self.detectors}
        return {name: reason for name, reason in reasons.items() if reason}

    def begin(self, run: RunInfo) -> None:
        """The run starts."""
        for detector in self.detectors:
            try:
                detector.begin(run)
            except Exception as exc:  # noqa: BLE001 - see check
                self._failed(detector, exc)

    def check(self, event: TraceEvent, recent: Sequence[str]) -> list[DriftEvent] | None:
        """What this event shows; None for nothing. `recent` are the names of the latest calls."""
        findings = None
        for detector in self.detectors:
            try:
                finding = detector.check(event, self.baseline)
                if finding is not None:
                    findings = [*(findings or ()), self.weighed(finding, recent)]
            except Exception as exc:  # noqa: BLE001 - a plug-in may fail in any way, the agent must not notice
                self._failed(detector, exc)
        return findings

    def foresee(self, call: TraceEvent, recent: Sequence[str]) -> list[DriftEvent]:
        """What a call not yet made would show."""
        return self._asked(lambda detector: detector.foresee(call, self.baseline), recent)

    def end(self, recent: Sequence[str]) -> list[DriftEvent]:
        """What the run as a whole shows."""
        return self._asked(lambda detector: detector.end(self.baseline), recent)

    def taught(self, summary: RunSummary) -> RunSummary:
        """The summary with what each detector has learnt from the run."""
        for detector in self.detectors:
            try:
                summary = detector.teach(summary)
            except Exception as exc:  # noqa: BLE001 - see check
                self._failed(detector, exc)
        return summary

    def goal_level(self) -> float | None:
        """How far the detectors of goal drift see the run from its goal; None when none can tell."""
        level = None
        for detector in self._of_goals:
            seen = detector.level
            if seen is not None and (level is None or seen > level):
                level = seen
        return level

    def style_level(self) -> float | None:
        """How far the agent's manner has left what it should be; None when nobody can tell."""
        levels = [it.level for it in self.detectors if it.kind == "style" and it.level is not None]
        return max(levels, default=None)

    def goal_unseen(self) -> str:
        """Why no detector of goal drift can tell how far the run is from its goal."""
        reasons = [detector.not_checked or "too little was said to judge" for detector in self._of_goals]
        return reasons[-1] if reasons else "no detector of goal drift"

    def goal(self) -> str:
        """The goal as detectors of goal drift know it now; empty when none does."""
        goals = [getattr(detector, "goal", "") for detector in self._of_goals]
        return next((goal for goal in goals if goal), "")

    def state(self) -> dict[str, bytes]:
        """What each detector remembers, by name."""
        return {detector.name: detector.state() for detector in self.detectors}

    def restore(self, states: Mapping[str, bytes]) -> None:
        """Take up what `state` gave; a detector whose part cannot be read begins afresh and is counted."""
        for detector in self.detectors:
            if detector.name in states:
                try:
                    detector.restore(states[detector.name])
                except FormatError:
                    self._health.count(f"saved state of detector {detector.name} cannot be read")

    def weighed(self, finding: DriftEvent, recent: Sequence[str]) -> DriftEvent:
        """The finding after what people said about such findings, with what is unusual about the order."""
        usual = self.baseline.common_sequences
        if self.baseline.is_calibrated and usual and len(recent) > 1:
            pair = list(recent)
            known = any(pair == seq[i : i + 2] for seq in usual for i in range(len(seq) - 1))
            finding.context.update(usual_sequences=usual, unusual_order=None if known else pair)
        least = self._thresholds.get(finding.detector, 0.0)
        if finding.score < least and not finding.context.get("hard_limit"):
            return finding.lowered("an incident like this was marked a false alarm")
        return finding

    def _asked(
        self, question: Callable[[Detector], DriftEvent | None], recent: Sequence[str]
    ) -> list[DriftEvent]:
        findings = []
        for detector in self.detectors:
            try:
                finding = question(detector)
                if finding is not None:
                    findings.append(self.weighed(finding, recent))
            except Exception as exc:  # noqa: BLE001 - see check
                self._failed(detector, exc)
        return findings

    def _failed(self, detector: Detector, exc: Exception) -> None:
        """A detector that fails again and again is left out for the rest of the run, and says so."""
        name = detector.name
        self._failures[name] = self._failures.get(name, 0) + 1
        if self._failures[name] >= _FAILURES_ALLOWED and detector in self.detectors:
            self.detectors = [other for other in self.detectors if other is not detector]
            self.detectors.append(_Failed(name, f"failed {_FAILURES_ALLOWED} times: {type(exc).__name__}"))
            self._of_goals = _of_goals(self.detectors)
        self._health.swallowed(f"detector {name}", exc)


def _of_goals(detectors: Sequence[Detector]) -> list[Detector]:
    return [detector for detector in detectors if detector.kind == "goal"]


class _Failed(Detector):
    """Stands where a detector was that failed too often, and says why it is not there."""

    kind = "resource"

    def __init__(self, name: str, reason: str) -> None:
        self.name = name  # type: ignore[misc]
        self.not_checked = reason
        self._memory = Struct()

    def check(self, event: TraceEvent, baseline: BaselineStats) -> DriftEvent | None:  # noqa: ARG002
        return None
