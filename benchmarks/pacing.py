"""Child process: one system at a steady pace, timed from the caller's side and in CPU.

Usage: python -m benchmarks.pacing SYSTEM SECONDS REFERENCE DATABASE [busy]
SYSTEM is steadyhelm, seed or none; REFERENCE is 1 to time the reference in the same loop.
A busy agent computes between its events instead of waiting, and leaves the interpreter to nobody.
Runs of 200 events follow each other, as an agent's do.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from benchmarks.measures import share
from benchmarks.workload import GOAL, RUN_LENGTH, ToolEvent, fingerprint_reference, recorder, tool_event

RATE = 2000
WARM_UP = 400


class _Nothing:
    """Stands where a monitor would: what the loop itself costs."""

    def record_event(self, *_: object, **__: object) -> None:
        return None

    def start_run(self, **_: object) -> None:
        return None

    def end_run(self) -> None:
        return None


def _make_monitor(system: str, database: str) -> Any:
    if system == "steadyhelm":
        from steadyhelm import DriftMonitor  # noqa: PLC0415 - the seed system's process has no steadyhelm

        return DriftMonitor("bench", db_path=database)
    if system == "seed":
        from driftshield_mini import DriftMonitor as SeedMonitor  # noqa: PLC0415 - and ours has no seed

        monitor = SeedMonitor(agent_id="bench", db_path=database)
        monitor.goal_drift.enabled = False
        return monitor
    return _Nothing()


class _Loop:
    def __init__(self, monitor: Any, *, timed: bool) -> None:
        self._make_monitor = monitor
        self._record = recorder(monitor)
        self._time_call = timed
        self._left = 0
        self.run_ends_cpu = 0.0
        self.calls: list[float] = []
        self.references: list[float] = []

    def step(self, i: int, event: ToolEvent) -> None:
        if self._left == 0:
            self._next_run(i)
        self._left -= 1
        if not self._time_call:
            self._record(event)
        elif i % 2:  # whoever comes first finds the processor cold
            self.calls.append(_time_call(self._record, event))
            self.references.append(_time_call(fingerprint_reference, event))
        else:
            self.references.append(_time_call(fingerprint_reference, event))
            self.calls.append(_time_call(self._record, event))

    def _next_run(self, i: int) -> None:
        before = time.process_time()
        if i:
            self._make_monitor.end_run()
        self.run_ends_cpu += time.process_time() - before
        self._make_monitor.start_run(goal=GOAL)
        self._left = RUN_LENGTH


def _time_call(function: Callable[[ToolEvent], Any], event: ToolEvent) -> float:
    before = time.perf_counter()
    function(event)
    return time.perf_counter() - before


def _run_paced(loop: _Loop, events: list[ToolEvent], *, busy: bool) -> float:
    begun = time.perf_counter()
    for i, event in enumerate(events):
        due = begun + i / RATE
        while (wait := due - time.perf_counter()) > 0:
            if not busy:
                time.sleep(wait)
        loop.step(i, event)
    return time.perf_counter() - begun


def main() -> None:
    """Measure, and print one line of JSON."""
    system, seconds, with_reference, database = sys.argv[1:5]
    events = [tool_event(i) for i in range(int(float(seconds) * RATE))]
    monitor = _make_monitor(system, database)
    loop = _Loop(monitor, timed=with_reference == "1")
    cpu = time.process_time()
    wall = _run_paced(loop, events, busy="busy" in sys.argv)
    result: dict[str, Any] = {"events": len(events), "rate": round(len(events) / wall)}
    if system == "steadyhelm":
        flushed = monitor.flush(30.0)
        result |= {"on_disk": flushed.complete, "losses": flushed.losses}
    cpu = time.process_time() - cpu
    result |= {"cpu_us": cpu / len(events) * 1e6, "run_ends_cpu_us": loop.run_ends_cpu / len(events) * 1e6}
    if system != "none":
        result["findings"] = len(monitor.get_recent_alerts(limit=100_000))
    if loop.calls:
        calls, references = loop.calls[WARM_UP:], loop.references[WARM_UP:]
        result |= {
            "p50_us": share(calls, 0.5) * 1e6,
            "p99_us": share(calls, 0.99) * 1e6,
            "max_us": max(calls) * 1e6,
        }
        result |= {
            "reference_p50_us": share(references, 0.5) * 1e6,
            "reference_p99_us": share(references, 0.99) * 1e6,
        }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
