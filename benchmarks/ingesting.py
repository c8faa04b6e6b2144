"""Child process: as many events as one core takes, through the library, detectors off.

Usage: python -m benchmarks.ingesting DATABASE EVENTS
"""

import json
import os
import sys
import time

from benchmarks.workload import RUN_LENGTH, recorder, tool_event

from steadyhelm import DriftMonitor
from steadyhelm.engine import registry

# Less than the queue holds: with a flush after each, nothing is ever dropped.
CHUNK = 8 * RUN_LENGTH
OFF = {name: {"enabled": False} for name in registry.list_names(registry.DETECTORS)}


def main() -> None:
    """Measure, and print one line of JSON."""
    database, wanted = sys.argv[1], int(sys.argv[2])
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    events = [tool_event(i) for i in range(wanted)]
    monitor = DriftMonitor("bench", db_path=database, detectors=OFF)
    record = recorder(monitor)
    cpu, wall = time.process_time(), time.perf_counter()
    for i, event in enumerate(events):
        if i % RUN_LENGTH == 0:
            if i:
                monitor.end_run()
            if i % CHUNK == 0:
                monitor.flush(60.0)
            monitor.start_run()
        record(event)
    monitor.end_run()
    flushed = monitor.flush(60.0)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    assert monitor.store is not None
    kept = sum(run.events for run in monitor.store.list_runs(limit=wanted))
    print(json.dumps({"cpu_s": cpu, "wall_s": wall, "kept": kept, "losses": flushed.losses}))


if __name__ == "__main__":
    main()
