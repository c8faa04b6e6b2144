"""What every detector must hold to: run each check with a function that makes yours.

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
from steadyhelm.events import ACTION_TYPES, RunInfo, TraceEvent
from steadyhelm.findings import DriftEvent, Kind, Severity
from steadyhelm.testing.traces import AGENT, RUN, events, healthy, replies

MakeDetector = Callable[[], Detector]

_BASELINES: Final = (
    BaselineStats(agent_id=AGENT),
    BaselineStats(agent_id=AGENT, is_calibrated=True, calibration_runs=30, mean_tokens_per_run=100.0),
)
_TROUBLED: Final = (
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
_MEMORY_SLACK: Final = 8_192


def check_same_trace_same_findings(make: MakeDetector) -> None:
    """The same events give the same findings, whenever and however often."""
    for trace in _traces():
        assert _findings(make(), trace) == _findings(make(), trace)


def check_state_survives_a_round_trip(make: MakeDetector) -> None:
    """Put aside in the middle and taken up by a fresh detector, a run gives the same findings."""
    for trace in _traces():
        whole = _findings(make(), trace)
        for cut in (1, len(trace) // 3, len(trace) - 1):
            first, second = make(), make()
            before = _findings(first, trace[:cut])
            second.begin(_run())
            second.restore(first.state())
            after = [finding for event in trace[cut:] if (finding := second.check(event, _BASELINES[0]))]
            assert whole == before + after, f"differs when put aside after {cut} events"


def check_instances_share_nothing(make: MakeDetector) -> None:
    """What one detector has seen, another knows nothing of."""
    alone = _findings(make(), events("abab"))
    _findings(make(), events("a" * 49))
    assert alone == _findings(make(), events("abab"))


def check_events_stay_unchanged(make: MakeDetector) -> None:
    """An event is only looked at."""
    for trace in _traces():
        before = msgspec.msgpack.encode(trace)
        _findings(make(), trace)
        assert before == msgspec.msgpack.encode(trace)


def check_memory_is_bounded(make: MakeDetector) -> None:
    """After 100,000 events it remembers no more than after 2,000."""
    detector = make()
    detector.begin(_run())
    small = 0
    for event in healthy(_MEMORY_EVENTS):
        detector.check(event, _BASELINES[0])
        if event.seq == 2_000:  # noqa: PLR2004 - see the docstring
            small = len(detector.state())
    grown = len(detector.state())
    assert grown <= 2 * small + _MEMORY_SLACK, f"its state grew from {small} to {grown} bytes"


def check_unknown_kinds_are_ignored(make: MakeDetector) -> None:
    """An event of a kind it does not know is no finding and no error."""
    strange = [msgspec.structs.replace(event, action_type="teleport") for event in events("." * 60)]
    assert _findings(make(), strange) == []


def check_findings_are_sound(make: MakeDetector) -> None:
    """A finding has a score from 0 to 1, a severity to match, words, and events that prove it."""
    for trace in _traces():
        seen = {event.event_id for event in trace}
        for finding in _findings(make(), trace):
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
    """A run without drift is left in peace."""
    assert _findings(make(), list(healthy(2_000))) == []


def check_odd_data_is_survived(make: MakeDetector) -> None:
    """Whatever an agent hands over as data, the detector goes on."""
    trace = [
        msgspec.structs.replace(event, action_type=action_type, input_data=given, output_data=result)
        for event, (action_type, given, result) in zip(
            events("." * 2_000), itertools.product(ACTION_TYPES, _ODD_DATA, _ODD_DATA), strict=False
        )
    ]
    _findings(make(), trace)


def check_foreseeing_changes_nothing(make: MakeDetector) -> None:
    """Asked about a call not yet made, it remembers nothing of it."""
    for trace in _traces():
        detector = make()
        _findings(detector, trace[:-1])
        before = detector.state()
        detector.foresee(trace[-1], _BASELINES[0])
        assert before == detector.state()


def check_settings_are_documented(make: MakeDetector) -> None:
    """Every keyword of its constructor has a line under Args in its docstring."""
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


def _run() -> RunInfo:
    return RunInfo(agent_id=AGENT, run_id=RUN, goal="finish every part of the plan")


def _traces() -> Iterable[list[TraceEvent]]:
    yield from (events(picture) for picture in _TROUBLED)
    yield replies(*["Here is a poem about the sea and its many colours."] * 6)
    yield list(healthy(120))


def _findings(detector: Detector, trace: Sequence[TraceEvent]) -> list[DriftEvent]:
    detector.begin(_run())
    return [finding for event in trace if (finding := detector.check(event, _BASELINES[0]))]
