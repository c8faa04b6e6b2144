"""Child process: recorded runs played through one system, in CPU time.

Usage: python -m benchmarks.playing SYSTEM CALLS WARM_UP DATABASE
SYSTEM is steadyhelm or seed; CALLS is a file with one run a line, as `real_runs.write_calls` makes it;
the first WARM_UP runs are played and not counted.
Only the standard library is imported here: the seed system's process uses this file too.
"""

import json
import logging
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Less than the queue holds: with a flush after as many events, nothing is dropped.
FLUSH_EVERY = 800


def _make_monitor(system: str, database: str) -> Any:
    if system == "seed":
        from driftshield_mini import DriftMonitor as SeedMonitor  # noqa: PLC0415 - our process has no seed

        logging.disable(logging.CRITICAL)
        monitor = SeedMonitor(agent_id="bench", db_path=database)
        monitor.goal_drift.enabled = False
        return monitor
    from steadyhelm import DriftMonitor  # noqa: PLC0415 - the seed system's process has no steadyhelm

    return DriftMonitor("bench", db_path=database)


class _Player:
    """Plays runs, and adds up the caller's CPU by kind of event."""

    def __init__(self, monitor: Any, flush: Callable[[], object]) -> None:
        self._monitor = monitor
        self._flush = flush
        self._unflushed = 0
        self.events: dict[str, int] = defaultdict(int)
        self.caller_s: dict[str, float] = defaultdict(float)

    def play(self, run: dict[str, Any]) -> None:
        record, clock = self._monitor.record_event, time.thread_time
        self._monitor.start_run(goal=run["goal"] or None)
        for kind, name, fields in run["calls"]:
            before = clock()
            record(kind, name, **fields)
            self.caller_s[kind] += clock() - before
            self.events[kind] += 1
            self._unflushed += 1
            if self._unflushed >= FLUSH_EVERY:
                self._flush()
                self._unflushed = 0
        self._monitor.end_run()


def main() -> None:
    """Measure, and print one line of JSON."""
    system, calls, warm_up, database = sys.argv[1:5]
    runs = [json.loads(line) for line in Path(calls).read_text(encoding="utf-8").splitlines()]
    monitor = _make_monitor(system, database)
    flush: Callable[[], Any] = (lambda: None) if system == "seed" else (lambda: monitor.flush(60.0))
    warming = _Player(monitor, flush)
    for run in runs[: int(warm_up)]:
        warming.play(run)
    flush()
    player = _Player(monitor, flush)
    cpu = time.process_time()
    for run in runs[int(warm_up) :]:
        player.play(run)
    flushed = flush()
    cpu = time.process_time() - cpu
    events = sum(player.events.values())
    print(
        json.dumps(
            {
                "events": events,
                "cpu_us": cpu / events * 1e6,
                "caller_us": {
                    kind: seconds / player.events[kind] * 1e6 for kind, seconds in player.caller_s.items()
                },
                "losses": flushed.losses if flushed is not None else {},
            }
        )
    )


if __name__ == "__main__":
    main()
