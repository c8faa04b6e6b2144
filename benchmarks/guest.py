"""What a call costs its host at worst: while another process holds the database, and with huge objects.

The tests in `tests/faults/` show that no such call waits or copies; here is how long each takes.
"""

import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from benchmarks.measures import Measure, from_repeats

from steadyhelm import DriftMonitor

NAME = "guest"
LOCKED_BAR_MS, HUGE_BAR_MS = 50.0, 10.0
HUGE = 200_000_000
LOOP = {"input_data": {"q": "oslo"}, "output_data": {"text": "none"}}


def run(*, quick: bool) -> list[Measure]:
    """Measure each call with the database locked, and one event with each huge object."""
    repeats = 2 if quick else 15
    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder) / "runs.db"
        monitor = DriftMonitor("guest", db_path=database)
        monitor.flush()
        try:
            with _hold_lock(database):
                measures = _measure_locked(monitor, repeats)
            return measures + _measure_huge(monitor, repeats, HUGE // 100 if quick else HUGE)
        finally:
            monitor.close(10)


@contextmanager
def _hold_lock(database: Path) -> Iterator[None]:
    with closing(sqlite3.connect(database, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        yield
        other.execute("ROLLBACK")


def _measure_locked(monitor: DriftMonitor, repeats: int) -> list[Measure]:
    calls: dict[str, Callable[[], object]] = {
        "start_run": monitor.start_run,
        "record_event": lambda: monitor.record_event("tool_call", "search", **LOOP),
        "before_tool": lambda: monitor.before_tool("search", {"q": "oslo"}),
        "checkpoint": lambda: monitor.checkpoint(conversation_history=["hello"]),
        "status": monitor.status,
        "suspend": monitor.suspend,
    }
    took: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            took[name].append(_time_ms(call))
    return [
        from_repeats(NAME, f"{name} while the database is locked", times, "ms", bar=LOCKED_BAR_MS)
        for name, times in took.items()
    ]


def _measure_huge(monitor: DriftMonitor, repeats: int, size: int) -> list[Measure]:
    objects = {"a text": "x" * size, "bytes": bytes(size), "a list": [0] * (size // 8)}
    measures = []
    monitor.start_run()
    for name, huge in objects.items():
        times = []
        for _ in range(repeats):
            began = time.thread_time()
            monitor.record_event("tool_call", "load", output_data=huge)
            times.append((time.thread_time() - began) * 1000)
        what = f"an event with {name} of {size // 1_000_000} MB, CPU of the caller"
        measures.append(from_repeats(NAME, what, times, "ms", bar=HUGE_BAR_MS))
    return measures


def _time_ms(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1000
