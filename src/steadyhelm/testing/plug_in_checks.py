"""Conformance checks for detectors and sinks: call each check with a function that makes yours.

for check in DETECTOR_CHECKS:
    check(MyDetector)
"""

import inspect
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, get_args

import msgspec

from steadyhelm.baselines import BaselineStats
from steadyhelm.detector import Detector
from steadyhelm.events import ACTION_TYPES, RunInfo, RunSummary, TraceEvent
from steadyhelm.findings import DriftEvent, Kind, Severity
from steadyhelm.incidents import Incident
from steadyhelm.sink import Loss, Record, RecordedEvent, SavedState, Sink
from steadyhelm.testing.traces import AGENT, RUN, events, healthy, replies

MakeDetector = Callable[[], Detector]

_BASELINES: Final = (
    BaselineStats(agent_id=AGENT),
    BaselineStats(agent_id=AGENT, is_calibrated=True, calibration_runs=30, mean_tokens_per_run=100.0),
)
_DRIFTING_PICTURES: Final = (
    "aaaaaaaaaaaa",
    "abababababab" * 2,
    "abcabcabcabcabc.xaaaa",
    "xxxxxxxxxxxx",
    "rrrr aaaa rrrr",
    "r" * 120,
    "AAAA....xx  aa",
)
_ODD_DATA: Final[tuple[Any, ...]] = (
    None,
    "",
    "text",
    7,
    1.5,
    True,
    [],
    ["a", None],
    {},
    {"text": None},
    {"text": 5},
    {"": {}},
)
_MEMORY_EVENTS: Final = 100_000
_MEMORY_SLACK_BYTES: Final = 8_192


def check_same_trace_same_findings(make: MakeDetector) -> None:
    """Check that the same events lead to the same findings, however often."""
    for trace in _iter_traces():
        assert _collect_findings(make(), trace) == _collect_findings(make(), trace)


def check_state_survives_a_round_trip(make: MakeDetector) -> None:
    """Check that a run saved in the middle and restored in a new detector has the same findings."""
    for trace in _iter_traces():
        whole = _collect_findings(make(), trace)
        for cut in (1, len(trace) // 3, len(trace) - 1):
            first, second = make(), make()
            before = _collect_findings(first, trace[:cut])
            second.begin(_make_run())
            second.restore(first.state())
            after = [finding for event in trace[cut:] if (finding := second.check(event, _BASELINES[0]))]
            assert whole == before + after, f"differs when put aside after {cut} events"


def check_instances_share_nothing(make: MakeDetector) -> None:
    """Check that one detector knows nothing of what another has seen."""
    alone = _collect_findings(make(), events("abab"))
    _collect_findings(make(), events("a" * 49))
    assert alone == _collect_findings(make(), events("abab"))


def check_events_stay_unchanged(make: MakeDetector) -> None:
    """Check that the detector does not change events."""
    for trace in _iter_traces():
        before = msgspec.msgpack.encode(trace)
        _collect_findings(make(), trace)
        assert before == msgspec.msgpack.encode(trace)


def check_memory_is_bounded(make: MakeDetector) -> None:
    """Check that the state after 100,000 events is hardly larger than after 2,000."""
    detector = make()
    detector.begin(_make_run())
    small = 0
    for event in healthy(_MEMORY_EVENTS):
        detector.check(event, _BASELINES[0])
        if event.seq == 2_000:  # noqa: PLR2004 - see the docstring
            small = len(detector.state())
    grown = len(detector.state())
    assert grown <= 2 * small + _MEMORY_SLACK_BYTES, f"its state grew from {small} to {grown} bytes"


def check_unknown_kinds_are_ignored(make: MakeDetector) -> None:
    """Check that an event of an unknown kind is no finding and no error."""
    strange = [msgspec.structs.replace(event, action_type="teleport") for event in events("." * 60)]
    assert _collect_findings(make(), strange) == []


def check_findings_are_sound(make: MakeDetector) -> None:
    """Check that a finding has a score from 0 to 1, a matching severity, a message and evidence."""
    for trace in _iter_traces():
        seen = {event.event_id for event in trace}
        for finding in _collect_findings(make(), trace):
            assert 0.0 <= finding.score <= 1.0
            assert finding.severity in {Severity.from_score(finding.score), Severity.LOW}
            assert finding.kind in get_args(Kind)
            assert finding.detector == make().name
            assert finding.message
            assert finding.suggested_action
            assert finding.event_ids, "a finding names the events that prove it"
            assert seen.issuperset(finding.event_ids)
            assert msgspec.json.encode(finding.to_dict()), "a finding can be stored"


def check_silent_on_healthy_traces(make: MakeDetector) -> None:
    """Check that a run without drift has no findings."""
    assert _collect_findings(make(), list(healthy(2_000))) == []


def check_odd_data_is_survived(make: MakeDetector) -> None:
    """Check that no data of an agent makes the detector fail."""
    trace = [
        msgspec.structs.replace(event, action_type=action_type, input_data=given, output_data=result)
        for event, (action_type, given, result) in zip(
            events("." * 2_000), itertools.product(ACTION_TYPES, _ODD_DATA, _ODD_DATA), strict=False
        )
    ]
    _collect_findings(make(), trace)


def check_foreseeing_changes_nothing(make: MakeDetector) -> None:
    """Check that asking about a call that was not made yet leaves the state unchanged."""
    for trace in _iter_traces():
        detector = make()
        _collect_findings(detector, trace[:-1])
        before = detector.state()
        detector.foresee(trace[-1], _BASELINES[0])
        assert before == detector.state()


def check_settings_are_documented(make: MakeDetector) -> None:
    """Check that every keyword of the constructor has a line under Args in the docstring."""
    kind = type(make())
    words = inspect.getdoc(kind) or ""
    settings = words.partition("Args:")[2]
    for parameter in inspect.signature(kind).parameters.values():
        assert parameter.kind is parameter.KEYWORD_ONLY, f"{parameter.name} must be keyword-only"
        assert f"{parameter.name}:" in settings, f"{parameter.name} has no line under Args"


DETECTOR_CHECKS: Final[tuple[Callable[[MakeDetector], None], ...]] = (
    check_same_trace_same_findings,
    check_state_survives_a_round_trip,
    check_instances_share_nothing,
    check_events_stay_unchanged,
    check_memory_is_bounded,
    check_unknown_kinds_are_ignored,
    check_findings_are_sound,
    check_silent_on_healthy_traces,
    check_odd_data_is_survived,
    check_foreseeing_changes_nothing,
    check_settings_are_documented,
)


def _make_run() -> RunInfo:
    return RunInfo(agent_id=AGENT, run_id=RUN, goal="finish every part of the plan")


def _iter_traces() -> Iterable[list[TraceEvent]]:
    yield from (events(picture) for picture in _DRIFTING_PICTURES)
    yield replies(*["Here is a poem about the sea and its many colours."] * 6)
    yield list(healthy(120))


def _collect_findings(detector: Detector, trace: Sequence[TraceEvent]) -> list[DriftEvent]:
    detector.begin(_make_run())
    return [finding for event in trace if (finding := detector.check(event, _BASELINES[0]))]


MakeSink = Callable[[], Sink]


def build_one_of_each() -> list[Record]:
    """Return a batch with one record of every kind."""
    event = events("a")[0]
    return [
        RunInfo(agent_id=AGENT, run_id=RUN, goal="a goal", started_at=event.timestamp),
        RecordedEvent.of(event),
        DriftEvent(
            agent_id=AGENT,
            run_id=RUN,
            detector="action_loop",
            kind="loop",
            severity=Severity.MED,
            score=0.5,
            message="a message",
            suggested_action="do something else",
            timestamp=event.timestamp,
            event_id=f"{event.event_id}/action_loop",
            context={"event_ids": [event.event_id]},
        ),
        Incident(
            incident_id="0123456789ab",
            agent_id=AGENT,
            run_id=RUN,
            detector="action_loop",
            kind="loop",
            severity=Severity.MED,
            peak=0.5,
            message="a message",
            suggested_action="do something else",
            opened_at=event.timestamp,
            opened_seq=0,
            last_at=event.timestamp,
            last_seq=0,
            event_ids=(event.event_id,),
        ),
        SavedState(AGENT, RUN, b"state", event.timestamp),
        RunSummary(agent_id=AGENT, run_id=RUN, started_at=event.timestamp, ended_at=event.timestamp + 1),
        Loss("queue full", 2, event.timestamp),
    ]


def check_takes_every_kind_of_record(make: MakeSink) -> None:
    """Check that a batch may hold records of any kind, also those the sink ignores."""
    sink = make()
    sink.write(build_one_of_each())
    sink.flush()
    sink.close()


def check_takes_an_empty_batch(make: MakeSink) -> None:
    """Check that a batch may be empty."""
    sink = make()
    sink.write([])
    sink.close()


def check_takes_a_batch_twice(make: MakeSink) -> None:
    """Check that a batch may be written twice: a batch that failed half-way comes again."""
    sink = make()
    sink.write(build_one_of_each())
    sink.write(build_one_of_each())
    sink.close()


def check_has_a_name(make: MakeSink) -> None:
    """Check that the sink has a name for counts and logs."""
    sink = make()
    assert isinstance(sink.name, str)
    assert sink.name
    sink.close()


SINK_CHECKS: Final[tuple[Callable[[MakeSink], None], ...]] = (
    check_takes_every_kind_of_record,
    check_takes_an_empty_batch,
    check_takes_a_batch_twice,
    check_has_a_name,
)
