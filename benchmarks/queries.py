"""Whether what people look at stays as fast at 5 million events as it was at 1 million."""

import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.filling import fill, get_agent, get_run_id, get_start_time
from benchmarks.measures import Measure
from benchmarks.workload import RUN_LENGTH

from steadyhelm import Severity, SQLiteStore

NAME = "queries"
# Flat, with room for one more level of a tree and for a busy machine.
BAR = 1.5
PATIENCE_S = 300.0
_REPEATS = 60
_PIECE = 1000


def run(*, quick: bool) -> list[Measure]:
    """Fill, ask, fill further, ask again."""
    small, large = (50, 250) if quick else (5000, 25_000)
    with tempfile.TemporaryDirectory(prefix="steadyhelm-bench-") as folder:
        store = SQLiteStore(Path(folder) / "bench.db")
        begun = time.perf_counter()
        fill(store, 0, small)
        filled_s = time.perf_counter() - begun
        before = _times(store, small)
        reached = _fill_within(store, small, large, begun + PATIENCE_S)
        after = _times(store, reached)
        size = sum(path.stat().st_size for path in Path(folder).iterdir())
        store.close()
    note = "" if reached == large else f"{large * RUN_LENGTH:,} were not reached in {PATIENCE_S:.0f} s"
    grown = f"{small * RUN_LENGTH:,} to {reached * RUN_LENGTH:,} events"
    return [
        *(
            _measure(name, bar, before[name], after[name], grown, note)
            for name, (bar, _) in _list_queries(small).items()
        ),
        Measure(
            benchmark=NAME, what="size on disk, an event", value=size / (reached * RUN_LENGTH), unit="bytes"
        ),
        Measure(
            benchmark=NAME,
            what="filling through the store alone",
            value=small * RUN_LENGTH / filled_s,
            unit="/s",
            note="the making of the records included",
        ),
    ]


def _fill_within(store: SQLiteStore, done: int, wanted: int, deadline: float) -> int:
    while done < wanted and time.perf_counter() < deadline:
        piece = min(_PIECE, wanted - done)
        fill(store, done, piece)
        done += piece
    return done


def _list_queries(runs: int) -> dict[str, tuple[float | None, Callable[[SQLiteStore], Any]]]:
    """Return the queries, each of something chosen at random, with their limits where there are any."""

    def run() -> int:
        return random.randrange(runs)

    def timeline(store: SQLiteStore) -> list[Any]:
        chosen = run()
        return list(store.iter_run_events(get_agent(chosen), get_run_id(chosen)))

    last_day = get_start_time(runs) - 86_400
    return {
        "run list": (BAR, lambda store: store.list_runs(limit=50)),
        "run list of an agent": (BAR, lambda store: store.list_runs(get_agent(run()), limit=50)),
        "run list, paged to anywhere": (
            BAR,
            lambda store: store.list_runs(limit=50, before=get_start_time(run())),
        ),
        "timeline of a run (200 events)": (BAR, timeline),
        "alerts": (BAR, lambda store: store.get_drift_events(limit=50)),
        "alerts of an agent, last day": (
            BAR,
            lambda store: store.get_drift_events(get_agent(run()), since=last_day, limit=50),
        ),
        "alerts, critical ones": (
            BAR,
            lambda store: store.get_drift_events(severity=Severity.CRITICAL, limit=50),
        ),
        "baseline": (BAR, lambda store: store.get_baseline(get_agent(run()))),
        "incidents": (None, lambda store: store.list_incidents(limit=50)),
        "open incidents": (None, lambda store: store.list_incidents(state="open", limit=50)),
        "agents": (None, lambda store: store.list_agents()),
        "a run by its id": (None, lambda store: store.find_run(get_run_id(run()))),
        "newest events of an agent": (None, lambda store: store.get_traces(get_agent(run()), limit=100)),
        "what a baseline learns from": (
            None,
            lambda store: store.list_run_summaries(get_agent(run()), limit=50),
        ),
    }


def _times(store: SQLiteStore, runs: int) -> dict[str, list[float]]:
    random.seed(1)
    asked = _list_queries(runs)
    times: dict[str, list[float]] = {name: [] for name in asked}
    for turn in range(_REPEATS + 5):
        for name, (_, ask) in asked.items():
            begun = time.perf_counter()
            ask(store)
            if turn >= 5:
                times[name].append((time.perf_counter() - begun) * 1e6)
    return times


def _measure(
    name: str, bar: float | None, before: list[float], after: list[float], grown: str, note: str
) -> Measure:
    quartiles = statistics.quantiles(after, n=4)
    typical = statistics.median(before)
    return Measure(
        benchmark=NAME,
        what=f"{name}, {grown}",
        value=statistics.median(after) / typical,
        unit="x",
        bar=bar,
        spread=(quartiles[0] / typical, quartiles[2] / typical),
        details={"before_us": typical, "after_us": statistics.median(after)},
        note="; ".join(filter(None, [f"{typical:,.0f} to {statistics.median(after):,.0f} µs", note])),
    )
