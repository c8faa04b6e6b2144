"""Child process: the memory that live runs take.

Usage: python -m benchmarks.remembering HOW RUNS RESULT_CHARACTERS DATABASE [CALLS]
HOW is tracemalloc (Python's own objects) or resident (the whole process, as the system sees it).
With CALLS, a file as `real_runs.write_calls` makes it, each run has 50 recorded events instead.
"""

import gc
import json
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.workload import GOAL, tool_event

from steadyhelm import DriftMonitor

EVENTS = 20
REAL_EVENTS = 50
WARM_UP_RUNS = 60
"""Until what is kept for the agent, not for a run, has its full size: recent findings and parsed messages."""

_REPLY = (
    "Orders from Norway wait in Bergen: the carrier changed its route, and I look for an earlier truck next."
)


def _resident() -> int:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("This system does not say how much memory a process has.")


def _fill(monitor: DriftMonitor, runs: int, characters: int) -> None:
    for number in range(runs):
        run_id = monitor.start_run()
        for i in range(EVENTS):
            event = tool_event(number * EVENTS + i)
            # What an agent gets back is an object of its own each time.
            result = (event.result * (characters // len(event.result) + 1))[:characters]
            if i % 4 == 1:
                monitor.record_event(
                    "llm_request", "reply", run_id=run_id, output_data=f"{number} {i} {_REPLY}"
                )
            else:
                monitor.record_event(
                    "tool_call", event.name, run_id=run_id, input_data=event.arguments, output_data=result
                )
        if number % 50 == 0:
            monitor.flush(30.0)
    monitor.flush(30.0)


def _replay(monitor: DriftMonitor, runs: int, recorded: list[dict[str, Any]]) -> None:
    for number in range(runs):
        run = recorded[number % len(recorded)]
        run_id = monitor.start_run(goal=run["goal"] or None)
        for kind, name, fields in run["calls"][:REAL_EVENTS]:
            # What an agent gets back is an object of its own each time.
            monitor.record_event(kind, name, run_id=run_id, **json.loads(json.dumps(fields)))
        monitor.flush(30.0)


def main() -> None:
    """Measure, and print one line of JSON."""
    how, runs, characters, database = sys.argv[1:5]
    monitor = DriftMonitor("bench", goal_description=GOAL, db_path=database)
    fill: Callable[[int], None] = lambda runs: _fill(monitor, runs, int(characters))  # noqa: E731
    if len(sys.argv) > 5:
        lines = Path(sys.argv[5]).read_text(encoding="utf-8").splitlines()
        recorded = [run for run in map(json.loads, lines) if len(run["calls"]) >= REAL_EVENTS]
        fill = lambda runs: _replay(monitor, runs, recorded)  # noqa: E731
    if how == "tracemalloc":  # before what is kept for the agent: a new finding there replaces an old one
        tracemalloc.start()
    fill(WARM_UP_RUNS)
    gc.collect()
    before = tracemalloc.get_traced_memory()[0] if how == "tracemalloc" else _resident()
    fill(int(runs))
    gc.collect()
    after = tracemalloc.get_traced_memory()[0] if how == "tracemalloc" else _resident()
    status = monitor.status()
    whole = after if how == "tracemalloc" else _resident()
    print(
        json.dumps(
            {
                "bytes_a_run": (after - before) / int(runs),
                "process": whole,
                "live_runs": status["live_runs"],
                "losses": status["losses"],
            }
        )
    )


if __name__ == "__main__":
    main()
