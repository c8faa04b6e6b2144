"""Mixed load for a long time: memory and handles stay flat, and every recorded event is stored.

Usage: python -m benchmarks.soak [--minutes 60] [--folder FOLDER]

Several agents share a database and several threads drive them: ordinary work, loops, suspended and resumed
runs, checkpoints and rollbacks, and forked children with runs of their own. Another process locks the
database now and then, and alerts go to a webhook on this machine. The exit status is 1 when a check fails.
"""

import argparse
import faulthandler
import logging
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from benchmarks.handles import Sample, describe_growth, take_sample
from benchmarks.workload import GOAL, tool_event

from steadyhelm import DriftMonitor

AGENTS, THREADS, CORES = 3, 6, 2
PAUSE_S = 0.01
"""The pause of a thread between two events: 400 to 500 events a second in all."""

WARM_UP_S = 120.0
"""Until patterns are compiled, caches filled and baselines learnt; at most half of the time."""

LOCKED_S, FREE_S = 2.0, 8.0
SAMPLES = 240
FORK_EVENTS = 10
FAILED_FORK = "fork that failed"
LEFT_IN_JOURNAL = 3
"""The exit status of a child that ends before the store is free: the next opener stores its events."""

CHILD_S, CHILD_FLUSH_S = 60.0, 10.0
"""A forked child that takes longer hangs: it prints where, and ends."""

JOIN_S = 60.0
FLUSH_S = 30.0

_LOCKER = """
import sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1], timeout=30, isolation_level=None)
while True:
    time.sleep(float(sys.argv[3]))
    connection.execute("BEGIN IMMEDIATE")
    time.sleep(float(sys.argv[2]))
    connection.execute("COMMIT")
"""
_REPLIES = (
    "The carrier changed its route in May; I compare the scans of both weeks next.",
    "Great question! Basically, it seems that the parcels might perhaps wait in Bergen, I think.",
    "All 48 rows are read, and the two late ones left the warehouse on a Friday.",
)
_MESSAGES = ("go on", "no, that is still wrong, look at Bergen again", "thanks, and now the same for Sweden")


class Tally:
    """What was recorded, by run, counted by the threads that did it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.events: Counter[str] = Counter()
        self.scenes: Counter[str] = Counter()

    def add(self, scene: str, run_id: str, events: int) -> None:
        """Count a run that is over."""
        with self._lock:
            self.scenes[scene] += 1
            self.events[run_id] += events


class Webhook:
    """An address on this machine that counts the alerts it gets."""

    def __init__(self) -> None:
        self.alerts = 0
        webhook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("content-length", 0)))
                webhook.alerts += 1
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, name="webhook", daemon=True).start()

    @property
    def address(self) -> str:
        """Where alerts go."""
        return f"http://127.0.0.1:{self._server.server_port}/alerts"


class Driver:
    """One thread of agents: one run after the other, each one of the scenes, until it is time to stop."""

    def __init__(
        self, number: int, monitors: list[DriftMonitor], tally: Tally, stop: threading.Event
    ) -> None:
        self._random = random.Random(number)  # the same load every time
        self._name = f"thread-{number}"
        self._monitors = monitors
        self._tally = tally
        self._stop = stop
        self._steps = 0
        self.thread = threading.Thread(target=self._drive, name=self._name, daemon=True)
        self.thread.start()

    def _drive(self) -> None:
        scenes: list[tuple[str, Callable[[DriftMonitor, str], int]]] = [
            ("work", self._work),
            ("work", self._work),
            ("loop", self._loop),
            ("suspend", self._suspend),
            ("checkpoint", self._checkpoint),
        ]
        number = 0
        while not self._stop.is_set():
            number += 1
            monitor = self._random.choice(self._monitors)
            scene, play = self._random.choice(scenes)
            if number % 25 == 0 and hasattr(os, "fork"):
                self._fork(monitor, f"{self._name}.fork.{number}")
                continue
            run_id = monitor.start_run(f"{self._name}.{number}", goal=GOAL)
            events = play(monitor, run_id)
            monitor.end_run(run_id)
            self._tally.add(scene, run_id, events)

    def _work(self, monitor: DriftMonitor, run_id: str, steps: int = 30) -> int:
        for step in range(steps):
            self._steps += 1
            if step % 7 == 3:
                monitor.record_event("user_message", "user", run_id=run_id, input_data=self._pick(_MESSAGES))
            elif step % 3 == 1:
                text = f"{self._steps}: {self._pick(_REPLIES)}"
                monitor.record_event("llm_request", "model", run_id=run_id, token_count=900, output_data=text)
            else:
                name, arguments, result = tool_event(self._steps)
                monitor.record_event(
                    "tool_call", name, run_id=run_id, input_data=arguments, output_data=result
                )
            time.sleep(PAUSE_S)
        return steps

    def _loop(self, monitor: DriftMonitor, run_id: str) -> int:
        self._work(monitor, run_id, 5)
        for _ in range(15):
            monitor.before_tool("refund", {"order": 18}, run_id=run_id)
            monitor.record_event(
                "tool_call", "refund", run_id=run_id, input_data={"order": 18}, error="not allowed"
            )
            time.sleep(PAUSE_S)
        return monitor.count_events(run_id)

    def _suspend(self, monitor: DriftMonitor, run_id: str) -> int:
        before = self._work(monitor, run_id, 10)
        monitor.suspend(run_id)
        time.sleep(20 * PAUSE_S)
        monitor.start_run(run_id, goal=GOAL)
        # While its saved state is awaited it counts from 0: `count_events` cannot be asked.
        return before + self._work(monitor, run_id, 10)

    def _checkpoint(self, monitor: DriftMonitor, run_id: str) -> int:
        self._work(monitor, run_id, 6)
        monitor.checkpoint(conversation_history=[{"role": "user", "content": GOAL}], run_id=run_id)
        self._loop(monitor, run_id)
        monitor.roll_back(run_id)
        self._work(monitor, run_id, 6)
        return monitor.count_events(run_id)

    def _fork(self, monitor: DriftMonitor, run_id: str) -> None:
        child = os.fork()
        if child == 0:
            status = 1
            faulthandler.dump_traceback_later(CHILD_S, exit=True)
            try:
                monitor.start_run(run_id, goal=GOAL)
                self._work(monitor, run_id, FORK_EVENTS)
                monitor.end_run(run_id)
                status = 0 if monitor.close(CHILD_FLUSH_S).complete else LEFT_IN_JOURNAL
            finally:
                os._exit(status)
        _, status = os.waitpid(child, 0)
        scenes = {0: "fork", LEFT_IN_JOURNAL: "fork that left its events in the journal"}
        scene = scenes.get(os.waitstatus_to_exitcode(status), FAILED_FORK)
        self._tally.add(scene, run_id, FORK_EVENTS)

    def _pick(self, texts: tuple[str, ...]) -> str:
        return self._random.choice(texts)


def soak(minutes: float, folder: Path) -> list[str]:
    """Run the load for so long, print a report, and return what failed."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    logging.getLogger("steadyhelm").setLevel(logging.ERROR)  # a forked child says that it is one
    os.environ |= {"STEADYHELM_HOME": str(folder), "STEADYHELM_ALERTS_ALLOW_HOSTS": "127.0.0.1"}
    database = folder / "soak.db"
    webhook, tally, stop = Webhook(), Tally(), threading.Event()
    monitors = [_make_monitor(number, database, webhook) for number in range(AGENTS)]
    locker = subprocess.Popen([sys.executable, "-c", _LOCKER, str(database), str(LOCKED_S), str(FREE_S)])
    try:
        drivers = [Driver(number, monitors, tally, stop) for number in range(THREADS)]
        samples = _watch(minutes * 60)
        stop.set()
        for driver in drivers:
            driver.thread.join(JOIN_S)
    finally:
        locker.kill()
        locker.wait()
    hung = [driver.thread.name for driver in drivers if driver.thread.is_alive()]
    if hung:
        faulthandler.dump_traceback()
    flushed = [monitor.close(FLUSH_S) for monitor in monitors]
    failures = [f"{name} hangs" for name in hung]
    failures += [f"not all was written: {it.remaining} records remain" for it in flushed if not it.complete]
    failures += [
        f"{it.health.lost} records were lost: {it.health.totals()}" for it in monitors if it.health.lost
    ]
    failures += [f"{tally.scenes[FAILED_FORK]} forked children failed"] if tally.scenes[FAILED_FORK] else []
    _make_monitor(AGENTS, database, webhook).close(FLUSH_S)  # stores what ended processes left behind
    failures += _compare(database, tally)
    warm_up = min(0.5, max(0.25, WARM_UP_S / (minutes * 60)))
    failures += describe_growth(samples, warm_up=warm_up)
    noted: Counter[str] = Counter()
    for result in flushed:
        noted.update(result.losses)
    _print_report(tally, webhook, samples, noted)
    print("\n".join(f"FAILED: {it}" for it in failures) or "memory and handles are flat, nothing was lost")
    return failures


def _make_monitor(number: int, database: Path, webhook: Webhook) -> DriftMonitor:
    return DriftMonitor(
        f"agent-{number}",
        db_path=database,
        mode="guide",
        alert_webhook=webhook.address,
        alert_cooldown=1.0,
    )


def _watch(seconds: float) -> list[Sample]:
    """Take samples at even intervals until the time is over."""
    until, samples = time.monotonic() + seconds, [take_sample()]
    while (left := until - time.monotonic()) > 0:
        time.sleep(min(left, max(0.5, seconds / SAMPLES)))
        samples.append(take_sample())
    return samples


def _compare(database: Path, tally: Tally) -> list[str]:
    """Return each run of which not exactly the recorded events are stored."""
    with closing(sqlite3.connect(database)) as connection:
        stored = connection.execute("SELECT run_id, count(*) FROM events JOIN runs ON run = id GROUP BY id")
        counts: Counter[str] = Counter()
        for run_id, count in stored:  # a run that could not be resumed goes on under a numbered id
            counts[run_id.partition("~")[0]] += count
    faults = [
        f"run {run_id}: {recorded} events recorded, {counts[run_id]} stored"
        for run_id, recorded in tally.events.items()
        if recorded != counts[run_id]
    ]
    faults += [
        f"run {run_id} was stored and never recorded" for run_id in counts.keys() - tally.events.keys()
    ]
    return faults[:20]


def _print_report(tally: Tally, webhook: Webhook, samples: list[Sample], noted: Counter[str]) -> None:
    scenes = ", ".join(f"{count} {scene}" for scene, count in sorted(tally.scenes.items()))
    print(
        f"{tally.events.total():,} events in {len(tally.events):,} runs ({scenes}); {webhook.alerts} alerts"
    )
    for place in range(0, len(samples), max(1, len(samples) // 8)):
        resident, handles, threads = samples[place]
        share = place / len(samples)
        print(f"{share:>4.0%} of the time: {resident / 1e6:.1f} MB, {handles} handles, {threads} threads")
    for reason, count in sorted(noted.items()):
        print(f"noted {count} times: {reason}")


def main() -> int:
    """Parse the arguments and run; return 1 when a check fails."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--folder", type=Path, help="where the database is left; else a temporary folder")
    asked = parser.parse_args()
    if asked.folder is not None:
        asked.folder.mkdir(parents=True, exist_ok=True)
        return 1 if soak(asked.minutes, asked.folder) else 0
    with tempfile.TemporaryDirectory(prefix="steadyhelm-soak-") as folder:
        return 1 if soak(asked.minutes, Path(folder)) else 0


if __name__ == "__main__":
    sys.exit(main())
