"""Measure what the detectors cost per event, in units of fingerprinting one tool event.

Both are measured in the same process within seconds of each other, in processor time, so that a busy
machine changes the ratio little.
"""

import json
import statistics
import time
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any, Final

from msgspec import Struct, structs

from steadyhelm.baselines import BaselineStats
from steadyhelm.components import make_detector_factory
from steadyhelm.detector import Detector
from steadyhelm.events import RunInfo, TraceEvent
from steadyhelm.fingerprints import fingerprint
from steadyhelm.lab.evaluation.metrics import Estimate
from steadyhelm.recordings.run_file import ReadRun
from steadyhelm.replay import with_kinds
from steadyhelm.settings import Settings

_REPEATS: Final = 5
_REFERENCE_EVENTS: Final = 2000
_ARGUMENTS: Final[dict[str, Any]] = {
    "path": "src/orders/part_17.py",
    "query": "WHERE country = 'NO'",
    "limit": 50,
}
_RESULT: Final = ("row 0000017 of 48, sorted by date: the parcel left the warehouse in Bergen, " * 4)[:230]


class DetectorCost(Struct, frozen=True, kw_only=True):
    """The detectors' cost: `ratio` in references, `growth` late in a long run against early in short ones.

    `given_ratio` is the same as `ratio` with fingerprints already computed, as in live monitoring.
    """

    ratio: Estimate
    growth: Estimate
    given_ratio: float
    event_us: float
    reference_us: float
    long_events: int


def measure_cost(settings: Settings, runs: Sequence[ReadRun], *, kind: str = "loop") -> DetectorCost:
    """Return what all detectors of a kind cost together on these runs."""
    make = make_detector_factory(with_kinds(settings, {kind}))
    alone = [(run.info, run.events) for run in runs]
    given = [(info, [_add_fingerprints(event) for event in events]) for info, events in alone]
    joined = _join_runs(alone)
    late = range(len(joined) // 2, len(joined))
    pairs, shares, growths = [], [], []
    for _ in range(_REPEATS):
        reference = _measure_reference_s()
        spent = _time_events(make, alone)
        pairs.append((sum(spent) / len(spent), reference))
        shares.append(sum(_time_events(make, given)) / len(spent) / reference)
        long = _time_events(make, [(runs[0].info, joined)])
        growths.append(sum(long[i] for i in late) / sum(spent[i] for i in late))
    ratios = [event / reference for event, reference in pairs]
    return DetectorCost(
        ratio=_summarise_values(ratios),
        growth=_summarise_values(growths),
        given_ratio=statistics.median(shares),
        event_us=statistics.median(event for event, _ in pairs) * 1e6,
        reference_us=statistics.median(reference for _, reference in pairs) * 1e6,
        long_events=late.start,
    )


def _time_events(
    make: Callable[[], list[Detector]], runs: Sequence[tuple[RunInfo, Sequence[TraceEvent]]]
) -> list[float]:
    """Return the processor seconds of each event of each run, in order."""
    clock = time.process_time
    spent = []
    for info, events in runs:
        detectors = make()
        baseline = BaselineStats(agent_id=info.agent_id)
        for detector in detectors:
            detector.begin(info)
        for event in events:
            before = clock()
            for detector in detectors:
                detector.check(event, baseline)
            spent.append(clock() - before)
    return spent


def _measure_reference_s() -> float:
    """Return the seconds to fingerprint one tool event with the standard library: JSON and two hashes."""
    before = time.process_time()
    for _ in range(_REFERENCE_EVENTS):
        arguments = json.dumps(_ARGUMENTS, sort_keys=True, separators=(",", ":")).encode()
        blake2b(b"read_file" + arguments, digest_size=8).digest()
        blake2b(json.dumps(_RESULT).encode(), digest_size=8).digest()
    return (time.process_time() - before) / _REFERENCE_EVENTS


def _add_fingerprints(event: TraceEvent) -> TraceEvent:
    key = fingerprint(event)
    return structs.replace(event, call_hash=key.call, result_hash=key.result)


def _join_runs(runs: Sequence[tuple[RunInfo, Sequence[TraceEvent]]]) -> list[TraceEvent]:
    """Return all runs as one, so that the same event can be timed after a long history."""
    joined: list[TraceEvent] = []
    for _, events in runs:
        offset = len(joined)
        joined.extend(
            structs.replace(
                event,
                seq=event.seq + offset,
                started_seq=None if event.started_seq is None else event.started_seq + offset,
                event_id=str(event.seq + offset),
            )
            for event in events
        )
    return joined


def _summarise_values(values: Sequence[float]) -> Estimate:
    return Estimate(value=statistics.median(values), low=min(values), high=max(values))
