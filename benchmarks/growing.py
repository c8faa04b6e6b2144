"""Child process: what an event costs late in a long run, with a large result, or of another kind.

Usage: python -m benchmarks.growing WHAT DATABASE SIZE
WHAT is length, results or kinds; each prints the medians of interleaved, timed calls.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.workload import GOAL, ToolEvent, fingerprint_reference, tool_event

from steadyhelm import DriftMonitor

CHUNK = 500
KIB = 1024
_SHORT_RUNS, _EARLY, _TURNS = 20, 75, 50
_REPLY = (
    "The orders from Norway wait two days in Bergen because the carrier changed its route in March; "
    "I propose to book the earlier truck and to tell the customer at once, which would take a day off. "
)


def _medians(
    calls: Mapping[str, Callable[[int], Any]], turns: int, flush: Callable[[], Any]
) -> dict[str, float]:
    """Return the median microseconds of each call, called in turn so that noise affects all alike."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(turns):
        for name, call in calls.items():
            before = time.perf_counter()
            call(turn)
            times[name].append(time.perf_counter() - before)
        if turn % 100 == 99:
            flush()
    return {name: statistics.median(values) * 1e6 for name, values in times.items()}


def length(database: str, events: int) -> dict[str, Any]:
    """Event 100 of many runs against event 100,000 of one."""
    monitor = DriftMonitor("bench", goal_description=GOAL, db_path=database)
    long_run = monitor.start_run()
    late_events = map(tool_event, range(events + _SHORT_RUNS * _TURNS))
    for i in range(events):
        _record(monitor, long_run, next(late_events))
        if i % CHUNK == 0:
            monitor.flush(30.0)
    late_stream = list(late_events)
    ratios, early_us, late_us = [], [], []
    for number in range(_SHORT_RUNS):
        short_run = monitor.start_run()
        early_stream = [tool_event(i) for i in range(_EARLY + _TURNS)]
        for event in early_stream[:_EARLY]:
            _record(monitor, short_run, event)
        monitor.flush(30.0)
        calls = {
            "early": _in_turn(monitor, short_run, early_stream[_EARLY:]),
            "late": _in_turn(monitor, long_run, late_stream[number * _TURNS :]),
        }
        medians = _medians(calls, _TURNS, lambda: monitor.flush(30.0))
        monitor.end_run(short_run)
        ratios.append(medians["late"] / medians["early"])
        early_us.append(medians["early"])
        late_us.append(medians["late"])
    return {
        "ratio": statistics.median(ratios),
        "spread": [min(ratios), max(ratios)],
        "early_us": statistics.median(early_us),
        "late_us": statistics.median(late_us),
        "losses": monitor.health.totals(),
    }


def _in_turn(monitor: DriftMonitor, run_id: str, events: list[ToolEvent]) -> Callable[[int], Any]:
    return lambda turn: _record(monitor, run_id, events[turn])


def _record(monitor: DriftMonitor, run_id: str, event: ToolEvent, *, token_count: int = 0) -> None:
    # No tokens by default: a long run would pass any limit, and every further event would be a finding.
    monitor.record_event(
        "tool_call",
        event.name,
        run_id=run_id,
        input_data=event.arguments,
        output_data={"text": event.result},
        token_count=token_count,
    )


def results(database: str, turns: int) -> dict[str, Any]:
    """Results of 1, 8, 64 and 512 KiB, as one text and as many short lines."""
    monitor = DriftMonitor("bench", goal_description=GOAL, db_path=database)
    monitor.start_run()
    line = tool_event(0).result[:100]

    def reading(result: Any, name: str) -> Callable[[int], Any]:
        return lambda turn: monitor.record_event(
            "tool_call", name, input_data={"turn": turn}, output_data=result
        )

    calls: dict[str, Callable[[int], Any]] = {}
    for kib in (1, 8, 64, 512):
        text = (line * (kib * KIB // len(line) + 1))[: kib * KIB]
        lines = [text[at : at + 100] for at in range(0, len(text), 100)]
        calls[f"text {kib}"] = reading(text, f"text_{kib}")
        calls[f"lines {kib}"] = reading({"lines": lines}, f"lines_{kib}")
    medians = _medians(calls, turns, lambda: monitor.flush(30.0))
    return {**medians, "losses": monitor.health.totals()}


def kinds(database: str, turns: int) -> dict[str, Any]:
    """Events of other kinds, in a tight loop beside the reference."""
    monitor = DriftMonitor("bench", goal_description=GOAL, db_path=database)
    plain, secretive, talking, looping, spent = (monitor.start_run() for _ in range(5))
    monitor.record_event("llm_request", "reply", run_id=spent, token_count=60_000)
    stream = [tool_event(i) for i in range(turns)]
    hidden = [event._replace(result=f"{event.result} the token of the session") for event in stream]
    calls: dict[str, Callable[[int], Any]] = {
        "reference": lambda turn: fingerprint_reference(stream[turn]),
        "tool call": _in_turn(monitor, plain, stream),
        "result that may hold a secret": _in_turn(monitor, secretive, hidden),
        "reply, with a goal": lambda turn: monitor.record_event(
            "llm_request", "reply", run_id=talking, output_data=f"{turn} {_REPLY}"
        ),
        "call in a loop": lambda _: _record(monitor, looping, stream[0]),
        "call past a limit": lambda turn: _record(monitor, spent, stream[turn], token_count=1),
    }
    medians = _medians(calls, turns, lambda: monitor.flush(30.0))
    return {**medians, "losses": monitor.health.totals()}


def main() -> None:
    """Measure, and print one line of JSON."""
    what, database, size = sys.argv[1:4]
    measured = {"length": length, "results": results, "kinds": kinds}[what](database, int(size))
    print(json.dumps(measured))


if __name__ == "__main__":
    main()
