"""Use the public names as their users do: a file for the type checker only."""

from collections.abc import Sequence
from typing import Any, assert_type

from steadyhelm import (
    ActionLoop,
    ActionLoopDetector,
    BaselineStats,
    Decision,
    Detector,
    DetectorType,
    DriftAction,
    DriftEvent,
    DriftMonitor,
    Embedder,
    FlushResult,
    GoalDrift,
    Incident,
    Intervention,
    ResourceSpike,
    RunInfo,
    RunStopped,
    RunSummary,
    Session,
    Settings,
    SettingsError,
    Severity,
    Sink,
    SteadyhelmError,
    TraceEvent,
    calibrate,
)
from steadyhelm.decisions import Verdict
from steadyhelm.engine.responses import Ending, Observation
from steadyhelm.sink import Record


def watch(agent: Any) -> None:
    """Use a monitor."""
    monitor = DriftMonitor(
        "researcher",
        goal_description="find flights",
        loop_max_repeats=3,
        similarity_threshold=None,
        absolute_token_limit=None,
        detectors={"goal_drift": {"enabled": False}},
    )
    run_id = monitor.start_run(goal="find a flight to Oslo")
    assert_type(run_id, str)
    decision = monitor.record_event("tool_call", "search", input_data={"q": "Oslo"}, token_count=5)
    assert_type(decision, Decision)
    assert_type(decision.action, DriftAction)
    assert_type(decision.verdict, Verdict)
    assert_type(decision.guidance, str)
    assert_type(decision.findings, tuple[DriftEvent, ...])
    assert_type(decision.drifting, bool)
    monitor.end_run(run_id)
    assert_type(monitor.get_recent_alerts(hours=1, limit=5), list[Incident])
    assert_type(monitor.get_findings(hours=1, limit=5), list[DriftEvent])
    assert_type(monitor.get_baseline(), BaselineStats)
    assert_type(monitor.flush(), FlushResult)
    with monitor.run(goal="another") as run:
        assert_type(run.record("llm_request", "model", output_data="words"), Decision)


async def watch_async(monitor: DriftMonitor) -> None:
    """Use a monitor in a task."""
    async with monitor.run(goal="a goal") as run:
        run.record("tool_call", "search")


def on_drift(monitor: DriftMonitor) -> None:
    """Receive findings in a callback."""

    @monitor.on_drift
    def tell(finding: DriftEvent) -> None:
        assert_type(finding.severity, Severity)
        assert_type(finding.event_ids, list[str])
        assert_type(finding.to_dict(), dict[str, Any])


def replay(events: Sequence[TraceEvent], baseline: BaselineStats) -> list[Incident]:
    """Watch a run without a monitor."""
    detectors: list[Detector] = [ActionLoop(window=20), GoalDrift(goal="a goal"), ResourceSpike()]
    session = Session(RunInfo(agent_id="a", run_id="r"), detectors, baseline, mode="guide")
    incidents: list[Incident] = []
    for event in events:
        observation = session.observe(event)
        assert_type(observation, Observation)
        incidents += observation.incidents
    session.restore(session.state())
    ending = session.end(at=0.0)
    assert_type(ending, Ending)
    assert_type(calibrate(baseline, ending.summary, [ending.summary]), BaselineStats)
    assert_type(session.not_checked, dict[str, str])
    return incidents


class Blank(Detector):
    """A custom detector."""

    name = "blank"
    kind = "style"

    def __init__(self, *, patience: int = 3) -> None:
        self.patience = patience

    def check(self, event: TraceEvent, baseline: BaselineStats) -> DriftEvent | None:
        """Report a reply without text."""
        if event.text or not baseline.is_calibrated:
            return None
        return self.finding(event, score=0.5, message="a blank reply", suggested_action="Ask again.", seen=1)

    def teach(self, summary: RunSummary) -> RunSummary:
        """Return the summary unchanged."""
        return summary


class Memory(Sink):
    """A custom sink."""

    name = "memory"

    def __init__(self) -> None:
        self.records: list[Record] = []

    def write(self, records: Sequence[Record]) -> None:
        """Keep the records."""
        self.records.extend(records)


class Same(Embedder):
    """A custom embedder."""

    name = "same"

    def similarity(self, goal: str, text: str, baseline: BaselineStats) -> float:
        """Compare two texts."""
        return float(goal == text)


def records() -> None:
    """Convert records to plain data and back."""
    event = TraceEvent(agent_id="a", run_id="r", action_type="tool_call", action_name="search")
    assert_type(event.text, str)
    assert_type(event.timestamp, float)
    assert_type(TraceEvent.from_dict(event.to_dict()), TraceEvent)
    assert_type(Severity.from_score(0.5), Severity)
    assert_type(Severity.MED.rank, int)
    assert_type(BaselineStats.from_dict({"agent_id": "a"}).progress, str)
    detector: str = DetectorType.ACTION_LOOP
    kind: type[Detector] = ActionLoopDetector
    answers: tuple[Intervention, ...] = ()
    print(detector, kind, answers, Settings().database.path.name)


def errors() -> None:
    """Catch the errors: one tree, of which only a stopped run reaches the agent."""
    try:
        watch(None)
    except SettingsError as exc:
        wrong: SteadyhelmError = exc
        value_error: ValueError = exc
        print(wrong, value_error)
    except RunStopped as exc:
        assert_type(exc.run_id, str)


def read_only(event: TraceEvent) -> None:
    """Check that records are frozen and keyword-only."""
    event.token_count = 5  # type: ignore[misc]
    TraceEvent("a", "r", "tool_call", "search")  # type: ignore[call-arg]
