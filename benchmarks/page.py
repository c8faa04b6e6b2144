"""What the page's server costs: lists as the store grows, a long run, a static file, many streams.

All figures are ratios of CPU of the server's process, taken in one run.
"""

import http.client
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from benchmarks.filling import list_run_records
from benchmarks.measures import Measure
from benchmarks.page_store import fill_page_store
from benchmarks.painting import measure_painting

from steadyhelm import RunInfo, SQLiteStore

NAME = "page"
GROWTH_BAR, STATIC_BAR, LONG_RUN_BAR, STREAMS_BAR = 1.5, 2.0, 12.0, 10.0
LONG_RUN_STEPS: Final = 10_000
_PREFIX: Final = "/api/v1"
_STREAMS: Final = 50
_LISTS: Final = {
    "runs": "/runs",
    "runs with a loop": "/runs?kind=loop",
    "runs of an agent": "/runs?agent=3",
    "runs that crashed": "/runs?state=crashed",
    "overview": "/overview",
    "incidents": "/incidents",
    "critical incidents of two agents": "/incidents?severity=CRITICAL&agent=1,2",
    "closed incidents": "/incidents?tab=closed",
}
_WHILE_WRITTEN: Final = {
    "overview, after a run began": "/overview",
    "overview of 30 days, after a run began": "/overview?days=30",
    "incidents, after a run began": "/incidents",
    "runs, after a run began": "/runs",
}


def run(*, quick: bool) -> list[Measure]:
    """Fill a small and a large store with the same agents, serve each, and ask."""
    events, small, large, asked = (10, 25, 50, 5) if quick else (200, 50, 25_000, 100)
    with tempfile.TemporaryDirectory(prefix="steadyhelm-bench-") as folder:
        before = _measure_lists(Path(folder) / "small.db", small, events, asked)
        after = _measure_lists(Path(folder) / "large.db", large, events, asked)
        long_store = Path(folder) / "long.db"
        steps = 500 if quick else LONG_RUN_STEPS
        _write_long_run(long_store, steps)
        rest = _measure_long_run(long_store, steps, asked)
        rest += [_measure_streams(long_store, 2.0 if quick else 10.0)]
        with _serve(long_store) as served:
            rest += measure_painting(NAME, served, _find_long_run(served), steps)
    grown = f"{small * events:,} to {large * events:,} events"
    return [
        Measure(
            benchmark=NAME,
            what=f"{name}, {grown}",
            value=after[name] / before[name],
            unit="x",
            bar=GROWTH_BAR,
            note=f"{before[name] * 1e3:.2f} to {after[name] * 1e3:.2f} ms",
        )
        for name in (*_LISTS, *_WHILE_WRITTEN)
    ] + rest


class _Served:
    """A server in a process of its own, and a connection to it."""

    def __init__(self, database: Path, home: Path) -> None:
        home.mkdir(exist_ok=True)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "steadyhelm", "--db", str(database), "serve", "--port", "0"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "STEADYHELM_HOME": str(home), "PYTHONUNBUFFERED": "1"},
            text=True,
        )
        assert self.process.stdout is not None
        line = next(line for line in self.process.stdout if "http://" in line)
        self.address = line.rpartition("//")[2].strip().rstrip("/")
        self.token = (home / "server.token").read_text().strip()
        self._connection = http.client.HTTPConnection(self.address, timeout=60)

    def get(self, path: str) -> bytes:
        """Return an answer, waiting while too many were asked for."""
        while True:
            self._connection.request("GET", path, headers={"Authorization": f"Bearer {self.token}"})
            answer = self._connection.getresponse()
            content = answer.read()
            if answer.status == 200:
                return content
            if answer.status != 429:
                raise RuntimeError(f"{path}: {answer.status} {content[:200]!r}")
            time.sleep(0.2)

    def measure_cpu(self) -> float:
        """Return the seconds of CPU of the server so far."""
        return int(Path(f"/proc/{self.process.pid}/schedstat").read_text().split()[0]) / 1e9 + sum(
            int((task / "schedstat").read_text().split()[0]) / 1e9
            for task in Path(f"/proc/{self.process.pid}/task").iterdir()
            if task.name != str(self.process.pid)
        )

    def cost(self, path: str, times: int, before: Callable[[], None] = lambda: None) -> float:
        """Return the seconds of CPU of one request, with `before` called before it: the median of five."""
        self._connection.close()
        self.get(path)
        rounds = []
        for _ in range(5):
            begun = self.measure_cpu()
            for _ in range(max(1, times // 5)):
                before()
                self.get(path)
            rounds.append((self.measure_cpu() - begun) / max(1, times // 5))
        return statistics.median(rounds)


@contextmanager
def _serve(database: Path) -> Iterator[_Served]:
    served = _Served(database, database.parent / "home")
    try:
        yield served
    finally:
        served.process.terminate()
        served.process.wait(20)


def _measure_lists(database: Path, runs: int, events: int, asked: int) -> dict[str, float]:
    store = SQLiteStore(database)
    fill_page_store(store, runs, events=events)
    start_run = _make_starter(store)
    with _serve(database) as served:
        costs = {name: served.cost(_PREFIX + path, asked) for name, path in _LISTS.items()}
        for name, path in _WHILE_WRITTEN.items():
            costs[name] = served.cost(_PREFIX + path, asked, start_run)
    store.close()
    database.unlink()
    return costs


def _make_starter(store: SQLiteStore) -> Callable[[], None]:
    """Return a function that writes the start of a run, of one of 50 agents after the other."""
    numbers = itertools.count()

    def start_run() -> None:
        run = next(numbers)
        store.write([RunInfo(agent_id=f"agent-{run % 50}", run_id=f"live-{run}", started_at=time.time())])

    return start_run


def _write_long_run(database: Path, steps: int) -> None:
    store = SQLiteStore(database)
    fill_page_store(store, 60, events=20, agents=5)
    store.write(
        list_run_records("agent-0", "long", time.time() - 60, events=steps, flagged=True, critical=True)
    )
    store.close()


def _measure_long_run(database: Path, steps: int, asked: int) -> list[Measure]:
    with closing(SQLiteStore(database)) as store, _serve(database) as served:
        key = _find_long_run(served)
        runs = served.cost(f"{_PREFIX}/runs", asked)
        anew = served.cost(f"{_PREFIX}/runs", asked, _make_starter(store))
        static = served.cost("/index.html", asked)
        series = served.cost(f"{_PREFIX}/runs/{key}/series?columns=800", asked)
    return [
        Measure(
            benchmark=NAME,
            what="list of 50 runs, of a static file",
            value=runs / static,
            unit="x",
            bar=STATIC_BAR,
            note=f"{runs * 1e3:.2f} and {static * 1e3:.2f} ms",
        ),
        Measure(
            benchmark=NAME,
            what="list of 50 runs after a run began, of a static file",
            value=anew / static,
            unit="x",
            bar=STATIC_BAR,
            note=f"{anew * 1e3:.2f} and {static * 1e3:.2f} ms",
        ),
        Measure(
            benchmark=NAME,
            what=f"lanes of a run of {steps:,} steps, of the list",
            value=series / runs,
            unit="x",
            bar=LONG_RUN_BAR,
            note=f"{series * 1e3:.2f} and {runs * 1e3:.2f} ms",
        ),
    ]


def _find_long_run(served: _Served) -> int:
    content = served.get(f"{_PREFIX}/runs/find?run=long").decode()
    return int(content.partition('"key":')[2].partition(",")[0].rstrip("}"))


def _measure_streams(database: Path, seconds: float) -> Measure:
    with _serve(database) as served:
        one = _cost_of_streams(served, database, 1, seconds)
        many = _cost_of_streams(served, database, _STREAMS, seconds)
    return Measure(
        benchmark=NAME,
        what=f"{_STREAMS} streams, of one",
        value=many / one,
        unit="x",
        bar=STREAMS_BAR,
        note=f"{many / seconds:.1%} and {one / seconds:.1%} of a core at 5 changes a second",
    )


def _cost_of_streams(served: _Served, database: Path, count: int, seconds: float) -> float:
    streams = []
    for _ in range(count):
        connection = http.client.HTTPConnection(served.address, timeout=60)
        connection.request("GET", f"{_PREFIX}/stream", headers={"Authorization": f"Bearer {served.token}"})
        streams.append((connection, connection.getresponse()))
    store = SQLiteStore(database)
    begun, end = served.measure_cpu(), time.monotonic() + seconds
    while time.monotonic() < end:
        store.write([RunInfo(agent_id="agent-0", run_id=f"live-{time.time()}", started_at=time.time())])
        time.sleep(0.2)
    spent = served.measure_cpu() - begun
    store.close()
    for connection, _ in streams:
        connection.close()
    return spent
